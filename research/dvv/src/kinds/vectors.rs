//! Version vectors of clients, as Riak had them before 1.0: one vector for all values of a key, an
//! entry for each client that wrote it, and pruning to limit its growth.
//!
//! Riak's behaviour is reproduced. A client counts on from the context it brings, so one that
//! writes without a context sends its count 1 again, and a replica that has seen it drops the write
//! as an old one. A vector is pruned where a client's write is stored, and not where replicas
//! repair each other.

use super::{CLIENT_ID_BYTES, ClockKind, DvvWriter, TERM_BYTES, Write};

/// An entry: a client, its count, and the time of its last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorEntry {
    client: u32,
    count: u32,
    at_ms: u64,
}

/// A vector, sorted by client.
type Vector = Vec<VectorEntry>;

/// Thresholds for dropping entries: Riak's properties of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruning {
    /// Vectors of at most this many entries are not pruned.
    pub small: usize,
    /// Vectors of more entries than this lose their oldest.
    pub big: usize,
    /// Entries younger than this stay, milliseconds.
    pub young_ms: u64,
    /// Entries older than this go, milliseconds.
    pub old_ms: u64,
}

impl Pruning {
    /// Riak's defaults.
    pub const RIAK: Pruning = Pruning { small: 50, big: 50, young_ms: 20_000, old_ms: 86_400_000 };
    /// No pruning: every entry stays.
    pub const NONE: Pruning =
        Pruning { small: usize::MAX, big: usize::MAX, young_ms: 0, old_ms: u64::MAX };
}

/// Version vectors as a kind of clock.
#[derive(Clone, Copy, Debug)]
pub struct Vectors {
    /// Thresholds for dropping entries.
    pub pruning: Pruning,
}

/// A key's vector with its values, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorRow {
    vector: Vector,
    values: Vec<Write>,
}

impl ClockKind for Vectors {
    const NAME: &'static str = "version vectors";
    const MINTED: bool = false;
    type Row = VectorRow;
    type Context = Vector;
    type Vnode = ();

    fn vnode(_node: usize, _partition: u32) {}

    fn write(
        &self,
        (): &mut (),
        local: &VectorRow,
        context: &Vector,
        write: Write,
        writer: DvvWriter,
    ) -> VectorRow {
        let mut vector = context.clone();
        match vector.binary_search_by_key(&writer.client, |entry| entry.client) {
            Ok(at) => {
                vector[at].count += 1;
                vector[at].at_ms = writer.now_ms;
            }
            Err(at) => {
                vector.insert(
                    at,
                    VectorEntry { client: writer.client, count: 1, at_ms: writer.now_ms },
                );
            }
        }
        // A vector without a new entry marks an old write.
        let mut row = if descends(&local.vector, &vector) {
            local.clone()
        } else {
            self.merge(local, &VectorRow { vector, values: vec![write] })
        };
        self.prune(&mut row.vector, writer.now_ms);
        row
    }

    fn merge(&self, one: &VectorRow, other: &VectorRow) -> VectorRow {
        match (descends(&one.vector, &other.vector), descends(&other.vector, &one.vector)) {
            (true, false) => one.clone(),
            (false, true) => other.clone(),
            _ => {
                let mut values = [&one.values[..], &other.values].concat();
                values.sort_unstable();
                values.dedup();
                VectorRow { vector: joined_vector(&one.vector, &other.vector), values }
            }
        }
    }

    fn context(row: &VectorRow) -> Vector {
        row.vector.clone()
    }

    fn values(row: &VectorRow) -> Vec<Write> {
        row.values.clone()
    }

    fn term_bytes(row: &VectorRow) -> usize {
        row.vector.len() * (TERM_BYTES + CLIENT_ID_BYTES)
    }

    fn coded_bytes(row: &VectorRow) -> usize {
        // Bytes: the client (4), the second of its last write (4), its count.
        let entry = |entry: &VectorEntry| 8 + base::varint::bytes(entry.count.into());
        row.vector.iter().map(entry).sum()
    }
}

