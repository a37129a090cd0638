//! Lists the faults that cargo-mutants cannot make. They are weaker memory orderings, missing
//! calls, swapped statements, wrong variables, and faults in C.

/// A fault: one text in the sources is replaced by another. The text must occur exactly once. White
/// space and commas are ignored in the search.
pub(super) struct Fault {
    /// The effect of the fault, as the report names it.
    pub(super) what: &'static str,
    pub(super) text: &'static str,
    pub(super) becomes: &'static str,
}

/// Faults, with the tests that must notice them. At least one test must notice each.
pub(super) struct Suite {
    pub(super) name: &'static str,
    /// The arguments of `cargo test`.
    pub(super) tests: &'static [&'static str],
    /// The flags for the compiler.
    pub(super) flags: &'static str,
    pub(super) faults: &'static [Fault],
}

const fn fault(what: &'static str, text: &'static str, becomes: &'static str) -> Fault {
    Fault {
        what,
        text,
        becomes,
    }
}

pub(super) const SUITES: &[Suite] = &[
    Suite {
        name: "loom",
        tests: &[
            "--release",
            "--package=baton-sys",
            "--test=loom_gate",
            "--test=loom_inbox",
            "--test=loom_parking",
            "--test=loom_pile",
        ],
        flags: "--cfg loom",
        faults: ORDERINGS,
    },
    Suite {
        name: "the scheduler's unit tests",
        tests: &["--package=baton-core", "--lib"],
        flags: "",
        faults: SCHEDULER,
    },
    Suite {
        name: "the executor's tests",
        tests: &[
            "--package=baton-core",
            "--test=processes",
            "--test=affinity",
            "--test=thread_manager",
        ],
        flags: "",
        faults: EXECUTOR,
    },
    Suite {
        name: "the Lua tests",
        tests: &[
            "--package=baton",
            "--test=ffi",
            "--test=concurrency_foreign",
        ],
        flags: "",
        faults: GUEST,
    },
    Suite {
        name: "the tests of sockets",
        tests: &["--package=baton", "--test=concurrency_sockets", "drained"],
        flags: "",
        faults: SOCKETS,
    },
];

const ORDERINGS: &[Fault] = &[
    fault(
        "a put does not publish the record",
        "record, Ordering::Release, Ordering::Relaxed",
        "record, Ordering::Relaxed, Ordering::Relaxed",
    ),
    fault(
        "records are taken before what was done with them is seen",
        "self.newest.swap(ptr::null_mut(), Ordering::Acquire)",
        "self.newest.swap(ptr::null_mut(), Ordering::Relaxed)",
    ),
    fault(
        "a put loses what another thread has put in between",
        "Err(actual) => newest = actual,",
        "Err(_) => { self.newest.store(record, Ordering::Release); return Put::OnTop; }",
    ),
    fault(
        "a take loses what comes after its look",
        "self.newest.swap(ptr::null_mut(), Ordering::Acquire)",
        "{ let all = self.newest.load(Ordering::Acquire); \
         self.newest.store(ptr::null_mut(), Ordering::Relaxed); all }",
    ),
    fault(
        "an owner that has slept does not see what woke it",
        "self.state.swap(RUNNING, Ordering::AcqRel);",
        "self.state.store(RUNNING, Ordering::Release);",
    ),
    fault(
        "a notification does not publish the message before it",
        "match self.state.swap(NOTIFIED, Ordering::AcqRel)",
        "match self.state.swap(NOTIFIED, Ordering::Relaxed)",
    ),
    fault(
        "an owner sleeps although it was notified",
        ".compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)",
        ".fetch_update(Ordering::AcqRel, Ordering::Acquire, |_| Some(to))",
    ),
    fault(
        "a thread that takes the VM does not see what was done inside",
        "if self.gate.load(Ordering::Acquire) != seen",
        "if self.gate.load(Ordering::Relaxed) != seen",
    ),
    fault(
        "the VM is taken from a thread that has come back",
        "Err(_) => return Take::GaveUp,",
        "Err(_) => {}",
    ),
];

const SCHEDULER: &[Fault] = &[
    fault(
        "a sender's value overtakes those in the buffer",
        "channel.buffer.push_back(ticket.value); value",
        "channel.buffer.push_back(value); ticket.value",
    ),
    fault(
        "a close leaves senders waiting",
        "self.tell_closed(receivers); self.tell_closed(senders);",
        "self.tell_closed(receivers); let _ = senders;",
    ),
    fault(
        "a condition's wait keeps the mutex",
        "self.hand_over(mutex.0.index, WakeReason::Done);",
        "",
    ),
    fault(
        "a mutex's last owner keeps the priority that it inherited",
        "self.wake_process(next, Wake { case, ..wake }); } self.inherit_less(owner);",
        "self.wake_process(next, Wake { case, ..wake }); } let _ = owner;",
    ),
    fault(
        "a wait that ended leaves its deadline behind",
        "self.deadlines.cancel(Owner::Process(index)); self.leave_queues(index);",
        "self.leave_queues(index);",
    ),
    fault(
        "a cancelled timer keeps its deadline",
        "self.deadlines.cancel(Owner::Timer(id.0.index)); self.end_timer(id.0.index);",
        "self.end_timer(id.0.index);",
    ),
    fault(
        "an entry that takes the place of a removed one does not rise",
        "let place = self.rise(place); self.sink(place);",
        "self.sink(place);",
    ),
    fault(
        "a waiter whose priority changes keeps its place",
        "self.unlink(index); self.link(index, priority);",
        "self.node_mut(index).priority = priority;",
    ),
    fault(
        "a periodic timer drifts",
        "let mut next = timer.due.saturating_add(period);",
        "let mut next = now.saturating_add(period);",
    ),
    fault(
        "a wait that timed out says that it is done",
        "self.wake_process(index, Wake::because(WakeReason::TimedOut));",
        "self.wake_process(index, Wake::because(WakeReason::Done));",
    ),
    fault(
        "priority goes to the owner of one of several mutexes",
        "others.extend(owners);",
        "let _ = (owners, others);",
    ),
];

const EXECUTOR: &[Fault] = &[
    fault(
        "what other threads post is taken in only when nothing runs",
        "gate::here().clear_attention(); self.harvest();",
        "gate::here().clear_attention();",
    ),
    fault(
        "a wake-up that was answered is answered again",
        "waker.pending.swap(0, Ordering::Acquire)",
        "waker.pending.load(Ordering::Acquire)",
    ),
];

const GUEST: &[Fault] = &[
    fault(
        "an object that is free again wakes nothing",
        "vm->busy_count--; baton_queue_wake_all(vm->executor, vm->object_queue);",
        "vm->busy_count--;",
    ),
    fault(
        "the errno of a foreign call is lost",
        "process->ffi_errno = *errno_place();",
        ";",
    ),
    fault(
        "a foreign call does not leave the VM",
        "\"orq $1, %%fs:baton_gate@tpoff\"",
        "\"orq $0, %%fs:baton_gate@tpoff\"",
    ),
];

const SOCKETS: &[Fault] = &[
    fault(
        "a read that filled the buffer counts as short",
        "#define SHORT 4096",
        "#define SHORT 1e9",
    ),
    fault(
        "a process waits although the module's buffer has data",
        "if (has_buffered(L, call)) return 0;",
        ";",
    ),
    fault(
        "a process waits although an event told of the end",
        "socket->news_before & BATON_NEWS_OF_MORE",
        "0",
    ),
    fault(
        "a process waits although an event has come since",
        "is_same = baton_socket_news(call) == socket->news_before;",
        "is_same = 1;",
    ),
];
