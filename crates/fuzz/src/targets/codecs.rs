//! Codecs between nodes: what decodes encodes to bytes that decode to the same.

use crate::input::InputReader;
use base::codec::Reader;
use base::wire::{answer_bytes, read_answer, write_answer};
use base::{Error, Reply, Request};
use bytes::Bytes;
use logic::consensus::{Configuration, Message};
use logic::ring::Ring;
use logic::sync::{HashTree, SyncAnswer, SyncQuestion, row_hash};

fn encoded(write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::new();
    write(&mut out);
    out.into()
}

/// Requests, replies, errors and answers that nodes forward.
pub fn requests(input: &[u8]) {
    let mut input = InputReader::new(input);
    let (kind, bytes) = (input.below(4), Bytes::copy_from_slice(input.rest()));
    match kind {
        0 => {
            let Ok(request) = Request::read(&bytes) else { return };
            let again = encoded(|out| request.write(out));
            assert_eq!(again.len(), request.wire_bytes(), "the size was announced");
            assert_same(Request::read(&again), request);
        }
        1 => {
            let Ok(reply) = Reply::read(&bytes) else { return };
            let again = encoded(|out| reply.write(out));
            assert_eq!(again.len(), reply.wire_bytes(), "the size was announced");
            assert_same(Reply::read(&again), reply);
        }
        2 => {
            let Ok(error) = Error::read(&bytes) else { return };
            let _ = error.to_string();
            assert_same(Error::read(&encoded(|out| error.write(out))), error);
        }
        _ => {
            let Ok(answer) = read_answer(&bytes) else { return };
            let again = encoded(|out| write_answer(&answer, usize::MAX, out));
            assert_eq!(again.len(), answer_bytes(&answer), "the size was announced");
            assert_same(read_answer(&again), answer.clone());
            // Cut to a limit, it is still an answer.
            let short = encoded(|out| write_answer(&answer, 64, out));
            assert!(read_answer(&short).is_ok(), "{short:?}");
        }
    }
}

/// Asserts that a value was read back. By its text, as a number that is none (NaN) equals nothing.
fn assert_same<T: std::fmt::Debug>(read: Result<T, base::codec::Malformed>, written: T) {
    let read = read.expect("what was written can be read");
    assert_eq!(format!("{read:?}"), format!("{written:?}"));
}

/// Messages of consensus, configurations, rings, and comparisons of copies.
pub fn consensus(input: &[u8]) {
    let mut input = InputReader::new(input);
    let (kind, bytes) = (input.below(5), input.rest());
    let mut reader = Reader::new(bytes);
    match kind {
        0 => {
            let Ok(message) = Message::read(&mut reader) else { return };
            let used = &bytes[..bytes.len() - reader.rest().len()];
            assert_eq!(encoded(|out| message.write(out)), used, "a message has one form");
            let _ = message.is_sound();
        }
        1 => {
            let Ok(configuration) = Configuration::read(&mut reader) else { return };
            let again = encoded(|out| configuration.write(out));
            assert_eq!(Configuration::read(&mut Reader::new(&again)), Ok(configuration.clone()));
            let quorums = configuration.quorums();
            assert!(quorums.save > 0 && quorums.elect > 0, "{quorums:?} of {configuration:?}");
            assert!(quorums.save + quorums.elect > configuration.voters().count(), "they overlap");
        }
        2 => {
            let Ok(ring) = Ring::decode(bytes) else { return };
            let again = ring.encode();
            assert_eq!(Ring::decode(&again).map(|ring| ring.encode()), Ok(again));
        }
        3 => {
            let Ok(question) = SyncQuestion::read(&mut reader) else { return };
            let again = encoded(|out| question.write(out));
            assert_eq!(SyncQuestion::read(&mut Reader::new(&again)), Ok(question.clone()));
            let mut tree = HashTree::new();
            (0..64_u8).for_each(|row| tree.insert(row_hash(&[row], b"row")));
            if let Some(answer) = question.answer(&tree) {
                let answered = encoded(|out| answer.write(out));
                assert_eq!(SyncAnswer::read(&mut Reader::new(&answered)), Ok(answer));
            }
        }
        _ => {
            let Ok(answer) = SyncAnswer::read(&mut reader) else { return };
            let again = encoded(|out| answer.write(out));
            assert_eq!(SyncAnswer::read(&mut Reader::new(&again)), Ok(answer));
        }
    }
}

/// Entries of consistent groups as they arrive and as they are kept, with outcomes of sessions.
pub fn entries(input: &[u8]) {
    let mut input = InputReader::new(input);
    let (kind, bytes) = (input.u8(), Bytes::copy_from_slice(input.rest()));
    replication::fuzzing::entry(kind, &bytes);
}

/// Snapshots and comparisons of consistent groups: questions, answers, and parts in any order.
pub fn snapshots(input: &[u8]) {
    let mut input = InputReader::new(input);
    let kind = input.below(5);
    if kind > 0 {
        let bytes = Bytes::copy_from_slice(input.rest());
        return replica_state::fuzzing::snapshot_message(kind as u8, &bytes);
    }
    let mut parts = Vec::new();
    while !input.is_empty() && parts.len() < 32 {
        parts.push((input.u8(), Bytes::copy_from_slice(input.block())));
    }
    replica_state::fuzzing::snapshot_parts(&parts);
}

/// Questions to vnodes, their answers, and their rows.
pub fn vnodes(input: &[u8]) {
    let mut input = InputReader::new(input);
    let (kind, bytes) = (input.u8(), Bytes::copy_from_slice(input.rest()));
    dynamo::fuzzing::message(kind, &bytes);
}

/// Moves of buckets, forwarded requests, and questions about members.
pub fn moves(input: &[u8]) {
    let mut input = InputReader::new(input);
    let (kind, bytes) = (input.u8(), Bytes::copy_from_slice(input.rest()));
    node::fuzzing::message(kind, &bytes);
}
