//! The limit that guards made by `mprotect` run into. Alone in its program, since it uses up the maps of the whole program.
#![cfg(all(not(loom), baton_mprotect_guards))]

use baton_sys::stack::{GuardKind, StackError, StackPool};

/// More maps than this would take the test minutes to use up.
const PATIENCE: usize = 4_000_000;

#[test]
fn the_map_limit_is_told_once_before_stacks_are_refused() {
    let mut pool = StackPool::new(64 * 1024).expect("the size is legal");
    assert_eq!(pool.stats().guards, GuardKind::Mprotect);
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
