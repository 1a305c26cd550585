//! Messages between nodes about available buckets: requests by the lane of calls.
//!
//! ```text
//! question = 16 | kind u8 | fields, as in `base/codec.rs`
//! ```
//! Fetch 0, store 1, request passed on 2, keys 3, buckets 4, holds 5 (6: and takes no write),
//! compare 7, rows of a partition 9, weight 10, progress 11, ring 12, bare 18 (19: and drops them).
//! 8 is an envelope: the epoch of the ring by which the sender chose whom it asks, u64, then the
//! question. Answers: `reply.rs`.
//!
//! A partition is a u32: its number, and in the upper half the number of partitions of its sender's
//! ring. Versions that wrote the number alone, and one before each key, are refused, and refuse
//! this one.

use super::hash_trees::TreeId;
use super::slots::SlotSpan;
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

/// In it stands the epoch of the sender's ring, and the question.
const ENVELOPE: u8 = 8;
/// Most bytes of what a row's key is behind its partition.
pub(super) const TAIL_BYTES_MAX: usize =
    2 + NAME_BYTES_MAX + 1 + BUCKET_NAME_BYTES_MAX + KEY_BYTES_MAX;

/// Most rows of one question whether they are bare, that is, hold no living value.
pub(super) const BARE_ROWS_MAX: usize = 512;

pub(super) type MessageResult<T> = std::result::Result<T, Malformed>;

/// Adds the envelope to a question: the epoch of the ring by which the receiver was chosen.
pub(super) fn enclose(epoch: u64, question: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(10 + question.len());
    out.put_u8(CallKind::Vnodes.byte());
    out.put_u8(ENVELOPE);
    out.put_u64(epoch);
    out.extend_from_slice(question);
    out.into()
}

/// The question, and the epoch on its envelope; 0: it has none.
pub(super) fn open(bytes: &Bytes) -> MessageResult<(u64, VnodeQuestion)> {
    if bytes.get(1) != Some(&ENVELOPE) {
        return Ok((0, VnodeQuestion::read(bytes)?));
    }
    let mut from = Reader::new(bytes);
    from.take(2, "which call")?;
    let epoch = from.u64("epoch of the ring")?;
    Ok((epoch, VnodeQuestion::read(&bytes.slice_ref(from.rest()))?))
}

/// Request to a vnode of another node.
#[derive(Debug)]
pub(super) enum VnodeQuestion {
    /// Read a row. The answer is yes or no, then the row.
    Fetch(KeyRef),
    /// Merge a row of another replica. The answer is empty.
    Store {
        key_ref: KeyRef,
        policy: WritePolicy,
        /// Node for which a fallback keeps it. `None`: the receiver is an owner.
        hint: Option<NodeId>,
        row: Bytes,
    },
    /// A client's request that the asking node can't coordinate: an answer as in `base/wire`.
    PassedOn(Request),
    /// A page of the bucket's keys in these partitions: keys, and whether more follow.
    Keys { spans: Vec<SlotSpan>, bucket: BucketName, after: Option<Key>, rows_max: usize },
    /// A page of the type's buckets in these partitions, by full name: the same.
    Buckets { spans: Vec<SlotSpan>, kind: String, after: Option<String>, rows_max: usize },
    /// Asks if any vnode here holds a row; answered by yes or no.
    Holds(WriteAdmission),
    /// Part of a comparison of two copies of a partition, of the buckets with so many copies. The
    /// answer is one of `logic::sync`.
    Compare { which: TreeId, question: sync::SyncQuestion },
    /// Rows of a partition, of the buckets with so many copies, behind this place in their order:
    /// whether more follow, up to where these go, and the rows.
    Rows { which: TreeId, after: Option<Bytes>, bytes_max: usize },
    /// About how many copies of partitions, rows and bytes are here: three numbers.
    Weight,
    /// Report the progress of the node's work for a ring change. The answer is as `RingTransfer`.
    Progress,
    /// The ring as the node knows it: as the directory keeps it.
    Ring,
    /// Rows without a living value, by digest. The answer has a byte for each, yes or no: the node
    /// holds exactly that row if it is an owner by the ring of this epoch, and none otherwise.
    /// `drop`: a row that is answered yes is removed.
    Tombstones { epoch: u64, rows: Vec<(KeyRef, u128)>, drop: bool },
}

/// Kind of answer to writes of a node that holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteAdmission {
    /// Writes are taken.
    Open,
    /// Writes are refused until the ring has changed, or a while has passed.
    Fenced,
}

