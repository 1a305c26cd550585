//! Laws of the frames: messages written in any pieces are decoded completely and in order, and
//! other bytes are rejected.

use crate::batch::FrameBatch;
use crate::frame::{ControlFrame, Decoder, Encoder, FrameError, FrameEvent, HEAD_BYTES};
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

fn message_bytes(message: &Message) -> Vec<u8> {
    [message.head.bytes(), &message.body].concat()
}

/// Returns all frames that an outbox has to send, as bytes.
pub(super) fn drain_frames(outbox: &mut Outbox, encoder: &mut Encoder) -> Vec<u8> {
    let (mut out, mut batch) = (Vec::new(), FrameBatch::default());
    loop {
        match outbox.next(0) {
            Next::Control(control) => batch.control(encoder, &control),
            Next::Piece(piece) => batch.piece(encoder, piece),
            Next::Wait(_) => break,
        }
    }
    // A vector accepts all bytes at once, so this future is ready at its first poll.
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
    let (mut decoder, mut buffer, mut events) = (Decoder::new(SALT), BytesMut::new(), Vec::new());
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        let (chunk, later) = rest.split_at((*size).min(rest.len()));
        buffer.extend_from_slice(chunk);
        rest = later;
        loop {
            match decoder.next(&mut buffer) {
                Ok(Some(one)) => events.push(one),
                Ok(None) => break,
                Err(error) => return (events, Err(error)),
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    (events, Ok(()))
}

fn any_lane() -> impl Strategy<Value = Lane> {
    (0usize..4).prop_map(|at| Lane::ALL[at])
}

/// Sizes around every limit: empty, a piece, the copy limit, slightly more.
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
    fn messages_round_trip_in_order_within_their_lane(
        sizes in prop::collection::vec((any_lane(), 0usize..97, any_size()), 1..20),
        chunks in prop::collection::vec(1usize..70_000, 1..8),
    ) {
        let mut outbox = Outbox::new([WIDE; 4], Rate::new(0, 0));
        let mut sent: BTreeMap<Lane, Vec<(u32, Vec<u8>)>> = BTreeMap::new();
        for (number, (lane, head, body)) in (0..).zip(sizes) {
            let body = body.min(lane.bytes_max() - head);
            let message = message(number, lane, head, body);
            sent.entry(lane).or_default().push((number, message_bytes(&message)));
            outbox.put(message);
        }
        let bytes = drain_frames(&mut outbox, &mut Encoder::new(SALT));
        let (events, end) = read(&bytes, &chunks);
        prop_assert_eq!(end, Ok(()));
        let mut got: BTreeMap<Lane, Vec<(u32, Vec<u8>)>> = BTreeMap::new();
        for one in events {
            let FrameEvent::Message { lane, group, payload } = one else {
                panic!("no word was said")
            };
            got.entry(lane).or_default().push((group.0, payload.to_vec()));
        }
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn connection_words_round_trip_and_long_close_text_is_cut(
        number: u64,
        text in "[ -~]{0,600}",
        cut in 1usize..40,
    ) {
        let controls = [
            ControlFrame::Ping(number),
            ControlFrame::Pong(number),
            ControlFrame::Consumed(number),
            ControlFrame::Close(text),
        ];
        let (mut out, mut encoder) = (Vec::new(), Encoder::new(SALT));
        controls.iter().for_each(|control| encoder.control(&mut out, control));
        let (events, end) = read(&out, &[cut]);
        prop_assert_eq!(end, Ok(()));
        prop_assert_eq!(events.len(), 4);
        for (control, event) in controls.into_iter().zip(events) {
            match (control, event) {
                // Long texts are cut, and a backslash is shown as two.
                (ControlFrame::Close(sent), FrameEvent::Control(ControlFrame::Close(received))) => {
                    let kept = &sent[..sent.len().min(512)];
                    prop_assert_eq!(received.replace("\\\\", "\\"), kept.to_string());
                }
                (control, event) => prop_assert_eq!(FrameEvent::Control(control), event),
            }
        }
    }

    #[test]
    fn arbitrary_bytes_yield_no_message(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let (events, _) = read(&bytes, &[7, 100]);
        prop_assert!(events.is_empty());
    }
}

/// Corrupts one place of a stream in which 1 of 10 frames is large; the place moves over all
/// frames.
#[test]
fn bit_flips_in_frames_are_detected() {
    let mut outbox = Outbox::new([WIDE; 4], Rate::new(0, 0));
    for number in 0..10 {
        let lane = Lane::ALL[number as usize % 4];
        outbox.put(message(number, lane, 13, if number == 7 { 40_000 } else { 50 }));
    }
    let good = drain_frames(&mut outbox, &mut Encoder::new(SALT));
    let (all, end) = read(&good, &[good.len()]);
    assert_eq!((all.len(), end), (10, Ok(())));
    let mut found = 0;
    let mut rng = 0x1234_5678_9ABC_DEF0u64;
    while found < 100_000 {
        // A small random number generator with a fixed seed.
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        // Most places are in heads and small frames: large frames cost time and show nothing new.
        let at = if rng.is_multiple_of(64) { rng >> 16 } else { (rng >> 16) % 300 };
        let (at, bit) = (at as usize % good.len(), rng % 8);
        let mut bytes = good[..(at + 400).min(good.len())].to_vec();
        bytes[at] ^= 1 << bit;
        let (events, end) = read(&bytes, &[bytes.len()]);
        let waits = end.is_ok() && events.len() < 10;
        assert!(waits || end.is_err(), "bit {bit} at {at} was not noticed");
        for (one, good) in events.iter().zip(&all) {
            assert_eq!(one, good, "bit {bit} at {at} altered a message");
        }
        found += 1;
    }
}

/// Returns valid frames, to be combined in a wrong order.
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
fn missing_repeated_reordered_or_foreign_frames_are_rejected() {
    let frames = frames();
    let in_order = |order: &[usize]| {
        let bytes: Vec<u8> = order.iter().flat_map(|at| frames[*at].clone()).collect();
        let (events, end) = read(&bytes, &[1_000]);
        (events.len(), end)
    };
    assert_eq!(in_order(&[0, 1, 2, 3]), (4, Ok(())));
    for (order, count) in [(&[0, 2][..], 1), (&[0, 1, 1], 2), (&[1, 0], 0), (&[0, 1, 3, 2], 2)] {
        assert_eq!(in_order(order), (count, Err(FrameError::Number)), "{order:?}");
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
fn invalid_frames_with_valid_checksum_are_rejected() {
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
    for (what, frames, expected) in cases {
        assert_eq!(read(&frames.concat(), &[100_000]), (vec![], Err(expected)), "{what}");
    }
}

#[test]
fn claimed_large_message_allocates_little_until_bytes_arrive() {
    let mut decoder = Decoder::new(SALT);
    let total = PEER_BULK_BYTES_MAX as u32;
    let mut buffer = BytesMut::from(&sealed(3, 0, total, 0, b"only this")[..]);
    assert_eq!(decoder.next(&mut buffer), Ok(None));
    assert!(
        decoder.buffered_bytes() <= 256 * 1024,
        "{} bytes are held for 9",
        decoder.buffered_bytes()
    );
}

#[test]
fn small_message_does_not_retain_the_read_buffer() {
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
