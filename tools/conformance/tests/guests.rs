//! The guests in C pass the suite, built outside of the repository with an installed library; and
//! guests with mistakes do not.

mod installed;

use installed::{Copy, Linked, is_missing};

#[test]
fn the_template_passes_with_the_shared_library() {
    if is_missing("the template with the shared library") {
        return;
    }
    let template = Copy::of("template");
    template.make(Linked::Shared, &["test"]);
    assert!(template.needs_the_shared_library("guest"));
}

#[test]
fn the_template_passes_with_the_static_library() {
    if is_missing("the template with the static library") {
        return;
    }
    let template = Copy::of("template");
    template.make(Linked::Static, &["test"]);
    assert!(!template.needs_the_shared_library("guest"));
}

#[test]
fn the_forth_passes() {
    if is_missing("the Forth") {
        return;
    }
    Copy::of("forth").make(Linked::Static, &["test"]);
}

#[test]
fn the_template_has_at_most_500_lines() {
    assert!(Copy::of("template").read("guest.c").lines().count() <= 500);
}

/// A mistake: what replaces what in the template, the scenario that shows it, and what the suite
/// says.
type Mistake = (&'static str, &'static str, &'static str, &'static str);

const MISTAKES: [Mistake; 13] = [
    // A yield that does nothing.
    (
        "  baton_yield(process->machine->vm);\n",
        "",
        "turns",
        "expected turns of the two processes",
    ),
    // One that sleeps in the system, inside.
    (
        "  baton_sleep_until(process->machine->vm, until);\n",
        "  nap(milliseconds * 1000);\n  (void)until;\n",
        "sleep",
        "expected the line '100', got '500'",
    ),
    // One that looks at the clock again and again.
    (
        "  baton_sleep_until(process->machine->vm, until);\n",
        "  while (baton_now() < until)\n    \
         baton_sleep_until(process->machine->vm, baton_now() + MILLISECOND);\n",
        "idle",
        "wake-ups in 2 s of sleep",
    ),
    // A deadlock that is passed over in silence.
    (
        ".preempt = preempt,",
        ".preempt = preempt, .deadlocked = be_silent,",
        "deadlock",
        "printed no further line",
    ),
    // No poll.
    (
        "  baton_safepoint(machine->vm);\n",
        "",
        "preempt",
        "printed no further line",
    ),
    // No priorities.
    (
        "  options.priority = priority;",
        "  options.priority = 0 * priority;",
        "urgent",
        "expected the line 'high', got 'low'",
    ),
    // Kills that nobody looks at.
    (
        "return baton_kill_is_due(process->machine->vm, process->id) ? ENDS : GOES_ON;",
        "(void)process;\n  return GOES_ON;",
        "kill_wait",
        "expected the line 'ended', got 'slept'",
    ),
    // A foreign call inside.
    (
        "  baton_leave(vm);\n  size = read(0, &byte, 1);\n  baton_enter(vm);\n",
        "  size = read(0, &byte, 1);\n  (void)vm;\n",
        "call",
        "printed no further line",
    ),
    // One that does not come back in.
    (
        "  size = read(0, &byte, 1);\n  baton_enter(vm);\n",
        "  size = read(0, &byte, 1);\n",
        "calls",
        "was called outside the VM",
    ),
    // A state that is not brought back after a call.
    (
        "  if (to != 0) machine->now",
        "  if (to != 0 && from != 0) machine->now",
        "levels",
        "a switch has changed the engine's state",
    ),
    // A callback that does not come in.
    (
        "  baton_enter(machine->vm);\n",
        "",
        "callback",
        "was called outside the VM",
    ),
    // A thread that runs no process, and enters.
    (
        "  baton_waker_wake((const struct baton_waker *)waker);\n",
        "  baton_enter((const baton_vm *)waker);\n",
        "wake",
        "by a thread that runs no process",
    ),
    // A run that depends on more than its seed.
    (
        "strtoull(seed, NULL, 10)",
        "strtoull(seed, NULL, 10) + (uint64_t)getpid()",
        "simulated",
        "expected the same lines from the same seed",
    ),
];

/// What mistakes need before the template's table.
const BEFORE_TABLE: &str = "static void nap(long microseconds);\n\
                            static void be_silent(void *guest, baton_vm *vm) {\n\
                            (void)guest;\n(void)vm;\n}\n\n";

#[test]
fn each_mistake_of_a_guest_fails_its_scenario() {
    if is_missing("guests with mistakes") {
        return;
    }
    let template = Copy::of("template");
    let right = template.read("guest.c");
    for (part, replacement, scenario, message) in MISTAKES {
        assert_eq!(right.matches(part).count(), 1, "{part}");
        let wrong = right.replace(part, replacement).replace(
            "static const struct baton_guest TABLE",
            &format!("{BEFORE_TABLE}static const struct baton_guest TABLE"),
        );
        template.write("guest.c", &wrong);
        // Of the functions that a mistake may leave without a use, none is an error.
        template.make(
            Linked::Static,
            &["-B", "guest", "CFLAGS=-g -Wno-unused-function"],
        );
        let (status, said) = template.play(&["--only", scenario, "--limit", "6"]);
        assert_eq!(status, Some(1), "{scenario}: {said}");
        assert!(said.contains(&format!("FAILED    {scenario}: ")), "{said}");
        assert!(said.contains(message), "{scenario}: {said}");
    }
}

#[test]
fn an_optional_scenario_may_be_left_out_and_others_may_not() {
    let guest = ["sh", "-c", "echo unsupported", "{}"];
    for (scenario, status, part) in [
        ("wake", 0, "0 passed, 0 failed, 1 left out"),
        ("hello", 1, "FAILED    hello: it is not optional"),
    ] {
        let (ended, said) = installed::play(&[&["--only", scenario], &guest[..]].concat());
        assert_eq!(ended, Some(status), "{said}");
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_guest_that_prints_more_or_ends_badly_fails() {
    for (script, part) in [
        (
            "echo hello; echo more",
            "expected no further line, got 'more'",
        ),
        ("echo hello; exit 3", "expected the exit status 0"),
        ("echo goodbye", "expected the line 'hello', got 'goodbye'"),
        ("echo why >&2", "expected another line, but it ended"),
        ("echo why >&2", "stderr: why"),
        ("exec sleep 60", "printed no further line for 2 s"),
    ] {
        let guest = ["--only", "hello", "--limit", "2", "sh", "-c", script];
        let (status, said) = installed::play(&guest);
        assert_eq!(status, Some(1), "{script}: {said}");
        assert!(said.contains(part), "{script}: {said}");
    }
}

/// Under a checker and on a loaded machine, sleeps that differ by 200 ms ended in another order.
#[test]
fn sleeps_are_longer_where_a_scenario_may_take_longer() {
    for (scenario, limit, stretch) in [
        ("sleep", "150", "3"),
        ("sleep", "20", "1"),
        ("idle", "150", "1"),
    ] {
        let guest = [
            "--only",
            scenario,
            "--limit",
            limit,
            "sh",
            "-c",
            "echo $STRETCH",
        ];
        let (_, said) = installed::play(&guest);
        assert!(said.contains(&format!("got '{stretch}'")), "{said}");
    }
}

#[test]
fn a_guest_that_is_not_there_is_an_error_of_its_own() {
    let (status, said) = installed::play(&["./no-such-guest"]);
    assert_eq!(status, Some(2));
    assert!(said.contains("cannot start ./no-such-guest"), "{said}");
}
