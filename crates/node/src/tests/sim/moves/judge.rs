//! Judge of single keys: finds an order of all reads and writes that explains every answer.
//!
//! Every write has a value of its own. A history of a register is then linearizable exactly if no
//! value was read that was never written or not yet written, no two values had to be current at one
//! moment, and no value had to appear and disappear while another one had to be current (Gibbons
//! and Korach, *Testing Shared Memories*, 1997). The judge knows nothing of logs, groups or
//! versions.

use std::collections::BTreeMap;

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Acknowledged, at this time.
    Stands(u64),
    /// Refused without effect.
    Refused,
    /// Unknown, or in progress.
    InDoubt,
}

/// Bucket and one of its keys, by number.
type Key = (usize, u64);

/// Value, with the start of its write and the times of its reads.
#[derive(Debug)]
struct Value {
    began: u64,
    fate: Fate,
    /// Start and end of each read.
    reads: Vec<(u64, u64)>,
}

#[derive(Default)]
pub(super) struct Judge {
    values: BTreeMap<Key, BTreeMap<u64, Value>>,
    last: u64,
}

/// Zone of a value: from the first end of an operation on it to the last start of one. If the last
/// start comes first, the value need only be current at some moment between the two.
#[derive(Clone, Copy, Debug)]
struct Zone {
    value: u64,
    ended: u64,
    began: u64,
}

impl Judge {
    /// Records the start of a write. Returns its value.
    pub(super) fn writes(&mut self, key: Key, began: u64) -> u64 {
        self.last += 1;
        let value = Value { began, fate: Fate::InDoubt, reads: Vec::new() };
        let number = self.last;
        self.of(key).insert(number, value);
        number
    }

    pub(super) fn wrote(&mut self, key: Key, value: u64, fate: Fate) {
        self.of(key).get_mut(&value).expect("it was begun").fate = fate;
    }

    /// Records the value that a read found. 0: the key was absent.
    pub(super) fn read(&mut self, key: Key, value: u64, began: u64, ended: u64) {
        let known = self.of(key).get_mut(&value);
        let known = known.unwrap_or_else(|| panic!("{key:?}: {value} was never written"));
        known.reads.push((began, ended));
    }

    fn of(&mut self, key: Key) -> &mut BTreeMap<u64, Value> {
        let nothing = Value { began: 0, fate: Fate::Stands(0), reads: Vec::new() };
        self.values.entry(key).or_insert_with(|| BTreeMap::from([(0, nothing)]))
    }

    pub(super) fn judge(&self) {
        self.values.iter().for_each(|(key, values)| judge(*key, values));
    }
}

fn judge(key: Key, values: &BTreeMap<u64, Value>) {
    let (mut firm, mut loose) = (Vec::new(), Vec::new());
    for (number, value) in values {
        let Value { began, fate, reads } = value;
        let early = reads.iter().find(|(_, ended)| ended < began);
        assert!(early.is_none(), "{key:?}: {number} was read before it was written");
        assert!(
            *fate != Fate::Refused || reads.is_empty(),
            "{key:?}: {number} was read, and its write was refused"
        );
        let known = if let Fate::Stands(at) = fate { Some(*at) } else { None };
        let ended = reads.iter().map(|(_, ended)| *ended).chain(known).min();
        let Some(ended) = ended else { continue };
        let began = reads.iter().map(|(began, _)| *began).max().unwrap_or(0).max(*began);
        let zone = Zone { value: *number, ended, began };
        if ended < began { firm.push(zone) } else { loose.push(zone) }
    }
    firm.sort_by_key(|zone| zone.ended);
    for pair in firm.windows(2) {
        let [one, other] = [pair[0], pair[1]];
        assert!(
            other.ended >= one.began,
            "{key:?}: {} and {} had to stand at once: {pair:?}",
            one.value,
            other.value
        );
    }
    for zone in loose {
        let over = firm.iter().find(|firm| firm.ended < zone.began && zone.ended < firm.began);
        assert!(over.is_none(), "{key:?}: lost or stale: {zone:?} came and went within {over:?}");
    }
}

#[test]
fn register_history_without_valid_order_is_detected() {
    let lived = |acts: &dyn Fn(&mut Judge)| {
        let mut judge = Judge::default();
        for (number, (began, ended)) in [(1, (10, 20)), (2, (30, 40))] {
            assert_eq!(judge.writes((0, 0), began), number);
            judge.wrote((0, 0), number, Fate::Stands(ended));
        }
        acts(&mut judge);
        std::panic::catch_unwind(|| judge.judge()).is_ok()
    };
    assert!(lived(&|judge| judge.read((0, 0), 2, 50, 60)));
    assert!(lived(&|judge| judge.read((0, 0), 1, 35, 36)), "the second may not stand yet");
    assert!(!lived(&|judge| judge.read((0, 0), 1, 50, 60)), "stale");
    assert!(!lived(&|judge| judge.read((0, 0), 0, 50, 60)), "lost");
    assert!(!lived(&|judge| judge.read((0, 0), 2, 22, 25)), "before it was written");
    let back = |judge: &mut Judge| {
        judge.read((0, 0), 2, 31, 32);
        judge.read((0, 0), 1, 33, 34);
    };
    assert!(!lived(&back), "what was seen is gone");
    let doubtful = |judge: &mut Judge| {
        judge.writes((0, 0), 45);
        judge.read((0, 0), 3, 90, 95);
        judge.read((0, 0), 2, 60, 70);
    };
    assert!(lived(&doubtful), "a write in doubt may come late");
    let refused = |judge: &mut Judge| {
        let value = judge.writes((0, 0), 45);
        judge.wrote((0, 0), value, Fate::Refused);
        judge.read((0, 0), value, 50, 60);
    };
    assert!(!lived(&refused), "a refused write is nowhere");
}
