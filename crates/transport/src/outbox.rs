//! Send queues of one peer, and the scheduling rule that chooses the next frame. Pure.
//!
//! The connection's control frames go first, then the control lane, then the other lanes in turn, a
//! piece each, so that a large entry or a snapshot delays the others by one piece at most. Bulk has
//! one turn in eight while other lanes have messages: it is slow, but does not starve.

use super::frame::ControlFrame;
use super::message::{Lane, Message, MessageHead, Receipt, SendOutcome};
use super::rate::Rate;
use super::settings::LaneLimits;
use base::GroupId;
use base::limits::{PEER_BULK_BYTES_MAX, PEER_BULK_WINDOW_BYTES, PEER_PIECE_BYTES_MAX};
use bytes::Bytes;
use std::collections::VecDeque;

/// Largest message that is copied into one piece with its head; larger ones are sent from their own
/// buffer.
pub(super) const COPY_BYTES_MAX: usize = 16 * 1024;

/// Order of turns while all lanes have messages.
const TURNS: [Lane; 8] = {
    use Lane::{Bulk, Call, Data};
    [Data, Call, Data, Call, Data, Call, Data, Bulk]
};

/// Next item to send.
#[derive(Debug)]
pub(super) enum Next {
    /// A control frame of the connection.
    Control(ControlFrame),
    /// A piece of a message.
    Piece(Piece),
    /// Nothing to send for this many nanoseconds, unless something new is queued.
    Wait(u64),
}

/// Piece of a message: head and body together are its bytes.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) lane: Lane,
    pub(super) group: GroupId,
    pub(super) total: usize,
    pub(super) head: MessageHead,
    pub(super) body: Bytes,
    /// True if it completes the message.
    pub(super) last: bool,
}

struct Queue {
    limits: LaneLimits,
    messages: VecDeque<Message>,
    bytes: usize,
    /// Bytes of the first message that were sent. `None`: it has not begun.
    begun: Option<usize>,
}

/// Counts of messages that were not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    /// Replaced by a newer message of the same slot, or dropped in its favour.
    pub(super) replaced: u64,
    /// Refused because the lane was full.
    pub(super) full: u64,
    /// Taken back by the sender.
    pub(super) taken_back: u64,
}

/// Lanes of one connection.
pub(super) struct Outbox {
    queues: [Queue; 4],
    control_frames: VecDeque<ControlFrame>,
    turn: usize,
    rate: Rate,
    bulk_begun: u64,
    bulk_consumed: u64,
    dropped: Dropped,
    closed: bool,
}

impl Outbox {
    pub(super) fn new(lanes: [LaneLimits; 4], rate: Rate) -> Outbox {
        let queue = |limits| Queue { limits, messages: VecDeque::new(), bytes: 0, begun: None };
        Outbox {
            queues: lanes.map(queue),
            control_frames: VecDeque::new(),
            turn: 0,
            rate,
            bulk_begun: 0,
            bulk_consumed: 0,
            dropped: Dropped::default(),
            closed: false,
        }
    }

    /// Queues a message. Returns `Full` or `NoLink` if it was not queued.
    pub(super) fn put(&mut self, message: Message) -> SendOutcome {
        if self.closed {
            return SendOutcome::NoLink;
        }
        let queue = &mut self.queues[message.lane as usize];
        if message.slot.is_some() && queue.replace(&message) {
            self.dropped.replaced += 1;
        }
        // Only a message with a slot may push out another one with a slot.
        while !queue.has_room(message.size()) {
            if message.slot.is_none() || !queue.drop_oldest_replaceable() {
                self.dropped.full += 1;
                return SendOutcome::Full;
            }
            self.dropped.replaced += 1;
        }
        queue.bytes += message.size();
        queue.messages.push_back(message);
        SendOutcome::Sent
    }

    /// Queues a control frame; it replaces an older one of its kind.
    pub(super) fn queue_control(&mut self, control: ControlFrame) {
        let kind = std::mem::discriminant(&control);
        // Each supersedes the older one, so a peer that does not read can't make them accumulate.
        self.control_frames.retain(|waiting| std::mem::discriminant(waiting) != kind);
        self.control_frames.push_back(control);
    }

    /// Records the total bytes of bulk that the peer consumed. Returns false if that is more than
    /// it was sent.
    pub(super) fn consumed(&mut self, bytes: u64) -> bool {
        self.bulk_consumed = self.bulk_consumed.max(bytes);
        self.bulk_consumed <= self.bulk_begun
    }

    /// Returns the outcome that the largest bulk message would have now.
    pub(super) fn bulk_room(&self) -> SendOutcome {
        let queue = &self.queues[Lane::Bulk as usize];
        match () {
            () if self.closed => SendOutcome::NoLink,
            () if queue.has_room(PEER_BULK_BYTES_MAX) => SendOutcome::Sent,
            () => SendOutcome::Full,
        }
    }

    /// Returns true if something waits, and all of it may wait a little longer. A ping may, an
    /// answer to one may not: its time is measured.
    pub(super) fn has_patient_alone(&self) -> bool {
        let is_ping = |control: &ControlFrame| matches!(control, ControlFrame::Ping(_));
        let mut waiting = self.queues.iter().flat_map(|queue| &queue.messages);
        let has_waiting = !self.control_frames.is_empty() || waiting.clone().next().is_some();
        has_waiting
            && self.control_frames.iter().all(is_ping)
            && waiting.all(|message| message.is_patient)
    }

