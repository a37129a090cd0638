//! The poller's contract, for the backend and timer of this build.
#![cfg(not(loom))]

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use baton_sys::clock::Instant;
use baton_sys::poller::{Event, Events, FIRST_RESERVED_TOKEN, Interest, Poller, Wait};
use baton_sys::signals::{self, Interrupted, ThreadHandle};

const PAST: Option<Instant> = Some(Instant::from_nanos(1));
/// What [`ask`] returns if the wait has brought nothing, timed out or not.
const NOTHING: Wait = Wait {
    kicked: false,
    ready: 0,
    timed_out: false,
};

fn ask(poller: &Poller, deadline: Option<Instant>) -> (Wait, Vec<Event>) {
    let mut events = Events::new();
    let mut wait = poller.wait(&mut events, deadline).expect("a wait succeeds");
    wait.timed_out = false;
    let events: Vec<Event> = events.drain().collect();
    assert_eq!(wait.ready, events.len());
    (wait, events)
}

/// Waits without a deadline until an event comes.
fn next_event(poller: &Poller) -> Event {
    loop {
        let (_, events) = ask(poller, None);
        match events.as_slice() {
            [] => (),
            [event] => return *event,
            several => panic!("expected one event, came {several:?}"),
        }
    }
}

fn pair() -> (UnixStream, UnixStream) {
    let (a, b) = UnixStream::pair().expect("a socket pair opens");
    a.set_nonblocking(true)
        .expect("sockets can be made non-blocking");
    (a, b)
}

