//! Causality: does each copy hold exactly the values that nobody who had seen them replaced?
//!
//! Every value is written once. A client that writes or deletes says which values it had been
//! shown, by the context it brought. So the end of a history is told, key by key, by sets alone: a
//! value that was acknowledged stays until somebody who had seen it wrote or deleted; whoever saw
//! it replaced it for good. No order of calls is looked for, and no clock is asked, so the work
//! grows with the history and there is no verdict "undecided".
//!
//! Source of the property: dotted version vector sets; Almeida, Baquero, Goncalves, Preguica and
//! Fonte, "Scalable and accurate causality tracking for eventually consistent stores", 2014.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a client of an available bucket did to a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Read; these values were shown together, none of them as deleted.
    Read(BTreeSet<String>),
    /// Wrote this value.
    Write(String),
    /// Deleted what it had seen.
    Delete,
}

/// What it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallAnswer {
    /// Acknowledged.
    Done,
    /// Refused: surely nothing happened.
    Refused,
    /// No answer, or one that leaves it open.
    Unknown,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// The key.
    pub key: String,
    /// What was asked, and found.
    pub act: Act,
    /// The values that the context of a write or a delete had been shown with.
    pub seen: BTreeSet<String>,
    /// What the client was told.
    pub told: CallAnswer,
}

/// The values that one copy of a key holds at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The key.
    pub key: String,
    /// Where it was found.
    pub at: String,
    /// Its living values.
    pub values: BTreeSet<String>,
}

/// What the judge says. Each list names keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Keys that have a copy.
    pub keys: usize,
    /// Acknowledged values.
    pub acknowledged: u64,
    /// The most values that were ever shown together.
    pub siblings: usize,
    /// Acknowledged, not seen by whoever wrote or deleted later, and gone.
    pub lost: Vec<String>,
    /// Deleted by somebody who had seen it, and there again.
    pub resurrected: Vec<String>,
    /// There, though nobody wrote it or it was refused.
    pub phantom: Vec<String>,
    /// Replaced by somebody who had seen it, and still beside what replaced it.
    pub false_siblings: Vec<String>,
    /// Keys whose copies differ.
    pub unequal: Vec<String>,
}

impl Findings {
    /// How many things are wrong.
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

    /// Fails the test with words unless nothing is wrong.
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

/// Judges what clients did by what the copies hold when all is quiet.
pub fn judge(deeds: &[Deed], copies: &[Copy]) -> Findings {
    let mut findings = Findings::default();
    let mut by_key: BTreeMap<&str, (Vec<&Deed>, Vec<&Copy>)> = BTreeMap::new();
    for deed in deeds {
        by_key.entry(&deed.key).or_default().0.push(deed);
    }
    for copy in copies {
        by_key.entry(&copy.key).or_default().1.push(copy);
    }
    for (key, (deeds, copies)) in by_key {
        findings.keys += usize::from(!copies.is_empty());
        let past = Past::of(&deeds, &copies);
        findings.acknowledged += past.acknowledged() as u64;
        findings.reads(key, &deeds, &past);
        findings.end(key, &copies, &past);
    }
    findings
}

/// A write, as far as the judge knows of it.
struct JudgedWrite<'a> {
    seen: &'a BTreeSet<String>,
    told: CallAnswer,
}

/// What happened to one key.
struct Past<'a> {
    writes: BTreeMap<&'a str, JudgedWrite<'a>>,
    /// Values that somebody may have replaced who had seen them.
    perhaps_gone: BTreeSet<&'a str>,
    /// Values that are surely replaced, and whether a delete did it.
    gone: BTreeMap<&'a str, bool>,
}

