//! Exchange: state machine of the asking side, from the roots down to the rows that differ.

use super::tree::{DEPTH, FAN_OUT, HashTree, Leaf};
use super::wire::{LEAVES_PER_PAGE_MAX, NODES_PER_QUESTION_MAX, SyncAnswer, SyncQuestion};
use base::Key;
use std::collections::BTreeMap;

/// Key and digest of a row, which are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowDigest {
    /// Key of the row.
    pub key: Key,
    /// Digest by [`super::row_hash`].
    pub digest: u128,
}

/// Event for an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// First event, once.
    Started,
    /// The other side has answered the last question.
    Answered(SyncAnswer),
    /// Rows that [`Effect::List`] requested, in key order.
    Listed(Vec<RowDigest>),
    /// The other side can't be asked, or the rows can't be read.
    Failed,
}

/// Effect of a step, to be carried out in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask the other side.
    Ask(SyncQuestion),
    /// List the local rows of these leaves, after one key and up to another.
    List {
        /// Leaves, ascending.
        leaves: Vec<Leaf>,
        /// Key before the first row. `None`: from the beginning.
        after: Option<Key>,
        /// Key of the last row. `None`: to the end.
        last: Option<Key>,
    },
    /// Difference: this row is not the same on both sides.
    Differs {
        /// Key of the row.
        key: Key,
        /// Side that has it.
        at: Side,
    },
    /// End of the exchange.
    Done(Summary),
}

/// Side that has a differing row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Only the asking side.
    Local,
    /// Only the other side.
    Remote,
    /// Both, with different contents.
    Both,
}

/// Outcome of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// True if all differences were found.
    pub is_complete: bool,
    /// Number of questions asked.
    pub questions: u64,
    /// Number of differing rows found.
    pub rows: u64,
}

/// Stage of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// No question was asked yet.
    Fresh,
    /// The children of the root are awaited.
    Root,
    /// The children of these nodes are awaited.
    Nodes { level: u8, places: Vec<u32> },
    /// A page of these leaves' rows is awaited.
    Rows { leaves: Vec<Leaf>, after: Option<Key> },
    /// The local rows of the same range are awaited.
    Listing { leaves: Vec<Leaf>, theirs: Vec<RowDigest>, more: bool },
    /// Ended.
    Ended,
}

/// Comparison of this copy with another one.
#[derive(Clone, Debug)]
pub struct Exchange {
    stage: Stage,
    /// Differing nodes that were not asked about, by level; at most one level's.
    differing: BTreeMap<u8, Vec<u32>>,
    summary: Summary,
}

impl Default for Exchange {
    fn default() -> Exchange {
        Exchange::new()
    }
}

impl Exchange {
    /// Builds an exchange that has not begun.
    pub fn new() -> Exchange {
        let summary = Summary::default();
        Exchange { stage: Stage::Fresh, differing: BTreeMap::new(), summary }
    }