/// Returns when the thread sleeps in the kernel.
fn await_sleep(thread: ThreadHandle) {
    let path = format!("/proc/self/task/{}/stat", thread.id());
    loop {
        let stat = std::fs::read_to_string(&path).expect("the thread lives");
        let after_name = stat
            .rsplit(") ")
            .next()
            .expect("the name is in parentheses");
        if after_name.starts_with('S') {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_past_deadline_asks_without_sleeping() {
    let poller = Poller::new().expect("a poller opens");
    assert_eq!(ask(&poller, PAST).0, NOTHING);
    assert_eq!(ask(&poller, Some(Instant::now())).0, NOTHING);
}

#[test]
fn deadlines_are_never_early_and_short_ones_do_not_become_a_busy_loop() {
    let poller = Poller::new().expect("a poller opens");
    let mut returns = 0;
    const DEADLINES: u32 = 100;
    for step in 0..DEADLINES {
        let deadline = Instant::now() + Duration::from_micros(100 + u64::from(step) * 7);
        while Instant::now() < deadline {
            assert_eq!(ask(&poller, Some(deadline)).0, NOTHING);
            returns += 1;
        }
    }
    // One return for each, and a few more where the kernel's timer and its clock differ by a tick.
    assert!(
        returns <= 2 * DEADLINES,
        "{returns} returns for {DEADLINES} deadlines"
    );
}

#[test]
fn a_deadline_that_was_given_up_does_not_wake_a_later_wait() {
    let poller = Poller::new().expect("a poller opens");
    poller.kick();
    let soon = Instant::now() + Duration::from_millis(1);
    assert!(ask(&poller, Some(soon)).0.kicked);
    while Instant::now() <= soon {
        std::thread::yield_now();
    }
    let (a, mut b) = pair();
    poller
        .add(a.as_raw_fd(), Interest::READABLE, 5)
        .expect("a socket can be added");
    std::thread::scope(|scope| {
        let (poller, (send, receive)) = (&poller, mpsc::channel());
        let owner = scope.spawn(move || {
            send.send(ThreadHandle::current())
                .expect("the test waits for it");
            ask(poller, None)
        });
        await_sleep(receive.recv().expect("the owner sends its handle"));
        b.write_all(b"x").expect("the socket has room");
        let (wait, events) = owner.join().expect("the owner does not panic");
        assert_eq!((wait.kicked, events[0].token), (false, 5));
    });
}

#[test]
fn kicks_before_a_wait_end_it_once() {
    let poller = Poller::new().expect("a poller opens");
    for _ in 0..3 {
        poller.kick();
    }
    assert!(ask(&poller, None).0.kicked);
    assert_eq!(ask(&poller, PAST).0, NOTHING);
    poller.kick();
    assert!(ask(&poller, Some(Instant::FAR_FUTURE)).0.kicked);
}

#[test]
fn a_kick_during_a_wait_ends_it() {
    let poller = Poller::new().expect("a poller opens");
    std::thread::scope(|scope| {
        let (poller, (send, receive)) = (&poller, mpsc::channel());
        let owner = scope.spawn(move || {
            send.send(ThreadHandle::current())
                .expect("the test waits for it");
            while !ask(poller, None).0.kicked {}
        });
        await_sleep(receive.recv().expect("the owner sends its handle"));
        poller.kick();
        owner.join().expect("the owner does not panic");
    });
}

/// For a signal handler, which cannot get it as an argument.
static KICKED_BY_A_HANDLER: OnceLock<Poller> = OnceLock::new();

/// Installs one handler for the whole program, as its tests run in parallel.
fn install_handler() {
    extern "C" fn kick() {
        if let Some(poller) = KICKED_BY_A_HANDLER.get() {
            poller.kick();
        }
    }
    signals::install_preempt_handler(kick).expect("the handler installs");
}

#[test]
fn a_signal_handler_can_kick() {
    install_handler();
    let poller = KICKED_BY_A_HANDLER.get_or_init(|| Poller::new().expect("a poller opens"));
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        let owner = scope.spawn(move || {
            send.send(ThreadHandle::current())
                .expect("the test waits for it");
            while !ask(poller, None).0.kicked {}
        });
        let handle = receive.recv().expect("the owner sends its handle");
        await_sleep(handle);
        assert_eq!(handle.interrupt(), Interrupted::Sent);
        owner.join().expect("the owner does not panic");
    });
}

#[test]
fn signals_neither_lengthen_nor_shorten_a_wait_for_a_deadline() {
    install_handler();
    let poller = Poller::new().expect("a poller opens");
    std::thread::scope(|scope| {
        let (poller, (send, receive)) = (&poller, mpsc::channel());
        let owner = scope.spawn(move || {
            send.send(ThreadHandle::current())
                .expect("the test waits for it");
            let deadline = Instant::now() + Duration::from_millis(50);
            while Instant::now() < deadline {
                assert_eq!(ask(poller, Some(deadline)).0, NOTHING);
            }
        });
        let handle = receive.recv().expect("the owner sends its handle");
        // If each signal restarted the wait, it would not end.
        while !owner.is_finished() {
            let _ = handle.interrupt();
            std::thread::yield_now();
        }
        owner.join().expect("the owner does not panic");
    });
}

#[test]
fn a_registration_reports_once_and_again_when_armed_again() {
    let poller = Poller::new().expect("a poller opens");
    let (mut a, mut b) = pair();
    poller
        .add(a.as_raw_fd(), Interest::READABLE, 7)
        .expect("a socket can be added");
    assert_eq!(ask(&poller, PAST).0, NOTHING);
    b.write_all(b"x").expect("the socket has room");
    let event = next_event(&poller);
    assert_eq!(
        event,
        Event {
            token: 7,
            readable: true,
            writable: false,
            priority: false,
            failed: false,
            ended: cfg!(any(not(target_os = "linux"), baton_portable)),
        }
    );
    assert_eq!(
        ask(&poller, PAST).0,
        NOTHING,
        "one-shot: silent although still readable"
    );
    poller
        .modify(a.as_raw_fd(), Interest::READABLE, 8)
        .expect("a registered socket can be armed");
    assert_eq!(
        next_event(&poller).token,
        8,
        "level-triggered: readable when armed"
    );
    a.read_exact(&mut [0]).expect("one byte is there");
    poller
        .modify(a.as_raw_fd(), Interest::READABLE, 9)
        .expect("a registered socket can be armed");
    assert_eq!(ask(&poller, PAST).0, NOTHING);
}

#[test]
fn both_directions_are_told_apart() {
    let poller = Poller::new().expect("a poller opens");
    let (a, mut b) = pair();
    poller
        .add(a.as_raw_fd(), Interest::BOTH, 1)
        .expect("a socket can be added");
    let event = next_event(&poller);
    assert_eq!((event.readable, event.writable), (false, true));
    b.write_all(b"x").expect("the socket has room");
    poller
        .modify(a.as_raw_fd(), Interest::BOTH, 1)
        .expect("a registered socket can be armed");
    let event = next_event(&poller);
    assert_eq!((event.readable, event.writable), (true, true));
    poller
        .modify(a.as_raw_fd(), Interest::READABLE, 1)
        .expect("a registered socket can be armed");
    let event = next_event(&poller);
    assert_eq!((event.readable, event.writable), (true, false));
}

#[test]
fn a_hang_up_wakes_both_directions() {
    let poller = Poller::new().expect("a poller opens");
    let (a, b) = pair();
    drop(b);
    poller
        .add(a.as_raw_fd(), Interest::READABLE, 1)
        .expect("a socket can be added");
    let event = next_event(&poller);
    assert!(
        event.readable && event.writable && event.failed,
        "{event:?}"
    );
}

#[test]
fn more_descriptors_than_one_wait_has_room_for_are_all_reported_once() {
    const PAIRS: u64 = 350;
    let poller = Poller::new().expect("a poller opens");
    let pairs: Vec<_> = (0..PAIRS).map(|_| pair()).collect();
    for (token, (a, b)) in (0..).zip(&pairs) {
        poller
            .add(a.as_raw_fd(), Interest::READABLE, token)
            .expect("a socket can be added");
        (&mut &*b).write_all(b"x").expect("the socket has room");
    }
    poller.kick();
    let (mut seen, mut kicked) = (HashSet::new(), false);
    loop {
        let (wait, events) = ask(&poller, PAST);
        if wait == NOTHING {
            break;
        }
        kicked |= wait.kicked;
        for event in events {
            assert!(seen.insert(event.token), "token {} came twice", event.token);
        }
    }
    assert!(kicked, "a kick is not lost among many descriptors");
    assert_eq!(seen.len() as u64, PAIRS);
}

/// Held while a test forks, and by tests whose descriptors a child must not keep open.
static FORKS: Mutex<()> = Mutex::new(());

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same socket with the lowest free number that no other test of this file uses. They open
/// fewer descriptors than this.
fn with_own_number(socket: UnixStream) -> OwnedFd {
    const OTHERS: i32 = 900;
    // SAFETY: fcntl takes any number, and the new descriptor is ours alone.
    let number = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_DUPFD_CLOEXEC, OTHERS) };
    assert!(number >= OTHERS, "{}", io::Error::last_os_error());
    // SAFETY: as above.
    unsafe { OwnedFd::from_raw_fd(number) }
}

