//! Stacks: contents, reuse, trimming, limits, and very many of them.
#![cfg(not(loom))]

use std::collections::HashSet;
use std::os::fd::AsRawFd;

use baton_sys::stack::{
    GUARD_SIZE, GuardKind, MAXIMUM_SIZE, MINIMUM_SIZE, Stack, StackError, StackPool,
};

const DEFAULT: usize = 1 << 20;

fn pool() -> StackPool {
    StackPool::new(DEFAULT).expect("the size is legal")
}

/// Writes a byte `depth` bytes below the top.
fn touch(stack: &Stack, depth: usize) {
    assert!(depth <= stack.size());
    // SAFETY: the address is in the stack, which is not in use.
    unsafe { stack.top().sub(depth).write_volatile(0xA5) };
}

fn page() -> usize {
    // SAFETY: takes an integer.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

#[test]
fn a_stack_has_the_reported_bounds() {
    let mut pool = pool();
    let stack = pool.allocate(None).expect("there is room");
    assert!((DEFAULT..DEFAULT + 2 * page()).contains(&stack.size()));
    assert_eq!(stack.top() as usize % 16, 0);
    assert_eq!(stack.top() as usize - stack.bottom() as usize, stack.size());
    assert_eq!(stack.guard().end, stack.bottom() as usize);
    assert!(stack.guard().len() >= GUARD_SIZE);
    assert_eq!(stack.high_water(), 0);
    touch(&stack, 1);
    assert!((1..=page()).contains(&stack.high_water()));
    touch(&stack, stack.size());
    assert_eq!(stack.high_water(), stack.size());
    pool.recycle(stack);
}

#[test]
fn tops_of_neighbours_spread_over_the_caches_sets() {
    let mut pool = pool();
    let stacks: Vec<Stack> = (0..8)
        .map(|_| pool.allocate(None).expect("there is room"))
        .collect();
    let offsets: HashSet<usize> = stacks
        .iter()
        .map(|stack| stack.top() as usize % page())
        .collect();
    assert_eq!(offsets.len(), 8, "each has its own offset in its page");
    let pages: HashSet<usize> = stacks
        .iter()
        .map(|stack| stack.bottom() as usize / page() % 8)
        .collect();
    assert_eq!(
        pages.len(),
        8,
        "each has its own low bits of the page number"
    );
}

#[test]
fn the_last_recycled_stack_is_the_first_used_again_with_its_memory() {
    let mut pool = pool();
    let (a, b) = (
        pool.allocate(None).expect("there is room"),
        pool.allocate(None).expect("there is room"),
    );
    touch(&b, 3 * page());
    let top = b.top();
    pool.recycle(a);
    pool.recycle(b);
    let again = pool.allocate(None).expect("there is room");
    assert_eq!(again.top(), top);
    assert!((3 * page()..=4 * page()).contains(&again.high_water()));
    pool.recycle(again);
}

#[test]
fn trimming_gives_back_the_memory_of_free_stacks() {
    let mut pool = pool();
    let stacks: Vec<Stack> = (0..3)
        .map(|_| pool.allocate(None).expect("there is room"))
        .collect();
    let mut tops = Vec::new();
    for stack in &stacks {
        touch(stack, 1);
        touch(stack, 200_000);
        tops.push(stack.top());
    }
    let kept = pool.allocate(None).expect("there is room");
    touch(&kept, 200_000);
    for stack in stacks {
        pool.recycle(stack);
    }
    assert_eq!(pool.stats().untrimmed, 3);
    assert_eq!(pool.trim_at_most(1), 2);
    pool.trim();
    assert_eq!(pool.stats().untrimmed, 0);
    assert!(kept.high_water() >= 200_000, "a stack in use is left alone");
    for top in tops.into_iter().rev() {
        let again = pool.allocate(None).expect("there is room");
        assert_eq!(again.top(), top);
        assert_eq!(again.high_water(), 0);
        pool.recycle(again);
        let _ = pool.allocate(None).expect("there is room");
    }
    pool.recycle(kept);
}

#[test]
fn a_recycled_stack_counts_as_untrimmed_again() {
    let mut pool = pool();
    let stack = pool.allocate(None).expect("there is room");
    pool.recycle(stack);
    pool.trim();
    let stack = pool.allocate(None).expect("there is room");
    touch(&stack, 100_000);
    pool.recycle(stack);
    assert_eq!(pool.stats().untrimmed, 1);
    pool.trim();
    assert_eq!(pool.allocate(None).expect("there is room").high_water(), 0);
}

/// Uses `count` stacks at the same time. Returns how many of them had no memory, and how many are
/// left with memory.
fn wave(pool: &mut StackPool, count: usize) -> (usize, usize) {
    let before = pool.stats().untrimmed;
    let stacks: Vec<Stack> = (0..count)
        .map(|_| pool.allocate(None).expect("there is room"))
        .collect();
    stacks.iter().for_each(|stack| touch(stack, 1));
    for stack in stacks {
        pool.recycle(stack);
        pool.shrink_gradually();
    }
    (count.saturating_sub(before), pool.stats().untrimmed)
}

#[test]
fn a_wave_that_comes_again_finds_memory_until_it_stays_away() {
    let mut pool = pool();
    let (cold, left) = wave(&mut pool, 2000);
    assert_eq!(cold, 2000);
    assert!(left < 300, "{left} keep their memory after one wave");
    wave(&mut pool, 2000);
    let (cold, left) = wave(&mut pool, 2000);
    assert!(cold < 300, "{cold} of a repeated wave are cold");
    assert!(left >= 1700, "{left} keep their memory");
    for _ in 0..60_000 {
        wave(&mut pool, 1);
    }
    assert!(pool.stats().untrimmed < 300);

    wave(&mut pool, 2000);
    assert!(pool.stats().untrimmed >= 1700);
    pool.trim_spare();
    assert!(pool.stats().untrimmed < 300);
}

#[test]
fn other_sizes_have_mappings_of_their_own() {
    let mut pool = pool();
    let large = pool.allocate(Some(8 << 20)).expect("there is room");
    assert!(large.size() >= 8 << 20);
    touch(&large, large.size());
    let top = large.top();
    pool.recycle(large);
    let again = pool.allocate(Some(8 << 20)).expect("there is room");
    assert_eq!(again.top(), top);
    pool.recycle(again);
    let small = pool.allocate(Some(1)).expect("there is room");
    assert!((MINIMUM_SIZE..2 * MINIMUM_SIZE + 2 * page()).contains(&small.size()));
    pool.recycle(small);
    pool.trim();
    assert_eq!(pool.stats().reserved, 0);
    assert_eq!(
        (
            pool.stats().in_use,
            pool.stats().free,
            pool.stats().peak_in_use
        ),
        (0, 0, 1)
    );
}

#[test]
fn another_default_size_has_slots_and_the_former_one_keeps_its_own() {
    let mut pool = pool();
    let (kept, given_back) = (
        pool.allocate(None).expect("there is room"),
        pool.allocate(None).expect("there is room"),
    );
    let kept_top = kept.top();
    touch(&kept, 1);
    touch(&given_back, 1);
    pool.recycle(given_back);
    assert_eq!(pool.stats().untrimmed, 1);

    pool.set_default_size(DEFAULT / 8).expect("legal");
    assert_eq!(pool.stats().default_size, DEFAULT / 8);
    assert_eq!((pool.stats().free, pool.stats().untrimmed), (1, 0));
    let small = [(); 20].map(|()| pool.allocate(None).expect("there is room"));
    for pair in small.windows(2) {
        let apart = (pair[1].top() as usize).abs_diff(pair[0].top() as usize);
        assert!(
            apart < DEFAULT / 4,
            "{apart} bytes from one stack to the next"
        );
        touch(&pair[0], pair[0].size());
    }
    assert!(!is_readable(small[19].bottom() as usize - 1));
    pool.recycle(kept);
    assert_eq!(pool.stats().untrimmed, 0);
    small.into_iter().for_each(|stack| pool.recycle(stack));
    assert_eq!((pool.stats().free, pool.stats().untrimmed), (22, 20));

    pool.set_default_size(DEFAULT).expect("legal");
    let again = pool.allocate(None).expect("there is room");
    assert_eq!((again.top(), again.high_water()), (kept_top, 0));
    pool.recycle(again);
    assert_eq!((pool.stats().in_use, pool.stats().free), (0, 22));
}

#[test]
fn sizes_beyond_the_eighth_have_mappings_of_their_own() {
    let mut pool = pool();
    let mut stacks = Vec::new();
    for times in 1..=20 {
        let size = times * 2 * MINIMUM_SIZE;
        pool.set_default_size(size).expect("legal");
        let stack = pool.allocate(Some(size)).expect("there is room");
        assert!((size..size + 4 * page()).contains(&stack.size()));
        touch(&stack, stack.size());
        stacks.push(stack);
    }
    assert!(pool.set_default_size(MAXIMUM_SIZE + 1).is_err());
    stacks.into_iter().for_each(|stack| pool.recycle(stack));
    assert_eq!((pool.stats().in_use, pool.stats().free), (0, 20));
    pool.trim();
    assert_eq!(pool.stats().free, 7);
}

#[test]
fn illegal_sizes_are_refused_with_the_limit() {
    let error = pool()
        .allocate(Some(MAXIMUM_SIZE + 1))
        .expect_err("too large");
    assert!(matches!(error, StackError::TooLarge { .. }));
    assert!(
        error.to_string().contains(&MAXIMUM_SIZE.to_string()),
        "{error}"
    );
    assert!(pool().allocate(Some(usize::MAX)).is_err());
    assert!(StackPool::new(usize::MAX).is_err());
}

#[test]
fn a_stack_of_another_pool_is_not_taken() {
    let (mut one, mut other) = (pool(), pool());
    let stack = one.allocate(None).expect("there is room");
    touch(&stack, 1);
    other.recycle(stack);
    assert_eq!((other.stats().free, other.stats().in_use), (0, 0));
    assert_eq!(one.stats().in_use, 1);
}

#[test]
fn a_stack_outlives_its_pool() {
    let mut pool = pool();
    let stack = pool.allocate(None).expect("there is room");
    drop(pool);
    touch(&stack, 1);
    std::thread::spawn(move || touch(&stack, 100_000))
        .join()
        .expect("the stack is still there");
}

/// Whether the kernel can read a byte there: it returns an error where the test would crash.
fn is_readable(address: usize) -> bool {
    let (_reader, writer) = std::io::pipe().expect("there are descriptors left");
    // SAFETY: the kernel checks the address, and reads one byte of a stack that is not in use.
    let written = unsafe { libc::write(writer.as_raw_fd(), address as *const libc::c_void, 1) };
    if written < 0 {
        assert_eq!(
            std::io::Error::last_os_error().raw_os_error(),
            Some(libc::EFAULT)
        );
    }
    written == 1
}

#[test]
fn each_of_many_stacks_has_its_whole_guard_and_nothing_more() {
    let mut pool = pool();
    let stacks: Vec<Stack> = (0..200)
        .map(|_| pool.allocate(None).expect("there is room"))
        .collect();
    for stack in &stacks {
        let guard = stack.guard();
        assert!(
            !guard.clone().step_by(page()).any(is_readable),
            "{guard:x?}"
        );
        assert!(!is_readable(guard.end - 1));
        assert!(is_readable(stack.bottom() as usize) && is_readable(stack.top() as usize - 1));
    }
    for stack in stacks {
        pool.recycle(stack);
    }
}

#[test]
fn very_many_stacks_fit() {
    let (many, size) = match GuardKind::detect() {
        GuardKind::Madvise => (100_000, DEFAULT),
        // These are small, because some systems (qemu-user) need memory for address space, too.
        GuardKind::Mprotect => (20_000, MINIMUM_SIZE),
    };
    let mut pool = StackPool::new(size).expect("the size is legal");
    let mut stacks = Vec::new();
    for _ in 0..many {
        let stack = pool.allocate(None).expect("there is room");
        touch(&stack, 1);
        stacks.push(stack);
    }
    assert_eq!(pool.stats().in_use, many);
    let maps = std::fs::read_to_string("/proc/self/maps")
        .expect("the kernel shows the maps")
        .lines()
        .count();
    if pool.stats().guards == GuardKind::Madvise {
        assert!(maps < 2_000, "{maps} maps for {many} stacks");
        assert_eq!(pool.take_map_limit_warning(), None);
    }
    for stack in stacks {
        pool.recycle(stack);
    }
    assert_eq!(
        (
            pool.stats().in_use,
            pool.stats().free,
            pool.stats().peak_in_use
        ),
        (0, many, many)
    );
}

#[test]
fn reserved_stacks_are_ready_all_or_none() {
    let mut pool = pool();
    for size in [None, Some(256 * 1024)] {
        pool.reserve(40, size).expect("there is room");
        assert_eq!(pool.premade(size).expect("a size in bounds"), 40);
        let maps = pool.stats().maps;
        let stacks: Vec<_> = (0..40)
            .map(|_| pool.allocate(size).expect("it is ready"))
            .collect();
        assert_eq!(
            (pool.stats().maps, pool.premade(size).expect("as before")),
            (maps, 0)
        );
        stacks.iter().for_each(|stack| touch(stack, 1));
        for stack in stacks {
            pool.recycle(stack);
        }
        assert_eq!(
            pool.premade(size).expect("as before"),
            40,
            "none was given back to the system"
        );
        pool.reserve(10, size).expect("they are there");
        assert_eq!(pool.premade(size).expect("as before"), 40);
    }
    assert_eq!((pool.stats().in_use, pool.stats().peak_in_use), (0, 40));
    let too_large = Some(64 << 30);
    assert!(matches!(
        pool.reserve(1, too_large),
        Err(StackError::TooLarge { .. })
    ));
    assert!(pool.premade(too_large).is_err());
}

#[test]
fn a_reservation_beyond_the_processors_address_space_makes_nothing() {
    let mut pool = pool();
    let huge = Some(16 << 30);
    assert!(matches!(
        pool.reserve(20_000, huge),
        Err(StackError::NoAddressSpace { .. })
    ));
    assert_eq!(pool.premade(huge).expect("a size in bounds"), 0);
}

/// Guards against ended processes whose stacks keep address space from the rest of the program.
#[test]
fn free_stacks_are_unmapped_except_of_a_few_and_of_those_that_were_reserved() {
    let mut pool = pool();
    let mut stacks: Vec<Stack> = (0..20)
        .map(|_| pool.allocate(None).expect("there is room"))
        .collect();
    let kept = stacks.swap_remove(7);
    touch(&kept, 100);
    let own = pool.allocate(Some(3 * DEFAULT)).expect("there is room");
    stacks.into_iter().for_each(|stack| pool.recycle(stack));
    pool.recycle(own);
    let before = pool.stats();
    assert!(before.reserved >= 23 * DEFAULT);
    assert_eq!(pool.unmap_free(), before.reserved - pool.stats().reserved);
    let now = pool.stats();
    assert_eq!((now.in_use, now.free), (1, 4));
    assert!(now.reserved < 7 * DEFAULT, "{now:?}");
    touch(&kept, 200); // it is still there
    let stacks: Vec<Stack> = (0..30)
        .map(|_| pool.allocate(None).expect("there is room"))
        .collect();
    let places: HashSet<_> = stacks.iter().map(Stack::bottom).collect();
    assert!(places.len() == 30 && !places.contains(&kept.bottom()));
    stacks.iter().for_each(|stack| touch(stack, stack.size()));
    stacks.into_iter().for_each(|stack| pool.recycle(stack));
    for size in [None, Some(3 * DEFAULT)] {
        pool.reserve(10, size).expect("there is room");
        pool.unmap_free();
        assert_eq!(pool.premade(size).expect("the size is legal"), 10);
    }
    pool.recycle(kept);
}