impl Vectors {
    fn prune(&self, vector: &mut Vector, now_ms: u64) {
        let Pruning { small, big, young_ms, old_ms } = self.pruning;
        if vector.len() <= small {
            return;
        }
        let mut by_age: Vec<_> = vector.iter().map(|entry| (entry.at_ms, entry.client)).collect();
        by_age.sort_unstable();
        let mut dropped = 0;
        for (at_ms, _) in &by_age {
            let (length, age_ms) = (by_age.len() - dropped, now_ms.saturating_sub(*at_ms));
            if length <= small || age_ms < young_ms || (length <= big && age_ms <= old_ms) {
                break;
            }
            dropped += 1;
        }
        let dropped_entries = &by_age[..dropped];
        vector.retain(|entry| dropped_entries.binary_search(&(entry.at_ms, entry.client)).is_err());
    }
}

/// Returns true if every entry of the other is at most this one's.
fn descends(vector: &[VectorEntry], other: &[VectorEntry]) -> bool {
    if other.len() > vector.len() {
        return false;
    }
    let mut own = vector.iter();
    other.iter().all(|entry| {
        own.find(|own| own.client >= entry.client)
            .is_some_and(|own| own.client == entry.client && own.count >= entry.count)
    })
}

/// Joins two vectors: the larger of each entry; of equal counts the later.
fn joined_vector(one: &[VectorEntry], other: &[VectorEntry]) -> Vector {
    let mut all = Vec::with_capacity(one.len().max(other.len()));
    let mut theirs = other.iter().peekable();
    for entry in one {
        while let Some(earlier) = theirs.next_if(|their| their.client < entry.client) {
            all.push(*earlier);
        }
        let same = theirs.next_if(|their| their.client == entry.client).unwrap_or(entry);
        let key = |entry: &VectorEntry| (entry.count, entry.at_ms);
        all.push(if key(same) > key(entry) { *same } else { *entry });
    }
    all.extend(theirs);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use load_generator::generators::SeededRng;

    /// Draws a vector of up to four clients, each with a count from 0 to 3.
    fn vector(rng: &mut SeededRng) -> Vector {
        let counts = (0..4).map(|client| (client, rng.below(4) as u32));
        let entry = |(client, count)| VectorEntry { client, count, at_ms: 0 };
        counts.filter(|(_, count)| *count > 0).map(entry).collect()
    }

    #[test]
    fn vector_descent_is_partial_order() {
        let (mut rng, mut related) = (SeededRng::new(41, 0), 0);
        for _ in 0..100_000 {
            let [a, b, c] = [(); 3].map(|()| vector(&mut rng));
            assert!(descends(&a, &a) && descends(&a, &[]));
            assert_eq!(descends(&a, &b) && descends(&b, &a), a == b);
            if descends(&a, &b) && descends(&b, &c) {
                assert!(descends(&a, &c), "{a:?} {b:?} {c:?}");
                related += 1;
            }
        }
        assert!(related > 1_000, "{related}");
    }

    #[test]
    fn vector_join_is_least_upper_bound() {
        let (mut rng, mut bounds) = (SeededRng::new(42, 0), 0);
        for _ in 0..100_000 {
            let [a, b, c] = [(); 3].map(|()| vector(&mut rng));
            let both = joined_vector(&a, &b);
            assert!(descends(&both, &a) && descends(&both, &b));
            assert_eq!(both, joined_vector(&b, &a));
            if descends(&c, &a) && descends(&c, &b) {
                assert!(descends(&c, &both), "{a:?} {b:?} {c:?}");
                bounds += 1;
            }
        }
        assert!(bounds > 1_000, "{bounds}");
    }

    #[test]
    fn write_with_current_context_descends_from_previous_vector() {
        let (kind, mut rng) = (Vectors { pruning: Pruning::NONE }, SeededRng::new(43, 0));
        for _ in 0..10_000 {
            let before = VectorRow { vector: vector(&mut rng), values: vec![1] };
            let writer = DvvWriter { client: rng.below(4) as u32, now_ms: 0 };
            let after = kind.write(&mut (), &before, &before.vector, 2, writer);
            assert!(descends(&after.vector, &before.vector));
            assert!(!descends(&before.vector, &after.vector));
            assert_eq!(after.values, [2]);
        }
    }
}
