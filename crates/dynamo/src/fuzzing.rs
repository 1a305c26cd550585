//! Fuzzing: what must hold of the messages and rows of available buckets, whatever their bytes are.
//! Only the crate `fuzz` builds this.

use super::handoff::progress::HandoffProgress;
use super::message::{VnodeQuestion, read_enveloped, write_enveloped};
use super::reply;
use base::{BucketName, RingTransfer};
use bytes::Bytes;
use indexes::IndexNumber;
use vnode_rows::feed_rows::{
    FeedAnswer, VnodeFeedEntry, VnodeFeedRecord, feed_record_key, read_feed_record_key,
};
use vnode_rows::index_rows::{
    EntryValue, IndexAnswer, IndexId, IndexRecord, entry_key, read_entry_key, read_record_key,
};
use vnode_rows::layout::{self, read_row, write_row};
use vnode_rows::transfer_pages::{RowPage, SizeEstimate};

/// Decodes bytes as a question to a vnode or as one of the answers.
pub fn message(kind: u8, bytes: &Bytes) {
    match kind % 8 {
        0 => {
            let Ok((epoch, question)) = read_enveloped(bytes) else { return };
            let plain = question.write();
            let again = VnodeQuestion::read(&plain).expect("what was written can be read");
            assert_eq!(again.write(), plain, "a question is written as it was read");
            let (found, inside) =
                read_enveloped(&write_enveloped(epoch, &plain)).expect("it is sound");
            assert_eq!((found, inside.write()), (epoch, plain));
        }
        1 => {
            if let Ok(Err(error)) = reply::read(bytes) {
                assert_eq!(reply::read(&reply::failure(&error).into()), Ok(Err(error)));
            }
        }
        2 => {
            let Ok((names, more)) = reply::take_names(bytes) else { return };
            let mut again = Vec::new();
            reply::put_names(&names, more, &mut again);
            assert_eq!(reply::take_names(&again.into()), Ok((names, more)));
        }
        3 => {
            let Ok(page) = RowPage::read(bytes) else { return };
            let mut again = Vec::new();
            page.write(&mut again);
            assert_eq!(RowPage::read(&again.into()).as_ref(), Ok(&page));
            for (tail, row) in &page.rows {
                let _ = (layout::read_row_tail(tail), read_row(row));
            }
        }
        4 => {
            let Ok(estimate) = SizeEstimate::read(bytes) else { return };
            let mut again = Vec::new();
            estimate.write(&mut again);
            assert_eq!(again, bytes[..], "an estimate has one form");
        }
        5 => {
            let Ok(progress) = HandoffProgress::read(bytes) else { return };
            let mut again = Vec::new();
            progress.write(&mut again);
            assert_eq!(HandoffProgress::read(&again.into()), Ok(progress.clone()));
            progress.fill(&mut RingTransfer::default());
        }
        6 => {
            let Ok(answer) = IndexAnswer::read(bytes) else { return };
            let mut again = Vec::new();
            answer.write(&mut again);
            assert_eq!(again, bytes[..], "a page of an index has one form");
        }
        _ => index_rows(bytes),
    }
}

/// Decodes bytes as rows of an index or a feed: keys and values of entries and records.
fn index_rows(bytes: &Bytes) {
    if let Ok((bucket, entry, key)) = read_entry_key(bytes) {
        assert_eq!(entry_key(&bucket, &entry, &key), bytes, "the key of an entry has one form");
    }
    if let Ok(value) = EntryValue::read(bytes) {
        assert_eq!(value.write(), bytes, "the value of an entry has one form");
    }
    for id in [IndexId::Tags, IndexId::Declared(BucketName::default(), IndexNumber(1))] {
        if let Ok(record) = IndexRecord::read(&id, bytes) {
            assert_eq!(record.write(), bytes, "the record of an index has one form");
        }
    }
    if let Ok(id) = read_record_key(bytes) {
        assert_eq!(id.record_key(), bytes, "the key of a record has one form");
    }
    if let Ok(entry) = VnodeFeedEntry::read(bytes) {
        assert_eq!(entry.write(), bytes, "an entry of a feed has one form");
    }
    if let Ok(record) = VnodeFeedRecord::read(bytes) {
        assert_eq!(record.write(), bytes, "the record of a feed has one form");
    }
    if let Ok(bucket) = read_feed_record_key(bytes) {
        assert_eq!(feed_record_key(&bucket), bytes, "the key of such a record has one form");
    }
    if let Ok(answer) = FeedAnswer::read(bytes) {
        let mut again = Vec::new();
        answer.write(&mut again);
        assert_eq!(again, bytes[..], "an answer about a feed has one form");
    }
}

/// Decodes two rows of a key, and merges them in both orders.
pub fn row(one: &Bytes, other: &Bytes) {
    let read = |bytes: &Bytes| {
        let row = read_row(bytes).ok()?;
        assert_eq!(write_row(&row), bytes, "a row has one form");
        for (dot, value) in row.siblings() {
            let _ = value.sibling(dot);
            let later = value.clone().with_expiry(7);
            assert_eq!(value.is_tombstone(), later.is_tombstone());
            let _ =
                (value.expires_at(), value.has_expired(7), value.written_ms(), value.is_typed());
        }
        // Merging drops a value without a dot that stands twice, which no replica writes.
        let merged = row.clone().sync(row);
        let twice = merged.clone().sync(merged.clone());
        assert_eq!(write_row(&twice), write_row(&merged), "merging twice adds nothing");
        Some(merged)
    };
    let (Some(one), Some(other)) = (read(one), read(other)) else { return };
    let merged = one.clone().sync(other.clone());
    let bytes = write_row(&merged);
    assert_eq!(write_row(&other.sync(one)), bytes, "merging has no order");
    assert!(read_row(&bytes).is_ok(), "a merged row reads back");
    let everything = merged.join();
    let left = merged.discard(&everything);
    assert!(left.siblings().all(|(dot, _)| dot.is_none()), "a context of all replaces all");
}
