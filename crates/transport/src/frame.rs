//! Frames, encoded and decoded, pure. A message is cut into *pieces* of at most
//! [`PEER_PIECE_BYTES_MAX`], one frame each, so that a more urgent frame can be sent between two of
//! them.
//!
//! A frame, all numbers little-endian:
//!
//! ```text
//!   0  u64  checksum   xxh3 of the piece, seeded by the xxh3 of bytes 8..28 under the salt
//!   8  u32  length     of the piece that follows the head
//!  12  u32  lane       0 control, 1 data, 2 call, 3 bulk, 4 control frames of the connection
//!  16  u32  group      (of a control frame: its kind)
//!  20  u32  total      bytes of the whole message
//!  24  u32  number     counts the frames of this direction, from 0, wrapping
//!  28       piece
//! ```
//!
//! Each connection and direction has its own salt: a frame of another connection, or one that is
//! repeated, omitted or reordered, fails the check.

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
/// Maximum number of bytes allocated for a message in pieces before its bytes have arrived.
pub(super) const FIRST_ALLOCATION_BYTES: usize = 256 * 1024;
/// Maximum length of a close text, in bytes.
pub(super) const CLOSE_BYTES_MAX: usize = 512;
/// Lane number of the connection's control frames.
const CONTROL_FRAME_LANE: u32 = 4;

/// Reason why bytes are not a frame of this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The checksum does not hold: altered bytes, or a frame of another connection.
    Checksum,
    /// Wrong number: a frame was lost, repeated or exchanged.
    Number,
    /// The piece is longer than the limit, or than the missing rest of its message.
    Length,
    /// No such lane, or no such control frame.
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
            FrameError::Checksum => "its checksum does not match",
            FrameError::Number => "it is out of order",
            FrameError::Length => "its piece is too long",
            FrameError::Lane => "its lane is unknown",
            FrameError::TooLarge => "its message is larger than the lane allows",
            FrameError::Mixed => "its piece does not continue the open message",
            FrameError::Credit => "it acknowledges more bytes than were sent",
        })
    }
}

/// Control frame: message of the connection itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ControlFrame {
    /// Requests a pong; the number is returned.
    Ping(u64),
    /// Answers a ping.
    Pong(u64),
    /// Reports the total bytes of bulk consumed since the connection began.
    Consumed(u64),
    /// Announces that the sender closes the connection, with the reason.
    Close(String),
    /// Announces that the sender begins no more requests on this connection, with the number of its
    /// unanswered ones. Only encrypted connections carry it.
    Retire(u64),
}

impl ControlFrame {
    fn code(&self) -> u32 {
        match self {
            ControlFrame::Ping(_) => 1,
            ControlFrame::Pong(_) => 2,
            ControlFrame::Consumed(_) => 3,
            ControlFrame::Close(_) => 4,
            ControlFrame::Retire(_) => 5,
        }
    }
}

/// Result of decoding: a complete message or a control frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FrameEvent {
    /// A complete message.
    Message { lane: Lane, group: GroupId, payload: Bytes },
    /// A control frame of the connection.
    Control(ControlFrame),
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
        let head = self.build_head(lane as u32, group.0, total, piece);
        out.extend_from_slice(&head);
    }

    /// Appends a control frame.
    pub(super) fn control(&mut self, out: &mut Vec<u8>, control: &ControlFrame) {
        match control {
            ControlFrame::Ping(number)
            | ControlFrame::Pong(number)
            | ControlFrame::Consumed(number)
            | ControlFrame::Retire(number) => {
                self.frame(
                    out,
                    CONTROL_FRAME_LANE,
                    control.code(),
                    8,
                    [&number.to_le_bytes(), &[]],
                );
            }
            ControlFrame::Close(text) => {
                let text = &text.as_bytes()[..text.len().min(CLOSE_BYTES_MAX)];
                self.frame(out, CONTROL_FRAME_LANE, control.code(), text.len(), [text, &[]]);
            }
        }
    }

    fn frame(&mut self, out: &mut Vec<u8>, lane: u32, group: u32, total: usize, parts: [&[u8]; 2]) {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD_BYTES]);
        parts.iter().for_each(|part| out.extend_from_slice(part));
        let (front, piece) = out.split_at_mut(start + HEAD_BYTES);
        front[start..].copy_from_slice(&self.build_head(lane, group, total, piece));
    }

    fn build_head(
        &mut self,
        lane: u32,
        group: u32,
        total: usize,
        piece: &[u8],
    ) -> [u8; HEAD_BYTES] {
        assert!(piece.len() <= PEER_PIECE_BYTES_MAX && piece.len() <= total, "a piece is a piece");
        let mut head = [0; HEAD_BYTES];
        let fields = [piece.len() as u32, lane, group, total as u32, self.number];
        for (bytes, field) in head[8..].chunks_exact_mut(4).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        let sum = checksum(piece, checksum(&head[8..], self.salt));
        head[..8].copy_from_slice(&sum.to_le_bytes());
        self.number = self.number.wrapping_add(1);
        head
    }
}

