//! Bytes of feed rows, and of questions and answers about them.

mod pages;

use super::keys::position_in;
use super::*;
use crate::slots::{Slot, SlotSpan};
use base::codec::Reader;
use base::feed::FeedEventKind;
use base::{BucketName, NodeId, Partition};
use bytes::Bytes;
use change_feed::{ChangeMark, SlotSet, VnodePosition};

const LIFE: u32 = 1;

fn bucket() -> BucketName {
    BucketName::new("available", "b").expect("a name")
}

fn at(batch: u64) -> VnodePosition {
    VnodePosition { life: LIFE, batch, ordinal: 0 }
}

fn record(phase: VnodeFeedPhase) -> VnodeFeedRecord {
    let (copies_since, floor) = (at(2), at(3));
    VnodeFeedRecord { phase, copies: 3, copies_since, floor, rows: 4, cursor: Bytes::new() }
}

#[test]
fn keys_and_values_of_feed_rows_have_their_kept_bytes() {
    let position = VnodePosition { life: 258, batch: 7, ordinal: 3 };
    let key = entry_key(bucket().full().as_bytes(), position);
    let kept = b"\x80\x01\0\x01\0\0\x0bavailable/b\0\0\x01\x02\0\0\0\0\0\0\0\x07\0\0\0\x03";
    assert_eq!(key, kept[..]);
    assert_eq!(read_entry_key(&key), Ok((bucket(), position)));
    assert_eq!(position_in(&key), Ok(position));
    let record_key = feed_record_key(&bucket());
    assert_eq!(record_key, b"\x80\x01\0\x01\x01\0\x0bavailable/b"[..]);
    assert_eq!(read_feed_record_key(&record_key), Ok(bucket()));
    for end in 0..record_key.len() {
        assert!(read_feed_record_key(&record_key[..end]).is_err(), "cut at {end}");
    }
    for end in 0..key.len() {
        assert!(read_entry_key(&key[..end]).is_err(), "cut at {end}");
    }
    let entry = VnodeFeedEntry {
        slot: Slot(258),
        kind: FeedEventKind::Delete,
        row_hash: 5,
        written_ms: 300,
        key: Bytes::from_static(b"k"),
    };
    let kept = Bytes::from_static(b"\x01\x02\x01\0\0\0\0\0\0\0\x05\xac\x02k");
    assert_eq!(entry.write(), kept);
    assert_eq!(VnodeFeedEntry::read(&kept), Ok(entry));
    for bytes in [&kept[..12], b"\x04\0\0\0\0\0\0\0\0\0\0\0", b"\0\0\x02\0\0\0\0\0\0\0\0\0"] {
        assert!(VnodeFeedEntry::read(&Bytes::copy_from_slice(bytes)).is_err(), "{bytes:?}");
    }
}

#[test]
fn record_of_a_feed_has_its_kept_bytes() {
    let building =
        VnodeFeedRecord { cursor: Bytes::from_static(b"c"), ..record(VnodeFeedPhase::Building) };
    let kept = b"\x01\x01\x03\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x03\
                 \0\0\0\0\x04\0\0\0\0\0\0\0\x01\0\0\0c";
    assert_eq!(building.write(), kept[..]);
    let bytes = building.write();
    for end in 0..bytes.len() {
        assert!(VnodeFeedRecord::read(&bytes.slice(..end)).is_err(), "cut at {end}");
    }
    for phase in [VnodeFeedPhase::Ready, VnodeFeedPhase::Dropping, VnodeFeedPhase::Off] {
        assert_eq!(VnodeFeedRecord::read(&record(phase).write()), Ok(record(phase)));
        assert_eq!(record(phase).is_in_force(), phase == VnodeFeedPhase::Ready);
    }
    assert!(building.is_in_force());
}

fn compared() -> ComparedSlots {
    ComparedSlots::new(SlotSpan { partition: Partition(1), partitions: 8 }, 3)
}

fn query(sections: Vec<FeedSection>, entries_max: usize) -> VnodeFeedQuery {
    VnodeFeedQuery { sections, entries_max, with_rows: true, of_former_owner: false }
}

