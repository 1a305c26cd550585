//! Link: one connection with a peer, as the rest of the node sees it. All other code uses it
//! through the outbox; `transfer.rs` moves its frames.

use super::batch::FrameBatch;
use super::counters::Counters;
use super::frame::{ControlFrame, Encoder, FrameError, FrameEvent};
use super::incarnation::Incarnation;
use super::message::{Lane, Message, SendOutcome};
use super::network::{Broken, Credit, CreditSource, IncomingMessage, Sink};
use super::outbox::{Dropped, Next, Outbox};
use super::rate::Rate;
use super::retirement::Retirement;
use super::settings::PeerSettings;
use base::{IncarnationId, NodeId};
use runtime::world;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Properties of a connection that are fixed when it begins.
pub(super) struct Terms {
    /// Id of the link, the same on both sides.
    pub(super) id: u64,
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    /// Version of the protocol.
    pub(super) version: u16,
    /// Incarnations of the peer that the cluster may have on record, as the peer lists them.
    pub(super) incarnations: Vec<IncarnationId>,
    /// Salts of the frames of this node and of the peer.
    pub(super) send_salt: u64,
    pub(super) receive_salt: u64,
    /// True if both sides have proven that they hold the cluster's secret.
    pub(super) is_proven: bool,
    /// Generation of this node's certificates that it was made with. `None`: it is plain.
    pub(super) tls_generation: Option<u64>,
}

impl Terms {
    /// Returns the peer's incarnation with its token. `None`: it has no token.
    pub(super) fn incarnation_id(&self) -> Option<IncarnationId> {
        self.incarnations
            .iter()
            .copied()
            .find(|incarnation_id| incarnation_id.number == self.incarnation.0)
    }
}

/// Connection, as the rest of the node sees it.
pub(super) struct Link {
    pub(super) terms: Terms,
    outbox: Mutex<Outbox>,
    /// Signals the writing half that frames may be queued.
    pub(super) wake: Notify,
    /// Signals that the bulk lane may have space again, or that the connection ended.
    room: Notify,
    counters: Arc<Counters>,
    /// Times at which data was last received and written, and time since which a ping is unanswered
    /// (0: none is).
    pub(super) received_at: AtomicU64,
    pub(super) sent_at: AtomicU64,
    pub(super) unanswered_since: AtomicU64,
    /// Total bytes of bulk consumed here.
    consumed: AtomicU64,
    pub(super) retirement: Retirement,
}

impl Link {
    pub(super) fn new(terms: Terms, settings: &PeerSettings, counters: Arc<Counters>) -> Arc<Link> {
        let now = world::nanoseconds();
        let rate = Rate::new(settings.bulk_bytes_per_second, now);
        Arc::new(Link {
            terms,
            outbox: Mutex::new(Outbox::new(settings.lanes, rate)),
            wake: Notify::new(),
            room: Notify::new(),
            counters,
            received_at: AtomicU64::new(now),
            sent_at: AtomicU64::new(0),
            unanswered_since: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
            retirement: Retirement::default(),
        })
    }

    /// Returns true if it is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.terms.tls_generation.is_some()
    }

    /// Queues a message.
    pub(super) fn send(&self, message: Message) -> SendOutcome {
        if self.retirement.has_begun() && message.is_question() {
            return SendOutcome::NoLink;
        }
        let mut outbox = self.outbox();
        let sending = outbox.put(message);
        let must_wake = sending == SendOutcome::Sent && outbox.mark_signalled();
        drop(outbox);
        if must_wake {
            self.wake.notify_one();
        }
        sending
    }

    /// Waits until the bulk lane has space or the connection ends.
    pub(super) async fn bulk_room(&self) -> SendOutcome {
        let mut changed = pin!(self.room.notified());
        loop {
            // Registered before the check, so that no change is missed in between.
            changed.as_mut().enable();
            let room = self.outbox().bulk_room();
            match room {
                SendOutcome::Full => changed.as_mut().await,
                other => return other,
            }
            changed.set(self.room.notified());
        }
    }

    /// Returns the waiting messages and bytes by lane, and the counts of messages not sent.
    pub(super) fn queue_status(&self) -> ([(usize, usize); 4], Dropped) {
        let outbox = self.outbox();
        (outbox.waiting(), outbox.dropped())
    }

    pub(super) fn silent_ms(&self) -> u64 {
        world::nanoseconds().saturating_sub(self.received_at.load(Relaxed)) / 1_000_000
    }

    /// Accepts no more messages, and wakes tasks that wait for space.
    pub(super) fn close(&self) {
        let dropped = {
            let mut outbox = self.outbox();
            outbox.close();
            outbox.dropped()
        };
        self.counters.replaced.fetch_add(dropped.replaced, Relaxed);
        self.counters.full.fetch_add(dropped.full, Relaxed);
        self.room.notify_waiters();
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().expect("no one panics while holding it")
    }

    pub(super) fn queue_control(&self, control: ControlFrame) {
        let mut outbox = self.outbox();
        outbox.queue_control(control);
        let must_wake = outbox.mark_signalled();
        drop(outbox);
        if must_wake {
            self.wake.notify_one();
        }
    }
}

