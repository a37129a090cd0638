//! The foreign callback queue, for the C half.

use std::ffi::c_int;
use std::sync::Arc;

use baton_core::sched::ProcessId;
use baton_core::vm::{Inside, Vm};
use baton_ffi::callback_queue::{CallbackQueue, Delay, ListenerEnd, Next, QueuedCall};

use baton_capi::CWake;

/// A queue of calls. Their data are addresses of a `struct ffi_incoming_call`.
type Queue = CallbackQueue<usize>;

/// `struct ffi_queued_call`: a call that a listener has taken.
#[repr(C)]
struct CQueuedCall {
    /// A share of the call, for [`baton_ffi_answer`].
    queued: *const QueuedCall<usize>,
    incoming: usize,
}

impl From<Arc<QueuedCall<usize>>> for CQueuedCall {
    fn from(call: Arc<QueuedCall<usize>>) -> CQueuedCall {
        CQueuedCall {
            incoming: call.data,
            queued: Arc::into_raw(call),
        }
    }
}

/// `enum ffi_next`.
const CALL: c_int = 0;
const ASK_AGAIN: c_int = 1;
const END: c_int = 2;

fn warn_of_delay(delay: Delay) {
    let (why, remedy) = match delay {
        Delay::MostCallbacks(most) => (
            format!("{most} callbacks of threads are in progress, which is the limit"),
            "If they wait for this one, they wait for ever: have fewer threads call at a time",
        ),
        Delay::MostThreads(most) => (
            format!("process.params.max_threads is {most}, and as many native threads are in use"),
            "If the calls on them wait for this one, they wait for ever: allow more threads",
        ),
    };
    crate::vms::reports::write_notice(&format!(
        "baton: warning: a callback of another thread is late: {why}. {remedy}.\n"
    ));
}

/// Makes a closed queue, which is never freed: a call may come at any time. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_queue_new(vm: &Vm) -> *const Queue {
    // SAFETY: the C half calls this inside the VM.
    Box::leak(Box::new(Queue::new(&unsafe { Inside::assume(vm) })))
}

/// Whether calls are taken.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_queue_is_open(queue: &Queue) -> c_int {
    queue.is_open().into()
}

/// Takes calls from now on. The first one resumes the suspended listener.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_queue_open(queue: &Queue, prepared: u64) {
    queue.open(ProcessId::from_bits(prepared));
}

/// Takes no calls from now on.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_queue_close(queue: &Queue) {
    queue.close();
}

/// Queues a call, and waits for its answer. Returns 0 if the queue is closed. On a foreign thread.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_queue_add(queue: &Queue, incoming: usize) -> c_int {
    queue.call(incoming, warn_of_delay).is_ok().into()
}

/// Whether a call waits for a listener.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_queue_has_calls(queue: &Queue) -> c_int {
    queue.has_calls().into()
}

/// Takes the next call. Returns 0 if there is none.
///
/// # Safety
/// `call` is writable.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_queue_take(queue: &Queue, call: *mut CQueuedCall) -> c_int {
    let Some(taken) = queue.take() else { return 0 };
    // SAFETY: the caller's condition.
    unsafe { call.write(taken.into()) };
    1
}

/// Lets the foreign thread continue.
///
/// # Safety
/// The call was taken, and is answered once.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_answer(queue: &Queue, queued: *const QueuedCall<usize>) {
    // SAFETY: the caller's condition: the share that `CQueuedCall` has.
    let call = unsafe { Arc::from_raw(queued) };
    queue.answer(&call);
}

/// What the calling listener does next, perhaps after a wait. Writes the call, or why the wait
/// ended. Inside the VM.
///
/// # Safety
/// `call` and `wake` are writable.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_queue_next(
    queue: &Queue,
    vm: &Vm,
    call: *mut CQueuedCall,
    wake: *mut CWake,
) -> c_int {
    // SAFETY: the C half calls this inside the VM.
    match queue.next_call(&unsafe { Inside::assume(vm) }) {
        Next::Call(taken) => {
            // SAFETY: the caller's condition.
            unsafe { call.write(taken.into()) };
            CALL
        }
        Next::AskAgain(why) => {
            // SAFETY: the caller's condition.
            unsafe { wake.write(why.into()) };
            ASK_AGAIN
        }
        Next::End => END,
    }
}

/// The number of listeners that live.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_queue_listeners(queue: &Queue) -> u64 {
    queue.listeners() as u64
}

/// Whether there should be another listener before the next call is made.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_queue_wants_listener(queue: &Queue) -> c_int {
    queue.wants_listener().into()
}

/// Counts a listener that was made.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_queue_listener_begins(queue: &Queue) {
    queue.listener_begins();
}

/// Ends the calling listener. Returns 1 if it was the last one. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_queue_listener_ends(queue: &Queue, vm: &Vm) -> c_int {
    // SAFETY: the C half calls this inside the VM.
    let end = queue.listener_ends(&unsafe { Inside::assume(vm) });
    (end == ListenerEnd::Last).into()
}

/// Empties and closes the queue in a fork's child.
///
/// # Safety
/// The calling thread is the only one, in a fork's child.
// SAFETY: the only definition of this symbol, with the signature of `c/ffi/inside.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_queue_forget(queue: &Queue) {
    // SAFETY: the caller's condition.
    unsafe { queue.forget() };
}