#[test]
fn questions_about_feeds_have_their_kept_bytes() {
    let slots: SlotSet = (0..2).collect();
    let section = FeedSection { position: at(7), slots };
    let asked = query(vec![section], 9);
    let nothing = FeedSection { position: VnodePosition::START, slots: SlotSet::default() };
    let former =
        VnodeFeedQuery { with_rows: false, of_former_owner: true, ..query(vec![nothing], 1) };
    let name = b"\x0b\0\0\0available/b";
    let (peer, position) = (NodeId(5), at(7));
    let questions = [
        (
            FeedQuestion::Page(bucket(), asked),
            [&b"\0"[..], name, b"\x09\0\0\0\x01\x01\0\0\0\x01\x07\x01\x01\0\x02"].concat(),
        ),
        (
            FeedQuestion::Bridges { bucket: bucket(), peer, position, slots },
            [&b"\x01"[..], name, b"\x05\0\0\0\0\0\0\0\x01\x07\x01\x01\0\x02"].concat(),
        ),
        (
            FeedQuestion::Page(bucket(), former),
            [&b"\0"[..], name, b"\x01\0\0\0\x02\x01\0\0\0\0\0\x01\0"].concat(),
        ),
        (FeedQuestion::Position, b"\x02".to_vec()),
        (FeedQuestion::Changes { behind: None, wait_ms: 258 }, b"\x04\0\x02\x01\0\0".to_vec()),
        (
            FeedQuestion::Changes { behind: Some(ChangeMark { life: 2, number: 3 }), wait_ms: 1 },
            b"\x04\x01\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0".to_vec(),
        ),
        (
            FeedQuestion::Bridge { compared: compared(), peer, own: at(1), peer_position: at(2) },
            b"\x03\x80\0\x80\0\x03\x05\0\0\0\0\0\0\0\x01\x01\x01\x01\x02\x01".to_vec(),
        ),
    ];
    for (question, kept) in questions {
        let mut bytes = Vec::new();
        question.put(&mut bytes);
        assert_eq!(bytes, kept, "{question:?}");
        assert_eq!(FeedQuestion::take(&mut Reader::new(&bytes)), Ok(question));
        for end in 0..bytes.len() {
            assert!(FeedQuestion::take(&mut Reader::new(&bytes[..end])).is_err(), "{end}");
        }
    }
    assert!(FeedQuestion::take(&mut Reader::new(b"\x05")).is_err());
}

#[test]
fn answers_about_feeds_have_their_kept_bytes() {
    let entry = SectionEntry {
        position: at(7),
        slot: Slot(258),
        kind: FeedEventKind::Put,
        key: Bytes::from_static(b"k"),
        row: Some(Bytes::from_static(b"row")),
    };
    let (end, level, floor, is_level) = (at(8), at(9), at(1), false);
    let joined = vec![(at(5), [0].into_iter().collect())];
    let page = VnodeFeedPage { entries: vec![entry.clone()], end, level, floor, joined, is_level };
    let kept = b"\x02\x01\x08\x01\x01\x09\x01\x01\x01\x01\
                 \x01\0\0\0\x01\x05\x01\x01\0\x01\0\x01\0\0\0\
                 \x01\x07\x01\x02\x01\0\x01\0\0\0k\x01\x03\0\0\0row";
    let written = |answer: &FeedAnswer| {
        let mut bytes = Vec::new();
        answer.write(&mut bytes);
        Bytes::from(bytes)
    };
    let answer = FeedAnswer::Page(page.clone());
    assert_eq!(written(&answer), kept[..]);
    for answer in [answer, FeedAnswer::Absent, FeedAnswer::Building(3, 1_024)] {
        let bytes = written(&answer);
        for end in 0..bytes.len() {
            assert!(FeedAnswer::read(&bytes.slice(..end)).is_err(), "cut at {end}");
        }
        assert_eq!(FeedAnswer::read(&bytes), Ok(answer));
    }
    let unordered = VnodeFeedPage { entries: vec![entry.clone(), entry], ..page.clone() };
    let beyond = VnodeFeedPage { end: at(6), ..page };
    for page in [unordered, beyond] {
        assert!(FeedAnswer::read(&written(&FeedAnswer::Page(page))).is_err());
    }
    let bridges = vec![(at(7), (0..2).collect::<SlotSet>())];
    let mut bytes = Vec::new();
    put_positions(&bridges, &mut bytes);
    assert_eq!(bytes, b"\x01\0\0\0\x01\x07\x01\x01\0\x02");
    assert_eq!(read_positions(&bytes), Ok(bridges));
    for end in 0..bytes.len() {
        assert!(read_positions(&bytes[..end]).is_err(), "cut at {end}");
    }
}
