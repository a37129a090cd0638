/* A guest whose runs are simulated. Its machine counts steps, and each process runs a C function.
   The argument chooses the case. */
#include "baton.h"
#include "cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define SIZE 4096

/* {======================================================
** The guest
** ======================================================= */

/* One run: what its processes share. */
struct run {
  baton_vm *vm;
  void (*body)(struct run *run, int number); /* of each process */
  uint32_t steps, steps_left;                /* since the last count, and until the next one */
  int processes, shared;
  char trace[SIZE]; /* what the processes have noted */
  char schedule[SIZE];
  int result; /* of baton_vm_run */
};

struct process {
  struct run *run;
  int number;
};

static void run_process(void *guest, baton_vm *vm, uint64_t id, uintptr_t user_data) {
  struct process *process = (struct process *)user_data;
  (void)guest;
  (void)id;
  process->run->body(process->run, process->number);
  baton_end(vm);
}

static void preempt(void *guest) { (void)guest; }

static const struct baton_guest TABLE = {
    .size = sizeof TABLE, .run = run_process, .preempt = preempt};

/* What the guest's machine does before each instruction. */
static void step(struct run *run) {
  uint32_t steps = ++run->steps;
  if (--run->steps_left > 0) return;
  run->steps = 0; /* before others run, who make steps as well */
  if (baton_count_steps(run->vm, steps, &run->steps_left)) baton_safepoint(run->vm);
}

static void note(struct run *run, int number) {
  size_t length = strlen(run->trace);
  expect(length + 2 < SIZE, "a short trace");
  run->trace[length] = (char)('0' + number);
}

/* The first process: it starts the others, and waits for them. */
static void main_body(struct run *run) {
  struct process all[8];
  uint64_t ids[8];
  int i;
  for (i = 0; i < run->processes; i++) {
    struct baton_spawn_options options;
    all[i].run = run;
    all[i].number = i + 1;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.user_data = (uintptr_t)&all[i];
    options.preemptible = 1;
    ids[i] = baton_spawn(run->vm, &options, message, sizeof message);
    expect(ids[i] != 0, "a process");
  }
  for (i = 0; i < run->processes; i++) baton_join(run->vm, ids[i], BATON_FOREVER);
  baton_stop(run->vm);
}

static void (*body_of_others)(struct run *run, int number);

static void body_of_any(struct run *run, int number) {
  if (number == 0)
    main_body(run);
  else
    body_of_others(run, number);
}

static baton_vm *new_vm(void) {
  baton_vm *vm = NULL;
  expect(baton_vm_new(&TABLE, NULL, &vm) == 0, "a VM");
  return vm;
}

static void add_first(baton_vm *vm, struct process *process) {
  struct baton_spawn_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.user_data = (uintptr_t)process;
  options.preemptible = 1;
  expect(baton_spawn_first(vm, &options, message, sizeof message) != 0, "the first process");
}

/* A run of so many processes by a seed. `schedule` is what it follows; NULL: the seed alone. */
static void simulate(
    struct run *run, uint64_t seed, int processes, int records, const char *schedule) {
  struct process first = {run, 0};
  memset(run, 0, sizeof *run);
  run->body = body_of_any;
  run->processes = processes;
  run->steps_left = 1;
  run->vm = new_vm();
  expect(baton_vm_simulate(run->vm, seed) == 0, "a simulated run");
  if (schedule != NULL)
    expect(baton_vm_replay(run->vm, schedule, message, sizeof message) == 0, "a schedule");
  else if (records)
    expect(baton_vm_record(run->vm) == 0, "a recorded run");
  add_first(run->vm, &first);
  run->result = baton_vm_run(run->vm);
  if (records || schedule != NULL) {
    int64_t length = baton_vm_schedule(run->vm, run->schedule, sizeof run->schedule);
    expect(length == (int64_t)strlen(run->schedule), "a schedule that fits");
  }
  expect(baton_vm_free(run->vm) == 0, "a VM that is freed");
}

