//! Samples of what Lua allocates: about one in [`MEAN`] bytes, in the process that allocates.
//!
//! The bytes that Lua allocates are one long row. In it are points at random distances, from a half
//! to three halves of [`MEAN`]. An allocation that contains a point is sampled, with the bytes from
//! the point before to this one. So the samples of a line have as many bytes in the mean as it has
//! allocated, however large its pieces are.
//!
//! While nobody wants samples, Lua's usual allocator counts nothing. `c/state/memory.c` says
//! how the allocators are exchanged, and where a stack is walked.
//!
//! What is sampled is merged by place under a mutex, which is held for microseconds. A profile
//! takes it a few times a second. The mutex orders all that the allocating threads and the profiles
//! share.

use super::packed::PackedFrames;
use super::random::Random;
use super::{MOST_FRAMES, PATIENCE, Place, Seen};
use crate::inside::stacks;
use baton_core::vm::{NoLook, View, Vm};
use baton_sys::forking::ForkMutex;
use baton_sys::reserve;
use std::ffi::{c_int, c_void};

unsafe extern "C" {
    fn baton_lua_sample_allocations(process: *mut c_void, until: u64) -> c_int;
}

/// The mean distance of two samples, in bytes.
pub(super) const MEAN: u32 = 512 << 10;

/// The most places that wait to be taken by one profile. Others count as one without frames.
const MOST_PLACES: usize = 16_384;

/// The points of a row of bytes.
struct Points {
    /// From the last point to the next one.
    distance: u64,
    /// From here to the next point.
    until: u64,
}

/// What allocating threads and profiles share.
struct Sampled {
    /// What each profile has not taken yet, by its number.
    profiles: Vec<(u64, Seen)>,
    /// How many profiles there were so far.
    begun: u64,
    random: Random,
    /// The distance of the present points inside the VM. The C half counts the bytes to the next.
    distance: u64,
    /// What is allocated outside of the VM.
    outside: Points,
}

static SAMPLED: ForkMutex<Sampled> = ForkMutex::new(Sampled::new());

impl Sampled {
    const fn new() -> Sampled {
        Sampled {
            profiles: Vec::new(),
            begun: 0,
            random: Random::fixed(),
            distance: 0,
            outside: Points {
                distance: 0,
                until: 0,
            },
        }
    }

    /// Passes points, from one that is at `distance` from the point before. The row ends `over`
    /// bytes after it. Returns the bytes of all the points, and what is left to the next one.
    fn pass(&mut self, mut distance: u64, mut over: u64) -> (u64, Points) {
        let mut bytes = distance;
        loop {
            distance = self.random.around_number(MEAN);
            if over < distance {
                let until = distance - over;
                return (bytes, Points { distance, until });
            }
            over -= distance;
            bytes += distance;
        }
    }

    /// Adds `bytes` for an allocation of `size` bytes in a process. They stand for as many
    /// allocations of this size as they are.
    fn add(&mut self, process: *const c_void, bytes: u64, size: u64) {
        // Samples take no memory that Lua would be refused.
        if reserve::is_short() && !reserve::replenish() {
            return;
        }
        let place = place(process);
        for (_, seen) in &mut self.profiles {
            let is_known = seen.len() < MOST_PLACES || seen.contains_key(&place);
            let place = if is_known {
                place.clone()
            } else {
                Place::default()
            };
            let (sum, count) = seen.entry(place).or_default();
            *sum += bytes;
            *count += ((bytes + size / 2) / size).max(1);
        }
    }
}

/// Where the calling thread's process is. Null: in no process.
fn place(process: *const c_void) -> Place {
    if process.is_null() {
        return Place::default();
    }
    let record = process as usize;
    Place {
        id: stacks::number(record),
        process: stacks::title(record),
        context: stacks::context(record),
        frames: PackedFrames::of_record(record, MOST_FRAMES),
        ..Place::default()
    }
}

/// A profile of allocations. Dropped, it wants no more samples.
pub(super) struct AllocationProfile(u64);