impl VnodeQuestion {
    pub(super) fn write(&self) -> Bytes {
        let mut out = vec![CallKind::Vnodes.byte()];
        match self {
            VnodeQuestion::Fetch(key_ref) => {
                out.put_u8(0);
                put_spot(key_ref, &mut out);
            }
            VnodeQuestion::Store { key_ref, policy, hint, row } => {
                out.reserve(64 + key_ref.bucket.full().len() + key_ref.key.len() + row.len());
                out.put_u8(1);
                put_spot(key_ref, &mut out);
                out.put_u8(u8::from(policy.sync) | u8::from(policy.keeps_one) << 1);
                out.put_u8(hint.is_some().into());
                if let Some(hint) = hint {
                    out.put_u64(hint.0);
                }
                out.extend_from_slice(row);
            }
            VnodeQuestion::PassedOn(request) => {
                out.put_u8(2);
                request.write(&mut out);
            }
            VnodeQuestion::Keys { spans, bucket, after, rows_max } => {
                out.put_u8(3);
                put_spans(spans, &mut out);
                out.put_string(bucket.full().as_bytes());
                put_after(after.as_deref(), *rows_max, &mut out);
            }
            VnodeQuestion::Buckets { spans, kind, after, rows_max } => {
                out.put_u8(4);
                put_spans(spans, &mut out);
                out.put_string(kind.as_bytes());
                put_after(after.as_ref().map(String::as_bytes), *rows_max, &mut out);
            }
            VnodeQuestion::Holds(WriteAdmission::Open) => out.put_u8(5),
            VnodeQuestion::Holds(WriteAdmission::Fenced) => out.put_u8(6),
            VnodeQuestion::Compare { which: (span, copies), question } => {
                out.put_u8(7);
                put_span(*span, &mut out);
                out.put_u8(*copies);
                question.write(&mut out);
            }
            VnodeQuestion::Rows { which: (span, copies), after, bytes_max } => {
                out.put_u8(9);
                put_span(*span, &mut out);
                out.put_u8(*copies);
                put_after(after.as_deref(), *bytes_max, &mut out);
            }
            VnodeQuestion::Weight => out.put_u8(10),
            VnodeQuestion::Progress => out.put_u8(11),
            VnodeQuestion::Ring => out.put_u8(12),
            VnodeQuestion::Tombstones { epoch, rows, drop } => {
                out.put_u8(18 + u8::from(*drop));
                out.put_u64(*epoch);
                out.put_u32(rows.len() as u32);
                for (key_ref, digest) in rows {
                    put_spot(key_ref, &mut out);
                    out.extend_from_slice(&digest.to_be_bytes());
                }
            }
        }
        out.into()
    }

