//! Place of a reader in the feed of an available bucket: for each slot the node that it reads, and
//! how far it has come there.
//!
//! ```text
//! place = parts, varint | for each part: node u64 LE | flags u8 | position | [covered]
//!         | [through] | slots (vnode_slots.rs)
//! ```
//! Flags: 1 `covered` is another position than `position`, 2 the reader catches up through
//! `through`, 4 in a scan, 8 with events that may repeat.
//!
//! A slot that is in no part is read from the beginning.
//!
//! Guarantees: parts have slots, and share none; parts that differ in their slots alone are one;
//! one place has one encoding.

use crate::vnode_position::VnodePosition;
use crate::vnode_slots::SlotSet;
use base::NodeId;
use base::codec::{Malformed, Reader, Writer};
use std::collections::BTreeMap;

const COVERED: u8 = 1;
const CATCH_UP: u8 = 2;
const SCAN: u8 = 4;
const AGAIN: u8 = 8;

/// Part of a feed that a reader catches up with, after it came to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CatchUp {
    /// Position of the last entry of the node when the reader came. [`VnodePosition::START`]: the
    /// reader does not catch up.
    pub through: VnodePosition,
    /// True if the reader began at the node's first entry: it knew nothing that a removed entry
    /// could have taken away.
    pub is_scan: bool,
    /// True if it had read other nodes before: entries through `through` may repeat what it has.
    pub is_again: bool,
}

/// Place of a reader at one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartPlace {
    /// Position behind which it goes on.
    pub position: VnodePosition,
    /// Position for which it knows all that the node had: there its last page reached the end. A
    /// bridge to another node begins here.
    pub covered: VnodePosition,
    /// Part of the feed that it catches up with.
    pub catch_up: CatchUp,
}

/// Slots that are read at one node from one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeedPart {
    /// The node.
    pub node: NodeId,
    /// Place of the reader there.
    pub place: PartPlace,
    /// The slots.
    pub slots: SlotSet,
}

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VnodePlace(Vec<FeedPart>);

impl PartPlace {
    /// Returns the place of a reader that goes on here behind a bridge.
    pub fn behind_bridge(own: VnodePosition) -> PartPlace {
        let catch_up = CatchUp { is_again: true, ..CatchUp::default() };
        PartPlace { position: own, covered: own, catch_up }
    }

    /// Returns the place before the first entry. `is_again`: the reader had read other nodes.
    pub fn beginning(is_again: bool) -> PartPlace {
        let catch_up = CatchUp { is_scan: true, is_again, ..CatchUp::default() };
        PartPlace { catch_up, ..PartPlace::default() }
    }

    /// Returns the place of a reader that wants only what is written from `level` on.
    pub fn at_level(level: VnodePosition) -> PartPlace {
        PartPlace { position: level, covered: level, catch_up: CatchUp::default() }
    }

    /// Returns true if entries behind this place, which the reader would need, were removed: the
    /// reader has to start over. `floor`: position of the last removed entry that was the only one
    /// to say that a key is gone.
    pub fn is_below(&self, floor: VnodePosition) -> bool {
        let CatchUp { through, is_scan, .. } = self.catch_up;
        // A scan shows a key as it is when its entry is read. So it needs no deletes from before it
        // began; of a scan that has not begun, none are.
        let is_fresh = is_scan && through == VnodePosition::START;
        let known = if is_scan { self.position.max(through) } else { self.position };
        !is_fresh && floor > known
    }

    /// Returns true if an entry at this position may repeat what the reader has.
    pub fn may_repeat(&self, entry: VnodePosition) -> bool {
        let CatchUp { through, is_again, .. } = self.catch_up;
        is_again && (through == VnodePosition::START || entry <= through)
    }

    /// Returns the place after a page that ended at `end`, of a node whose last entry was at
    /// `level`. `is_level`: the page ended with the node's last entry.
    pub fn after_page(self, end: VnodePosition, level: VnodePosition, is_level: bool) -> PartPlace {
        let position = self.position.max(end);
        let covered = if is_level { position } else { self.covered };
        let mut catch_up = self.catch_up;
        if catch_up != CatchUp::default() && catch_up.through == VnodePosition::START {
            catch_up.through = level;
        }
        if is_level || position >= catch_up.through {
            catch_up = CatchUp::default();
        }
        PartPlace { position, covered, catch_up }
    }

    /// Returns a place from which a reader misses nothing that it would have read from either.
    fn earlier(self, other: PartPlace) -> PartPlace {
        PartPlace {
            position: self.position.min(other.position),
            covered: self.covered.min(other.covered),
            catch_up: CatchUp {
                through: self.catch_up.through.max(other.catch_up.through),
                // Only a scan of both is one: the other needs the deletes.
                is_scan: self.catch_up.is_scan && other.catch_up.is_scan,
                is_again: true,
            },
        }
    }
}

