//! Fuzzing: what must hold of the messages and parts of a snapshot, whatever their bytes are. Only
//! the crate `fuzz` builds this.

use super::message::{
    self, HEAD_BYTES, Offer, PartEnd, PartHead, SnapshotAnswer, SnapshotQuestion,
};
use super::part_assembler::PartAssembler;
use crate::layout::{self, Mark};
use base::codec::checksum;
use base::{ConfigurationId, GroupId, LogIndex, NodeId};
use bytes::Bytes;
use logic::consensus::Configuration;

const GROUP: GroupId = GroupId(7);
const ID: u64 = 9;

/// Decodes bytes as a question, an answer, the head of a part, or rows.
pub fn message(kind: u8, bytes: &Bytes) {
    match kind % 4 {
        0 => {
            let Ok(question) = SnapshotQuestion::read(bytes) else { return };
            assert_eq!(question.write(), bytes, "a question has one form");
        }
        1 => {
            let Ok(answer) = SnapshotAnswer::read(bytes) else { return };
            assert_eq!(SnapshotAnswer::read(&answer.write()), Ok(answer));
        }
        2 => {
            let Ok(head) = PartHead::read(bytes) else { return };
            assert_eq!(head.write(), bytes[..HEAD_BYTES], "a head has one form");
        }
        _ => {
            let Ok(rows) = message::read_rows(bytes) else { return };
            assert_eq!(message::write_rows(&rows), bytes, "rows have one form");
        }
    }
}

/// Assembles parts in this order, each with a byte that says what is wrong with its head. Rows come
/// out in ascending order, of this group alone, and only behind the mark that was offered.
pub fn parts(parts: &[(u8, Bytes)]) {
    let offer = Offer {
        id: ID,
        mark: Mark { applied: 5, time: 6, next_version: 7 },
        base: LogIndex(1),
        configuration: Configuration::single_member(ConfigurationId(0), NodeId(1)).expect("sound"),
        rows_estimated: 1,
        bytes_estimated: 1,
    };
    let mut assembler = PartAssembler::new(GROUP, &offer);
    let (mut number, mut digest, mut verified) = (0, 0, 0);
    let mut last: Option<Bytes> = None;
    for (how, bytes) in parts {
        let end = [PartEnd::MidChunk, PartEnd::Chunk, PartEnd::Chunk, PartEnd::Snapshot]
            [usize::from(how % 4)];
        let next = checksum(bytes, digest);
        let mut head = PartHead { id: ID, stream: 1, number, end, digest: next };
        match how / 4 {
            0 => head.id ^= 1,
            1 => head.number = head.number.wrapping_add(1),
            2 => head.digest ^= 1,
            _ => {}
        }
        match assembler.accept(head, bytes.clone()) {
            Ok(None) => (number, digest) = (number + 1, next),
            Ok(Some((rows, _))) => {
                (number, digest, verified) = (number + 1, next, next);
                let mut mark = Vec::new();
                layout::mark_key(GROUP, &mut mark);
                for (key, row) in rows {
                    assert!(key.starts_with(&GROUP.0.to_be_bytes()), "a row of another group");
                    match &last {
                        None => assert!(key == mark && row == offer.mark.write()),
                        Some(last) => assert!(*last < key, "the order of rows"),
                    }
                    last = Some(key);
                }
            }
            Err(_) => {
                assembler.rewind();
                (number, digest) = (0, verified);
            }
        }
        assert_eq!(assembler.last_key(), last, "it goes on behind the last verified row");
    }
}
