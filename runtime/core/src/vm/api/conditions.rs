//! Signals of conditions, which reports remember.

use crate::sched::ConditionId;
use crate::vm::Inside;
use baton_sys::clock::Instant;

impl Inside<'_> {
    /// Wakes the process that has waited longest for the condition, or `all`. Returns how many it
    /// has woken. The caller gives way to a more urgent one. Reports tell of the last signal: who
    /// signalled, when (to a tick), and how many it woke. Inside the VM.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let condition = main.vm.sched(|sched| sched.condition_new());
    ///     assert_eq!(main.vm.condition_signal(condition, false), 0);
    ///     let signal = main.vm.sched(|sched| sched.last_signal(condition));
    ///     let signal = signal.expect("it is remembered");
    ///     assert_eq!((signal.by, signal.woke), (Some(main.id), 0));
    /// });
    /// ```
    pub fn condition_signal(&self, condition: ConditionId, all: bool) -> usize {
        let at = Instant::from_nanos(self.coarse_now());
        self.with_sched(|sched| {
            let woke = match all {
                true => sched.condition_broadcast(condition),
                false => sched.condition_signal(condition).into(),
            };
            sched.condition_note(condition, woke, at);
            woke
        })
    }
}
