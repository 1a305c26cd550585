//! Messages of the two sides of an anti-entropy exchange, and their bytes.
//!
//! A question: its number (1 byte). 0, the roots: the sum (16), rows (8). 1, nodes: their level
//! (1), number (4), each place (4). 2, rows: the number of leaves (4), each (2), whether a page
//! came before (1), and if so its last key (length 4, bytes).
//!
//! An answer: its number (1). 0, the same. 1, sums: number (4), each (8). 2, rows: number (4), each
//! key (length 4, bytes) and digest (16), whether there are more (1).

use super::exchange::RowDigest;
use super::tree::{DEPTH, FAN_OUT, HashTree, Leaf};
use base::Key;
use base::codec::{Malformed, Reader, Writer};

/// Most nodes in one question about children.
pub const NODES_PER_QUESTION_MAX: usize = 256;
/// Most leaves in one question about rows.
pub const LEAVES_PER_PAGE_MAX: usize = 1_024;
/// Most rows in one page.
pub const ROWS_PER_PAGE_MAX: usize = 1_024;
/// Most bytes of a row's key: the longest key of a bucket, the bucket's name, and a few more.
const ROW_KEY_BYTES_MAX: usize = base::limits::KEY_BYTES_MAX + 1_024;

/// Question of the asking side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncQuestion {
    /// Asks whether the root is the same, and otherwise for its children.
    Root {
        /// Sum of the asking side's root.
        sum: u128,
        /// Number of its rows.
        rows: u64,
    },
    /// Asks for the children of these nodes.
    Nodes {
        /// Level of the nodes, 1 to 3.
        level: u8,
        /// Places of the nodes, ascending.
        places: Vec<u32>,
    },
    /// Asks for a page of the rows in these leaves, in key order.
    Rows {
        /// Leaves, ascending.
        leaves: Vec<Leaf>,
        /// Last key of the previous page. `None`: the first page.
        after: Option<Key>,
    },
}

/// Answer of the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncAnswer {
    /// The roots are equal.
    Same,
    /// Sums of the children of all requested nodes, sixteen for each.
    Sums(Vec<u64>),
    /// A page of rows.
    Rows {
        /// Rows, in key order.
        rows: Vec<RowDigest>,
        /// True if more rows follow.
        more: bool,
    },
}

impl SyncQuestion {
    /// Returns the answer that the tree gives. `None` for rows, which the owner of the rows must
    /// look up.
    pub fn answer(&self, tree: &HashTree) -> Option<SyncAnswer> {
        match self {
            SyncQuestion::Root { sum, rows } if *sum == tree.root() && *rows == tree.rows() => {
                Some(SyncAnswer::Same)
            }
            SyncQuestion::Root { .. } => Some(SyncAnswer::Sums(tree.children(0, 0).collect())),
            SyncQuestion::Nodes { level, places } => {
                let sums = places.iter().flat_map(|place| tree.children(*level, *place));
                Some(SyncAnswer::Sums(sums.collect()))
            }
            SyncQuestion::Rows { .. } => None,
        }
    }

    /// Appends the question.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            SyncQuestion::Root { sum, rows } => {
                out.put_u8(0);
                put_u128(*sum, out);
                out.put_u64(*rows);
            }
            SyncQuestion::Nodes { level, places } => {
                out.put_u8(1);
                out.put_u8(*level);
                out.put_u32(places.len() as u32);
                places.iter().for_each(|place| out.put_u32(*place));
            }
            SyncQuestion::Rows { leaves, after } => {
                out.put_u8(2);
                out.put_u32(leaves.len() as u32);
                leaves.iter().for_each(|leaf| out.extend_from_slice(&leaf.0.to_le_bytes()));
                out.put_u8(after.is_some().into());
                if let Some(after) = after {
                    out.put_string(after);
                }
            }
        }
    }

    /// Reads a question; what follows it stays in the reader.
    pub fn read(reader: &mut Reader<'_>) -> Result<SyncQuestion, Malformed> {
        match reader.u8("kind of question")? {
            0 => Ok(SyncQuestion::Root { sum: take_u128(reader)?, rows: reader.u64("rows")? }),
            1 => {
                let level = reader.u8("a level")?;
                if !(1..DEPTH).contains(&level) {
                    return Err(Malformed("a level"));
                }
                let nodes = FAN_OUT.pow(u32::from(level));
                let place = |reader: &mut Reader<'_>| {
                    let place = reader.u32("a node")?;
                    if place < nodes { Ok(place) } else { Err(Malformed("a node")) }
                };
                let places = take_ascending(reader, NODES_PER_QUESTION_MAX, place)?;
                Ok(SyncQuestion::Nodes { level, places })
            }
            2 => {
                let leaf = |reader: &mut Reader<'_>| {
                    let bytes = reader.take(2, "a leaf")?;
                    Ok(Leaf(u16::from_le_bytes([bytes[0], bytes[1]])))
                };
                let leaves = take_ascending(reader, LEAVES_PER_PAGE_MAX, leaf)?;
                let after = match take_bool(reader)? {
                    true => Some(take_key(reader)?),
                    false => None,
                };
                Ok(SyncQuestion::Rows { leaves, after })
            }
            _ => Err(Malformed("kind of question")),
        }
    }
}

