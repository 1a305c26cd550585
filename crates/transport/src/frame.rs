//! Frames, encoded and decoded, pure. A message is cut into *pieces* of at most
//! [`PEER_PIECE_BYTES_MAX`], one frame each, so that a more urgent frame can be sent between two of
//! them.
//!
//! A frame, all numbers little-endian:
//!
//! ```text
//!   0  u64  checksum   xxh3 of the piece, seeded by the xxh3 of bytes 8..28 under the salt
//!   8  u32  length     of the piece that follows the head
//!  12  u32  lane       0 control, 1 data, 2 call, 3 bulk, 4 the connection's own words
//!  16  u32  group      (of the connection's own words: which)
//!  20  u32  total      bytes of the whole message
//!  24  u32  number     counts the frames of this direction, from 0, wrapping
//!  28       piece
//! ```
//!
//! The salt is drawn for each connection and direction: a frame of another connection, or one that
//! is repeated, left out or exchanged, fails the check.

use super::message::Lane;
use base::GroupId;
use base::codec::checksum;
use base::limits::PEER_PIECE_BYTES_MAX;
use bytes::{Buf, Bytes, BytesMut};
use std::fmt;

/// Size of a frame's head.
pub(super) const HEAD_BYTES: usize = 28;
/// Largest message that is copied out of the read buffer: a small message that is kept must not
/// retain a large buffer. The copy costs no more than reference counting would.
const COPY_BYTES_MAX: usize = 4 * 1024;
/// Most bytes allocated for a message in pieces before its bytes have arrived.
const ROOM_FIRST_BYTES: usize = 256 * 1024;
/// Longest text of a goodbye.
pub(super) const CLOSE_BYTES_MAX: usize = 512;
/// Lane number of the connection's own control words.
const OWN: u32 = 4;

/// Reason why bytes are not a frame of this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The checksum does not hold: altered bytes, or a frame of another connection.
    Checksum,
    /// Wrong number: a frame was lost, repeated or exchanged.
    Number,
    /// The piece is longer than the limit, or than its message still lacks.
    Length,
    /// No such lane, or no such control word.
    Lane,
    /// The message is longer than its lane allows.
    TooLarge,
    /// A piece that does not continue the message that is open in its lane.
    Mixed,
    /// More bytes were reported as consumed than were ever sent.
    Credit,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrameError::Checksum => "its checksum does not hold",
            FrameError::Number => "it is not the next one",
            FrameError::Length => "its piece is too long",
            FrameError::Lane => "it names no known lane",
            FrameError::TooLarge => "its message is larger than the lane allows",
            FrameError::Mixed => "its piece does not continue the open message",
            FrameError::Credit => "it gives back more bytes than were sent",
        })
    }
}

/// Control word of the connection itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectionWord {
    /// Requests a sign of life; the number is returned.
    Ping(u64),
    /// Answers a ping.
    Pong(u64),
    /// Reports the total bytes of bulk consumed since the connection began.
    Consumed(u64),
    /// Announces that the sender closes the connection, with the reason.
    Close(String),
}

impl ConnectionWord {
    fn number(&self) -> u32 {
        match self {
            ConnectionWord::Ping(_) => 1,
            ConnectionWord::Pong(_) => 2,
            ConnectionWord::Consumed(_) => 3,
            ConnectionWord::Close(_) => 4,
        }
    }
}

/// Decoded frame: a complete message or a control word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FrameEvent {
    /// A complete message.
    Message { lane: Lane, group: GroupId, payload: Bytes },
    /// A control word of the connection.
    Word(ConnectionWord),
}

/// Encoder of the frames of one direction.
pub(super) struct Encoder {
    salt: u64,
    number: u32,
}

impl Encoder {
    pub(super) fn new(salt: u64) -> Encoder {
        Encoder { salt, number: 0 }
    }

    /// Appends a frame whose piece is `parts` together, copied after its head.
    pub(super) fn copied(
        &mut self,
        out: &mut Vec<u8>,
        lane: Lane,
        group: GroupId,
        total: usize,
        parts: [&[u8]; 2],
    ) {
        self.frame(out, lane as u32, group.0, total, parts);
    }

    /// Appends the head of a frame whose piece is sent from its own buffer.
    pub(super) fn head(
        &mut self,
        out: &mut Vec<u8>,
        lane: Lane,
        group: GroupId,
        total: usize,
        piece: &[u8],
    ) {
        let head = self.sealed(lane as u32, group.0, total, piece);
        out.extend_from_slice(&head);
    }

    /// Appends a control word.
    pub(super) fn word(&mut self, out: &mut Vec<u8>, word: &ConnectionWord) {
        match word {
            ConnectionWord::Ping(number)
            | ConnectionWord::Pong(number)
            | ConnectionWord::Consumed(number) => {
                self.frame(out, OWN, word.number(), 8, [&number.to_le_bytes(), &[]]);
            }
            ConnectionWord::Close(words) => {
                let words = &words.as_bytes()[..words.len().min(CLOSE_BYTES_MAX)];
                self.frame(out, OWN, word.number(), words.len(), [words, &[]]);
            }
        }
    }

