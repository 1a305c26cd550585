//! Questions about the feeds of one node, and the answer with a page.
//!
//! ```text
//! question = 0 (page) | bucket | entries u32 | flags u8 | sections u32
//!                     | for each section: position | slots (change_feed/vnode_slots.rs)
//!     or   1 (bridges) | bucket | peer u64 | position of the peer | slots
//!     or   2 (position)
//!     or   3 (bridge) | first slot u16 LE | slots u16 LE | copies u8 | peer u64
//!                     | position of the receiver | position of the peer
//!     or   4 (changes) | has mark u8 | [mark] | wait, ms u32 (change_feed/vnode_changes.rs)
//! answer   = 0 (no feed)   or   1 (building) | slots read u32 | slots u32
//!     or   2 (page) | end | level | floor | joined, as bridges | is level u8
//!          | entries u32 | entries
//! entry    = position | slot u16 LE | kind u8 (0 put, 1 delete) | key | has row u8 | [row]
//! bridges  = positions with their slots (slot_positions.rs)
//! ```
//! Flags: 1 with rows, 2 from a node that may own the slots no more. Strings have a length of u32;
//! positions are as in tokens.

use super::bridges::ComparedSlots;
use super::slot_positions::{SlotPositions, put_positions, take_positions};
use crate::slots::{SLOTS, Slot};
use base::codec::{Malformed, Reader, Writer};
use base::feed::FeedEventKind;
use base::limits::{
    BUCKET_NAME_BYTES_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, PARTITIONS_MAX, PEER_CALL_BYTES_MAX,
};
use base::{BucketName, Key, NodeId};
use bytes::Bytes;
use change_feed::{ChangeMark, SlotSet, VnodePosition};

const WITH_ROWS: u8 = 1;
const FORMER_OWNER: u8 = 2;

/// Slots that are read behind a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedSection {
    /// Position behind which their entries are asked for.
    pub position: VnodePosition,
    /// The slots, which are in no other section of the question.
    pub slots: SlotSet,
}

/// Query for a page of a bucket's feed at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VnodeFeedQuery {
    /// Sections, at least one.
    pub sections: Vec<FeedSection>,
    /// Maximum number of entries. 0: only the positions are asked for.
    pub entries_max: usize,
    /// True if entries have the rows of their keys.
    pub with_rows: bool,
    /// True if the node may own the slots no more: it is read to its end.
    pub of_former_owner: bool,
}

/// Question about the feeds of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedQuestion {
    /// Reads a page of a bucket's feed. The answer is a [`FeedAnswer`].
    Page(BucketName, VnodeFeedQuery),
    /// Asks where a reader goes on that knows all that a peer had at a position. The answer:
    /// positions of the receiver, each with its slots.
    Bridges {
        /// Bucket that is read.
        bucket: BucketName,
        /// Node that was read.
        peer: NodeId,
        /// Position there.
        position: VnodePosition,
        /// Slots to go on with.
        slots: SlotSet,
    },
    /// Asks for the position of the receiver's last entry. The answer: the position.
    Position,
    /// Notes a bridge at the receiver. The answer: the position of its last entry.
    Bridge {
        /// Slots and copies that were compared.
        compared: ComparedSlots,
        /// Node that the receiver was compared with.
        peer: NodeId,
        /// Position of the receiver when the comparison began.
        own: VnodePosition,
        /// Position of the peer when it was complete.
        peer_position: VnodePosition,
    },
    /// Asks which feeds of the receiver have changed. The answer: the changes.
    Changes {
        /// Mark behind which changes are asked for. `None`: the sender knows none.
        behind: Option<ChangeMark>,
        /// Time for which the receiver waits for a change if there is none, in milliseconds.
        wait_ms: u32,
    },
}

/// Entry of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionEntry {
    /// Position of the entry.
    pub position: VnodePosition,
    /// Slot of the key.
    pub slot: Slot,
    /// Kind of the change.
    pub kind: FeedEventKind,
    /// Key that changed.
    pub key: Key,
    /// Row of the key, as of the page. `None`: rows were not asked for, or it is gone.
    pub row: Option<Bytes>,
}