impl SyncAnswer {
    /// Appends the answer.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            SyncAnswer::Same => out.put_u8(0),
            SyncAnswer::Sums(sums) => {
                out.put_u8(1);
                out.put_u32(sums.len() as u32);
                sums.iter().for_each(|sum| out.put_u64(*sum));
            }
            SyncAnswer::Rows { rows, more } => {
                out.put_u8(2);
                out.put_u32(rows.len() as u32);
                for row in rows {
                    out.put_string(&row.key);
                    put_u128(row.digest, out);
                }
                out.put_u8((*more).into());
            }
        }
    }

    /// Reads an answer; what follows it stays in the reader.
    pub fn read(reader: &mut Reader<'_>) -> Result<SyncAnswer, Malformed> {
        match reader.u8("kind of answer")? {
            0 => Ok(SyncAnswer::Same),
            1 => {
                let count_max = NODES_PER_QUESTION_MAX * FAN_OUT as usize;
                let count = take_count(reader, count_max)?;
                let sums = (0..count).map(|_| reader.u64("a sum")).collect::<Result<_, _>>()?;
                Ok(SyncAnswer::Sums(sums))
            }
            2 => {
                let count = take_count(reader, ROWS_PER_PAGE_MAX)?;
                let mut rows: Vec<RowDigest> = Vec::new();
                for _ in 0..count {
                    let row = RowDigest { key: take_key(reader)?, digest: take_u128(reader)? };
                    if rows.last().is_some_and(|last| last.key >= row.key) {
                        return Err(Malformed("the order of rows"));
                    }
                    rows.push(row);
                }
                Ok(SyncAnswer::Rows { rows, more: take_bool(reader)? })
            }
            _ => Err(Malformed("kind of answer")),
        }
    }
}

fn put_u128(value: u128, out: &mut Vec<u8>) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn take_u128(reader: &mut Reader<'_>) -> Result<u128, Malformed> {
    let (low, high) = (reader.u64("a digest")?, reader.u64("a digest")?);
    Ok(u128::from(high) << 64 | u128::from(low))
}

fn take_count(reader: &mut Reader<'_>, count_max: usize) -> Result<usize, Malformed> {
    let count = reader.u32("how many")? as usize;
    if count <= count_max { Ok(count) } else { Err(Malformed("how many")) }
}

fn take_ascending<T: Ord>(
    reader: &mut Reader<'_>,
    count_max: usize,
    take: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = take_count(reader, count_max)?;
    let mut all = Vec::new();
    for _ in 0..count {
        let next = take(reader)?;
        if all.last().is_some_and(|last| *last >= next) {
            return Err(Malformed("an order"));
        }
        all.push(next);
    }
    if all.is_empty() { Err(Malformed("how many")) } else { Ok(all) }
}

fn take_key(reader: &mut Reader<'_>) -> Result<Key, Malformed> {
    Ok(Key::copy_from_slice(reader.string(ROW_KEY_BYTES_MAX, "a row's key")?))
}

fn take_bool(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.u8("yes or no")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("yes or no")),
    }
}