    fn frame(&mut self, out: &mut Vec<u8>, lane: u32, group: u32, total: usize, parts: [&[u8]; 2]) {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        parts.iter().for_each(|part| out.extend_from_slice(part));
        let (front, piece) = out.split_at_mut(start + HEAD_BYTES);
        front[start..].copy_from_slice(&self.sealed(lane, group, total, piece));
    }

    fn sealed(&mut self, lane: u32, group: u32, total: usize, piece: &[u8]) -> [u8; HEAD_BYTES] {
        assert!(piece.len() <= PEER_PIECE_BYTES_MAX && piece.len() <= total, "a piece is a piece");
        let mut head = [0; HEAD_BYTES];
        let words = [piece.len() as u32, lane, group, total as u32, self.number];
        for (place, word) in head[8..].chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = checksum(piece, checksum(&head[8..], self.salt));
        head[..8].copy_from_slice(&sum.to_le_bytes());
        self.number = self.number.wrapping_add(1);
        head
    }
}

/// Message of which pieces are missing.
struct OpenMessage {
    group: u32,
    total: usize,
    bytes: Vec<u8>,
}

/// Decoder of the frames of one direction; joins pieces to messages. After an error nothing more
/// may be read.
pub(super) struct Decoder {
    salt: u64,
    number: u32,
    open: [Option<OpenMessage>; 4],
}

impl Decoder {
    pub(super) fn new(salt: u64) -> Decoder {
        Decoder { salt, number: 0, open: [None, None, None, None] }
    }

    /// Bytes held for incomplete messages.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.open.iter().flatten().map(|open| open.bytes.capacity()).sum()
    }

    /// Returns the next message or control word. `None`: more bytes are needed.
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<FrameEvent>, FrameError> {
        loop {
            let Some(head) = buffer.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
            let word = |at: usize| {
                u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            let (length, lane, group, total) =
                (word(8) as usize, word(12), word(16), word(20) as usize);
            // Checked before the rest is awaited: a false length must not cause a wait or an
            // allocation.
            if length > PEER_PIECE_BYTES_MAX {
                return Err(FrameError::Length);
            }
            let Some(piece) = buffer.get(HEAD_BYTES..HEAD_BYTES + length) else {
                return Ok(None);
            };
            let sum = checksum(piece, checksum(&head[8..], self.salt));
            if head[..8] != sum.to_le_bytes() {
                return Err(FrameError::Checksum);
            }
            if word(24) != self.number {
                return Err(FrameError::Number);
            }
            self.number = self.number.wrapping_add(1);
            if lane == OWN {
                let word = own_word(group, piece)?;
                buffer.advance(HEAD_BYTES + length);
                return Ok(Some(FrameEvent::Word(word)));
            }
            let lane = *Lane::ALL.get(lane as usize).ok_or(FrameError::Lane)?;
            if total > lane.bytes_max() {
                return Err(FrameError::TooLarge);
            }
            if let Some(payload) = self.join(lane, group, total, length, buffer)? {
                return Ok(Some(FrameEvent::Message { lane, group: GroupId(group), payload }));
            }
        }
    }

    /// Takes the piece out of the buffer. Returns the message if it is complete now.
    fn join(
        &mut self,
        lane: Lane,
        group: u32,
        total: usize,
        length: usize,
        buffer: &mut BytesMut,
    ) -> Result<Option<Bytes>, FrameError> {
        let place = &mut self.open[lane as usize];
        if place.is_none() && length == total {
            if length > COPY_BYTES_MAX {
                buffer.advance(HEAD_BYTES);
                return Ok(Some(buffer.split_to(length).freeze()));
            }
            let payload = Bytes::copy_from_slice(&buffer[HEAD_BYTES..HEAD_BYTES + length]);
            buffer.advance(HEAD_BYTES + length);
            return Ok(Some(payload));
        }
        let open = place.get_or_insert_with(|| OpenMessage { group, total, bytes: Vec::new() });
        if open.group != group || open.total != total {
            return Err(FrameError::Mixed);
        }
        // Empty pieces could continue a message for ever.
        if length == 0 || length > total - open.bytes.len() {
            return Err(FrameError::Length);
        }
        if open.bytes.capacity() - open.bytes.len() < length {
            // The allocation grows with what has arrived, so that a claim alone costs little.
            let lacking = total - open.bytes.len();
            open.bytes.reserve_exact(lacking.min(open.bytes.len().max(ROOM_FIRST_BYTES)));
        }
        open.bytes.extend_from_slice(&buffer[HEAD_BYTES..HEAD_BYTES + length]);
        buffer.advance(HEAD_BYTES + length);
        let whole = open.bytes.len() == total;
        Ok(if whole { place.take().map(|open| Bytes::from(open.bytes)) } else { None })
    }
}

fn own_word(number: u32, piece: &[u8]) -> Result<ConnectionWord, FrameError> {
    let told = || {
        let bytes: [u8; 8] = piece.try_into().map_err(|_| FrameError::Length)?;
        Ok(u64::from_le_bytes(bytes))
    };
    match number {
        1 => told().map(ConnectionWord::Ping),
        2 => told().map(ConnectionWord::Pong),
        3 => told().map(ConnectionWord::Consumed),
        4 if piece.len() > CLOSE_BYTES_MAX => Err(FrameError::Length),
        4 => Ok(ConnectionWord::Close(base::codec::printable(piece))),
        _ => Err(FrameError::Lane),
    }
}