#[test]
fn a_closed_descriptor_is_forgotten_and_its_number_can_be_used_again() {
    let _no_fork = lock(&FORKS);
    let poller = Poller::new().expect("a poller opens");
    let (a, mut b) = pair();
    let a = with_own_number(a);
    let number = a.as_raw_fd();
    poller
        .add(number, Interest::READABLE, 1)
        .expect("a socket can be added");
    b.write_all(b"x").expect("the socket has room");
    drop(a);
    assert_eq!(ask(&poller, PAST).0, NOTHING);
    let error = poller
        .modify(number, Interest::READABLE, 2)
        .expect_err("it is closed");
    assert_eq!(error.raw_os_error(), Some(libc::EBADF), "{error}");
    let (c, mut d) = pair();
    let c = with_own_number(c);
    assert_eq!(c.as_raw_fd(), number);
    poller
        .add(number, Interest::READABLE, 3)
        .expect("a socket can be added");
    d.write_all(b"x").expect("the socket has room");
    assert_eq!(next_event(&poller).token, 3);
}

#[test]
fn a_removed_descriptor_is_silent_and_can_be_added_again() {
    let poller = Poller::new().expect("a poller opens");
    let (a, mut b) = pair();
    b.write_all(b"x").expect("the socket has room");
    poller
        .add(a.as_raw_fd(), Interest::READABLE, 1)
        .expect("a socket can be added");
    poller
        .remove(a.as_raw_fd())
        .expect("a registered socket can be removed");
    assert_eq!(ask(&poller, PAST).0, NOTHING);
    let code = |result: io::Result<()>| result.err().and_then(|error| error.raw_os_error());
    assert_eq!(code(poller.remove(a.as_raw_fd())), Some(libc::ENOENT));
    assert_eq!(
        code(poller.modify(a.as_raw_fd(), Interest::READABLE, 1)),
        Some(libc::ENOENT)
    );
    poller
        .add(a.as_raw_fd(), Interest::READABLE, 2)
        .expect("a socket can be added");
    assert_eq!(
        code(poller.add(a.as_raw_fd(), Interest::READABLE, 2)),
        Some(libc::EEXIST)
    );
    assert_eq!(next_event(&poller).token, 2);
}

#[test]
fn what_cannot_be_waited_for_is_refused() {
    let poller = Poller::new().expect("a poller opens");
    let code = |result: io::Result<()>| result.err().and_then(|error| error.raw_os_error());
    let file = File::open("/proc/self/exe").expect("the test program is a file");
    assert_eq!(
        code(poller.add(file.as_raw_fd(), Interest::READABLE, 1)),
        Some(libc::EPERM)
    );
    assert_eq!(
        code(poller.add(-1, Interest::READABLE, 1)),
        Some(libc::EBADF)
    );
    let (a, _b) = pair();
    assert_eq!(
        code(poller.add(a.as_raw_fd(), Interest::READABLE, FIRST_RESERVED_TOKEN)),
        Some(libc::EINVAL)
    );
}

