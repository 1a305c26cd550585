//! Messages between nodes about available buckets: requests by the lane of calls.
//!
//! ```text
//! question = 16 | kind u8 | fields, as in `base/codec.rs`
//! ```
//! Fetch 0, store 1, forwarded request 2, keys 3, buckets 4, has rows 5 (6: and fences writes),
//! compare 7, rows of a partition 9, size 10, progress 11, ring 12, tombstones 18 (19: and drops
//! them), page of an index 20, feeds 21 (`vnode_rows/feed_rows/page.rs`). 8 is an envelope: the
//! epoch of the ring by which the sender chose the receiver, u64, then the question. Answers:
//! `reply.rs`.
//!
//! A partition is a u32: its number, and in the upper half the number of partitions of its sender's
//! ring. Messages of versions that wrote the number alone, and one before each key, are refused,
//! and those versions refuse this one.

use super::vnode_ops::{KeyRef, WritePolicy};
use base::codec::{Malformed, Reader, Writer};
use base::limits::{
    BUCKET_NAME_BYTES_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, PARTITIONS_MAX, SIBLINGS_HARD_MAX,
};
use base::{BucketName, Key, NodeId, Partition, Request};
use bytes::Bytes;
use logic::ring::check_partitions;
use logic::sync;
use transport::CallKind;
use vnode_rows::feed_rows::FeedQuestion;
use vnode_rows::hash_trees::TreeId;
use vnode_rows::index_rows::IndexQuery;
use vnode_rows::layout::TAIL_BYTES_MAX;
use vnode_rows::slots::SlotSpan;

/// Kind of the envelope: it holds the epoch of the sender's ring, and the question.
const ENVELOPE: u8 = 8;
/// Maximum number of rows in one question about tombstones: rows without a live value.
pub(super) const TOMBSTONES_MAX: usize = 512;

pub(super) type MessageResult<T> = std::result::Result<T, Malformed>;

/// Size of the envelope, in bytes.
const ENVELOPE_BYTES: usize = 10;

/// Adds the envelope to a question: the epoch of the ring by which the receiver was chosen.
pub(super) fn write_enveloped(epoch: u64, question: &[u8]) -> Bytes {
    let mut out = begin_envelope(epoch, question.len());
    out.extend_from_slice(question);
    out.into()
}

fn begin_envelope(epoch: u64, question_bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(ENVELOPE_BYTES + question_bytes);
    out.put_u8(CallKind::Vnodes.byte());
    out.put_u8(ENVELOPE);
    out.put_u64(epoch);
    out
}

/// Reads a question and the epoch of its envelope. 0: it has no envelope.
pub(super) fn read_enveloped(bytes: &Bytes) -> MessageResult<(u64, VnodeQuestion)> {
    if bytes.get(1) != Some(&ENVELOPE) {
        return Ok((0, VnodeQuestion::read(bytes)?));
    }
    let mut from = Reader::new(bytes);
    from.take(2, "kind of call")?;
    let epoch = from.u64("epoch of the ring")?;
    Ok((epoch, VnodeQuestion::read(&bytes.slice_ref(from.rest()))?))
}

