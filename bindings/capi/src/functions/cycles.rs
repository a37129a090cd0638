//! Cycles of objects that several VMs share: a channel or a dictionary with a message that refers
//! to it, perhaps by other objects.
//!
//! References are counted, so the objects of a cycle keep each other. When a reference is given
//! back, and all that are left are those of messages in objects ([`Stored`]), [`collect`] looks at
//! all objects that can be reached from this one. An object is alive if it has a reference that
//! none of their messages has, or if one that is alive refers to it. The messages of the others are
//! freed, and so are they.
//!
//! **Nothing that is alive is freed.** The last look is made while all these objects are held, so
//! no message comes or goes. An object that is only referred to by messages in them cannot get
//! another reference then: who takes one has one, or takes it from a message.
//!
//! **No deadlock.** The objects are held by `try_hold`, which does not wait. If another thread uses
//! one of them, all are let go, and it is tried again, a few times. Another thread that uses one of
//! them has a reference, so they are looked at again when it gives that back.
//!
//! Rejected: to refuse an object in itself. Two processes that send each other their channels make
//! a cycle, and so does one that sends its own channel for the answer. The next receive ends it.

use std::any::Any;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How often objects that others use are looked at again.
const ATTEMPTS: usize = 10;

/// With more objects than this, none is freed.
const MOST_OBJECTS: usize = 100_000;

/// How many references of an object are those of messages that are stored. Relaxed throughout: it
/// only says when to look.
#[derive(Debug, Default)]
pub(super) struct Stored(AtomicUsize);

/// An object that may have messages.
pub(super) trait Container {
    fn stored(&self) -> &Stored;

    /// The messages, unless another thread uses the object. Nobody else uses it meanwhile.
    fn try_hold(&self) -> Option<Box<dyn Held + '_>>;
}

/// The messages of an object that is held.
pub(super) trait Held {
    fn each_reference(&self, f: &mut dyn FnMut(Reference));

    /// Takes all of them out. They are freed when the result is dropped.
    fn take_all(&mut self) -> Box<dyn Any>;
}

/// A reference to an object.
type Object = Arc<dyn Container>;

/// A reference that a message has. It is valid as long as the message.
#[derive(Clone, Copy)]
pub(super) struct Reference(*const dyn Container);

impl Reference {
    /// # Safety
    /// The pointer is of `Arc::into_raw`, and a message has this reference.
    pub(super) unsafe fn new(object: *const dyn Container) -> Reference {
        Reference(object)
    }

    fn address(self) -> usize {
        self.0.cast::<()>() as usize
    }

    fn stored(&self) -> &AtomicUsize {
        // SAFETY: the message has a reference to the object, and lives as long as this is used.
        unsafe { &(*self.0).stored().0 }
    }

    pub(super) fn is_stored(self) {
        self.stored().fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn is_not_stored(self) {
        self.stored().fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes one more reference.
    fn hold(self) -> Object {
        // SAFETY: the message has a reference, which is of `Arc::into_raw`.
        unsafe {
            Arc::increment_strong_count(self.0);
            Arc::from_raw(self.0)
        }
    }
}

/// `struct baton_visitor`.
pub(super) struct CVisitor<'f>(&'f mut dyn FnMut(Reference));

impl<'f> CVisitor<'f> {
    pub(super) fn new(visit: &'f mut dyn FnMut(Reference)) -> CVisitor<'f> {
        CVisitor(visit)
    }

    pub(super) fn visit(&mut self, reference: Reference) {
        (self.0)(reference);
    }
}

fn address(object: &Object) -> usize {
    Arc::as_ptr(object).cast::<()>() as usize
}

/// Gives a reference back, and frees cycles that nobody refers to any more.
pub(super) fn release(object: Arc<impl Container + 'static>) {
    let stored = object.stored().0.load(Ordering::Relaxed);
    if stored > 0 && Arc::strong_count(&object) - 1 <= stored {
        collect(object);
    }
}

thread_local! {
    /// Whether the thread is collecting: what it frees gives references back.
    static COLLECTS: Cell<bool> = const { Cell::new(false) };
}

#[cold]
fn collect(first: Object) {
    if COLLECTS.replace(true) {
        return;
    }
    let mut all = vec![first];
    for _ in 0..ATTEMPTS {
        if find_reachable(&mut all)
            && let Some(dead) = take_dead(&all)
        {
            drop(dead);
            break;
        }
        all.truncate(1);
        std::thread::yield_now();
    }
    drop(all);
    COLLECTS.set(false);
}

/// Adds all objects that can be reached from the first one. Returns false if another thread uses
/// one of them, or if they are too many.
fn find_reachable(all: &mut Vec<Object>) -> bool {
    let mut known: HashSet<usize> = all.iter().map(address).collect();
    let mut next = 0;
    while let Some(object) = all.get(next) {
        let mut found = Vec::new();
        let Some(held) = object.try_hold() else {
            return false;
        };
        held.each_reference(&mut |reference| {
            if known.insert(reference.address()) {
                found.push(reference.hold());
            }
        });
        drop(held);
        all.append(&mut found);
        next += 1;
        if all.len() > MOST_OBJECTS {
            return false;
        }
    }
    true
}

/// Takes the messages out of all objects that only these objects refer to. `None`: another thread
/// has used one of them. `all` has one reference to each.
fn take_dead(all: &[Object]) -> Option<Vec<Box<dyn Any>>> {
    let held = all.iter().map(|object| object.try_hold());
    let mut held: Vec<Box<dyn Held + '_>> = held.collect::<Option<_>>()?;
    let numbers: HashMap<usize, usize> = (0..)
        .zip(all)
        .map(|(number, object)| (address(object), number))
        .collect();
    let mut from_inside = vec![0; all.len()];
    let mut refers_to = vec![Vec::new(); all.len()];
    let mut is_changed = false;
    for (held, refers_to) in held.iter().zip(&mut refers_to) {
        held.each_reference(&mut |reference| match numbers.get(&reference.address()) {
            Some(&number) => {
                from_inside[number] += 1;
                refers_to.push(number);
            }
            None => is_changed = true,
        });
    }
    if is_changed {
        return None;
    }
    let has_others = |number: &usize| Arc::strong_count(&all[*number]) > from_inside[*number] + 1;
    let mut alive: Vec<usize> = (0..all.len()).filter(has_others).collect();
    let mut is_alive = vec![false; all.len()];
    while let Some(number) = alive.pop() {
        if !std::mem::replace(&mut is_alive[number], true) {
            alive.append(&mut refers_to[number]);
        }
    }
    let dead = held
        .iter_mut()
        .zip(is_alive)
        .filter(|(_, is_alive)| !is_alive);
    Some(dead.map(|(held, _)| held.take_all()).collect())
}
