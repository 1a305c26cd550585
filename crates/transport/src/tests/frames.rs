//! Laws of the frames: what is written in any pieces reads back whole and in order, and no other
//! bytes do.

use crate::batch::FrameBatch;
use crate::frame::{ConnectionWord, Decoder, Encoder, FrameError, FrameEvent, HEAD_BYTES};
use crate::message::{Lane, Message};
use crate::outbox::{Next, Outbox};
use crate::rate::Rate;
use crate::settings::LaneLimits;
use base::GroupId;
use base::limits::{PEER_BULK_BYTES_MAX, PEER_PIECE_BYTES_MAX};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SALT: u64 = 0x5EED;
const WIDE: LaneLimits = LaneLimits { messages: 1 << 20, bytes: 1 << 30 };

/// Builds a message whose bytes depend on its number.
fn message(number: u32, lane: Lane, head: usize, body: usize) -> Message {
    let bytes = |length: usize| (0..length).map(|at| (at as u32 * 7 + number) as u8);
    let head: Vec<_> = bytes(head).collect();
    let body: Bytes = bytes(body).collect::<Vec<_>>().into();
    Message::new(lane, GroupId(number), body).with_head(&head)
}

fn whole(message: &Message) -> Vec<u8> {
    [message.head.bytes(), &message.body].concat()
}

/// Returns all frames that an outbox has to send, as bytes.
pub(super) fn spoken(outbox: &mut Outbox, encoder: &mut Encoder) -> Vec<u8> {
    let (mut out, mut batch) = (Vec::new(), FrameBatch::default());
    loop {
        match outbox.next(0) {
            Next::Word(word) => batch.word(encoder, &word),
            Next::Piece(piece) => batch.piece(encoder, piece),
            Next::Wait(_) => break,
        }
    }
    // A vector takes everything at once, so this future is ready at its first poll.
    let written = futures_now(batch.write_to(&mut out));
    written.expect("a vector never fails");
    out
}

fn futures_now<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it was not to wait"),
    }
}