/// Request to a vnode of another node.
#[derive(Debug)]
pub(super) enum VnodeQuestion {
    /// Reads a row. The answer is yes or no, then the row.
    Fetch(KeyRef),
    /// Merges a row of another replica. The answer is as in `reply::stored`.
    Store {
        key_ref: KeyRef,
        policy: WritePolicy,
        /// Owner for which the receiver stores it as a fallback. `None`: the receiver is an owner.
        hint: Option<NodeId>,
        row: Bytes,
    },
    /// Client request to be coordinated by the receiver. The answer is as in `base/wire`.
    Forward(Request),
    /// Reads a page of the bucket's keys in these partitions. The answer: keys, and true if more
    /// follow.
    Keys { spans: Vec<SlotSpan>, bucket: BucketName, after: Option<Key>, rows_max: usize },
    /// Reads a page of the type's buckets in these partitions, by full name. The answer is as for
    /// `Keys`.
    Buckets { spans: Vec<SlotSpan>, kind: String, after: Option<Bytes>, rows_max: usize },
    /// Asks whether any vnode of the receiver holds a row. The answer is yes or no.
    HasRows(WriteAdmission),
    /// Step of a comparison of two hash trees. The answer is one of `logic::sync`.
    Compare { tree_id: TreeId, question: sync::SyncQuestion },
    /// Reads rows of a tree after this position. The answer: the last position if more rows follow,
    /// and the rows.
    Rows { tree_id: TreeId, after: Option<Bytes>, bytes_max: usize },
    /// Estimates the receiver's data. The answer: copies of partitions, rows, bytes.
    Size,
    /// Asks for the progress of the receiver's transfers. The answer is a `HandoffProgress`.
    Progress,
    /// Asks for the receiver's ring. The answer is encoded as in the directory.
    Ring,
    /// Rows without a live value, by digest. The answer has a byte for each, yes or no: the
    /// receiver has exactly that row if it is an owner by the ring of this epoch, and none
    /// otherwise. `drop`: a row whose answer is yes is removed.
    Tombstones { epoch: u64, rows: Vec<(KeyRef, u128)>, drop: bool },
    /// Reads a page of an index of the bucket, for these partitions. The answer is an
    /// `IndexAnswer`.
    Index { spans: Vec<SlotSpan>, bucket: BucketName, query: IndexQuery },
    /// Asks about the feeds of the receiver.
    Feed(FeedQuestion),
}

/// Admission of writes at a node without rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteAdmission {
    /// Writes are accepted.
    Open,
    /// Writes are refused until the ring has changed or the fence has expired.
    Fenced,
}

