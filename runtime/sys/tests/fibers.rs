//! A fiber that continues on different native threads.
#![cfg(not(loom))]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use baton_sys::fiber::{Echo, Fiber, ThreadFiber};
use baton_sys::stack::StackPool;

/// How often each thread continues the fiber.
const ROUNDS: usize = 20_000;
const THREADS: usize = 2;

/// The fiber, and the fiber of the thread that continues it.
#[derive(Clone, Copy)]
struct Places {
    fiber: Fiber,
    base: Fiber,
}

static PLACES: Mutex<Option<Places>> = Mutex::new(None);
static COUNTED: AtomicUsize = AtomicUsize::new(0);

fn places() -> Places {
    let places = *PLACES.lock().expect("no thread panics with it");
    places.expect("a thread has written it")
}

/// Counts on its own stack, so that a stack that is continued too early is noticed.
fn count(_argument: usize) -> ! {
    for counted in 1.. {
        COUNTED.store(counted, Ordering::SeqCst);
        let Places { fiber, base } = places();
        if counted == THREADS * ROUNDS {
            // SAFETY: as below; nothing on this stack is dropped.
            unsafe { fiber.end(base) };
        }
        // SAFETY: this is `fiber`, as the test has only one. `base` is the fiber of the thread that
        // has just continued it, and which waits. Nothing of the thread is kept.
        unsafe { fiber.switch_to(base) };
    }
    unreachable!("the last round ends the fiber");
}

/// Guards against the assumption that the state word publishes the stack pointer, which is written
/// after it. The mutex here stands for the hand-over of a VM in the executor.
#[test]
fn a_mutex_hands_a_fiber_from_thread_to_thread() {
    let mut pool = StackPool::new(1 << 20).expect("the size is legal");
    let stack = pool.allocate(None).expect("there is room");
    // SAFETY: the stack is new, and is recycled after the last use of the fiber.
    let owner = Mutex::new(unsafe { Fiber::prepare(&stack, count, 0) });
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let thread = ThreadFiber::new(0);
                let base = thread.fiber();
                for _ in 0..ROUNDS {
                    let fiber = owner.lock().expect("no thread panics with it");
                    let before = COUNTED.load(Ordering::SeqCst);
                    *PLACES.lock().expect("no thread panics with it") = Some(Places {
                        fiber: *fiber,
                        base,
                    });
                    // SAFETY: `base` is this thread's. The fiber was left before the mutex was
                    // unlocked, and only its holder continues it. The guard is the thread's, which
                    // is the same after the switch.
                    unsafe { base.switch_to(*fiber) };
                    assert_eq!(COUNTED.load(Ordering::SeqCst), before + 1);
                }
            });
        }
    });
    assert_eq!(COUNTED.load(Ordering::SeqCst), THREADS * ROUNDS);
    pool.recycle(stack);
}

#[test]
fn an_echo_comes_back_from_its_own_stack() {
    let mut pool = StackPool::new(64 * 1024).expect("the size is legal");
    let mut stack = pool.allocate(None).expect("there is room");
    let mut echo = Echo::new(&mut stack);
    for _ in 0..1_000 {
        echo.there_and_back();
    }
    // SAFETY: takes an integer.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    assert!(stack.high_water() <= page, "it is suspended in one page");
    pool.recycle(stack);
}
