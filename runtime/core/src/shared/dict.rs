//! A dictionary that several VMs share: bounded by bytes, with times to live.
//!
//! Its entries are in shards by the hash of the key, each under a mutex of its own, so that VMs
//! rarely wait for each other. The bytes in use are one count for all shards. An entry takes the
//! bytes of its key and value, and [`OVERHEAD`] for the map's and the allocator's part.
//!
//! **The bound holds.** Bytes are reserved in the count before an entry is put in, and only as far
//! as the limit allows. So the sum of all entries is never more than the limit. Who finds no room
//! first removes entries whose time is over. In a dictionary that evicts, it then removes the least
//! recently used entry of all shards, until there is room. Then it tries again. It holds one mutex
//! at a time, so another VM may take the room that it has made; then it makes more.
//!
//! Values that were removed are dropped after the mutex was released.

use baton_sys::clock::Instant;
use baton_sys::shared_mutex::{MutexGuard, Shared, SharedMutex};
use lru::{DefaultHasher, LruCache};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a dictionary stores. A clone is another reference to the same value.
pub trait Value: Clone + Send + 'static {
    /// Its size in bytes.
    fn size(&self) -> u64;
}

/// The bytes that an entry takes beside its key and its value.
pub const OVERHEAD: u64 = 160;

const SHARDS: usize = 16;

/// What happens when there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenFull {
    /// The operation is refused.
    Refuse,
    /// The least recently used entries are removed.
    Evict,
}

/// The result of an operation that stores a value.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// The value is there.
    Done,
    /// There is no room.
    Full,
    /// There never can be room: the entry alone exceeds the limit.
    TooLarge,
    /// The operation did not want to store it.
    NotWanted,
}

#[derive(Debug)]
struct DictEntry<V> {
    value: V,
    size: u64,
    /// In nanoseconds. `u64::MAX`: never.
    expires_at: u64,
    used_at: u64,
}

#[derive(Debug)]
struct Shard<V> {
    entries: LruCache<Box<[u8]>, DictEntry<V>, DefaultHasher>,
    /// No entry expires before.
    first_expiry: u64,
}

impl<V: Value> Shared for Shard<V> {
    fn in_child(&mut self) {}
}

/// What to do with the entry of a key.
pub enum Change<V> {
    /// Leave it.
    Keep,
    /// Remove it.
    Remove,
    /// Store this value, until this time in nanoseconds. `None`: the entry's present end, or none.
    Store(V, Option<u64>),
}

/// A dictionary.
pub struct Dict<V> {
    shards: Vec<Arc<SharedMutex<Shard<V>>>>,
    hasher: DefaultHasher,
    when_full: WhenFull,
    limit: u64,
    /// Reserved for entries; at most `limit`.
    used: AtomicU64,
}

impl<V> std::fmt::Debug for Dict<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dict")
            .field("limit", &self.limit)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

/// The values of a dictionary that nobody else uses meanwhile.
#[derive(Debug)]
pub struct HeldValues<'d, V> {
    dict: &'d Dict<V>,
    shards: Vec<MutexGuard<'d, Shard<V>>>,
}

impl<V: Value> HeldValues<'_, V> {
    /// All of them, expired ones included.
    pub fn iter(&self) -> impl Iterator<Item = &V> {
        let entries = self.shards.iter().flat_map(|shard| shard.entries.iter());
        entries.map(|(_, entry)| &entry.value)
    }

    /// Takes all of them out.
    pub fn take_all(&mut self) -> Vec<V> {
        let mut values = Vec::new();
        for shard in &mut self.shards {
            while let Some((_, entry)) = shard.entries.pop_lru() {
                self.dict.give_back(entry.size);
                values.push(entry.value);
            }
        }
        values
    }
}

fn now() -> u64 {
    Instant::now().as_nanos()
}

impl<V: Value> Dict<V> {
    /// An empty dictionary for at most `limit` bytes.
    ///
    /// ```
    /// use baton_core::shared::dict::{Change, Dict, Stored, Value, WhenFull};
    ///
    /// #[derive(Clone, Debug, PartialEq)]
    /// struct Text(String);
    /// impl Value for Text {
    ///     fn size(&self) -> u64 {
    ///         self.0.len() as u64
    ///     }
    /// }
    /// let dict = Dict::new(10_000, WhenFull::Refuse);
    /// let text = Text("a value".to_owned());
    /// let stored = dict.change(b"key", |_| Change::Store(text.clone(), None));
    /// assert_eq!(stored, Stored::Done);
    /// assert_eq!(dict.get(b"key"), Some(text));
    /// ```
    pub fn new(limit: u64, when_full: WhenFull) -> Dict<V> {
        let hasher = DefaultHasher::default();
        let new_shard = |_| {
            SharedMutex::new(Shard {
                entries: LruCache::unbounded_with_hasher(hasher.clone()),
                first_expiry: u64::MAX,
            })
        };
        Dict {
            shards: (0..SHARDS).map(new_shard).collect(),
            hasher: hasher.clone(),
            when_full,
            limit,
            used: AtomicU64::new(0),
        }
    }

