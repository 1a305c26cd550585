//! Link: one connection with a peer, from the first frame to the last. One task owns both halves of
//! the socket, and all other code uses it through the outbox.

use super::activity::Activity;
use super::batch::FrameBatch;
use super::counters::Counters;
use super::frame::{ControlFrame, Decoder, Encoder, FrameError, FrameEvent};
use super::incarnation::Incarnation;
use super::message::{Lane, Message, SendOutcome};
use super::network::{Broken, Credit, CreditSource, IncomingMessage, Sink};
use super::outbox::{Dropped, Next, Outbox};
use super::rate::Rate;
use super::settings::PeerSettings;
use base::{IncarnationId, NodeId};
use bytes::BytesMut;
use runtime::world;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

/// Size of one read.
const READ_BYTES: usize = 64 * 1024;
/// Bytes read without a pause after which the reading half yields to the writing half.
const READ_YIELD_BYTES: usize = 256 * 1024;
/// Maximum duration of a goodbye.
const GOODBYE: Duration = Duration::from_millis(100);

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
    wake: Notify,
    /// Signals that the bulk lane may have space again, or that the connection ended.
    room: Notify,
    counters: Arc<Counters>,
    /// Times at which data was last received and written, and time since which a ping is unanswered
    /// (0: none is).
    received_at: AtomicU64,
    sent_at: AtomicU64,
    unanswered_since: AtomicU64,
    /// Total bytes of bulk consumed here.
    consumed: AtomicU64,
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
        })
    }

    /// Queues a message.
    pub(super) fn send(&self, message: Message) -> SendOutcome {
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

    fn queue_control(&self, control: ControlFrame) {
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
    encoder: Encoder,
    batch: FrameBatch,
    /// Total bytes of consumed bulk, as last reported to the peer.
    consumed_sent: u64,
}

impl FrameWriter {
    pub(super) fn new(salt: u64) -> FrameWriter {
        FrameWriter { encoder: Encoder::new(salt), batch: FrameBatch::default(), consumed_sent: 0 }
    }
}

/// Transfers messages in both directions until the connection ends, by itself or because `ended`
/// resolves; calls the sink at the begin. The caller calls it after the end.
pub(super) async fn run(
    link: &Arc<Link>,
    mut stream: TcpStream,
    settings: &PeerSettings,
    sink: &dyn Sink,
    ended: impl Future<Output = Broken>,
) -> Broken {
    let (mut from, mut to) = stream.split();
    let mut writer = FrameWriter::new(link.terms.send_salt);
    sink.connected(link.terms.node, link.terms.incarnation);
    // Reading comes before `keep_alive`: data that has arrived counts as received before silence is
    // judged, also after the whole process was suspended.
    let broken = tokio::select! {
        biased;
        broken = ended => broken,
        broken = read_frames(link, &mut from, sink) => broken,
        error = write_frames(link, &mut writer, &mut to) => Broken::Socket(error.to_string()),
        broken = keep_alive(link, settings) => broken,
    };
    // Closed first: later senders get `NoLink` and do not fill a queue that is never emptied.
    link.close();
    goodbye(&mut writer, &mut to, &broken).await;
    broken
}

/// Reads frames until the end, and delivers them.
async fn read_frames<R: AsyncRead + Unpin>(
    link: &Arc<Link>,
    socket: &mut R,
    sink: &dyn Sink,
) -> Broken {
    let mut decoder = Decoder::new(link.terms.receive_salt);
    let mut buffer = BytesMut::new();
    let mut read_bytes = 0;
    loop {
        buffer.reserve(READ_BYTES);
        match socket.read_buf(&mut buffer).await {
            Ok(0) => return Broken::Ended,
            Ok(read) => read_bytes += read,
            Err(error) => return Broken::Socket(error.to_string()),
        }
        link.received_at.store(world::nanoseconds(), Relaxed);
        loop {
            match decoder.next(&mut buffer) {
                Ok(None) => break,
                Ok(Some(event)) => {
                    if let Some(broken) = link.on_frame(event, sink) {
                        return broken;
                    }
                }
                Err(error) => return Broken::Frame(error),
            }
        }
        // One task runs both halves: a peer that sends without a pause would starve the writing
        // half.
        if read_bytes >= READ_YIELD_BYTES {
            read_bytes = 0;
            yield_now().await;
        }
    }
}

impl Link {
    /// Handles a decoded frame. Returns the reason if it ends the connection.
    fn on_frame(self: &Arc<Link>, event: FrameEvent, sink: &dyn Sink) -> Option<Broken> {
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
            FrameEvent::Control(ControlFrame::Close(text)) => return Some(Broken::Closed(text)),
        }
        None
    }

    /// Fills the batch with the next frames. Returns nanoseconds to wait if there are none.
    fn fill(&self, writer: &mut FrameWriter) -> u64 {
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

/// Writes waiting frames until the socket fails.
///
/// The task that queues the first message wakes this half, which a scheduler may run before the
/// other runnable tasks. So it lets those run first: what they queue leaves in the same system
/// call.
pub(super) async fn write_frames<W: AsyncWrite + Unpin>(
    link: &Link,
    writer: &mut FrameWriter,
    socket: &mut W,
) -> io::Error {
    loop {
        let wait = link.fill(writer);
        if !writer.batch.is_empty() {
            match writer.batch.write_to(socket).await {
                Ok(()) => link.sent_at.store(world::nanoseconds(), Relaxed),
                Err(error) => return error,
            }
            continue;
        }
        tokio::select! {
            biased;
            () = link.wake.notified() => {}
            () = sleep(Duration::from_nanos(wait)), if wait != u64::MAX => {}
        }
        yield_now().await;
    }
}

/// Sends pings; returns when they stay unanswered or nothing is received for too long.
async fn keep_alive(link: &Link, settings: &PeerSettings) -> Broken {
    let mut pinged_at = 0;
    loop {
        sleep(world::until_next(settings.ping_interval)).await;
        let now = world::nanoseconds();
        let exceeds =
            |since: u64, limit: Duration| u128::from(now.saturating_sub(since)) > limit.as_nanos();
        if exceeds(link.received_at.load(Relaxed), settings.silence_timeout) {
            // After the whole process was suspended, the reading half gets one more turn first.
            yield_now().await;
            if exceeds(link.received_at.load(Relaxed), settings.silence_timeout) {
                return Broken::Silent;
            }
        }
        let unanswered = link.unanswered_since.load(Relaxed);
        if unanswered != 0 && exceeds(unanswered, settings.answer_timeout) {
            return Broken::Unresponsive;
        }
        let activity = Activity {
            is_pinger: settings.node < link.terms.node,
            received_at: link.received_at.load(Relaxed),
            sent_at: link.sent_at.load(Relaxed),
            pinged_at,
        };
        if !activity.is_ping_due(now, settings.ping_interval) {
            continue;
        }
        pinged_at = now;
        // Only the oldest unanswered ping counts: otherwise each ping would restart the wait.
        if unanswered == 0 {
            link.unanswered_since.store(now, Relaxed);
        }
        link.queue_control(ControlFrame::Ping(now));
    }
}

/// Sends the reason for closing, if the other side still reads: after the frame in progress, so
/// that it can be decoded.
async fn goodbye<W: AsyncWrite + Unpin>(writer: &mut FrameWriter, socket: &mut W, why: &Broken) {
    if matches!(why, Broken::Closed(_) | Broken::Ended | Broken::Socket(_)) {
        return;
    }
    writer.batch.control(&mut writer.encoder, &ControlFrame::Close(why.to_string()));
    // Best effort: the socket is closed in any case.
    let sent = timeout(GOODBYE, writer.batch.write_to(socket)).await;
    tracing::trace!(told = sent.is_ok(), "said goodbye");
}