    pub(super) fn read(bytes: &Bytes) -> MessageResult<VnodeQuestion> {
        let mut from = Reader::new(bytes);
        if from.u8("which call")? != CallKind::Vnodes.byte() {
            return Err(Malformed("which call"));
        }
        let question = match from.u8("which question")? {
            0 => VnodeQuestion::Fetch(take_spot(bytes, &mut from)?),
            1 => {
                let key_ref = take_spot(bytes, &mut from)?;
                let flags = from.u8("rules")?;
                let policy = WritePolicy {
                    sync: flags & 1 != 0,
                    keeps_one: flags & 2 != 0,
                    overwrites: false,
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
            2 => return Ok(VnodeQuestion::PassedOn(Request::read(&bytes.slice_ref(from.rest()))?)),
            3 => {
                let (spans, bucket) = (take_spans(&mut from)?, take_bucket(&mut from)?);
                let (after, rows_max) = take_after(bytes, &mut from)?;
                VnodeQuestion::Keys { spans, bucket, after, rows_max }
            }
            4 => {
                let spans = take_spans(&mut from)?;
                let kind = take_text(NAME_BYTES_MAX, &mut from)?.to_string();
                let (after, rows_max) = take_after(bytes, &mut from)?;
                let text = |after: Bytes| String::from_utf8(after.into());
                let after = after.map(text).transpose().map_err(|_| Malformed("bucket"))?;
                VnodeQuestion::Buckets { spans, kind, after, rows_max }
            }
            5 => VnodeQuestion::Holds(WriteAdmission::Open),
            6 => VnodeQuestion::Holds(WriteAdmission::Fenced),
            7 => {
                let which = (take_span(&mut from)?, from.u8("copies")?);
                VnodeQuestion::Compare { which, question: sync::SyncQuestion::read(&mut from)? }
            }
            9 => {
                let which = (take_span(&mut from)?, from.u8("copies")?);
                let (after, bytes_max) = take_place(bytes, TAIL_BYTES_MAX, &mut from)?;
                VnodeQuestion::Rows { which, after, bytes_max }
            }
            10 => VnodeQuestion::Weight,
            11 => VnodeQuestion::Progress,
            12 => VnodeQuestion::Ring,
            kind @ (18 | 19) => {
                let (epoch, count) = (from.u64("epoch")?, from.u32("rows")? as usize);
                if count > BARE_ROWS_MAX {
                    return Err(Malformed("rows"));
                }
                let rows = (0..count).map(|_| take_bare(bytes, &mut from));
                VnodeQuestion::Tombstones {
                    epoch,
                    rows: rows.collect::<MessageResult<_>>()?,
                    drop: kind == 19,
                }
            }
            _ => return Err(Malformed("which question")),
        };
        from.end("question")?;
        Ok(question)
    }
}

/// Field in which earlier versions named the key's partition; they refuse this value.
const ANYWHERE: u32 = u32::MAX;

fn put_spot(key_ref: &KeyRef, out: &mut Vec<u8>) {
    out.put_u32(ANYWHERE);
    out.put_string(key_ref.bucket.full().as_bytes());
    out.put_string(&key_ref.key);
}

fn take_spot(whole: &Bytes, from: &mut Reader<'_>) -> MessageResult<KeyRef> {
    from.u32("partition")?;
    let bucket = take_bucket(from)?;
    let key = whole.slice_ref(from.string(KEY_BYTES_MAX, "key")?);
    Ok(KeyRef::new(bucket, key))
}

fn take_bare(whole: &Bytes, from: &mut Reader<'_>) -> MessageResult<(KeyRef, u128)> {
    let key_ref = take_spot(whole, from)?;
    let digest = from.take(16, "digest")?.try_into();
    Ok((key_ref, u128::from_be_bytes(digest.map_err(|_| Malformed("digest"))?)))
}

fn put_span(span: SlotSpan, out: &mut Vec<u8>) {
    out.put_u32(span.of << 16 | span.partition.0);
}

fn take_span(from: &mut Reader<'_>) -> MessageResult<SlotSpan> {
    let word = from.u32("partition")?;
    let (of, partition) = (word >> 16, word & 0xffff);
    let fits = check_partitions(of) && partition < of;
    if fits {
        Ok(SlotSpan { partition: Partition(partition), of })
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

fn take_after(whole: &Bytes, from: &mut Reader<'_>) -> MessageResult<(Option<Bytes>, usize)> {
    take_place(whole, KEY_BYTES_MAX, from)
}

fn take_place(
    whole: &Bytes,
    bytes_max: usize,
    from: &mut Reader<'_>,
) -> MessageResult<(Option<Bytes>, usize)> {
    let after = match from.u8("after")? {
        0 => None,
        1 => Some(whole.slice_ref(from.string(bytes_max, "after")?)),
        _ => return Err(Malformed("after")),
    };
    let rows_max = usize::try_from(from.u64("rows")?).map_err(|_| Malformed("rows"))?;
    Ok((after, rows_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_say_of_how_many_they_are_and_keys_lie_where_the_reader_finds_them() {
        let bucket = BucketName::new("available", "b").expect("a name");
        let span = SlotSpan { partition: Partition(5), of: 64 };
        let rows = VnodeQuestion::Rows { which: (span, 3), after: None, bytes_max: 7 }.write();
        assert_eq!(rows[..7], [16, 9, 5, 0, 64, 0, 3]);
        let read = VnodeQuestion::read(&rows).expect("it reads");
        assert!(matches!(read, VnodeQuestion::Rows { which, .. } if which == (span, 3)));
        for word in [5, 64 << 16 | 64, 48 << 16 | 5, u32::MAX] {
            let mut bytes = rows.to_vec();
            bytes[2..6].copy_from_slice(&word.to_le_bytes());
            assert!(VnodeQuestion::read(&bytes.into()).is_err(), "{word:x}");
        }
        let key_ref = KeyRef::new(bucket, Bytes::from_static(b"k"));
        let mut fetch = VnodeQuestion::Fetch(key_ref.clone()).write().to_vec();
        fetch[2] = 9;
        let read = VnodeQuestion::read(&fetch.into()).expect("it reads");
        assert!(matches!(read, VnodeQuestion::Fetch(found) if found.slot == key_ref.slot));
    }

    #[test]
    fn bare_rows_are_asked_about_by_the_page_and_by_no_more() {
        let bucket = BucketName::new("available", "b").expect("a name");
        let row =
            |key: u8| (KeyRef::new(bucket.clone(), vec![key; 3].into()), u128::from(key) << 99);
        let rows: Vec<_> = [1, 2, 3].into_iter().map(row).collect();
        for drop in [false, true] {
            let bytes = VnodeQuestion::Tombstones { epoch: 7, rows: rows.clone(), drop }.write();
            let read = match VnodeQuestion::read(&bytes) {
                Ok(VnodeQuestion::Tombstones { epoch: 7, rows, drop: read }) if read == drop => {
                    rows
                }
                _ => panic!("it reads as it was written"),
            };
            let named = |rows: &[(KeyRef, u128)]| {
                rows.iter()
                    .map(|(key_ref, digest)| (key_ref.key.clone(), *digest))
                    .collect::<Vec<_>>()
            };
            assert_eq!(named(&read), named(&rows));
            for end in 2..bytes.len() {
                assert!(VnodeQuestion::read(&bytes.slice(..end)).is_err(), "cut at {end}");
            }
        }
        let many = vec![row(1); BARE_ROWS_MAX + 1];
        let bytes = VnodeQuestion::Tombstones { epoch: 7, rows: many, drop: true }.write();
        assert!(VnodeQuestion::read(&bytes).is_err(), "more than a page");
    }
}