impl AllocationProfile {
    /// Lets samples be taken.
    pub(super) fn begin(vm: &Vm) -> Result<AllocationProfile, String> {
        let profile = {
            let mut sampled = SAMPLED.lock();
            sampled.begun += 1;
            let number = sampled.begun;
            sampled.profiles.push((number, Seen::new()));
            AllocationProfile(number)
        };
        match vm.look(PATIENCE, |view| start(view)) {
            Ok(true) => Ok(profile),
            Ok(false) => Err(
                "a module of the program has set an allocator of its own, so allocations cannot \
                 be sampled"
                    .to_owned(),
            ),
            Err(NoLook::Ended) => Err("the program is ending".to_owned()),
            Err(NoLook::KeptInside) => Err(format!(
                "a process keeps the VM inside for more than {} s; try again",
                PATIENCE.as_secs()
            )),
        }
    }

    /// What was sampled since the last time.
    pub(super) fn take(&self) -> Seen {
        let mut sampled = SAMPLED.lock();
        let own = sampled.profiles.iter_mut().find(|(n, _)| *n == self.0);
        own.map(|(_, seen)| std::mem::take(seen))
            .unwrap_or_default()
    }
}

impl Drop for AllocationProfile {
    fn drop(&mut self) {
        let mut sampled = SAMPLED.lock();
        sampled.profiles.retain(|(number, _)| *number != self.0);
    }
}

/// Exchanges Lua's allocator. Returns whether samples are taken now.
fn start(view: &View<'_>) -> bool {
    let sched = view.sched();
    let any = sched.iter().next();
    let Some(record) = any.and_then(|process| sched.user_data(process)) else {
        return false;
    };
    let record = record as *mut c_void;
    let mut sampled = SAMPLED.lock();
    let first = sampled.random.around_number(MEAN);
    // SAFETY: the record of a process of the scheduler; no process runs during the view.
    let started = unsafe { baton_lua_sample_allocations(record, first) };
    if started == 1 {
        sampled.distance = first;
        sampled.outside = Points {
            distance: first,
            until: first,
        };
    }
    started != 0
}

/// Forgets the profiles of threads that are gone.
///
/// # Safety
/// The caller is the only thread, in a fork's child, and is not in an allocation of Lua's.
pub(in crate::inside) unsafe fn renew_in_child() {
    // SAFETY: the caller's conditions. Only this file locks the mutex, and not around a fork.
    unsafe { SAMPLED.renew(Sampled::new()) };
}

/// See `c/state/memory.c`.
///
/// # Safety
/// `process` is the record of the calling thread's process, or null, and its frames can be walked.
// SAFETY: the only definition of this symbol, with the signature of `c/state/memory.c`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_sample_allocation(process: *const c_void, size: u64, over: u64) -> u64 {
    let mut sampled = SAMPLED.lock();
    if sampled.profiles.is_empty() {
        return 0;
    }
    let distance = sampled.distance;
    let (bytes, next) = sampled.pass(distance, over);
    sampled.distance = next.distance;
    sampled.add(process, bytes, size);
    next.until
}

/// See `c/state/memory.c`.
///
/// # Safety
/// As of [`baton_sample_allocation`].
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_count_outside(process: *const c_void, size: u64) {
    let mut sampled = SAMPLED.lock();
    if sampled.profiles.is_empty() {
        return;
    }
    if let Some(left) = sampled
        .outside
        .until
        .checked_sub(size)
        .filter(|&left| left > 0)
    {
        sampled.outside.until = left;
        return;
    }
    let over = size - sampled.outside.until;
    let distance = sampled.outside.distance;
    let (bytes, next) = sampled.pass(distance, over);
    sampled.outside = next;
    sampled.add(process, bytes, size);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_passed_in_proportion_to_the_bytes() {
        let mut sampled = Sampled::new();
        let mut row = Points {
            distance: 100,
            until: 100,
        };
        let (mut small, mut large) = (0, 0);
        // A piece of 1,000 bytes and one of 3 MiB, in turn.
        for _ in 0..4_000 {
            for (size, sum) in [(1_000, &mut small), (3 << 20, &mut large)] {
                if size < row.until {
                    row.until -= size;
                    continue;
                }
                let (bytes, next) = sampled.pass(row.distance, size - row.until);
                *sum += bytes;
                row = next;
            }
        }
        let large_was = 4_000.0 * f64::from(3 << 20);
        assert!((large as f64 / large_was - 1.0).abs() < 0.001, "{large}");
        let small_was = 4_000.0 * 1_000.0;
        // About eight points fall into the small ones.
        assert!((small as f64) < 4.0 * small_was, "{small}");
    }
}
