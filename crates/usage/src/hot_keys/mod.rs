//! Hot keys: the keys that most reads and writes of this node concern, by bucket, from a sample of
//! the requests.
//!
//! One request of [`INTERVAL`] is sampled, at random distances. A counter of the thread keeps them:
//! the other requests cost its decrement. A sample is counted in the sketch of its bucket
//! (`space_saving.rs`). Its weight grows with time instead of all others' shrinking (Cormode,
//! Shkapenyuk, Srivastava, Xu: Forward Decay, ICDE 2009): it halves every [`HALF_LIFE_MS`].
//!
//! Promises: a key with more than a 64th of a busy bucket's sampled reads, or writes, is listed;
//! memory is bounded, whatever clients send.
//! Never: puts a key into the log, a metric or an alarm.

mod space_saving;

#[cfg(test)]
mod tests;

use crate::call_key::call_key;
use base::{AvailableCall, BucketName, Call, Request, Update};
use bytes::Bytes;
use runtime::world;
use space_saving::SpaceSaving;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Mean distance of the sampled requests.
const INTERVAL: u32 = 64;
/// Time after which a sample counts half: what is a minute old counts an eighth.
const HALF_LIFE_MS: u64 = 20_000;
/// Number of buckets with a sketch.
const BUCKETS_MAX: usize = 64;
/// Least weight of samples of a bucket, as if of now, from which on its keys are listed: about a
/// thousand requests of the last half minute. Shares of fewer say little.
const LISTED_WEIGHT_MIN: f64 = 16.0;
/// Half-lives after which all weights are made small again, long before a number is too large.
const RESCALE_HALF_LIVES: u64 = 64;
/// Part of all reads, or writes, of the node above which one key concentrates them.
const CONCENTRATED_SHARE: f64 = 0.5;
/// Requests a second below which that is not worth a word.
const CONCENTRATED_RATE_MIN: f64 = 1_000.0;

/// Kind of access to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyAccess {
    /// The key is read.
    Read,
    /// The key may be changed.
    Write,
}

impl KeyAccess {
    /// Returns the name in answers.
    pub fn name(self) -> &'static str {
        match self {
            KeyAccess::Read => "reads",
            KeyAccess::Write => "writes",
        }
    }

    fn of_call(call: &Call) -> KeyAccess {
        match call {
            Call::Read(..)
            | Call::Update(Update::Read(_))
            | Call::Available(
                AvailableCall::Fetch { .. }
                | AvailableCall::FetchType { .. }
                | AvailableCall::Owners { .. },
            ) => KeyAccess::Read,
            _ => KeyAccess::Write,
        }
    }
}

/// Key that many requests concern.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// Bucket of the key.
    pub bucket: BucketName,
    /// Kind of access.
    pub access: KeyAccess,
    /// Digest of the key, as the slow log has it.
    pub key_digest: u64,
    /// Beginning of the key, at most 128 bytes. `None`: hidden from who may not read it.
    pub key_begin: Option<Bytes>,
    /// Length of the key in bytes.
    pub key_bytes: usize,
    /// Share of the key in all accesses of this kind to the bucket, from 0 to 1.
    pub share: f64,
    /// Estimated accesses a second, over the last half minute.
    pub per_second: f64,
}

/// Key that takes most reads, or writes, of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct ConcentratedAccess {
    /// Bucket of the key.
    pub bucket: BucketName,
    /// Kind of access.
    pub access: KeyAccess,
    /// Least share of the key in all accesses of this kind to the node, from 0 to 1.
    pub share: f64,
    /// Estimated accesses a second, over the last half minute.
    pub per_second: f64,
}

/// See the head of this file.
pub struct HotKeys {
    is_on: bool,
    sketches: Mutex<Sketches>,
}

/// Sketches of the buckets that were sampled most.
#[derive(Default)]
struct Sketches {
    /// Time at which a sample had the weight 1, in milliseconds.
    begin_ms: u64,
    buckets: BTreeMap<BucketName, BucketSketch>,
}

