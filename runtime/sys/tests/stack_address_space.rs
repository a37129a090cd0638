//! Reservations that the system refuses in the middle. The limit on address space is the whole
//! program's, so this is the only test of its program.
#![cfg(all(target_os = "linux", not(loom)))]

use baton_sys::stack::{Stack, StackError, StackPool};

/// So large that the rest of the last reservation is enough for everything else.
const SIZE: usize = 16 << 20;

/// The program's present address space in bytes.
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("the kernel shows it");
    let pages = pages
        .split_whitespace()
        .next()
        .and_then(|pages| pages.parse::<u64>().ok());
    // SAFETY: takes an integer.
    pages.expect("a number of pages") * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

/// Sets the limit on address space. Returns the limit before.
fn limit_address_space(bytes: u64) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a structure of this frame.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    assert_eq!(got, 0);
    let before = std::mem::replace(&mut limit.rlim_cur, bytes);
    // SAFETY: as above; the hard limit stays.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(set, 0);
    before
}

#[test]
fn a_reservation_that_is_refused_in_the_middle_leaves_as_many_stacks_as_before() {
    let default_and_another = [None, Some(2 * SIZE)];
    for size in default_and_another {
        let mut pool = StackPool::new(SIZE).expect("the size is legal");
        let premade = |pool: &StackPool| pool.premade(size).expect("a size in bounds");
        let before = limit_address_space(address_space() + 700 * (1 << 20));
        pool.reserve(5, size).expect("there is room");
        let own = pool.stats();
        for _ in 0..3 {
            let refused = pool.reserve(1000, size);
            assert!(
                matches!(refused, Err(StackError::NoAddressSpace { .. })),
                "{refused:?}"
            );
            assert_eq!(premade(&pool), 5);
        }
        let now = pool.stats();
        assert_eq!(
            (now.in_use, now.free, now.peak_in_use),
            (own.in_use, own.free, own.peak_in_use)
        );
        // Slots that were made for a refused reservation are not lost.
        pool.reserve(10, size).expect("there is room for so many");
        limit_address_space(before);
        pool.reserve(200, size).expect("there is room");
        let stacks: Vec<Stack> = (0..200)
            .map(|_| pool.allocate(size).expect("it is ready"))
            .collect();
        assert_eq!(premade(&pool), 0);
        let mut bottoms: Vec<_> = stacks.iter().map(|stack| stack.bottom() as usize).collect();
        bottoms.sort_unstable();
        assert!(
            bottoms.windows(2).all(|pair| pair[1] - pair[0] >= SIZE),
            "each has its own place"
        );
        for stack in stacks {
            // SAFETY: the address is in the stack, which is not in use.
            unsafe { stack.top().sub(SIZE / 2).write_volatile(1) };
            pool.recycle(stack);
        }
    }
}
