//! Causality checker: verifies that each copy holds exactly the values that no client which had
//! seen them replaced.
//!
//! Every value is written once. A client that writes or deletes brings a context, which names the
//! values that it had been shown. So the end of a history follows, key by key, from sets alone: an
//! acknowledged value stays until a client that had seen it writes or deletes, and then it is
//! replaced for good. The check needs no order of calls and no clock, so its cost grows with the
//! history, and there is no verdict "undecided".
//!
//! Source of the property: dotted version vector sets; Almeida, Baquero, Goncalves, Preguica and
//! Fonte, "Scalable and accurate causality tracking for eventually consistent stores", 2014.

use crate::workload::CallOutcome;
use crate::workload::siblings::{SiblingAction, SiblingCall};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Values that one copy of a key holds at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The key.
    pub key: String,
    /// Location of the copy.
    pub location: String,
    /// Its values without tombstones.
    pub values: BTreeSet<String>,
}

/// Verdict of the checker. Each list names keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of keys that have a copy.
    pub keys: usize,
    /// Number of acknowledged values.
    pub acknowledged: u64,
    /// Largest number of values that were shown together.
    pub siblings: usize,
    /// Lost: acknowledged, not seen by any later writer or deleter, and absent.
    pub lost: Vec<String>,
    /// Resurrected: deleted by a client that had seen it, and present.
    pub resurrected: Vec<String>,
    /// Phantom: present, though no client wrote it or the write was refused.
    pub phantom: Vec<String>,
    /// False sibling: replaced by a client that had seen it, and still present beside the
    /// replacement.
    pub false_siblings: Vec<String>,
    /// Keys whose copies differ.
    pub unequal: Vec<String>,
}

impl Findings {
    /// Returns the number of violations.
    pub fn violations(&self) -> usize {
        self.lists().iter().map(|(_, list)| list.len()).sum()
    }

    fn lists(&self) -> [(&'static str, &Vec<String>); 5] {
        [
            ("lost", &self.lost),
            ("resurrected", &self.resurrected),
            ("phantom", &self.phantom),
            ("false siblings", &self.false_siblings),
            ("unequal", &self.unequal),
        ]
    }

    /// Fails the test with a report if there is any violation.
    pub fn must_be_clean(&self) {
        assert_eq!(self.violations(), 0, "{self}");
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys, {} acknowledged values", self.keys, self.acknowledged)?;
        for (name, list) in self.lists().into_iter().filter(|(_, list)| !list.is_empty()) {
            let first = list.iter().take(6).map(String::as_str).collect::<Vec<_>>();
            write!(f, "\n{name}: {} ({})", list.len(), first.join("; "))?;
        }
        Ok(())
    }
}

/// Checks the calls of clients against the copies at the end, when no transfer is pending.
pub fn judge(calls: &[SiblingCall], copies: &[Copy]) -> Findings {
    let mut findings = Findings::default();
    let mut by_key: BTreeMap<&str, (Vec<&SiblingCall>, Vec<&Copy>)> = BTreeMap::new();
    for call in calls {
        by_key.entry(&call.op.key).or_default().0.push(call);
    }
    for copy in copies {
        by_key.entry(&copy.key).or_default().1.push(copy);
    }
    for (key, (calls, copies)) in by_key {
        findings.keys += usize::from(!copies.is_empty());
        let history = KeyHistory::new(&calls, &copies);
        findings.acknowledged += history.acknowledged() as u64;
        findings.check_reads(key, &calls, &history);
        findings.check_copies(key, &copies, &history);
    }
    findings
}

/// A write: the values that were read together with its context, and its outcome.
struct KeyWrite<'a> {
    seen: &'a BTreeSet<String>,
    outcome: CallOutcome,
}

/// History of one key.
struct KeyHistory<'a> {
    writes: BTreeMap<&'a str, KeyWrite<'a>>,
    /// Values that a later write of a client that had seen them may have replaced.
    possibly_replaced: BTreeSet<&'a str>,
    /// Values that are certainly replaced; true if a delete did it.
    replaced: BTreeMap<&'a str, bool>,
}

