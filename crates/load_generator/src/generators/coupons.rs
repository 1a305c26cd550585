//! Coupons: the JSON documents of an experiment with secondary indexes.
//!
//! The experiment was published for CouchDB and Riak: 100,000 documents, of which 4,992 have a
//! `redeemed_count` below 50. A *round* gives every document another count, by a permutation, so
//! that after each round the same number of documents is below 50.

use std::fmt::Write;

/// Member of a document by which documents are found.
pub const COUNT_MEMBER: &str = "redeemed_count";
/// Bound of the published query: it selects the counts below.
pub const LOW_COUNTS: u32 = 50;
/// Number of different counts.
pub const COUNTS: u32 = 1_000;
/// Largest number of documents of a set; a sorted set takes 8 bytes for each.
pub const DOCUMENTS_MAX: u32 = 1_000_000;
/// Largest length of a document, bytes.
pub const DOCUMENT_BYTES_MAX: usize = 512;
/// Number of selected documents, of how many, as published.
const PUBLISHED_SHARE: (u64, u64) = (4_992, 100_000);
/// Distance of the ranks of a document in two rounds. It is no multiple of 50 or 950, so that
/// counts change.
const ROUND_SHIFT: u64 = 7_919;

/// Set of coupons, numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CouponSet {
    documents: u32,
    /// Distance of the ranks of two documents with successive numbers; coprime to their number, so
    /// that ranks are a permutation.
    step: u64,
}

impl CouponSet {
    /// Returns a set of so many documents, 1 to [`DOCUMENTS_MAX`].
    pub fn new(documents: u32) -> CouponSet {
        let documents = documents.clamp(1, DOCUMENTS_MAX);
        let count = u64::from(documents);
        let mut step = count * 618 / 1_000 + 1;
        while greatest_common_divisor(step, count) != 1 {
            step += 1;
        }
        CouponSet { documents, step }
    }

    /// Returns the number of documents.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    /// Returns the number of documents with a count below [`LOW_COUNTS`], the same in all rounds.
    pub fn selected(&self) -> u32 {
        let (selected, of) = PUBLISHED_SHARE;
        (u64::from(self.documents) * selected / of).max(1) as u32
    }

    /// Returns the `redeemed_count` of a document after a round; round 0 is the load.
    pub fn count(&self, number: u32, round: u32) -> u32 {
        let shift = u64::from(round) * ROUND_SHIFT;
        let rank = (u64::from(number) * self.step + shift) % u64::from(self.documents);
        let (rank, selected) = (rank as u32, self.selected());
        match rank.checked_sub(selected) {
            None => rank % LOW_COUNTS,
            Some(rank) => LOW_COUNTS + rank % (COUNTS - LOW_COUNTS),
        }
    }

    /// Appends a document as it is after a round.
    pub fn write(&self, number: u32, round: u32, out: &mut Vec<u8>) {
        write_coupon(number, self.count(number, round), out);
    }

    /// Returns counts and numbers of all documents after a round, in the order of an index: by
    /// count, then by key.
    pub fn sorted(&self, round: u32) -> Vec<(u32, u32)> {
        let pairs = (0..self.documents).map(|number| (self.count(number, round), number));
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        pairs
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Appends the key of a coupon: 20 bytes, in the order of the numbers.
pub fn write_coupon_key(number: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("coupon:{number:013}").as_bytes());
}

/// Appends a coupon with this number and `redeemed_count`: a JSON document of about 300 bytes, at
/// most [`DOCUMENT_BYTES_MAX`].
pub fn write_coupon(number: u32, count: u32, out: &mut Vec<u8>) {
    let (campaign, partner, discount) = (number % 97, number % 1_013, 5 + number % 40);
    let mut text = String::with_capacity(DOCUMENT_BYTES_MAX);
    // A write into a `String` can't fail.
    let _ = write!(
        text,
        "{{\"type\":\"coupon\",\"code\":\"CP-{number:010}\",\"campaign\":\"campaign-{campaign}\",\
         \"partner\":\"partner-{partner}\",\"title\":\"{discount} percent off your next order\",\
         \"discount_percent\":{discount},\"currency\":\"EUR\",\"minimum_cents\":2500,\
         \"valid_from\":\"2012-03-01\",\"valid_until\":\"2012-08-31\",\"max_redemptions\":{COUNTS},\
         \"{COUNT_MEMBER}\":{count},\"active\":true}}"
    );
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_round_selects_the_published_number_and_changes_nearly_every_count() {
        for (documents, selected) in [(100_000, 4_992), (2_000, 99), (1_013, 50), (7, 1), (1, 1)] {
            let set = CouponSet::new(documents);
            assert_eq!(set.selected(), selected);
            for round in [0, 1, 2, 50] {
                let sorted = set.sorted(round);
                let below = sorted.iter().filter(|(count, _)| *count < LOW_COUNTS).count();
                assert_eq!(below, selected as usize, "{documents} documents, round {round}");
                let numbers: BTreeSet<_> = sorted.iter().map(|(_, number)| *number).collect();
                assert_eq!(numbers.len(), documents as usize);
                assert!(sorted.iter().all(|(count, _)| *count < COUNTS));
            }
        }
        let set = CouponSet::new(100_000);
        let moved = (0..100_000).filter(|number| set.count(*number, 0) != set.count(*number, 1));
        assert!(moved.count() > 99_000);
    }

    #[test]
    fn coupon_is_json_with_its_count_and_keys_order_as_numbers() {
        let set = CouponSet::new(DOCUMENTS_MAX);
        let mut keys = Vec::new();
        for number in [0, 9, 10, 999_999] {
            let (mut document, mut key) = (Vec::new(), Vec::new());
            set.write(number, 3, &mut document);
            write_coupon_key(number, &mut key);
            assert!(document.len() <= DOCUMENT_BYTES_MAX);
            let parsed: serde_json::Value = serde_json::from_slice(&document).expect("JSON");
            assert_eq!(parsed[COUNT_MEMBER], set.count(number, 3));
            assert_eq!(key.len(), 20);
            keys.push(key);
        }
        assert!(keys.is_sorted());
    }
}
