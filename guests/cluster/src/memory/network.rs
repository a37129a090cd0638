//! What chance decides between a client and the server.

/// The faults of a network. Times are in nanoseconds, chances from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// How long something is on its way in one direction at most.
    pub delay: u64,
    /// The chance that something is lost.
    pub loss: f64,
    /// The chance that a message comes twice.
    pub duplication: f64,
    /// Once in so long the network is cut; 0: never.
    pub every: u64,
    /// For how long it is cut.
    pub lasts: u64,
}

impl Faults {
    /// A network without faults.
    pub const fn none() -> Faults {
        Faults {
            delay: 1_000_000,
            loss: 0.0,
            duplication: 0.0,
            every: 0,
            lasts: 0,
        }
    }
}

/// One client's network.
#[derive(Debug)]
pub(super) struct Network {
    faults: Faults,
    seed: u64,
    drawn: u64,
    /// When the last thing arrives, in each direction: what is sent later arrives later.
    latest: [u64; 2],
}

/// A direction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    ToServer,
    ToClient,
}

impl Network {
    pub(super) fn new(faults: Faults, seed: u64) -> Network {
        Network {
            faults,
            seed,
            drawn: 0,
            latest: [0; 2],
        }
    }

    /// When something arrives that is sent now.
    pub(super) fn arrival(&mut self, way: Way, now: u64) -> u64 {
        let delay = (self.chance() * self.faults.delay as f64) as u64;
        let latest = &mut self.latest[way as usize];
        *latest = (now + delay).max(*latest);
        *latest
    }

    pub(super) fn loses(&mut self) -> bool {
        self.chance() < self.faults.loss
    }

    pub(super) fn duplicates(&mut self) -> bool {
        self.chance() < self.faults.duplication
    }

    /// The end of the cut in which a time is.
    pub(super) fn cut_until(&self, time: u64) -> Option<u64> {
        let every = self.faults.every;
        let period = time.checked_div(every)?;
        let lasts = self.faults.lasts.min(every);
        // One cut in each period, at a place of its own.
        let room = every - lasts;
        let begin = period * every + (fraction(mix(self.seed ^ mix(period))) * room as f64) as u64;
        (begin..begin + lasts)
            .contains(&time)
            .then_some(begin + lasts)
    }

    fn chance(&mut self) -> f64 {
        self.drawn += 1;
        fraction(mix(self.seed.wrapping_add(mix(self.drawn))))
    }
}

/// SplitMix64's finalizer (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014).
pub(super) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number from 0 to 1, without 1.
fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