    /// Returns the next item to send.
    pub(super) fn next(&mut self, now: u64) -> Next {
        if let Some(control) = self.control_frames.pop_front() {
            return Next::Control(control);
        }
        if self.has_next(Lane::Control) {
            return Next::Piece(self.next_piece(Lane::Control));
        }
        for _ in 0..TURNS.len() {
            let lane = TURNS[self.turn];
            self.turn = (self.turn + 1) % TURNS.len();
            if (lane != Lane::Bulk || self.bulk_wait(now) == 0) && self.has_next(lane) {
                return Next::Piece(self.next_piece(lane));
            }
        }
        Next::Wait(self.bulk_wait(now))
    }

    /// Accepts no more messages, and drops those that wait; receipts stay as they are.
    pub(super) fn close(&mut self) {
        self.closed = true;
        for queue in &mut self.queues {
            queue.messages.clear();
            (queue.bytes, queue.begun) = (0, None);
        }
    }

    /// Returns the waiting messages and bytes, by lane.
    pub(super) fn waiting(&self) -> [(usize, usize); 4] {
        let waiting = |lane: Lane| {
            let queue = &self.queues[lane as usize];
            (queue.messages.len(), queue.bytes)
        };
        Lane::ALL.map(waiting)
    }

    pub(super) fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Returns true if the lane has something to send; drops messages that were taken back. From
    /// here on the first message can't be taken back.
    fn has_next(&mut self, lane: Lane) -> bool {
        let queue = &mut self.queues[lane as usize];
        while queue.begun.is_none() {
            let Some(first) = queue.messages.front() else { return false };
            if first.receipt.as_ref().is_none_or(Receipt::mark_leaving) {
                queue.begun = Some(0);
                self.bulk_begun += if lane == Lane::Bulk { first.size() as u64 } else { 0 };
            } else {
                queue.remove_first();
                self.dropped.taken_back += 1;
            }
        }
        true
    }

    /// Returns the nanoseconds until bulk may be sent: it needs a message, credit for all of it,
    /// and its rate. `u64::MAX`: not before something changes.
    fn bulk_wait(&mut self, now: u64) -> u64 {
        let queue = &self.queues[Lane::Bulk as usize];
        let Some(first) = queue.messages.front() else { return u64::MAX };
        let used = self.bulk_begun - self.bulk_consumed;
        let credit = used + first.size() as u64 <= PEER_BULK_WINDOW_BYTES as u64;
        // Credit was taken for a whole message when it began; it must not stop in the middle.
        if queue.begun.is_some() || credit { self.rate.wait(now) } else { u64::MAX }
    }

    fn next_piece(&mut self, lane: Lane) -> Piece {
        let piece = self.queues[lane as usize].next_piece(lane);
        if lane == Lane::Bulk {
            self.rate.spend(piece.head.bytes().len() + piece.body.len());
        }
        piece
    }
}

impl Queue {
    /// Returns true if a message of this size fits; an empty lane accepts any one message.
    fn has_room(&self, bytes: usize) -> bool {
        let fits = self.bytes + bytes <= self.limits.bytes || self.messages.is_empty();
        fits && self.messages.len() < self.limits.messages
    }

    /// Returns the number of messages at the front that have begun to leave, and can't be dropped.
    fn begun_messages(&self) -> usize {
        usize::from(self.begun.is_some())
    }

    /// Drops the waiting message that `newer` replaces. Returns true if there was one.
    fn replace(&mut self, newer: &Message) -> bool {
        let same = |old: &Message| old.slot == newer.slot && old.group == newer.group;
        self.drop_first(same)
    }

    fn drop_oldest_replaceable(&mut self) -> bool {
        self.drop_first(|old| old.slot.is_some())
    }

    fn drop_first(&mut self, matches: impl Fn(&Message) -> bool) -> bool {
        let begun = self.begun_messages();
        let Some(at) = self.messages.iter().skip(begun).position(matches) else { return false };
        let dropped = self.messages.remove(begun + at);
        self.bytes -= dropped.map_or(0, |dropped| dropped.size());
        true
    }

    fn remove_first(&mut self) {
        self.begun = None;
        self.bytes -= self.messages.pop_front().map_or(0, |first| first.size());
    }

    /// Returns the next piece of the first message, which has begun.
    fn next_piece(&mut self, lane: Lane) -> Piece {
        let first = self.messages.front().expect("a lane that is ready has a message");
        let sent = self.begun.expect("a lane that is ready has begun");
        let (total, head_bytes) = (first.size(), first.head.bytes().len());
        // A large message sends its head alone, and then its body from its own buffer.
        let small = total <= COPY_BYTES_MAX;
        let head = if sent == 0 { first.head } else { MessageHead::EMPTY };
        let body = match sent {
            0 if small => first.body.clone(),
            0 if head_bytes > 0 => Bytes::new(),
            _ => {
                let from = sent - head_bytes;
                first.body.slice(from..first.body.len().min(from + PEER_PIECE_BYTES_MAX))
            }
        };
        let sent = sent + head.bytes().len() + body.len();
        let piece = Piece { lane, group: first.group, total, head, body, last: sent == total };
        if piece.last {
            self.remove_first();
        } else {
            self.begun = Some(sent);
        }
        piece
    }
}