impl CreditSource for Link {
    fn consumed(&self, bytes: u64) {
        self.consumed.fetch_add(bytes, Relaxed);
        // Orders the new total before the writer's next check of it: nothing else reports the
        // growth.
        self.wake.notify_one();
    }
}

/// Writing half: the encoder and the batch of encoded frames.
pub(super) struct FrameWriter {
    pub(super) encoder: Encoder,
    pub(super) batch: FrameBatch,
    /// Total bytes of consumed bulk, as last reported to the peer.
    consumed_sent: u64,
}

impl FrameWriter {
    pub(super) fn new(salt: u64) -> FrameWriter {
        FrameWriter { encoder: Encoder::new(salt), batch: FrameBatch::default(), consumed_sent: 0 }
    }
}

impl Link {
    /// Handles a decoded frame. Returns the reason if it ends the connection.
    pub(super) fn on_frame(self: &Arc<Link>, event: FrameEvent, sink: &dyn Sink) -> Option<Broken> {
        match event {
            FrameEvent::Message { lane, group, payload } => {
                self.counters.received(lane, payload.len());
                let credit = match lane {
                    Lane::Bulk => Credit::new(self.clone(), payload.len() as u64),
                    _ => Credit::none(),
                };
                let Terms { node: from, incarnation, .. } = self.terms;
                sink.deliver(IncomingMessage { from, incarnation, lane, group, payload, credit });
            }
            FrameEvent::Control(ControlFrame::Ping(number)) => {
                self.queue_control(ControlFrame::Pong(number))
            }
            FrameEvent::Control(ControlFrame::Pong(sent_at)) => {
                // The pong returns the ping's time: a forged one only distorts the statistics.
                self.counters.record_rtt(world::nanoseconds().saturating_sub(sent_at));
                self.unanswered_since.store(0, Relaxed);
            }
            FrameEvent::Control(ControlFrame::Consumed(bytes)) => {
                if !self.outbox().consumed(bytes) {
                    return Some(Broken::Frame(FrameError::Credit));
                }
                self.wake.notify_one();
            }
            FrameEvent::Control(ControlFrame::Retire(calls)) => self.retirement.on_peer(calls),
            FrameEvent::Control(ControlFrame::Close(text)) => return Some(Broken::Closed(text)),
        }
        None
    }

    /// Fills the batch with the next frames. Returns nanoseconds to wait if there are none.
    pub(super) fn fill(&self, writer: &mut FrameWriter) -> u64 {
        let now = world::nanoseconds();
        let mut room = false;
        let mut outbox = self.outbox();
        outbox.clear_signal();
        // The total, not each amount: one control frame covers all amounts not reported yet.
        let consumed = self.consumed.load(Relaxed);
        if consumed != writer.consumed_sent {
            writer.consumed_sent = consumed;
            outbox.queue_control(ControlFrame::Consumed(consumed));
        }
        let wait = loop {
            if writer.batch.is_full() {
                break 0;
            }
            match outbox.next(now) {
                Next::Control(control) => writer.batch.control(&mut writer.encoder, &control),
                Next::Piece(piece) => {
                    if piece.last {
                        self.counters.sent(piece.lane, piece.total);
                        room |= piece.lane == Lane::Bulk;
                    }
                    writer.batch.piece(&mut writer.encoder, piece);
                }
                Next::Wait(nanoseconds) => break nanoseconds,
            }
        };
        drop(outbox);
        if room {
            self.room.notify_waiters();
        }
        wait
    }
}