#[derive(Default)]
struct BucketSketch {
    reads: SpaceSaving,
    writes: SpaceSaving,
    /// Weight of the buckets that had this place before: SpaceSaving among the buckets.
    inherited: f64,
}

impl BucketSketch {
    fn rank(&self) -> f64 {
        self.inherited + self.reads.total() + self.writes.total()
    }

    fn by_access(&self) -> [(KeyAccess, &SpaceSaving); 2] {
        [(KeyAccess::Read, &self.reads), (KeyAccess::Write, &self.writes)]
    }

    fn scale(&mut self, factor: f64) {
        self.reads.scale(factor);
        self.writes.scale(factor);
        self.inherited *= factor;
    }
}

/// Distance to a thread's next sample, and the state of the generator of distances. It need not be
/// unguessable: a client that evades the sketch hides its own load alone.
#[derive(Clone, Copy)]
struct Sampler {
    left: u32,
    random: u64,
}

thread_local! {
    static SAMPLER: Cell<Sampler> =
        const { Cell::new(Sampler { left: INTERVAL, random: 0x9e37_79b9_7f4a_7c15 }) };
}

/// Passes over this many requests of this thread. Returns the position of the next sample among
/// them. `None`: it is none of them.
#[inline]
fn next_sample(requests: u32) -> Option<u32> {
    let sampler = SAMPLER.get();
    if sampler.left > requests {
        SAMPLER.set(Sampler { left: sampler.left - requests, ..sampler });
        return None;
    }
    Some(begin_distance(sampler))
}

#[cold]
fn begin_distance(Sampler { left, mut random }: Sampler) -> u32 {
    // Xorshift (Marsaglia, 2003). A fixed distance could meet one key of a loop always, or never.
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    let distance = 1 + (random >> 32) as u32 % (2 * INTERVAL - 1);
    SAMPLER.set(Sampler { left: distance, random });
    left - 1
}

impl HotKeys {
    /// Returns empty sketches. `is_on`: requests are sampled.
    pub fn new(is_on: bool) -> HotKeys {
        HotKeys { is_on, sketches: Mutex::default() }
    }

    /// Counts a request, if it is sampled and concerns a key.
    #[inline]
    pub fn count(&self, request: &Request) {
        if self.is_on && next_sample(1).is_some() {
            self.count_call(&request.bucket, &request.call);
        }
    }