/* }====================================================== */

/* {======================================================
** Cases
** ======================================================= */

static void count_and_note(struct run *run, int number) {
  int i, k;
  for (i = 0; i < 20; i++) {
    for (k = 0; k < 100; k++) step(run);
    note(run, number);
  }
}

/* The same seed gives the same run, and other seeds give others. */
static void seeds(void) {
  static struct run one, again, last;
  int others = 0;
  uint64_t seed;
  body_of_others = count_and_note;
  for (seed = 1; seed <= 50; seed++) {
    simulate(&one, seed, 3, 0, NULL);
    simulate(&again, seed, 3, 0, NULL);
    expect(one.result == 0 && strlen(one.trace) == 60, "a whole run");
    expect(strcmp(one.trace, again.trace) == 0, "the same run");
    others += strcmp(one.trace, last.trace) != 0;
    last = one;
  }
  expect(others > 40, "different runs");
}

/* A program with a fault: what it read may be old when it writes. */
static void add_unprotected(struct run *run, int number) {
  int i, value;
  (void)number;
  for (i = 0; i < 10; i++) {
    step(run);
    value = run->shared;
    step(run);
    run->shared = value + 1;
  }
}

/* Some seed finds the fault. Its schedule repeats the run, a part of it is enough, and a run in
   plain order does not fail. */
static void schedules(void) {
  static struct run found, again, part, plain;
  uint64_t seed;
  body_of_others = add_unprotected;
  for (seed = 1; seed <= 500; seed++) {
    simulate(&found, seed, 2, 0, NULL);
    if (found.shared < 20) break;
  }
  expect(seed <= 500, "a seed that finds the lost update");
  simulate(&again, seed, 2, 1, NULL);
  expect(again.shared == found.shared, "a recorded run is that of its seed");
  expect(again.schedule[0] != '\0', "it has decisions");
  simulate(&part, seed, 2, 0, again.schedule);
  expect(part.shared == found.shared, "a replay is the same run");
  expect(strlen(part.schedule) <= strlen(again.schedule), "a schedule of what mattered");
  again = part;
  simulate(&part, seed, 2, 0, again.schedule);
  expect(part.shared == found.shared && strcmp(part.schedule, again.schedule) == 0,
      "the same run by what mattered");
  simulate(&part, seed + 1, 2, 0, again.schedule);
  expect(part.shared == found.shared, "the seed does not decide what a schedule does");
  simulate(&plain, seed, 2, 0, "");
  expect(plain.shared == 20, "in plain order there is no fault");
  expect(plain.schedule[0] == '\0', "nor a decision");
  simulate(&part, 1, 2, 0, "p2@2=3");
  expect(part.shared < 20, "the fault by one decision");
}

static uint64_t begin;

static void sleep_a_year(struct run *run, int number) {
  begin = baton_now();
  baton_sleep_until(run->vm, begin + 365 * 24 * 3600 * SECOND);
  expect(baton_now() - begin >= 365 * 24 * 3600 * SECOND, "a year later");
  note(run, number);
}

static void years(void) {
  static struct run run;
  body_of_others = sleep_a_year;
  alarm(100); /* no machine needs that long */
  simulate(&run, 7, 3, 0, NULL);
  expect(run.result == 0 && strlen(run.trace) == 3, "three sleeps");
}

static void choose(struct run *run, int number) {
  int i;
  (void)number;
  for (i = 0; i < 20; i++) {
    if (i % 5 == 0) step(run);
    uint32_t chosen = baton_choose(run->vm, 7);
    expect(chosen < 7, "one of seven");
    note(run, (int)chosen);
  }
}

/* What the guest chooses follows from the seed, or from the schedule. Several choices at one step
   are several decisions. */
