//! Sketch of the most frequent keys of a stream, in bounded memory: SpaceSaving (Metwally, Agrawal,
//! El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams, ICDT 2005),
//! with weights.
//!
//! Promises: a key with more than a [`COUNTERS_MAX`]th of the weight has a counter; a count is too
//! high by at most its error, and never too low.

use crate::key_digest::KeyFingerprint;
use bytes::Bytes;

/// Number of keys with a counter.
pub(super) const COUNTERS_MAX: usize = 64;
/// Bytes that are kept of a key.
pub(super) const KEY_KEPT_BYTES_MAX: usize = 128;

/// Counter of one key.
#[derive(Clone, Debug)]
pub(super) struct KeyCounter {
    /// Fingerprint of the whole key.
    pub fingerprint: KeyFingerprint,
    /// Beginning of the key.
    pub key_begin: Bytes,
    /// Length of the key in bytes.
    pub key_bytes: usize,
    /// Weight of the key, or more.
    pub count: f64,
    /// Greatest possible excess of the count.
    pub error: f64,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct SpaceSaving {
    total: f64,
    counters: Vec<KeyCounter>,
}

impl SpaceSaving {
    /// Counts a key.
    pub(super) fn add(&mut self, key: &[u8], weight: f64) {
        self.total += weight;
        let (fingerprint, key_bytes) = (KeyFingerprint::of(key), key.len());
        let is_key = |known: &&mut KeyCounter| {
            known.fingerprint == fingerprint && known.key_bytes == key_bytes
        };
        if let Some(known) = self.counters.iter_mut().find(is_key) {
            known.count += weight;
            return;
        }
        let key_begin = Bytes::copy_from_slice(&key[..key_bytes.min(KEY_KEPT_BYTES_MAX)]);
        let new = KeyCounter { fingerprint, key_begin, key_bytes, count: weight, error: 0.0 };
        if self.counters.len() < COUNTERS_MAX {
            self.counters.push(new);
            return;
        }
        // The key that was counted least gives its counter, and its count, to the new one.
        let least = self.counters.iter_mut().min_by(|one, two| one.count.total_cmp(&two.count));
        if let Some(least) = least {
            let error = least.count;
            *least = KeyCounter { count: error + weight, error, ..new };
        }
    }

    /// Multiplies all weights.
    pub(super) fn scale(&mut self, factor: f64) {
        self.total *= factor;
        for counter in &mut self.counters {
            counter.count *= factor;
            counter.error *= factor;
        }
    }

    /// Returns the weight of all keys.
    pub(super) fn total(&self) -> f64 {
        self.total
    }

    /// Returns the counters of all keys that may have more than a [`COUNTERS_MAX`]th of the weight.
    pub(super) fn frequent(&self) -> impl Iterator<Item = &KeyCounter> {
        let count_min = self.total / COUNTERS_MAX as f64;
        self.counters.iter().filter(move |counter| counter.count > count_min)
    }

    /// Returns the number of counters.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.counters.len()
    }
}
