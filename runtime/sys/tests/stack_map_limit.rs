//! The limit on guards that are made by `mprotect`. The only test of its program, as it uses up the
//! mappings of the whole program.
#![cfg(all(not(loom), baton_mprotect_guards))]

use baton_sys::stack::{GuardKind, StackError, StackPool};

/// The test would take minutes to use up more mappings than this.
const PATIENCE: usize = 4_000_000;

#[test]
fn the_map_limit_is_reported_once_before_stacks_are_refused() {
    let mut pool = StackPool::new(64 * 1024).expect("the size is legal");
    assert_eq!(pool.stats().guards, GuardKind::Mprotect);
    // A reservation that would use them all up is refused, and makes nothing.
    let limit =
        std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("the system has a limit");
    let limit: usize = limit.trim().parse().expect("it is a number");
    assert!(matches!(
        pool.reserve(limit / 2, None),
        Err(StackError::NoGuard { .. })
    ));
    assert_eq!(
        (
            pool.premade(None).expect("a size in bounds"),
            pool.stats().in_use
        ),
        (0, 0)
    );
    let mut told = Vec::new();
    let refused = loop {
        match pool.allocate(None) {
            Ok(_) => told.extend(pool.take_map_limit_warning()),
            Err(error) => break Some(error),
        }
        if pool.stats().maps > PATIENCE {
            break None;
        }
    };
    match refused {
        Some(error) => {
            assert!(matches!(error, StackError::NoGuard { .. }), "{error}");
            assert!(error.to_string().contains("vm.max_map_count"), "{error}");
            assert_eq!(told.len(), 1);
            assert!(told[0].maps < told[0].limit, "told in time: {told:?}");
        }
        None => assert!(told.iter().all(|near| near.limit > PATIENCE)),
    }
}