/// Message with missing pieces.
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

    /// Returns the bytes buffered for incomplete messages.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn buffered_bytes(&self) -> usize {
        self.open.iter().flatten().map(|open| open.bytes.capacity()).sum()
    }

    /// Returns the next message or control frame. `None`: more bytes are needed.
    pub(super) fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<FrameEvent>, FrameError> {
        loop {
            let Some(head) = buffer.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
            let field = |at: usize| {
                u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
            };
            let (length, lane, group, total) =
                (field(8) as usize, field(12), field(16), field(20) as usize);
            // Checked before the rest is awaited: a forged length must not cause a wait or an
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
            if field(24) != self.number {
                return Err(FrameError::Number);
            }
            self.number = self.number.wrapping_add(1);
            if lane == CONTROL_FRAME_LANE {
                let control = read_control(group, piece)?;
                buffer.advance(HEAD_BYTES + length);
                return Ok(Some(FrameEvent::Control(control)));
            }
            let lane = *Lane::ALL.get(lane as usize).ok_or(FrameError::Lane)?;
            if total > lane.bytes_max() {
                return Err(FrameError::TooLarge);
            }
            if let Some(payload) = self.append_piece(lane, group, total, length, buffer)? {
                return Ok(Some(FrameEvent::Message { lane, group: GroupId(group), payload }));
            }
        }
    }

    /// Moves the piece out of the buffer. Returns the message if it is complete.
    fn append_piece(
        &mut self,
        lane: Lane,
        group: u32,
        total: usize,
        length: usize,
        buffer: &mut BytesMut,
    ) -> Result<Option<Bytes>, FrameError> {
        let open_message = &mut self.open[lane as usize];
        if open_message.is_none() && length == total {
            if length > COPY_BYTES_MAX {
                buffer.advance(HEAD_BYTES);
                return Ok(Some(buffer.split_to(length).freeze()));
            }
            let payload = Bytes::copy_from_slice(&buffer[HEAD_BYTES..HEAD_BYTES + length]);
            buffer.advance(HEAD_BYTES + length);
            return Ok(Some(payload));
        }
        let open =
            open_message.get_or_insert_with(|| OpenMessage { group, total, bytes: Vec::new() });
        if open.group != group || open.total != total {
            return Err(FrameError::Mixed);
        }
        // Empty pieces could continue a message without end.
        if length == 0 || length > total - open.bytes.len() {
            return Err(FrameError::Length);
        }
        if open.bytes.capacity() - open.bytes.len() < length {
            // The allocation grows with the bytes received, so that a forged total alone costs
            // little.
            let missing = total - open.bytes.len();
            open.bytes.reserve_exact(missing.min(open.bytes.len().max(FIRST_ALLOCATION_BYTES)));
        }
        open.bytes.extend_from_slice(&buffer[HEAD_BYTES..HEAD_BYTES + length]);
        buffer.advance(HEAD_BYTES + length);
        let is_complete = open.bytes.len() == total;
        Ok(if is_complete { open_message.take().map(|open| Bytes::from(open.bytes)) } else { None })
    }
}

fn read_control(number: u32, piece: &[u8]) -> Result<ControlFrame, FrameError> {
    let value = || {
        let bytes: [u8; 8] = piece.try_into().map_err(|_| FrameError::Length)?;
        Ok(u64::from_le_bytes(bytes))
    };
    match number {
        1 => value().map(ControlFrame::Ping),
        2 => value().map(ControlFrame::Pong),
        3 => value().map(ControlFrame::Consumed),
        4 if piece.len() > CLOSE_BYTES_MAX => Err(FrameError::Length),
        4 => Ok(ControlFrame::Close(base::codec::printable(piece))),
        5 => value().map(ControlFrame::Retire),
        _ => Err(FrameError::Lane),
    }
}