/// Page of a bucket's feed at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VnodeFeedPage {
    /// Entries, in the order of their positions.
    pub entries: Vec<SectionEntry>,
    /// Position through which all sections are read.
    pub end: VnodePosition,
    /// Position behind every entry of the node.
    pub level: VnodePosition,
    /// Position of the last removed entry that was the last trace of its key.
    pub floor: VnodePosition,
    /// Slots that came to the node behind the positions from which they are read.
    pub joined: SlotPositions,
    /// True if the page ends at `level`.
    pub is_level: bool,
}

/// Answer to a query for a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedAnswer {
    /// The bucket has no feed on this node.
    Absent,
    /// The feed is being built: its build has read this many slots, of all of them.
    Building(u32, u32),
    /// A page.
    Page(VnodeFeedPage),
}

impl FeedQuestion {
    /// Encodes the question.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            FeedQuestion::Page(bucket, query) => {
                out.put_u8(0);
                out.put_string(bucket.full().as_bytes());
                out.put_u32(u32::try_from(query.entries_max).unwrap_or(u32::MAX));
                let with_rows = if query.with_rows { WITH_ROWS } else { 0 };
                out.put_u8(with_rows | if query.of_former_owner { FORMER_OWNER } else { 0 });
                out.put_u32(query.sections.len() as u32);
                for section in &query.sections {
                    section.position.put(out);
                    section.slots.put(out);
                }
            }
            FeedQuestion::Bridges { bucket, peer, position, slots } => {
                out.put_u8(1);
                out.put_string(bucket.full().as_bytes());
                out.put_u64(peer.0);
                position.put(out);
                slots.put(out);
            }
            FeedQuestion::Position => out.put_u8(2),
            FeedQuestion::Bridge { compared, peer, own, peer_position } => {
                out.put_u8(3);
                out.extend_from_slice(&compared.first.to_le_bytes());
                out.extend_from_slice(&compared.slots.to_le_bytes());
                out.put_u8(compared.copies);
                out.put_u64(peer.0);
                own.put(out);
                peer_position.put(out);
            }
            FeedQuestion::Changes { behind, wait_ms } => {
                out.put_u8(4);
                out.put_u8(behind.is_some().into());
                behind.iter().for_each(|mark| mark.put(out));
                out.put_u32(*wait_ms);
            }
        }
    }

    /// Decodes a question.
    pub fn take(from: &mut Reader<'_>) -> Result<FeedQuestion, Malformed> {
        Ok(match from.u8("the kind of a feed's question")? {
            0 => FeedQuestion::Page(take_bucket(from)?, take_query(from)?),
            1 => {
                let bucket = take_bucket(from)?;
                let peer = NodeId(from.u64("the peer of a bridge")?);
                let position = VnodePosition::take(from)?;
                FeedQuestion::Bridges { bucket, peer, position, slots: SlotSet::take(from)? }
            }
            2 => FeedQuestion::Position,
            3 => {
                let (first, slots) = (take_u16(from)?, take_u16(from)?);
                let compared = ComparedSlots { first, slots, copies: from.u8("copies")? };
                if u32::from(first) + u32::from(slots) > SLOTS || slots == 0 {
                    return Err(Malformed("the slots of a bridge"));
                }
                let peer = NodeId(from.u64("the peer of a bridge")?);
                let (own, peer_position) = (VnodePosition::take(from)?, VnodePosition::take(from)?);
                FeedQuestion::Bridge { compared, peer, own, peer_position }
            }
            4 => {
                let behind = match take_flag(from)? {
                    true => Some(ChangeMark::take(from)?),
                    false => None,
                };
                FeedQuestion::Changes { behind, wait_ms: from.u32("the wait for changes")? }
            }
            _ => return Err(Malformed("the kind of a feed's question")),
        })
    }
}

impl FeedAnswer {
    /// Encodes the answer.
    pub fn write(&self, out: &mut Vec<u8>) {
        let page = match self {
            FeedAnswer::Absent => return out.put_u8(0),
            FeedAnswer::Building(done, slots) => {
                out.put_u8(1);
                out.put_u32(*done);
                out.put_u32(*slots);
                return;
            }
            FeedAnswer::Page(page) => page,
        };
        out.put_u8(2);
        [page.end, page.level, page.floor].into_iter().for_each(|position| position.put(out));
        put_positions(&page.joined, out);
        out.put_u8(page.is_level.into());
        out.put_u32(page.entries.len() as u32);
        for entry in &page.entries {
            entry.position.put(out);
            out.extend_from_slice(&(entry.slot.0 as u16).to_le_bytes());
            out.put_u8(entry.kind as u8);
            out.put_string(&entry.key);
            out.put_u8(entry.row.is_some().into());
            if let Some(row) = &entry.row {
                out.put_string(row);
            }
        }
    }