    /// Counts requests about these keys, as far as they are sampled.
    #[inline]
    pub fn count_run<'k>(
        &self,
        bucket: &BucketName,
        access: KeyAccess,
        mut keys: impl ExactSizeIterator<Item = &'k [u8]>,
    ) {
        while self.is_on
            && let Some(position) = next_sample(keys.len() as u32)
        {
            let Some(key) = keys.nth(position as usize) else { return };
            self.count_sample(bucket, access, key);
        }
    }

    #[cold]
    fn count_call(&self, bucket: &BucketName, call: &Call) {
        if let Some(key) = call_key(call) {
            self.count_sample(bucket, KeyAccess::of_call(call), key);
        }
    }

    #[cold]
    fn count_sample(&self, bucket: &BucketName, access: KeyAccess, key: &[u8]) {
        let now_ms = world::milliseconds();
        self.lock().add(bucket, access, key, now_ms);
    }

    /// Returns the keys with more than a 64th of the accesses to their buckets, those with the most
    /// accesses first. None of buckets with few requests.
    pub fn list(&self) -> Vec<HotKey> {
        let now_ms = world::milliseconds();
        let sketches = self.lock();
        let unit = sketches.weight(now_ms);
        let mut keys = Vec::new();
        for (bucket, sketch) in &sketches.buckets {
            for (access, sketch) in sketch.by_access() {
                if sketch.total() < LISTED_WEIGHT_MIN * unit {
                    continue;
                }
                keys.extend(sketch.frequent().map(|counter| HotKey {
                    bucket: bucket.clone(),
                    access,
                    key_digest: counter.fingerprint.digest(bucket.full()),
                    key_begin: Some(counter.key_begin.clone()),
                    key_bytes: counter.key_bytes,
                    share: counter.count / sketch.total(),
                    per_second: per_second(counter.count / unit),
                }));
            }
        }
        drop(sketches);
        keys.sort_by(|one, two| two.per_second.total_cmp(&one.per_second));
        keys
    }

    /// Returns the keys that surely take more than half of all reads, or writes, of this node, if
    /// these are many.
    pub fn concentrated(&self) -> Vec<ConcentratedAccess> {
        let now_ms = world::milliseconds();
        let sketches = self.lock();
        let unit = sketches.weight(now_ms);
        let mut totals = BTreeMap::new();
        for (access, sketch) in sketches.buckets.values().flat_map(BucketSketch::by_access) {
            *totals.entry(access).or_insert(0.0) += sketch.total();
        }
        let mut found = Vec::new();
        for (bucket, sketch) in &sketches.buckets {
            for (access, sketch) in sketch.by_access() {
                let total = totals.get(&access).copied().unwrap_or_default();
                found.extend(sketch.frequent().filter_map(|counter| {
                    let count = counter.count - counter.error;
                    let (share, per_second) = (count / total, per_second(count / unit));
                    let is_hot = share > CONCENTRATED_SHARE && per_second >= CONCENTRATED_RATE_MIN;
                    is_hot.then(|| ConcentratedAccess {
                        bucket: bucket.clone(),
                        access,
                        share,
                        per_second,
                    })
                }));
            }
        }
        found
    }

    fn lock(&self) -> MutexGuard<'_, Sketches> {
        self.sketches.lock().expect("no one panics while holding it")
    }
}

impl Sketches {
    fn add(&mut self, bucket: &BucketName, access: KeyAccess, key: &[u8], now_ms: u64) {
        if now_ms.saturating_sub(self.begin_ms) >= RESCALE_HALF_LIVES * HALF_LIFE_MS {
            let factor = 1.0 / self.weight(now_ms);
            self.buckets.values_mut().for_each(|sketch| sketch.scale(factor));
            self.begin_ms = now_ms;
        }
        let weight = self.weight(now_ms);
        let sketch = self.place(bucket);
        match access {
            KeyAccess::Read => sketch.reads.add(key, weight),
            KeyAccess::Write => sketch.writes.add(key, weight),
        }
    }

    /// Returns the sketch of a bucket. A new one takes the place of the least.
    fn place(&mut self, bucket: &BucketName) -> &mut BucketSketch {
        let mut inherited = 0.0;
        if !self.buckets.contains_key(bucket) && self.buckets.len() >= BUCKETS_MAX {
            let ranks = self.buckets.iter().map(|(name, sketch)| (sketch.rank(), name));
            let least = ranks.min_by(|one, two| one.0.total_cmp(&two.0));
            if let Some((rank, name)) = least.map(|(rank, name)| (rank, name.clone())) {
                inherited = rank;
                self.buckets.remove(&name);
            }
        }
        let new = || BucketSketch { inherited, ..BucketSketch::default() };
        self.buckets.entry(bucket.clone()).or_insert_with(new)
    }

    /// Returns the weight of a sample of this time.
    fn weight(&self, now_ms: u64) -> f64 {
        let elapsed_ms = now_ms.saturating_sub(self.begin_ms);
        (elapsed_ms as f64 / HALF_LIFE_MS as f64).exp2()
    }
}

/// Returns the requests a second of which there are samples of this weight, if their rate is
/// constant.
fn per_second(samples: f64) -> f64 {
    // Of samples at a constant rate those of the last `HALF_LIFE_MS / ln 2` would weigh as much, if
    // none decayed.
    samples * f64::from(INTERVAL) * std::f64::consts::LN_2 * 1_000.0 / HALF_LIFE_MS as f64
}
