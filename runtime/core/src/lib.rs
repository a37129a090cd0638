//! The Baton runtime: preemptive processes for a single-threaded language VM. It knows no language
//! and has no unsafe code outside of one file: the tokens of threads inside the VM
//! ([`vm::Inside`]).
//!
//! You have an interpreter that was written for one thread: one heap, no locks. This crate gives
//! its programs *processes*, which are green threads:
//!
//! - A process that computes for ever is *preempted*: the others get their share of the time.
//! - A process that waits (for a lock, a channel, a time, a descriptor) costs nothing while it
//!   waits.
//! - A call into C or the system that blocks stops only the process that makes it.
//! - A process can be killed at any instruction.
//!
//! Only one process at a time touches the interpreter's heap. So the interpreter needs no locks,
//! and does not become parallel.
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | guest | the interpreter, as a value that implements the trait [`Guest`](guest::Guest) |
//! | VM | one heap with its processes: a [`Vm`](vm::Vm) |
//! | process | a green thread of the VM, with a stack of its own |
//! | native thread | a thread of the operating system |
//! | carrier | a native thread while it runs processes; the first one is the VM's *home* |
//! | inside, owner | the native thread that has the VM is *inside*, and is the *owner* |
//! | foreign call | a call that a process makes outside of the VM, because it may block |
//! | monitor | the runtime's one auxiliary thread: it requests preemptions and retakes the VM |
//! | retake | to take the VM from a foreign call that lasts; another carrier runs the others |
//! | safepoint | a point at which the interpreter lets others run: [`Inside::safepoint`](vm::Inside::safepoint) |
//!
//! # A toy interpreter
//!
//! This is a complete guest. Its language has four registers and ten instructions. Its program
//! starts a process that counts for ever and one that waits, and kills the first one.
//!
//! ```
//! use baton_core::guest::{Guest, RetakePolicy};
//! use baton_core::sched::{ChannelId, Deadline, ProcessId, SpawnOptions};
//! use baton_core::sys::gate;
//! use baton_core::vm::{Inside, Spawned, Vm};
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//!
//! /// An instruction. `usize` is the number of a register, except in `Jump`.
//! #[derive(Clone, Copy)]
//! enum Op {
//!     Increment(usize),
//!     Jump(usize),
//!     Channel(usize),              // the register gets a new channel
//!     Send(usize, usize),          // channel and value; waits for a receiver
//!     Receive(usize, usize),       // channel and result; waits for a sender
//!     Spawn(usize, &'static [Op]), // the register gets a process, which copies the registers
//!     Kill(usize),
//!     Join(usize),                 // waits for the end of a process
//!     Sleep,                       // a system call that blocks for 5 ms
//!     Print(&'static str, usize),
//! }
//!
//! /// What a process begins with: its code and its registers.
//! type Task = (&'static [Op], [u64; 4]);
//!
//! #[derive(Default)]
//! struct Toy {
//!     tasks: Mutex<Vec<Task>>,
//!     output: Mutex<Vec<String>>,
//! }
//!
//! impl Toy {
//!     /// What to spawn a process with. Its user data are the index of its task.
//!     fn options(&self, task: Task) -> SpawnOptions {
//!         let mut tasks = self.tasks.lock().unwrap();
//!         tasks.push(task);
//!         SpawnOptions { user_data: tasks.len() - 1, ..SpawnOptions::default() }
//!     }
//!
//!     fn interpret(&self, vm: &mut Inside<'_>, me: ProcessId, (code, mut r): Task) {
//!         let process = |bits| ProcessId::from_bits(bits).expect("a process");
//!         let channel = |bits| ChannelId::from_bits(bits).expect("a channel");
//!         let mut next = 0;
//!         while let Some(&op) = code.get(next) {
//!             if gate::here().slow() & gate::ATTENTION != 0 {
//!                 vm.safepoint(); // the runtime has asked for one: others may run now
//!             }
//!             if vm.sched(|sched| sched.kill_is_due(me)) {
//!                 return; // a real language would raise an error, so that cleanups run
//!             }
//!             next += 1;
//!             match op {
//!                 Op::Increment(to) => r[to] += 1,
//!                 Op::Jump(target) => next = target,
//!                 Op::Channel(to) => r[to] = vm.sched(|sched| sched.channel_new(0)).to_bits(),
//!                 Op::Send(to, value) => {
//!                     vm.channel_send(channel(r[to]), r[value], Deadline::Never);
//!                 }
//!                 Op::Receive(from, to) => {
//!                     r[to] = vm.channel_receive(channel(r[from]), Deadline::Never).value;
//!                 }
//!                 Op::Spawn(to, code) => {
//!                     let child = vm.spawn(self.options((code, r)), None, Spawned::Now);
//!                     r[to] = child.expect("room for a process").to_bits();
//!                 }
//!                 Op::Kill(victim) => { let _ = vm.kill(process(r[victim])); }
//!                 Op::Join(other) => {
//!                     vm.block_on(|sched| sched.join(process(r[other]), Deadline::Never));
//!                 }
//!                 Op::Sleep => vm.foreign(|| std::thread::sleep(Duration::from_millis(5))),
//!                 Op::Print(text, value) => {
//!                     self.output.lock().unwrap().push(format!("{text} {}", r[value]));
//!                 }
//!             }
//!         }
//!     }
//! }
//!
//! impl Guest for Toy {
//!     fn run<'vm>(&self, mut vm: Inside<'vm>, me: ProcessId, user_data: usize) -> Inside<'vm> {
//!         let task = self.tasks.lock().unwrap()[user_data];
//!         self.interpret(&mut vm, me, task);
//!         if user_data == 0 {
//!             vm.stop(); // the program ends with its first process
//!         }
//!         vm
//!     }
//!     fn switched(&self, _from: Option<usize>, _to: Option<usize>) {} // nothing per thread
//!     fn retake_policy(&self, _user_data: usize) -> RetakePolicy {
//!         RetakePolicy::Retake { pinned: false } // others may run beside each foreign call
//!     }
//!     fn warn_blocked(&self, _user_data: usize) {}
//!     fn request_safepoint(&self, _user_data: usize) {} // each instruction looks for a kill
//!     fn deadlocked(&self, _: &Inside<'_>) -> Option<Duration> {
//!         panic!("no process can ever run again")
//!     }
//!     fn signalled(&self, _: &Inside<'_>) {}
//! }
//!
//! /// The preempt signal: the next instruction of this thread is to reach a safepoint.
//! extern "C" fn preempt() {
//!     gate::here().set_attention();
//! }
//!
//! const COUNT: &[Op] = &[Op::Increment(3), Op::Jump(0)];
//! const ECHO: &[Op] = &[Op::Receive(0, 3), Op::Print("received", 3)];
//! const MAIN: &[Op] = &[
//!     Op::Channel(0), Op::Spawn(1, COUNT), Op::Spawn(2, ECHO),
//!     Op::Send(0, 3), Op::Join(2),
//!     Op::Sleep, Op::Kill(1), Op::Join(1),
//!     Op::Print("joined, and still", 3),
//! ];
//!
//! baton_core::sys::signals::install_preempt_handler(preempt)?;
//! let toy = Arc::new(Toy::default());
//! let vm = Vm::new(toy.clone())?;
//! vm.spawn_first(toy.options((MAIN, [0, 0, 0, 42])), None, Spawned::Now)?;
//! vm.run(); // on this thread, until the first process has ended
//! assert_eq!(*toy.output.lock().unwrap(), ["received 42", "joined, and still 42"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What happens:
//!
//! 1. **`MAIN` waits.** A channel of capacity 0 passes a value only when both sides are there.
//!    `ECHO` has not run yet, so [`channel_send`](vm::Inside::channel_send) makes `MAIN` wait. It
//!    switches to `COUNT`, which was spawned first.
//! 2. **`COUNT` is preempted.** It never waits and never yields. After its slice of 10 ms the
//!    monitor sets [`ATTENTION`](sys::gate::ATTENTION) in the gate of the thread. The next
//!    instruction calls [`safepoint`](vm::Inside::safepoint), which switches to `ECHO`. It returns
//!    when `COUNT` is chosen again.
//! 3. **`ECHO` receives and ends.** `MAIN` becomes runnable, and its join finds that `ECHO` has
//!    ended.
//! 4. **`MAIN` blocks in the system.** [`foreign`](vm::Inside::foreign) makes the call outside of
//!    the VM. When the call is 100 us old, the monitor calls
//!    [`retake_policy`](guest::Guest::retake_policy) and gives the VM to another native thread,
//!    where `COUNT` continues. `foreign` returns when `MAIN` is inside again.
//! 5. **`COUNT` is killed.** [`kill`](vm::Inside::kill) only takes note. `COUNT` sees it at its
//!    next instruction and returns from [`run`](guest::Guest::run): that is the end of a process.
//!    The join of `MAIN` ends.
//!
//! # Rules for a guest
//!
//! - **Touch guest state inside only.** The methods of the trait say where they are called. A
//!   thread that is inside has a token, [`Inside`](vm::Inside), whose methods touch the scheduler.
//!   What any thread may do is a method of [`Vm`](vm::Vm).
//! - **Let others run often.** A process that neither checks its gate nor calls [`Vm`](vm::Vm)
//!   keeps the VM.
//! - **Install a preempt handler.** The monitor sets the flag once for each request. If that was
//!   too early for the safepoint to end the slice, only signals follow.
//! - **Make calls that may block foreign.** A call that blocks inside stops all processes.
//! - **Keep nothing of a thread across a switch.** A method that may wait, yield or enter may
//!   continue the process on another native thread. So keep no address of a thread-local and no
//!   guard of a lock across such a call.
//! - **After a wait, look for a kill.** A killed process that waits continues with
//!   [`WakeReason::Killed`](sched::WakeReason::Killed).
//! - **Let no panic out.** It ends the program.
//!
//! # What a real interpreter adds
//!
//! | need | means |
//! |---|---|
//! | no check in each instruction | the preempt handler arms the interpreter's own check: [`sys`] has an example |
//! | a heap without a mutex | [`OwnerCell`](sys::owner_cell::OwnerCell), or unsafe code that relies on being inside |
//! | state per thread, such as `errno` | exchange it in [`switched`](guest::Guest::switched) and [`arrived`](guest::Guest::arrived), and forget it in [`departed`](guest::Guest::departed) |
//! | cheap foreign calls from C | `gate.h` of `baton-sys`: to leave and to enter is a few plain instructions |
//! | callbacks from C | pin the process while foreign frames are on its stack: [`enter_cold_pinned`](vm::ForeignCall::enter_cold_pinned) and [`RetakePolicy::Retake`](guest::RetakePolicy::Retake) |
//! | calls that must not be overlapped | [`RetakePolicy::Stay`](guest::RetakePolicy::Stay) |
//! | cleanups that a kill must not interrupt | [`set_kill_hold`](sched::Scheduler::set_kill_hold) |
//! | waits for sockets without a native thread each | [`wait_ready`](vm::Inside::wait_ready), [`select`](vm::Inside::select) |
//! | events from threads of others | [`wake_from_outside`](vm::Vm::wake_from_outside), [`new_waker`](vm::Inside::new_waker) |
//! | signals | [`request_signalled`](vm::Vm::request_signalled) in the handler, [`signalled`](guest::Guest::signalled) for the work |
//! | a report of a stack overflow | [`overflow::set_describe`](sys::overflow::set_describe), by [`describe_process`](sys::overflow::describe_process) or a function of its own |
//! | the same run again, for tests | [`simulate`](vm::Vm::simulate) and [`count_steps`](vm::Inside::count_steps) |
//!
//! # Modules
//!
//! | module | what it is |
//! |---|---|
//! | [`guest`] | the trait that an interpreter implements |
//! | [`vm`] | the executor: native threads, stacks, the VM lock, idle, preemption |
//! | [`sched`] | the scheduler as a plain state machine, and what processes wait for |
//! | [`parameters`], [`counters`] | what can be set and read while a VM runs |
//! | [`recording`] | which decisions a simulated run made, and runs that make given ones |
//! | [`trace`] | what happened, as events in memory |
//! | [`shared`] | objects that several VMs use and wait for |
//! | [`spin`] | whether to spin before a wait in the system: pure policies |
//! | [`sys`] | the crate `baton-sys`: gates, clocks, signals, stacks |
//!
//! Under `--cfg loom` only [`shared`] exists, for its model checks.
//!
//! # Systems
//!
//! Linux on x86-64 and AArch64. Some mechanisms need a newer kernel and have a fallback:
//! [`sys::features`] lists them.
#![deny(unsafe_code)]
#![warn(missing_docs)]

#[cfg(not(loom))]
pub mod counters;
#[cfg(not(loom))]
pub mod guest;
#[cfg(not(loom))]
mod panics;
#[cfg(not(loom))]
pub mod parameters;
#[cfg(not(loom))]
pub mod recording;
#[cfg(not(loom))]
pub mod sched;
pub mod shared;
#[cfg(not(loom))]
pub mod spin;
#[cfg(not(loom))]
pub mod time_buckets;
#[cfg(not(loom))]
pub mod trace;
#[cfg(not(loom))]
pub mod vm;

/// The layer below, whose types the signatures of this crate name: a guest needs no dependency on
/// `baton-sys` of its own.
pub use baton_sys as sys;