impl VnodeQuestion {
    pub(super) fn write(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.usual_bytes());
        self.put(&mut out);
        out.into()
    }

    /// Writes the question in its envelope; see [`write_enveloped`].
    pub(super) fn write_enveloped(&self, epoch: u64) -> Bytes {
        let mut out = begin_envelope(epoch, self.usual_bytes());
        self.put(&mut out);
        out.into()
    }

    /// Returns the size of the frequent questions, and a guess for the others, in bytes.
    fn usual_bytes(&self) -> usize {
        let of_key = |key_ref: &KeyRef| 14 + key_ref.bucket.full().len() + key_ref.key.len();
        match self {
            VnodeQuestion::Fetch(key_ref) => of_key(key_ref),
            VnodeQuestion::Store { key_ref, hint, row, .. } => {
                of_key(key_ref) + 2 + hint.map_or(0, |_| 8) + row.len()
            }
            _ => 64,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(CallKind::Vnodes.byte());
        match self {
            VnodeQuestion::Fetch(key_ref) => {
                out.put_u8(0);
                put_key_ref(key_ref, out);
            }
            VnodeQuestion::Store { key_ref, policy, hint, row } => {
                out.put_u8(1);
                put_key_ref(key_ref, out);
                out.put_u8(u8::from(policy.sync) | u8::from(policy.keep_newest_only) << 1);
                out.put_u8(hint.is_some().into());
                hint.iter().for_each(|hint| out.put_u64(hint.0));
                out.extend_from_slice(row);
            }
            VnodeQuestion::Forward(request) => {
                out.put_u8(2);
                request.write(out);
            }
            VnodeQuestion::Keys { spans, bucket, after, rows_max } => {
                out.put_u8(3);
                put_spans(spans, out);
                out.put_string(bucket.full().as_bytes());
                put_after(after.as_deref(), *rows_max, out);
            }
            VnodeQuestion::Buckets { spans, kind, after, rows_max } => {
                out.put_u8(4);
                put_spans(spans, out);
                out.put_string(kind.as_bytes());
                put_after(after.as_deref(), *rows_max, out);
            }
            VnodeQuestion::HasRows(WriteAdmission::Open) => out.put_u8(5),
            VnodeQuestion::HasRows(WriteAdmission::Fenced) => out.put_u8(6),
            VnodeQuestion::Compare { tree_id: (span, copies), question } => {
                out.put_u8(7);
                put_span(*span, out);
                out.put_u8(*copies);
                question.write(out);
            }
            VnodeQuestion::Rows { tree_id: (span, copies), after, bytes_max } => {
                out.put_u8(9);
                put_span(*span, out);
                out.put_u8(*copies);
                put_after(after.as_deref(), *bytes_max, out);
            }
            VnodeQuestion::Size => out.put_u8(10),
            VnodeQuestion::Progress => out.put_u8(11),
            VnodeQuestion::Ring => out.put_u8(12),
            VnodeQuestion::Tombstones { epoch, rows, drop } => {
                out.put_u8(18 + u8::from(*drop));
                out.put_u64(*epoch);
                out.put_u32(rows.len() as u32);
                for (key_ref, digest) in rows {
                    put_key_ref(key_ref, out);
                    out.extend_from_slice(&digest.to_be_bytes());
                }
            }
            VnodeQuestion::Index { spans, bucket, query } => {
                out.put_u8(20);
                put_spans(spans, out);
                out.put_string(bucket.full().as_bytes());
                query.put(out);
            }
            VnodeQuestion::Feed(question) => {
                out.put_u8(21);
                question.put(out);
            }
        }
    }

    pub(super) fn read(bytes: &Bytes) -> MessageResult<VnodeQuestion> {
        let mut from = Reader::new(bytes);
        if from.u8("kind of call")? != CallKind::Vnodes.byte() {
            return Err(Malformed("kind of call"));
        }
        let question = match from.u8("kind of question")? {
            0 => VnodeQuestion::Fetch(take_key_ref(bytes, &mut from)?),
            1 => {
                let key_ref = take_key_ref(bytes, &mut from)?;
                let flags = from.u8("rules")?;
                let policy = WritePolicy {
                    sync: flags & 1 != 0,
                    keep_newest_only: flags & 2 != 0,
                    last_write_wins: false,
                    siblings_max: SIBLINGS_HARD_MAX.into(),
                };
                let hint = match from.u8("hint")? {
                    0 => None,
                    1 => Some(NodeId(from.u64("hint")?)),
                    _ => return Err(Malformed("hint")),
                };
                let row = bytes.slice_ref(from.rest());
                return Ok(VnodeQuestion::Store { key_ref, policy, hint, row });
            }
            2 => return Ok(VnodeQuestion::Forward(Request::read(&bytes.slice_ref(from.rest()))?)),
            3 => {
                let (spans, bucket) = (take_spans(&mut from)?, take_bucket(&mut from)?);
                let (after, rows_max) = take_after(bytes, &mut from)?;
                VnodeQuestion::Keys { spans, bucket, after, rows_max }
            }
            4 => {
                let spans = take_spans(&mut from)?;
                let kind = take_text(NAME_BYTES_MAX, &mut from)?.to_string();
                let (after, rows_max) = take_after(bytes, &mut from)?;
                VnodeQuestion::Buckets { spans, kind, after, rows_max }
            }
            5 => VnodeQuestion::HasRows(WriteAdmission::Open),
            6 => VnodeQuestion::HasRows(WriteAdmission::Fenced),
            7 => {
                let tree_id = (take_span(&mut from)?, from.u8("copies")?);
                VnodeQuestion::Compare { tree_id, question: sync::SyncQuestion::read(&mut from)? }
            }
            9 => {
                let tree_id = (take_span(&mut from)?, from.u8("copies")?);
                let (after, bytes_max) = take_cursor(bytes, TAIL_BYTES_MAX, &mut from)?;
                VnodeQuestion::Rows { tree_id, after, bytes_max }
            }
            10 => VnodeQuestion::Size,
            11 => VnodeQuestion::Progress,
            12 => VnodeQuestion::Ring,
            kind @ (18 | 19) => {
                let (epoch, rows) = (from.u64("epoch")?, take_tombstones(bytes, &mut from)?);
                VnodeQuestion::Tombstones { epoch, rows, drop: kind == 19 }
            }
            20 => {
                let (spans, bucket) = (take_spans(&mut from)?, take_bucket(&mut from)?);
                let query = IndexQuery::take(bytes, &mut from)?;
                VnodeQuestion::Index { spans, bucket, query }
            }
            21 => VnodeQuestion::Feed(FeedQuestion::take(&mut from)?),
            _ => return Err(Malformed("kind of question")),
        };
        from.end("question")?;
        Ok(question)
    }
}