impl<'a> Past<'a> {
    fn of(deeds: &[&'a Deed], copies: &[&'a Copy]) -> Past<'a> {
        let mut writes = BTreeMap::new();
        for deed in deeds {
            if let Act::Write(value) = &deed.act {
                writes.insert(value.as_str(), JudgedWrite { seen: &deed.seen, told: deed.told });
            }
        }
        // What anybody was shown took effect, whatever its writer was told.
        let mut shown: BTreeSet<&str> = BTreeSet::new();
        for deed in deeds {
            if let Act::Read(found) = &deed.act {
                shown.extend(found.iter().map(String::as_str));
            }
            shown.extend(deed.seen.iter().map(String::as_str));
        }
        shown.extend(copies.iter().flat_map(|copy| copy.values.iter().map(String::as_str)));
        let (mut perhaps_gone, mut gone) = (BTreeSet::new(), BTreeMap::new());
        for deed in deeds.iter().filter(|deed| deed.told != CallAnswer::Refused) {
            let (effective, deletes) = match &deed.act {
                Act::Read(_) => continue,
                Act::Write(value) => {
                    (deed.told == CallAnswer::Done || shown.contains(value.as_str()), false)
                }
                Act::Delete => (deed.told == CallAnswer::Done, true),
            };
            for value in deed.seen.iter().map(String::as_str) {
                perhaps_gone.insert(value);
                if effective {
                    *gone.entry(value).or_default() |= deletes;
                }
            }
        }
        Past { writes, perhaps_gone, gone }
    }

    fn acknowledged(&self) -> usize {
        self.writes.values().filter(|write| write.told == CallAnswer::Done).count()
    }

    /// Whether a value may be shown at all.
    fn was_written(&self, value: &str) -> bool {
        self.writes.get(value).is_some_and(|write| write.told != CallAnswer::Refused)
    }

    /// Whether the writer of `later` had seen `earlier`, itself or through what it had seen.
    fn had_seen(&self, later: &'a str, earlier: &str) -> bool {
        let mut tried: BTreeSet<&str> = BTreeSet::new();
        let mut next = vec![later];
        while let Some(value) = next.pop() {
            let Some(write) = self.writes.get(value) else { continue };
            if write.seen.contains(earlier) {
                return true;
            }
            next.extend(write.seen.iter().map(String::as_str).filter(|seen| tried.insert(seen)));
        }
        false
    }
}

impl Findings {
    /// What was shown together must not know of each other, at any time.
    fn reads(&mut self, key: &str, deeds: &[&Deed], past: &Past<'_>) {
        for deed in deeds {
            let Act::Read(found) = &deed.act else { continue };
            self.siblings = self.siblings.max(found.len());
            for value in found {
                if !past.was_written(value) {
                    self.phantom.push(format!("{key}: {value} was read"));
                }
            }
            for later in found {
                // The past's own copy of the name lives as long as the past.
                let Some((later, _)) = past.writes.get_key_value(later.as_str()) else { continue };
                for earlier in found.iter().filter(|earlier| earlier.as_str() != *later) {
                    if past.had_seen(later, earlier) {
                        let words = format!("{key}: {earlier} was read beside {later}");
                        self.false_siblings.push(words);
                    }
                }
            }
        }
    }

    fn end(&mut self, key: &str, copies: &[&Copy], past: &Past<'_>) {
        let stays = |value: &&&str| !past.perhaps_gone.contains(**value);
        let told = past.writes.iter().filter(|(_, write)| write.told == CallAnswer::Done);
        let staying: Vec<_> = told.map(|(value, _)| value).filter(stays).collect();
        // A key of which no copy is left has lost what it should hold.
        if copies.is_empty() {
            self.lost.extend(staying.iter().map(|value| format!("{key}: {value} everywhere")));
        }
        for copy in copies {
            self.siblings = self.siblings.max(copy.values.len());
            let at = &copy.at;
            let lacks = staying.iter().filter(|value| !copy.values.contains(***value));
            self.lost.extend(lacks.map(|value| format!("{key}: {value} at {at}")));
            for value in &copy.values {
                if !past.was_written(value) {
                    self.phantom.push(format!("{key}: {value} at {at}"));
                }
                match past.gone.get(value.as_str()) {
                    Some(true) => self.resurrected.push(format!("{key}: {value} at {at}")),
                    Some(false) => self.false_siblings.push(format!("{key}: {value} at {at}")),
                    None => {}
                }
            }
        }
        let first = copies.first();
        let other = copies.iter().find(|copy| first.is_some_and(|it| it.values != copy.values));
        if let (Some(first), Some(other)) = (first, other) {
            let words = format!(
                "{key}: {:?} at {}, {:?} at {}",
                first.values, first.at, other.values, other.at
            );
            self.unequal.push(words);
        }
    }
}
