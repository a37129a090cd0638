//! Explores the objects that several VMs share.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p baton-core --release --test loom_shared`.
#![cfg(loom)]

use baton_core::shared::channel::{Entered, Message, Received, Sent};
use baton_core::shared::words::WordWait;
use baton_core::shared::{SharedChannel, Sleep, Wakes, Words};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// A message of some bytes.
#[derive(Debug, PartialEq)]
struct Bytes(u64);

impl Message for Bytes {
    fn size(&self) -> u64 {
        self.0
    }
}

/// A process that waits, as the scheduler sees it: woken, or not yet.
#[derive(Clone, Default)]
struct Sleeper(Arc<(Mutex<bool>, Condvar)>);

impl Sleep for Sleeper {
    fn is_gone(&self) -> bool {
        false
    }
}

impl Sleeper {
    fn wake(&self) {
        *self.0.0.lock().expect("no panic") = true;
        self.0.1.notify_all();
    }

    /// Waits for the wake-up. Loom reports a deadlock if it is lost.
    fn sleep(&self) {
        let mut woken = self.0.0.lock().expect("no panic");
        while !*woken {
            woken = self.0.1.wait(woken).expect("no panic");
        }
    }
}

fn deliver(wakes: Wakes<Sleeper>) {
    for (_, sleeper) in wakes {
        sleeper.wake();
    }
}

type TestChannel = SharedChannel<Bytes, Sleeper>;

fn send(channel: &TestChannel, size: u64) {
    let message = match channel.try_send(Bytes(size)) {
        Sent::Done(wakes) => return deliver(wakes),
        Sent::Full(message) => message,
        Sent::Closed(_) => panic!("it is open"),
    };
    let sleeper = Sleeper::default();
    let entered = channel.enter_sender(size, sleeper.clone());
    if let Entered::Waits(_) = entered {
        sleeper.sleep();
    }
    match channel.send_called(entered.ticket(), message) {
        Sent::Done(wakes) => deliver(wakes),
        sent => panic!("a called sender has room: {sent:?}"),
    }
}

impl std::fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sleeper")
    }
}

/// A message, or `None` if the channel is closed.
fn receive(channel: &TestChannel) -> Option<Bytes> {
    match channel.try_receive() {
        Received::Done(message, wakes) => {
            deliver(wakes);
            return Some(message);
        }
        Received::Closed => return None,
        Received::Empty => {}
    }
    let sleeper = Sleeper::default();
    let entered = channel.enter_receiver(sleeper.clone());
    if let Entered::Waits(_) = entered {
        sleeper.sleep();
    }
    match channel.receive_called(entered.ticket()) {
        Received::Done(message, wakes) => {
            deliver(wakes);
            Some(message)
        }
        Received::Closed => None,
        Received::Empty => panic!("a called receiver has a message"),
    }
}

fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(body);
}

#[test]
fn two_receivers_get_two_messages() {
    explore(|| {
        let channel = Arc::new(TestChannel::new(1, 100, ""));
        let receivers: Vec<_> = (0..2)
            .map(|_| {
                let channel = Arc::clone(&channel);
                thread::spawn(move || receive(&channel).expect("it is open").0)
            })
            .collect();
        send(&channel, 1);
        send(&channel, 2);
        let sum: u64 = receivers
            .into_iter()
            .map(|receiver| receiver.join().expect("no panic"))
            .sum();
        assert_eq!(sum, 3);
        assert!(channel.is_empty());
    });
}

/// A receiver goes without its message, as by a timeout, and another one gets it.
#[test]
fn a_receiver_that_gives_up_passes_its_call_on() {
    explore(|| {
        let channel = Arc::new(TestChannel::new(1, 100, ""));
        let gives_up = {
            let channel = Arc::clone(&channel);
            thread::spawn(move || {
                let entered = channel.enter_receiver(Sleeper::default());
                deliver(channel.leave_receiver(entered.ticket()));
            })
        };
        let waits = {
            let channel = Arc::clone(&channel);
            thread::spawn(move || receive(&channel))
        };
        send(&channel, 1);
        assert_eq!(waits.join().expect("no panic"), Some(Bytes(1)));
        gives_up.join().expect("no panic");
    });
}

/// The same at the other end: a large message that gives up lets a small one behind it go.
#[test]
fn a_sender_that_gives_up_lets_those_behind_it_go() {
    explore(|| {
        let channel = Arc::new(TestChannel::new(8, 2, ""));
        send(&channel, 1);
        let gives_up = {
            let channel = Arc::clone(&channel);
            thread::spawn(move || {
                let entered = channel.enter_sender(2, Sleeper::default());
                deliver(channel.leave_sender(entered.ticket()));
            })
        };
        let small = {
            let channel = Arc::clone(&channel);
            thread::spawn(move || send(&channel, 1))
        };
        gives_up.join().expect("no panic");
        small.join().expect("no panic");
        assert_eq!(channel.len(), 2);
    });
}

#[test]
fn a_close_wakes_all_and_what_is_buffered_still_arrives() {
    explore(|| {
        let channel = Arc::new(TestChannel::new(2, 100, ""));
        let receivers: Vec<_> = (0..2)
            .map(|_| {
                let channel = Arc::clone(&channel);
                thread::spawn(move || u32::from(receive(&channel).is_some()))
            })
            .collect();
        send(&channel, 1);
        deliver(channel.close());
        let received: u32 = receivers
            .into_iter()
            .map(|receiver| receiver.join().expect("no panic"))
            .sum();
        assert_eq!(received, 1);
    });
}

/// The rule of a lock made of a word: change it, then wake.
#[test]
fn a_wake_up_at_a_word_is_never_lost() {
    explore(|| {
        let words = Arc::new(Words::<Sleeper>::new(1).expect("there is memory"));
        let waits = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                while words.load(0) == 0 {
                    let sleeper = Sleeper::default();
                    if let WordWait::Waits(ticket) = words.enter(0, 0, sleeper.clone()) {
                        sleeper.sleep();
                        assert!(words.leave(0, ticket));
                    }
                }
            })
        };
        words.store(0, 1);
        deliver(words.wake(0, 1));
        waits.join().expect("no panic");
    });
}

/// One of two waiting processes gives up, and the wake-up goes to the other one, or to both.
#[test]
fn a_wake_up_for_one_that_gives_up_can_be_passed_on() {
    explore(|| {
        let words = Arc::new(Words::<Sleeper>::new(1).expect("there is memory"));
        let gives_up = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                if let WordWait::Waits(ticket) = words.enter(0, 0, Sleeper::default())
                    && words.leave(0, ticket)
                {
                    deliver(words.wake(0, 1));
                }
            })
        };
        let waits = {
            let words = Arc::clone(&words);
            thread::spawn(move || {
                let sleeper = Sleeper::default();
                if let WordWait::Waits(_) = words.enter(0, 0, sleeper.clone()) {
                    sleeper.sleep();
                }
            })
        };
        words.store(0, 1);
        deliver(words.wake(0, 1));
        gives_up.join().expect("no panic");
        waits.join().expect("no panic");
    });
}