    /// How many entries there are. Some may have expired.
    pub fn len(&self) -> usize {
        let lens = self.shards.iter().map(|shard| shard.lock().entries.len());
        lens.sum()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in use.
    pub fn used(&self) -> u64 {
        // Relaxed: a count for reading.
        self.used.load(Ordering::Relaxed)
    }

    fn shard_of(&self, key: &[u8]) -> usize {
        // The map uses the high and the low bits.
        (self.hasher.hash_one(key) >> 24) as usize % SHARDS
    }

    /// Reserves bytes, unless the limit is reached.
    fn reserve(&self, size: u64) -> bool {
        // Relaxed (both): the count orders nothing else.
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(size).filter(|&sum| sum <= self.limit)
            })
            .is_ok()
    }

    fn give_back(&self, size: u64) {
        // Relaxed: as above.
        self.used.fetch_sub(size, Ordering::Relaxed);
    }

    /// The value of a key, which is now the most recently used one.
    pub fn get(&self, key: &[u8]) -> Option<V> {
        let now = now();
        let mut shard = self.shards[self.shard_of(key)].lock();
        let entry = shard.entries.get_mut(key)?;
        if entry.expires_at > now {
            entry.used_at = now;
            return Some(entry.value.clone());
        }
        let expired = shard.entries.pop(key);
        drop(shard);
        self.give_back(expired.map_or(0, |entry| entry.size));
        None
    }

    /// Changes the entry of a key as `decide` says, which gets its present value. No other VM uses
    /// the key meanwhile. `decide` may be called several times, and must not use the dictionary.
    pub fn change(&self, key: &[u8], mut decide: impl FnMut(Option<&V>) -> Change<V>) -> Stored {
        loop {
            match self.try_change(key, &mut decide) {
                Stored::Full => {}
                stored => return stored,
            }
            if !self.make_room() {
                return Stored::Full;
            }
        }
    }

    /// As [`Dict::change`]; does nothing if there is no room.
    fn try_change(&self, key: &[u8], decide: &mut impl FnMut(Option<&V>) -> Change<V>) -> Stored {
        let now = now();
        let mut shard = self.shards[self.shard_of(key)].lock();
        let there_is = shard.entries.peek(key);
        let old_size = there_is.map_or(0, |entry| entry.size);
        let present = there_is.filter(|entry| entry.expires_at > now);
        let present_end = present.map_or(u64::MAX, |entry| entry.expires_at);
        match decide(present.map(|entry| &entry.value)) {
            Change::Keep => Stored::NotWanted,
            Change::Remove => {
                let removed = shard.entries.pop(key);
                drop(shard);
                self.give_back(removed.map_or(0, |entry| entry.size));
                Stored::Done
            }
            Change::Store(value, end) => {
                let size = OVERHEAD + key.len() as u64 + value.size();
                if size > self.limit {
                    return Stored::TooLarge;
                }
                if size > old_size && !self.reserve(size - old_size) {
                    return Stored::Full;
                }
                let expires_at = end.unwrap_or(present_end);
                shard.first_expiry = shard.first_expiry.min(expires_at);
                let entry = DictEntry {
                    value,
                    size,
                    expires_at,
                    used_at: now,
                };
                let old = match shard.entries.get_mut(key) {
                    Some(place) => Some(std::mem::replace(place, entry)),
                    None => {
                        shard.entries.put(key.into(), entry);
                        None
                    }
                };
                drop(shard);
                drop(old);
                self.give_back(old_size.saturating_sub(size));
                Stored::Done
            }
        }
    }

    /// Removes entries, so that there may be room. Returns whether it has removed any.
    fn make_room(&self) -> bool {
        let now = now();
        let expired: usize = self.shards.iter().map(|it| self.expire(it, now)).sum();
        expired > 0 || self.when_full == WhenFull::Evict && self.evict()
    }

    /// Removes the entries of a shard whose time is over. Returns how many.
    fn expire(&self, shard: &SharedMutex<Shard<V>>, now: u64) -> usize {
        let mut shard = shard.lock();
        if shard.first_expiry > now {
            return 0;
        }
        let is_over = |entry: &DictEntry<V>| entry.expires_at <= now;
        let over = shard.entries.iter().filter(|(_, entry)| is_over(entry));
        let keys: Vec<Box<[u8]>> = over.map(|(key, _)| key.clone()).collect();
        let expired: Vec<_> = keys
            .iter()
            .filter_map(|key| shard.entries.pop(key))
            .collect();
        let ends = shard.entries.iter().map(|(_, entry)| entry.expires_at);
        shard.first_expiry = ends.min().unwrap_or(u64::MAX);
        drop(shard);
        self.give_back(expired.iter().map(|entry| entry.size).sum());
        expired.len()
    }

    /// Removes the least recently used entry. Returns whether there was one.
    fn evict(&self) -> bool {
        let last_use = |shard: &Arc<SharedMutex<Shard<V>>>| {
            let shard = shard.lock();
            shard.entries.peek_lru().map(|(_, entry)| entry.used_at)
        };
        let oldest = self
            .shards
            .iter()
            .filter_map(|shard| Some((last_use(shard)?, shard)))
            .min_by_key(|&(used_at, _)| used_at);
        let Some((_, shard)) = oldest else {
            return false;
        };
        let evicted = shard.lock().entries.pop_lru();
        // If another VM has taken the last entry, it has made the room.
        self.give_back(evicted.map_or(0, |(_, entry)| entry.size));
        true
    }

    /// The values, unless another thread uses the dictionary. Nobody else uses it meanwhile.
    pub fn try_hold(&self) -> Option<HeldValues<'_, V>> {
        let shards = self.shards.iter().map(|shard| shard.try_lock());
        Some(HeldValues {
            dict: self,
            shards: shards.collect::<Option<_>>()?,
        })
    }

    /// The keys, at most `limit` of them, in no order.
    pub fn keys(&self, limit: usize) -> Vec<Box<[u8]>> {
        let now = now();
        let mut keys = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let living = shard.entries.iter().filter(|it| it.1.expires_at > now);
            keys.extend(living.take(limit - keys.len()).map(|(key, _)| key.clone()));
        }
        keys
    }
}