/// Value of the field in which earlier versions stored the key's partition; they refuse this value.
const ANY_PARTITION: u32 = u32::MAX;

fn put_key_ref(key_ref: &KeyRef, out: &mut Vec<u8>) {
    out.put_u32(ANY_PARTITION);
    out.put_string(key_ref.bucket.full().as_bytes());
    out.put_string(&key_ref.key);
}

fn take_key_ref(source: &Bytes, from: &mut Reader<'_>) -> MessageResult<KeyRef> {
    from.u32("partition")?;
    let bucket = take_bucket(from)?;
    let key = source.slice_ref(from.string(KEY_BYTES_MAX, "key")?);
    Ok(KeyRef::new(bucket, key))
}

fn take_tombstones(source: &Bytes, from: &mut Reader<'_>) -> MessageResult<Vec<(KeyRef, u128)>> {
    let count = from.u32("rows")? as usize;
    if count > TOMBSTONES_MAX {
        return Err(Malformed("rows"));
    }
    (0..count).map(|_| take_tombstone(source, from)).collect()
}

fn take_tombstone(source: &Bytes, from: &mut Reader<'_>) -> MessageResult<(KeyRef, u128)> {
    let key_ref = take_key_ref(source, from)?;
    let digest = from.take(16, "digest")?.try_into();
    Ok((key_ref, u128::from_be_bytes(digest.map_err(|_| Malformed("digest"))?)))
}

fn put_span(span: SlotSpan, out: &mut Vec<u8>) {
    out.put_u32(span.partitions << 16 | span.partition.0);
}

fn take_span(from: &mut Reader<'_>) -> MessageResult<SlotSpan> {
    let number = from.u32("partition")?;
    let (partitions, partition) = (number >> 16, number & 0xffff);
    let is_valid = check_partitions(partitions) && partition < partitions;
    if is_valid {
        Ok(SlotSpan { partition: Partition(partition), partitions })
    } else {
        Err(Malformed("partition"))
    }
}

fn take_text<'a>(max: usize, from: &mut Reader<'a>) -> MessageResult<&'a str> {
    std::str::from_utf8(from.string(max, "name")?).map_err(|_| Malformed("name"))
}

fn take_bucket(from: &mut Reader<'_>) -> MessageResult<BucketName> {
    let name = take_text(NAME_BYTES_MAX + 1 + BUCKET_NAME_BYTES_MAX, from)?;
    BucketName::from_full(name).map_err(|_| Malformed("bucket"))
}

fn put_spans(spans: &[SlotSpan], out: &mut Vec<u8>) {
    out.put_u32(spans.len() as u32);
    spans.iter().for_each(|span| put_span(*span, out));
}

fn take_spans(from: &mut Reader<'_>) -> MessageResult<Vec<SlotSpan>> {
    let count = from.u32("partitions")? as usize;
    if count > PARTITIONS_MAX || count > from.rest().len() / 4 {
        return Err(Malformed("partitions"));
    }
    (0..count).map(|_| take_span(from)).collect()
}

fn put_after(after: Option<&[u8]>, rows_max: usize, out: &mut Vec<u8>) {
    out.put_u8(after.is_some().into());
    if let Some(after) = after {
        out.put_string(after);
    }
    out.put_u64(rows_max as u64);
}

fn take_after(source: &Bytes, from: &mut Reader<'_>) -> MessageResult<(Option<Bytes>, usize)> {
    take_cursor(source, KEY_BYTES_MAX, from)
}

fn take_cursor(
    source: &Bytes,
    bytes_max: usize,
    from: &mut Reader<'_>,
) -> MessageResult<(Option<Bytes>, usize)> {
    let after = match from.u8("after")? {
        0 => None,
        1 => Some(source.slice_ref(from.string(bytes_max, "after")?)),
        _ => return Err(Malformed("after")),
    };
    let rows_max = usize::try_from(from.u64("rows")?).map_err(|_| Malformed("rows"))?;
    Ok((after, rows_max))
}

#[cfg(test)]
mod tests;
