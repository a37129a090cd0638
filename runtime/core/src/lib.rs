//! The Baton runtime: preemptive processes for a single-threaded language VM. Knows no language and
//! contains no unsafe code.
//!
//! | module | what it is |
//! |---|---|
//! | [`sched`] | the scheduler as a plain state machine |
//! | [`vm`] | the executor: native threads, stacks, the VM lock, idle, preemption |
//! | [`guest`] | what an interpreter owes to the runtime |
//! | [`spin`] | whether to spin before parking: pure policies |
//! | [`parameters`], [`counters`] | what can be set and seen |
//!
//! # A guest in forty lines
//!
//! A guest is an interpreter; the runtime gives its programs processes. This one interprets
//! nothing: its processes are closures, found by the user data that a process is spawned with.
//!
//! ```
//! use baton_core::guest::{Guest, RetakePolicy};
//! use baton_core::sched::{Deadline, ProcessId, SpawnOptions};
//! use baton_core::vm::{Spawned, Vm};
//! use std::sync::{Arc, Mutex};
//!
//! type Body = Box<dyn FnOnce() + Send>;
//!
//! #[derive(Default)]
//! struct Closures(Mutex<Vec<Option<Body>>>);
//!
//! impl Closures {
//!     /// Keeps a body, and answers the user data to spawn it with.
//!     fn add(&self, body: impl FnOnce() + Send + 'static) -> SpawnOptions {
//!         let mut bodies = self.0.lock().unwrap();
//!         bodies.push(Some(Box::new(body)));
//!         SpawnOptions { user_data: bodies.len() - 1, ..SpawnOptions::default() }
//!     }
//! }
//!
//! impl Guest for Closures {
//!     fn run(&self, _process: ProcessId, user_data: usize) {
//!         let body = self.0.lock().unwrap()[user_data].take();
//!         body.expect("a process runs once")();
//!     }
//!     fn switched(&self, _from: Option<usize>, _to: Option<usize>) {}
//!     fn retake_policy(&self, _user_data: usize) -> RetakePolicy {
//!         RetakePolicy::Retake { pinned: false }
//!     }
//!     fn warn_blocked(&self, _user_data: usize) {}
//!     fn request_safepoint(&self, _user_data: usize) {}
//!     fn deadlocked(&self) -> Option<std::time::Duration> { panic!("nobody can go on") }
//!     fn signalled(&self) {}
//! }
//!
//! let closures = Arc::new(Closures::default());
//! let vm = Vm::new(closures.clone())?;
//! let log = Arc::new(Mutex::new(Vec::new()));
//!
//! let (inner, guest, noted) = (vm.clone(), closures.clone(), log.clone());
//! let main = closures.add(move || {
//!     let channel = inner.sched(|sched| sched.channel_new(0));
//!     let (sender, of_sender) = (inner.clone(), noted.clone());
//!     let body = guest.add(move || {
//!         of_sender.lock().unwrap().push("sends");
//!         sender.block_on(|sched| sched.channel_send(channel, 42, Deadline::Never));
//!     });
//!     let child = inner.spawn(body, None, Spawned::Now).expect("there is room");
//!     noted.lock().unwrap().push("waits");
//!     let wake = inner.block_on(|sched| sched.channel_receive(channel, Deadline::Never));
//!     assert_eq!(wake.value, 42);
//!     inner.block_on(|sched| sched.join(child, Deadline::Never));
//!     inner.stop(); // the VM's run ends with this process
//! });
//! vm.spawn_first(main, None, Spawned::Now).expect("there is room");
//! vm.run();
//! assert_eq!(*log.lock().unwrap(), ["waits", "sends"]);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! What a real interpreter owes beyond that (safepoints, its state per process, which calls may be
//! retaken) is said in [`guest`], and in `guests/lua`, which is one.
#![forbid(unsafe_code)]

pub mod counters;
pub mod guest;
mod panics;
pub mod parameters;
pub mod sched;
pub mod spin;
pub mod vm;
