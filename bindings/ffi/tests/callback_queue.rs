//! Tests the foreign callback queue: threads outside of the VM call, and processes answer.

mod closures {
    #![allow(dead_code, unreachable_pub, reason = "its other users need more of it")]
    include!("../../../runtime/core/doctests/closures.rs");
}

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use baton_core::sched::{Deadline, ProcessId, WakeReason};
use baton_core::vm::Inside;
use baton_ffi::callback_queue::{CallbackQueue, ListenerEnd, Next, Refused};
use closures::Process;

type Queue = CallbackQueue<Arc<AtomicU32>>;

fn new_queue(vm: &Inside<'_>) -> Arc<Queue> {
    Arc::new(CallbackQueue::new(vm))
}

/// The body of a listener, as a guest has it: it adds one to what it is given.
fn listen(me: &Process<'_>, queue: &Arc<Queue>) {
    loop {
        match queue.next_call(&me.vm) {
            Next::Call(call) => {
                if queue.wants_listener() {
                    queue.listener_begins();
                    spawn_listener(me, queue);
                }
                me.vm.yield_now(); // others listen and call meanwhile
                call.data.fetch_add(1, Ordering::Relaxed);
                queue.answer(&call);
            }
            Next::AskAgain(wake) if wake.reason == WakeReason::Done => {}
            Next::AskAgain(_) | Next::End => break,
        }
    }
    if queue.listener_ends(&me.vm) == ListenerEnd::Last {
        queue.close();
    }
}

fn spawn_listener(me: &Process<'_>, queue: &Arc<Queue>) -> ProcessId {
    let queue = Arc::clone(queue);
    me.spawn(move |me| listen(me, &queue))
}

#[test]
fn each_call_of_many_threads_is_made_once_and_answered() {
    const THREADS: u32 = 8;
    const CALLS: u32 = 500;
    closures::run(|main| {
        let queue = new_queue(&main.vm);
        queue.open(Some(spawn_listener(main, &queue)));
        let all_done = main.vm.sched(|sched| sched.semaphore_new(0));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (queue, vm) = (Arc::clone(&queue), main.vm.to_arc());
                std::thread::spawn(move || {
                    for _ in 0..CALLS {
                        let made = Arc::new(AtomicU32::new(0));
                        queue
                            .call(Arc::clone(&made), |_| ())
                            .expect("the queue is open");
                        assert_eq!(made.load(Ordering::Relaxed), 1);
                    }
                    vm.signal_from_outside(all_done);
                })
            })
            .collect();
        for _ in 0..THREADS {
            let wake = main.vm.semaphore_wait(all_done, Deadline::Never);
            assert_eq!(wake.reason, WakeReason::Done);
        }
        for thread in threads {
            thread.join().expect("no call was made twice or not at all");
        }
        assert!(!queue.has_calls());
        assert!(queue.listeners() >= 1);
    });
}

#[test]
fn calls_before_the_first_listener_runs_wait_for_it() {
    closures::run(|main| {
        let queue = new_queue(&main.vm);
        queue.open(None);
        let made = Arc::new(AtomicU32::new(0));
        let caller = {
            let (queue, made) = (Arc::clone(&queue), Arc::clone(&made));
            std::thread::spawn(move || queue.call(made, |_| ()))
        };
        while !queue.has_calls() {
            std::thread::yield_now();
        }
        assert_eq!(made.load(Ordering::Relaxed), 0);
        spawn_listener(main, &queue);
        while queue.has_calls() || made.load(Ordering::Relaxed) == 0 {
            main.vm.yield_now();
        }
        assert_eq!(caller.join().expect("it ends"), Ok(()));
    });
}

#[test]
fn a_closed_queue_refuses_calls_and_keeps_those_that_wait() {
    closures::run(|main| {
        let queue = new_queue(&main.vm);
        assert_eq!(queue.call(Arc::default(), |_| ()), Err(Refused));
        queue.open(None);
        let caller = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || queue.call(Arc::default(), |_| ()))
        };
        while !queue.has_calls() {
            std::thread::yield_now();
        }
        queue.close();
        assert_eq!(queue.call(Arc::default(), |_| ()), Err(Refused));
        queue.answer(&queue.take().expect("the call that waits"));
        assert_eq!(caller.join().expect("it ends"), Ok(()));
    });
}

#[test]
fn listeners_beyond_the_idle_ones_end() {
    closures::run(|main| {
        let queue = new_queue(&main.vm);
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..7 {
            queue.listener_begins();
            let (queue, ended) = (Arc::clone(&queue), Arc::clone(&ended));
            main.spawn(move |me| {
                listen(me, &queue);
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        while ended.load(Ordering::Relaxed) < 3 {
            main.vm.yield_now();
        }
        assert_eq!(queue.listeners(), 4);
        assert!(!queue.wants_listener());
    });
}

#[test]
fn the_last_listener_that_is_killed_closes_the_queue() {
    closures::run(|main| {
        let queue = new_queue(&main.vm);
        let listener = spawn_listener(main, &queue);
        queue.open(None);
        main.vm.yield_now(); // it waits
        let _ = main.vm.kill(listener);
        main.join(listener);
        assert!(!queue.is_open());
        assert_eq!(queue.listeners(), 0);
    });
}

#[test]
fn a_forks_child_has_an_empty_closed_queue_until_it_is_opened_again() {
    closures::run(|main| {
        let queue = new_queue(&main.vm);
        queue.open(None);
        // SAFETY: no other thread knows the queue, as in a child.
        unsafe { queue.forget() };
        assert!(!queue.is_open() && !queue.has_calls());
        assert_eq!(queue.listeners(), 0);
        // The listener that forked was forgotten, so its end counts nothing.
        assert_eq!(queue.listener_ends(&main.vm), ListenerEnd::OneOfSeveral);
        assert!(queue.wants_listener());
        queue.open(None);
        assert_eq!(queue.listeners(), 1);
    });
}
