//! Explores piles as messages between VMs use them: blocks are read, put on the pile by their
//! readers, taken by their makers and written again.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p baton-sys --release --test loom_pile`.
#![cfg(loom)]

use baton_sys::pile::{Link, Pile, Put};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use std::ptr::NonNull;

#[repr(C)]
struct Block {
    link: Link,
    name: usize,
    /// Loom reports two accesses that nothing orders.
    row: UnsafeCell<usize>,
}

/// A block as one thread after the other has it.
struct Held(NonNull<Block>);

// SAFETY: one thread has it at a time.
unsafe impl Send for Held {}

impl Held {
    fn new(name: usize) -> Held {
        let block = Box::new(Block {
            link: Link::new(),
            name,
            row: UnsafeCell::new(0),
        });
        Held(NonNull::from(Box::leak(block)))
    }

    fn block(&self) -> &Block {
        // SAFETY: the block is valid until `free`, and this thread's alone.
        unsafe { self.0.as_ref() }
    }

    /// As a receiver: reads the block. It must have what was written last.
    fn read(&self, expected: usize) {
        // SAFETY: this thread's alone.
        let got = self.block().row.with(|row| unsafe { *row });
        assert_eq!(got, expected, "another message is in the block");
    }

    /// As a sender: writes the next message.
    fn write(&self, message: usize) {
        // SAFETY: this thread's alone.
        self.block().row.with_mut(|row| unsafe { *row = message });
    }

    fn put(self, pile: &Pile) -> Put {
        // SAFETY: the block is this thread's alone, and is used again only by its taker.
        unsafe { pile.put(self.0.cast()) }
    }

    fn free(self) -> usize {
        // SAFETY: `new` has made it, and it is this thread's alone.
        let block = unsafe { Box::from_raw(self.0.as_ptr()) };
        block.name
    }
}

fn take_all(pile: &Pile) -> Vec<Held> {
    let mut taken = Vec::new();
    let mut link = pile.take_all();
    while let Some(block) = NonNull::new(link.cast::<Block>()) {
        // SAFETY: the block was taken, so it is this thread's.
        link = unsafe { block.as_ref() }.link.below;
        taken.push(Held(block));
    }
    taken
}

/// Frees blocks and checks that they are all blocks that there are, each once.
fn free_all(blocks: impl IntoIterator<Item = Held>, count: usize) {
    let mut names: Vec<_> = blocks.into_iter().map(Held::free).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        (0..count).collect::<Vec<_>>(),
        "lost, or there twice"
    );
}

/// As in `loom_inbox.rs`: takers yield between two looks.
fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

#[test]
fn a_block_that_comes_back_is_no_longer_read() {
    explore(|| {
        let pile = Arc::new(Pile::new());
        let receivers: Vec<_> = (0..2)
            .map(|name| {
                let (pile, block) = (Arc::clone(&pile), Held::new(name));
                block.write(10 + name);
                thread::spawn(move || {
                    block.read(10 + name);
                    block.put(&pile)
                })
            })
            .collect();
        let mut spares = Vec::new();
        while spares.len() < 2 {
            for block in take_all(&pile) {
                block.write(20);
                spares.push(block);
            }
            thread::yield_now();
        }
        for receiver in receivers {
            let _ = receiver.join().expect("receivers do not panic");
        }
        free_all(spares, 2);
    });
}

/// While one thread puts a block, another takes the one that was the newest and puts it back.
#[test]
fn a_put_that_meets_the_same_newest_block_again_loses_none() {
    explore(|| {
        let pile = Arc::new(Pile::new());
        assert_eq!(Held::new(0).put(&pile), Put::First);
        let receiver = {
            let pile = Arc::clone(&pile);
            thread::spawn(move || Held::new(1).put(&pile))
        };
        let mut kept = Vec::new();
        for (message, block) in take_all(&pile).into_iter().enumerate() {
            block.write(message);
            if block.block().name == 0 {
                block.read(message);
                let _ = block.put(&pile);
            } else {
                kept.push(block);
            }
        }
        let _ = receiver.join().expect("the receiver does not panic");
        kept.extend(take_all(&pile));
        free_all(kept, 2);
    });
}

/// VMs may share a pile.
#[test]
fn each_block_goes_to_one_of_two_takers() {
    explore(|| {
        let pile = Arc::new(Pile::new());
        assert_eq!(Held::new(0).put(&pile), Put::First);
        let takers: Vec<_> = (0..2)
            .map(|name| {
                let pile = Arc::clone(&pile);
                thread::spawn(move || {
                    for block in take_all(&pile) {
                        block.write(name);
                        block.read(name);
                        let _ = block.put(&pile);
                    }
                })
            })
            .collect();
        let _ = Held::new(1).put(&pile);
        for taker in takers {
            taker.join().expect("takers do not panic");
        }
        free_all(take_all(&pile), 2);
    });
}

#[test]
fn the_first_put_after_each_take_says_so() {
    explore(|| {
        let pile = Arc::new(Pile::new());
        let receivers: Vec<_> = (0..2)
            .map(|name| {
                let pile = Arc::clone(&pile);
                thread::spawn(move || Held::new(name).put(&pile))
            })
            .collect();
        let mut taken = take_all(&pile);
        let mut takes = usize::from(!taken.is_empty());
        let firsts = receivers
            .into_iter()
            .map(|receiver| receiver.join().expect("receivers do not panic"))
            .filter(|&put| put == Put::First)
            .count();
        let rest = take_all(&pile);
        takes += usize::from(!rest.is_empty());
        taken.extend(rest);
        assert_eq!(firsts, takes);
        free_all(taken, 2);
    });
}