impl<'a> KeyHistory<'a> {
    fn new(calls: &[&'a SiblingCall], copies: &[&'a Copy]) -> KeyHistory<'a> {
        let mut writes = BTreeMap::new();
        for call in calls {
            if let SiblingAction::Write(value) = &call.op.action {
                writes.insert(
                    value.as_str(),
                    KeyWrite { seen: &call.op.seen, outcome: call.outcome.clone().map(drop) },
                );
            }
        }
        // A write whose value any client read took effect, whatever its outcome.
        let mut seen_values: BTreeSet<&str> = BTreeSet::new();
        for call in calls {
            if let Some(Some(values)) = call.outcome.answer() {
                seen_values.extend(values.iter().map(String::as_str));
            }
            seen_values.extend(call.op.seen.iter().map(String::as_str));
        }
        seen_values.extend(copies.iter().flat_map(|copy| copy.values.iter().map(String::as_str)));
        let (mut possibly_replaced, mut replaced) = (BTreeSet::new(), BTreeMap::new());
        for call in calls.iter().filter(|call| call.outcome != CallOutcome::Refused) {
            let (took_effect, is_delete) = match &call.op.action {
                SiblingAction::Read => continue,
                SiblingAction::Write(value) => {
                    (call.outcome.is_acknowledged() || seen_values.contains(value.as_str()), false)
                }
                SiblingAction::Delete => (call.outcome.is_acknowledged(), true),
            };
            for value in call.op.seen.iter().map(String::as_str) {
                possibly_replaced.insert(value);
                if took_effect {
                    *replaced.entry(value).or_default() |= is_delete;
                }
            }
        }
        KeyHistory { writes, possibly_replaced, replaced }
    }

    fn acknowledged(&self) -> usize {
        self.writes.values().filter(|write| write.outcome.is_acknowledged()).count()
    }

    /// Returns true if a read may return the value: a client wrote it and was not refused.
    fn was_written(&self, value: &str) -> bool {
        self.writes.get(value).is_some_and(|write| write.outcome != CallOutcome::Refused)
    }

    /// Returns true if the writer of `later` had seen `earlier`, directly or through the values it
    /// had seen.
    fn had_seen(&self, later: &'a str, earlier: &str) -> bool {
        let mut visited: BTreeSet<&str> = BTreeSet::new();
        let mut to_visit = vec![later];
        while let Some(value) = to_visit.pop() {
            let Some(write) = self.writes.get(value) else { continue };
            if write.seen.contains(earlier) {
                return true;
            }
            to_visit
                .extend(write.seen.iter().map(String::as_str).filter(|seen| visited.insert(seen)));
        }
        false
    }
}

impl Findings {
    /// Checks reads: no value may be returned beside one whose writer had seen it.
    fn check_reads(&mut self, key: &str, calls: &[&SiblingCall], history: &KeyHistory<'_>) {
        for call in calls {
            let Some(Some(values)) = call.outcome.answer() else { continue };
            self.siblings = self.siblings.max(values.len());
            for value in values {
                if !history.was_written(value) {
                    self.phantom.push(format!("{key}: {value} was read"));
                }
            }
            for later in values {
                // The string is borrowed from `history`, whose lifetime is long enough.
                let Some((later, _)) = history.writes.get_key_value(later.as_str()) else {
                    continue;
                };
                for earlier in values.iter().filter(|earlier| earlier.as_str() != *later) {
                    if history.had_seen(later, earlier) {
                        let finding = format!("{key}: {earlier} was read beside {later}");
                        self.false_siblings.push(finding);
                    }
                }
            }
        }
    }

    fn check_copies(&mut self, key: &str, copies: &[&Copy], history: &KeyHistory<'_>) {
        let must_remain = |value: &&&str| !history.possibly_replaced.contains(**value);
        let acknowledged =
            history.writes.iter().filter(|(_, write)| write.outcome.is_acknowledged());
        let required: Vec<_> = acknowledged.map(|(value, _)| value).filter(must_remain).collect();
        // A key without any copy has lost the values that it should hold.
        if copies.is_empty() {
            self.lost.extend(required.iter().map(|value| format!("{key}: {value} everywhere")));
        }
        for copy in copies {
            self.siblings = self.siblings.max(copy.values.len());
            let at = &copy.location;
            let missing = required.iter().filter(|value| !copy.values.contains(***value));
            self.lost.extend(missing.map(|value| format!("{key}: {value} at {at}")));
            for value in &copy.values {
                if !history.was_written(value) {
                    self.phantom.push(format!("{key}: {value} at {at}"));
                }
                match history.replaced.get(value.as_str()) {
                    Some(true) => self.resurrected.push(format!("{key}: {value} at {at}")),
                    Some(false) => self.false_siblings.push(format!("{key}: {value} at {at}")),
                    None => {}
                }
            }
        }
        let first = copies.first();
        let other =
            copies.iter().find(|copy| first.is_some_and(|first| first.values != copy.values));
        if let (Some(first), Some(other)) = (first, other) {
            let finding = format!(
                "{key}: {:?} at {}, {:?} at {}",
                first.values, first.location, other.values, other.location
            );
            self.unequal.push(finding);
        }
    }
}