impl VnodePlace {
    /// Builds a place of these parts, of which no two have a slot in common.
    pub fn new(parts: impl IntoIterator<Item = FeedPart>) -> VnodePlace {
        let mut merged: BTreeMap<(NodeId, PartPlace), SlotSet> = BTreeMap::new();
        for FeedPart { node, place, slots } in parts {
            if !slots.is_empty() {
                let known = merged.entry((node, place)).or_default();
                *known = known.union(&slots);
            }
        }
        let part = |((node, place), slots)| FeedPart { node, place, slots };
        VnodePlace(merged.into_iter().map(part).collect())
    }

    /// Returns the parts, ordered by node.
    pub fn parts(&self) -> &[FeedPart] {
        &self.0
    }

    /// Returns the part of a slot. `None`: the slot is read from the beginning.
    pub fn part_of(&self, slot: u32) -> Option<&FeedPart> {
        self.0.iter().find(|part| part.slots.contains(slot))
    }

    /// Returns the slots of all parts.
    pub fn slots(&self) -> SlotSet {
        self.0.iter().fold(SlotSet::default(), |all, part| all.union(&part.slots))
    }

    /// Returns a place whose encoding has at most this many bytes, if there are not too many nodes:
    /// parts of one node become one, where the earlier of both began. A reader repeats some entries
    /// then, and misses none.
    pub fn fit(mut self, bytes_max: usize) -> VnodePlace {
        while self.encode().len() > bytes_max {
            let pairs = self.0.windows(2).enumerate();
            let of_one_node = pairs.filter(|(_, pair)| pair[0].node == pair[1].node);
            // The two that are closest to each other.
            let distance = |pair: &[FeedPart]| {
                let [one, other] = [&pair[0], &pair[1]].map(|part| part.place.position.batch);
                one.abs_diff(other)
            };
            let Some((at, _)) = of_one_node.min_by_key(|&(_, pair)| distance(pair)) else { break };
            let later = self.0.remove(at + 1);
            let part = &mut self.0[at];
            part.place = part.place.earlier(later.place);
            part.slots = part.slots.union(&later.slots);
            self = VnodePlace::new(self.0);
        }
        self
    }

    /// Encodes the place.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 * self.0.len() + 1);
        base::varint::put(self.0.len() as u64, &mut out);
        for FeedPart { node, place, slots } in &self.0 {
            let PartPlace { position, covered, catch_up } = place;
            let is_catching_up = *catch_up != CatchUp::default();
            let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
            out.put_u64(node.0);
            out.put_u8(
                flag(covered != position, COVERED)
                    | flag(is_catching_up, CATCH_UP)
                    | flag(catch_up.is_scan, SCAN)
                    | flag(catch_up.is_again, AGAIN),
            );
            position.put(&mut out);
            if covered != position {
                covered.put(&mut out);
            }
            if is_catching_up {
                catch_up.through.put(&mut out);
            }
            slots.put(&mut out);
        }
        out
    }

    /// Decodes a place that fills these bytes.
    pub fn decode(bytes: &[u8]) -> Result<VnodePlace, Malformed> {
        const PART: Malformed = Malformed("a part of a feed's place");
        let mut from = Reader::new(bytes);
        let count = base::varint::take_count(&mut from, 14, "the parts of a feed's place")?;
        let (mut parts, mut taken) = (Vec::with_capacity(count), SlotSet::default());
        for _ in 0..count {
            let part = take_part(&mut from)?;
            if part.slots.is_empty() || !taken.intersection(&part.slots).is_empty() {
                return Err(PART);
            }
            taken = taken.union(&part.slots);
            parts.push(part);
        }
        from.end("the end of a feed's place")?;
        let place = VnodePlace::new(parts.iter().cloned());
        // Another order, or parts that could be one: not what `encode` writes.
        if place.0 == parts { Ok(place) } else { Err(PART) }
    }
}

fn take_part(from: &mut Reader<'_>) -> Result<FeedPart, Malformed> {
    const FLAGS: Malformed = Malformed("the flags of a feed's place");
    let node = NodeId(from.u64("the node of a feed's place")?);
    let flags = from.u8("the flags of a feed's place")?;
    if flags & !(COVERED | CATCH_UP | SCAN | AGAIN) != 0 {
        return Err(FLAGS);
    }
    let position = VnodePosition::take(from)?;
    let covered = match flags & COVERED {
        0 => position,
        _ => VnodePosition::take(from)?,
    };
    let through = match flags & CATCH_UP {
        0 => VnodePosition::START,
        _ => VnodePosition::take(from)?,
    };
    let (is_scan, is_again) = (flags & SCAN != 0, flags & AGAIN != 0);
    let catch_up = CatchUp { through, is_scan, is_again };
    let place = PartPlace { position, covered, catch_up };
    // What a flag says must be so: one place has one encoding.
    let is_exact = (flags & COVERED != 0) == (covered != position)
        && (flags & CATCH_UP != 0) == (catch_up != CatchUp::default())
        && covered <= position;
    if !is_exact {
        return Err(FLAGS);
    }
    Ok(FeedPart { node, place, slots: SlotSet::take(from)? })
}