    /// Handles an event; `tree` is the current tree of this side. An answer that does not fit the
    /// last question ends the exchange: the other side is not to be trusted with more.
    pub fn step(&mut self, event: Event, tree: &HashTree, effects: &mut Vec<Effect>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Ended);
        match (stage, event) {
            (Stage::Ended, _) => {}
            (Stage::Fresh, Event::Started) => {
                self.stage = Stage::Root;
                self.ask(SyncQuestion::Root { sum: tree.root(), rows: tree.rows() }, effects);
            }
            (Stage::Root, Event::Answered(SyncAnswer::Same)) => self.finish(true, effects),
            (Stage::Root, Event::Answered(SyncAnswer::Sums(sums))) => {
                self.compare(0, &[0], &sums, tree, effects);
            }
            (Stage::Nodes { level, places }, Event::Answered(SyncAnswer::Sums(sums))) => {
                self.compare(level, &places, &sums, tree, effects);
            }
            (Stage::Rows { leaves, after }, Event::Answered(SyncAnswer::Rows { rows, more })) => {
                self.on_page(leaves, after, rows, more, effects);
            }
            (Stage::Listing { leaves, theirs, more }, Event::Listed(ours)) => {
                let after = theirs.last().map(|row| row.key.clone());
                self.compare_rows(ours, theirs, effects);
                match (more, after) {
                    (true, Some(after)) => self.ask_rows(leaves, Some(after), effects),
                    _ => self.ask_next(effects),
                }
            }
            _ => self.finish(false, effects),
        }
    }

    fn ask(&mut self, question: SyncQuestion, effects: &mut Vec<Effect>) {
        self.summary.questions += 1;
        effects.push(Effect::Ask(question));
    }

    fn finish(&mut self, is_complete: bool, effects: &mut Vec<Effect>) {
        self.stage = Stage::Ended;
        effects.push(Effect::Done(Summary { is_complete, ..self.summary }));
    }

    /// Records which children of these nodes differ.
    fn compare(
        &mut self,
        level: u8,
        places: &[u32],
        sums: &[u64],
        tree: &HashTree,
        effects: &mut Vec<Effect>,
    ) {
        if sums.len() != places.len() * FAN_OUT as usize {
            return self.finish(false, effects);
        }
        let children = places.iter().flat_map(|place| place * FAN_OUT..(place + 1) * FAN_OUT);
        let ours = places.iter().flat_map(|place| tree.children(level, *place));
        let pairs = children.zip(ours.zip(sums));
        let differ = pairs.filter(|(_, (ours, theirs))| ours != *theirs).map(|(child, _)| child);
        self.differing.entry(level + 1).or_default().extend(differ);
        self.ask_next(effects);
    }

    /// Asks about differences, the deepest first, so that the backlog is bounded by the tree's
    /// depth times one question's children.
    fn ask_next(&mut self, effects: &mut Vec<Effect>) {
        let Some(mut entry) = self.differing.last_entry() else {
            return self.finish(true, effects);
        };
        let level = *entry.key();
        let batch_max = if level < DEPTH { NODES_PER_QUESTION_MAX } else { LEAVES_PER_PAGE_MAX };
        let backlog = entry.get_mut();
        let places: Vec<u32> = backlog.drain(..backlog.len().min(batch_max)).collect();
        if backlog.is_empty() {
            entry.remove();
        }
        if places.is_empty() {
            self.ask_next(effects);
        } else if level < DEPTH {
            self.stage = Stage::Nodes { level, places: places.clone() };
            self.ask(SyncQuestion::Nodes { level, places }, effects);
        } else {
            let leaves = places.into_iter().map(|place| Leaf(place as u16)).collect();
            self.ask_rows(leaves, None, effects);
        }
    }

    fn ask_rows(&mut self, leaves: Vec<Leaf>, after: Option<Key>, effects: &mut Vec<Effect>) {
        self.stage = Stage::Rows { leaves: leaves.clone(), after: after.clone() };
        self.ask(SyncQuestion::Rows { leaves, after }, effects);
    }

    /// Handles a page, which must advance the comparison, or it would never end.
    fn on_page(
        &mut self,
        leaves: Vec<Leaf>,
        after: Option<Key>,
        theirs: Vec<RowDigest>,
        more: bool,
        effects: &mut Vec<Effect>,
    ) {
        let is_ascending = theirs.is_sorted_by(|one, other| one.key < other.key)
            && theirs.first().is_none_or(|first| after.as_ref().is_none_or(|key| *key < first.key));
        if !is_ascending || (more && theirs.is_empty()) {
            return self.finish(false, effects);
        }
        let last = theirs.last().filter(|_| more).map(|row| row.key.clone());
        self.stage = Stage::Listing { leaves: leaves.clone(), theirs, more };
        effects.push(Effect::List { leaves, after, last });
    }

    fn compare_rows(
        &mut self,
        ours: Vec<RowDigest>,
        theirs: Vec<RowDigest>,
        effects: &mut Vec<Effect>,
    ) {
        let mut ours: BTreeMap<Key, u128> =
            ours.into_iter().map(|row| (row.key, row.digest)).collect();
        let mut differs = BTreeMap::new();
        for row in theirs {
            match ours.remove(&row.key) {
                Some(digest) if digest == row.digest => {}
                Some(_) => drop(differs.insert(row.key, Side::Both)),
                None => drop(differs.insert(row.key, Side::Remote)),
            }
        }
        differs.extend(ours.into_keys().map(|key| (key, Side::Local)));
        self.summary.rows += differs.len() as u64;
        effects.extend(differs.into_iter().map(|(key, at)| Effect::Differs { key, at }));
    }
}