#[test]
fn the_pollers_own_descriptor_is_readable_while_something_waits() {
    fn is_readable(fd: i32) -> bool {
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd is passed; a timeout of zero does not sleep.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }
    let poller = Poller::new().expect("a poller opens");
    let (a, mut b) = pair();
    poller
        .add(a.as_raw_fd(), Interest::READABLE, 1)
        .expect("a socket can be added");
    assert!(!is_readable(poller.fd()));
    poller.kick();
    assert!(is_readable(poller.fd()));
    assert!(ask(&poller, PAST).0.kicked);
    assert!(!is_readable(poller.fd()), "a kick that was told is over");
    b.write_all(b"x").expect("the socket has room");
    assert!(is_readable(poller.fd()));
    assert_eq!(next_event(&poller).token, 1);
    assert!(!is_readable(poller.fd()), "an event that was told is over");
}

#[test]
fn a_forks_child_has_a_poller_of_its_own() {
    let _only_fork = lock(&FORKS);
    let poller = Poller::new().expect("a poller opens");
    let (a, b) = pair();
    poller
        .add(a.as_raw_fd(), Interest::READABLE, 1)
        .expect("a socket can be added");
    let mut events = Events::new();
    // SAFETY: the child makes system calls and allocates nothing, then ends without running
    // anything of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let ok = poller.reopen_after_fork().is_ok()
            && poller.add(b.as_raw_fd(), Interest::WRITABLE, 2).is_ok()
            && poller.wait(&mut events, None).is_ok_and(|wait| {
                wait == Wait {
                    ready: 1,
                    ..NOTHING
                }
            })
            && events.drain().all(|event| event.token == 2)
            && {
                poller.kick();
                poller.wait(&mut events, None).is_ok_and(|wait| wait.kicked)
            }
            && poller
                .wait(&mut events, PAST)
                .is_ok_and(|wait| wait.ready == 0 && !wait.kicked);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if ok { 0 } else { 1 }) };
    }
    assert!(child > 0, "fork succeeds");
    let mut status = 0;
    // SAFETY: waits for our own child; `status` is valid.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's checks hold");
    assert_eq!(
        ask(&poller, PAST).0,
        NOTHING,
        "the child's kick and registration are not ours"
    );
    drop(b);
    assert_eq!(next_event(&poller).token, 1, "our registration stands");
}

/// All events that are reported at once.
fn reported(poller: &Poller) -> Vec<Event> {
    ask(poller, PAST).1
}

#[test]
fn a_watched_descriptor_is_reported_at_each_change_without_being_armed_again() {
    let poller = Poller::new().expect("a poller opens");
    let (mut a, mut b) = pair();
    poller.watch(a.as_raw_fd(), 9).expect("it is registered");
    let event = next_event(&poller);
    assert!(event.writable && !event.readable && event.token == 9);
    assert_eq!(reported(&poller), []);
    for _ in 0..3 {
        b.write_all(b"x").expect("there is room");
        assert!(next_event(&poller).readable);
        assert_eq!(reported(&poller), [], "told once");
        a.read_exact(&mut [0]).expect("it is there");
    }
    b.write_all(b"xy").expect("there is room");
    assert!(next_event(&poller).readable);
    b.write_all(b"z").expect("there is room");
    assert!(
        next_event(&poller).readable,
        "more has come, whatever is left"
    );
    drop(b);
    let event = next_event(&poller);
    assert!(event.readable && event.writable && event.failed);
}

#[test]
fn room_to_write_is_reported_when_a_full_socket_is_read_from() {
    let poller = Poller::new().expect("a poller opens");
    let (mut a, mut b) = pair();
    poller.watch(a.as_raw_fd(), 9).expect("it is registered");
    let _ = next_event(&poller);
    let full = std::iter::repeat_with(|| a.write(&[0; 4096])).find_map(Result::err);
    assert_eq!(
        full.map(|error| error.kind()),
        Some(io::ErrorKind::WouldBlock)
    );
    assert_eq!(reported(&poller), []);
    b.set_nonblocking(true)
        .expect("sockets can be made non-blocking");
    while b.read(&mut [0; 4096]).is_ok() {}
    assert!(next_event(&poller).writable);
}

#[test]
fn another_thread_can_check_for_events() {
    let poller = Poller::new().expect("a poller opens");
    let (a, mut b) = pair();
    assert!(!poller.has_news());
    poller
        .add(a.as_raw_fd(), Interest::READABLE, 9)
        .expect("it is registered");
    assert!(!poller.has_news());
    b.write_all(b"x").expect("there is room");
    assert!(poller.has_news());
    assert!(poller.has_news(), "asking takes nothing away");
    let _ = next_event(&poller);
    assert!(!poller.has_news());
}