static void choices(void) {
  static struct run one, again, other;
  body_of_others = choose;
  simulate(&one, 3, 2, 0, NULL);
  simulate(&again, 3, 2, 1, NULL);
  expect(strcmp(one.trace, again.trace) == 0, "the same choices");
  simulate(&other, 4, 2, 0, NULL);
  expect(strcmp(one.trace, other.trace) != 0, "others by another seed");
  simulate(&other, 4, 2, 0, again.schedule);
  expect(strcmp(one.trace, other.trace) == 0, "the same by the schedule");
  simulate(&other, 4, 2, 0, "");
  expect(strspn(other.trace, "0") == 40, "the first one without a decision");
  simulate(&other, 4, 2, 0, "s2@1.2=9");
  expect(strncmp(other.trace, "0020", 4) == 0, "the third choice, modulo seven");
}

static void call_out(struct run *run, int number) {
  uint64_t before = baton_now();
  expect(baton_offload(run->vm) == BATON_STAYS, "a call stays on its thread");
  baton_leave(run->vm);
  usleep(20000);
  baton_enter(run->vm);
  expect(baton_now() == before, "a call takes no time");
  note(run, number);
  step(run);
}

static void calls(void) {
  static struct run run;
  body_of_others = call_out;
  simulate(&run, 5, 4, 0, NULL);
  expect(run.result == 0 && strlen(run.trace) == 4, "four calls");
}

static void wait_for_ever(struct run *run, int number) {
  (void)number;
  baton_suspend(run->vm, baton_self(run->vm));
}

static void deadlock(void) {
  static struct run run;
  body_of_others = wait_for_ever;
  simulate(&run, 5, 2, 0, NULL);
  expect(run.result == -EDEADLK, "a deadlock");
}

static void refusals(void) {
  static struct run run;
  struct process first = {&run, 0};
  baton_vm *vm = new_vm(), *other = new_vm();
  char text[8];
  expect(baton_vm_record(vm) == -EINVAL, "a run that is not simulated is not recorded");
  expect(baton_vm_replay(vm, "", message, sizeof message) == -EINVAL, "nor replayed");
  expect(strstr(message, "expected a simulated run") != NULL, "what is expected");
  expect(baton_vm_schedule(vm, text, sizeof text) == -EINVAL, "it has no schedule");
  expect(baton_vm_simulate(vm, 1) == 0, "a simulated run");
  expect(baton_vm_simulate(vm, 2) == -EINVAL, "one seed is enough");
  expect(baton_vm_simulate(other, 2) == -EBUSY, "one simulated VM at a time");
  expect(baton_vm_replay(vm, "p2@7=3,p2", message, sizeof message) == -EINVAL, "no schedule");
  expect(strstr(message, "'p2' is no decision") != NULL, "the wrong word");
  expect(baton_vm_schedule(vm, text, sizeof text) == -EINVAL, "it is not recorded");
  expect(baton_vm_record(vm) == 0, "a recorded run");
  expect(baton_vm_schedule(vm, text, sizeof text) == 0 && text[0] == '\0', "no decision yet");
  run.vm = vm;
  run.body = body_of_any;
  add_first(vm, &first);
  expect(baton_vm_record(vm) == -EINVAL, "it has a process");
  expect(baton_vm_run_until(vm, BATON_NO_DEADLINE) == -ENOTSUP, "a host has no simulated runs");
  expect(baton_vm_run(vm) == 0, "it runs");
  expect(baton_vm_free(vm) == 0, "a VM that is freed");
  expect(baton_vm_simulate(other, 2) == 0, "the next one");
  expect(baton_vm_free(other) == 0, "a VM that never ran");
}

/* }====================================================== */

static const struct test_case CASES[] = {
    {"seeds", seeds}, {"schedules", schedules}, {"years", years}, {"choices", choices},
    {"calls", calls}, {"deadlock", deadlock}, {"refusals", refusals}};

int main(int argc, char **argv) {
  run_case(CASES, sizeof CASES / sizeof CASES[0], argc, argv);
  return 0;
}