    /// Decodes an answer that fills these bytes. Its keys and rows are slices of them.
    pub fn read(bytes: &Bytes) -> Result<FeedAnswer, Malformed> {
        let mut from = Reader::new(bytes);
        let answer = match from.u8("the kind of a feed's answer")? {
            0 => FeedAnswer::Absent,
            1 => FeedAnswer::Building(from.u32("slots")?, from.u32("slots")?),
            2 => FeedAnswer::Page(take_page(bytes, &mut from)?),
            _ => return Err(Malformed("the kind of a feed's answer")),
        };
        from.end("the end of a feed's answer")?;
        Ok(answer)
    }
}

fn take_query(from: &mut Reader<'_>) -> Result<VnodeFeedQuery, Malformed> {
    let entries_max = from.u32("the entries of a feed's query")? as usize;
    let flags = from.u8("the flags of a feed's query")?;
    let count = from.u32("the sections of a feed's query")? as usize;
    if flags & !(WITH_ROWS | FORMER_OWNER) != 0 || count == 0 || count > PARTITIONS_MAX {
        return Err(Malformed("the sections of a feed's query"));
    }
    let mut sections = Vec::new();
    for _ in 0..count {
        let position = VnodePosition::take(from)?;
        sections.push(FeedSection { position, slots: SlotSet::take(from)? });
    }
    let (with_rows, of_former_owner) = (flags & WITH_ROWS != 0, flags & FORMER_OWNER != 0);
    Ok(VnodeFeedQuery { sections, entries_max, with_rows, of_former_owner })
}

fn take_page(source: &Bytes, from: &mut Reader<'_>) -> Result<VnodeFeedPage, Malformed> {
    let mut position = || VnodePosition::take(from);
    let (end, level, floor) = (position()?, position()?, position()?);
    let joined = take_positions(from)?;
    let is_level = take_flag(from)?;
    let count = from.u32("the entries of a feed's page")? as usize;
    if count > from.rest().len() / 11 {
        return Err(Malformed("the entries of a feed's page"));
    }
    let mut entries: Vec<SectionEntry> = Vec::with_capacity(count);
    for _ in 0..count {
        let entry = take_entry(source, from)?;
        let is_next = entries.last().is_none_or(|before| before.position < entry.position);
        if !is_next || entry.position > end {
            return Err(Malformed("the order of a feed's page"));
        }
        entries.push(entry);
    }
    Ok(VnodeFeedPage { entries, end, level, floor, joined, is_level })
}

fn take_entry(source: &Bytes, from: &mut Reader<'_>) -> Result<SectionEntry, Malformed> {
    let position = VnodePosition::take(from)?;
    let slot = Slot(take_u16(from)?.into());
    let kind = match from.u8("the kind of an entry")? {
        0 => FeedEventKind::Put,
        1 => FeedEventKind::Delete,
        _ => return Err(Malformed("the kind of an entry")),
    };
    if slot.0 >= SLOTS {
        return Err(Malformed("the slot of an entry"));
    }
    let key = source.slice_ref(from.string(KEY_BYTES_MAX, "the key of an entry")?);
    let row = match take_flag(from)? {
        true => Some(source.slice_ref(from.string(PEER_CALL_BYTES_MAX, "the row of an entry")?)),
        false => None,
    };
    Ok(SectionEntry { position, slot, kind, key, row })
}

fn take_bucket(from: &mut Reader<'_>) -> Result<BucketName, Malformed> {
    let name = from.string(NAME_BYTES_MAX + 1 + BUCKET_NAME_BYTES_MAX, "bucket")?;
    let name = std::str::from_utf8(name).map_err(|_| Malformed("bucket"))?;
    BucketName::from_full(name).map_err(|_| Malformed("bucket"))
}

fn take_flag(from: &mut Reader<'_>) -> Result<bool, Malformed> {
    match from.u8("a flag of a feed's message")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("a flag of a feed's message")),
    }
}

fn take_u16(from: &mut Reader<'_>) -> Result<u16, Malformed> {
    const FIELD: &str = "the slots of a feed's message";
    Ok(u16::from_le_bytes(from.take(2, FIELD)?.try_into().map_err(|_| Malformed(FIELD))?))
}