/// Decodes bytes that arrive in chunks of these sizes, over and over.
fn read(bytes: &[u8], sizes: &[usize]) -> (Vec<FrameEvent>, Result<(), FrameError>) {
    let (mut decoder, mut buffer, mut heard) = (Decoder::new(SALT), BytesMut::new(), Vec::new());
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        let (chunk, later) = rest.split_at((*size).min(rest.len()));
        buffer.extend_from_slice(chunk);
        rest = later;
        loop {
            match decoder.next(&mut buffer) {
                Ok(Some(one)) => heard.push(one),
                Ok(None) => break,
                Err(error) => return (heard, Err(error)),
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    (heard, Ok(()))
}

fn any_lane() -> impl Strategy<Value = Lane> {
    (0usize..4).prop_map(|at| Lane::ALL[at])
}

/// Sizes around every limit: nothing, a piece, the copy limit, slightly more.
fn any_size() -> impl Strategy<Value = usize> {
    prop_oneof![
        0usize..300,
        (0usize..40).prop_map(|near| 4 * 1024 - 20 + near),
        (0usize..40).prop_map(|near| 16 * 1024 - 20 + near),
        (0usize..40).prop_map(|near| PEER_PIECE_BYTES_MAX - 120 + near),
        0usize..200_000,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn messages_read_back_whole_and_in_the_order_of_their_lanes(
        sizes in prop::collection::vec((any_lane(), 0usize..97, any_size()), 1..20),
        chunks in prop::collection::vec(1usize..70_000, 1..8),
    ) {
        let mut outbox = Outbox::new([WIDE; 4], Rate::new(0, 0));
        let mut sent: BTreeMap<Lane, Vec<(u32, Vec<u8>)>> = BTreeMap::new();
        for (number, (lane, head, body)) in (0..).zip(sizes) {
            let body = body.min(lane.bytes_max() - head);
            let message = message(number, lane, head, body);
            sent.entry(lane).or_default().push((number, whole(&message)));
            outbox.put(message);
        }
        let bytes = spoken(&mut outbox, &mut Encoder::new(SALT));
        let (heard, end) = read(&bytes, &chunks);
        prop_assert_eq!(end, Ok(()));
        let mut got: BTreeMap<Lane, Vec<(u32, Vec<u8>)>> = BTreeMap::new();
        for one in heard {
            let FrameEvent::Message { lane, group, payload } = one else {
                panic!("no word was said")
            };
            got.entry(lane).or_default().push((group.0, payload.to_vec()));
        }
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn words_read_back(number: u64, text in "[ -~]{0,600}", cut in 1usize..40) {
        let words = [
            ConnectionWord::Ping(number),
            ConnectionWord::Pong(number),
            ConnectionWord::Consumed(number),
            ConnectionWord::Close(text),
        ];
        let (mut out, mut encoder) = (Vec::new(), Encoder::new(SALT));
        words.iter().for_each(|word| encoder.word(&mut out, word));
        let (heard, end) = read(&out, &[cut]);
        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!(heard.len(), 4);
        for (word, heard) in words.into_iter().zip(heard) {
            match (word, heard) {
                // Long texts are cut, and a backslash is shown as two.
                (ConnectionWord::Close(said), FrameEvent::Word(ConnectionWord::Close(heard))) => {
                    let kept = &said[..said.len().min(512)];
                    prop_assert_eq!(heard.replace("\\\\", "\\"), kept.to_string());
                }
                (word, heard) => prop_assert_eq!(FrameEvent::Word(word), heard),
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_waited_for(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let (heard, _) = read(&bytes, &[7, 100]);
        prop_assert!(heard.is_empty());
    }
}

/// Corrupts one place of a stream in which 1 of 10 frames is large; the place moves over all
/// frames.
#[test]
fn a_hundred_thousand_spoilt_frames_are_all_found() {
    let mut outbox = Outbox::new([WIDE; 4], Rate::new(0, 0));
    for number in 0..10 {
        let lane = Lane::ALL[number as usize % 4];
        outbox.put(message(number, lane, 13, if number == 7 { 40_000 } else { 50 }));
    }
    let good = spoken(&mut outbox, &mut Encoder::new(SALT));
    let (all, end) = read(&good, &[good.len()]);
    assert_eq!((all.len(), end), (10, Ok(())));
    let mut found = 0;
    let mut dice = 0x1234_5678_9ABC_DEF0u64;
    while found < 100_000 {
        // A small random number generator with a fixed seed.
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        // Most places are in heads and small frames: large frames cost time and show nothing new.
        let at = if dice.is_multiple_of(64) { dice >> 16 } else { (dice >> 16) % 300 };
        let (at, bit) = (at as usize % good.len(), dice % 8);
        let mut bytes = good[..(at + 400).min(good.len())].to_vec();
        bytes[at] ^= 1 << bit;
        let (heard, end) = read(&bytes, &[bytes.len()]);
        let waits = end.is_ok() && heard.len() < 10;
        assert!(waits || end.is_err(), "bit {bit} at {at} was not noticed");
        for (one, good) in heard.iter().zip(&all) {
            assert_eq!(one, good, "bit {bit} at {at} altered a message");
        }
        found += 1;
    }
}

/// One valid frame of each kind, to be combined wrongly.
fn frames() -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(SALT);
    (0..4u32)
        .map(|number| {
            let mut out = Vec::new();
            encoder.copied(&mut out, Lane::Data, GroupId(number), 5, [b"he", b"llo"]);
            out
        })
        .collect()
}

#[test]
fn frames_left_out_repeated_exchanged_or_of_another_connection_do_not_pass() {
    let frames = frames();
    let in_order = |order: &[usize]| {
        let bytes: Vec<u8> = order.iter().flat_map(|at| frames[*at].clone()).collect();
        let (heard, end) = read(&bytes, &[1_000]);
        (heard.len(), end)
    };
    assert_eq!(in_order(&[0, 1, 2, 3]), (4, Ok(())));
    for (order, heard) in [(&[0, 2][..], 1), (&[0, 1, 1], 2), (&[1, 0], 0), (&[0, 1, 3, 2], 2)] {
        assert_eq!(in_order(order), (heard, Err(FrameError::Number)), "{order:?}");
    }
    let mut other = Decoder::new(SALT + 1);
    let mut buffer = BytesMut::from(&frames[0][..]);
    assert_eq!(other.next(&mut buffer), Err(FrameError::Checksum));
}

/// Builds a frame with a valid checksum and false fields, as an attacker or a bug would.
fn sealed(lane: u32, group: u32, total: u32, number: u32, piece: &[u8]) -> Vec<u8> {
    let mut head = vec![0; 8];
    for word in [piece.len() as u32, lane, group, total, number] {
        head.extend_from_slice(&word.to_le_bytes());
    }
    let sum = base::codec::checksum(piece, base::codec::checksum(&head[8..], SALT)).to_le_bytes();
    head[..8].copy_from_slice(&sum);
    head.extend_from_slice(piece);
    head
}

#[test]
fn frames_that_lie_under_a_true_checksum_are_refused() {
    let too_long = vec![0; PEER_PIECE_BYTES_MAX + 1];
    let cases: [(&str, Vec<Vec<u8>>, FrameError); 10] = [
        ("no such lane", vec![sealed(5, 0, 1, 0, b"x")], FrameError::Lane),
        ("no such word", vec![sealed(4, 9, 8, 0, &[0; 8])], FrameError::Lane),
        ("a short ping", vec![sealed(4, 1, 7, 0, &[0; 7])], FrameError::Length),
        ("a long piece", vec![sealed(1, 0, 1 << 20, 0, &too_long)], FrameError::Length),
        ("control above its limit", vec![sealed(0, 0, 32_769, 0, b"x")], FrameError::TooLarge),
        ("a snapshot of 2^32 bytes", vec![sealed(3, 0, u32::MAX, 0, b"x")], FrameError::TooLarge),
        ("more than the whole", vec![sealed(1, 0, 3, 0, b"four")], FrameError::Length),
        ("an empty piece", vec![sealed(1, 0, 3, 0, b"")], FrameError::Length),
        (
            "another group goes on",
            vec![sealed(1, 0, 3, 0, b"a"), sealed(1, 1, 3, 1, b"b")],
            FrameError::Mixed,
        ),
        (
            "another total goes on",
            vec![sealed(1, 0, 3, 0, b"a"), sealed(1, 0, 4, 1, b"b")],
            FrameError::Mixed,
        ),
    ];
    for (what, frames, wanted) in cases {
        assert_eq!(read(&frames.concat(), &[100_000]), (vec![], Err(wanted)), "{what}");
    }
}

#[test]
fn a_claim_of_many_bytes_costs_little_until_they_come() {
    let mut decoder = Decoder::new(SALT);
    let total = PEER_BULK_BYTES_MAX as u32;
    let mut buffer = BytesMut::from(&sealed(3, 0, total, 0, b"only this")[..]);
    assert_eq!(decoder.next(&mut buffer), Ok(None));
    assert!(decoder.held() <= 256 * 1024, "{} bytes are held for 9", decoder.held());
}

#[test]
fn a_small_message_that_is_kept_does_not_keep_the_buffer() {
    let (mut decoder, mut buffer) = (Decoder::new(SALT), BytesMut::with_capacity(64 * 1024));
    buffer.extend_from_slice(&sealed(1, 0, 100, 0, &[7; 100]));
    buffer.extend_from_slice(&[0; HEAD_BYTES - 1]);
    let place = buffer.as_ptr() as usize;
    let Ok(Some(FrameEvent::Message { payload, .. })) = decoder.next(&mut buffer) else {
        panic!("a message is there")
    };
    let inside = (place..place + 64 * 1024).contains(&(payload.as_ptr() as usize));
    assert!(!inside, "the message lies in the read buffer");
}
