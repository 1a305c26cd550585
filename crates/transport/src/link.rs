//! Link: one connection with a peer, from the first frame to the last. One task owns both halves of
//! the socket, and all other code uses it through the outbox.

use super::batch::FrameBatch;
use super::counters::Counters;
use super::frame::{ConnectionWord, Decoder, Encoder, FrameError, FrameEvent};
use super::incarnation::Incarnation;
use super::message::{Lane, Message, Sending};
use super::network::{Broken, Credit, Creditor, IncomingMessage, Sink};
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
use tokio::time::{sleep, timeout};

/// Size of one read.
const READ_BYTES: usize = 64 * 1024;
/// Bytes read without a pause after which the writing half gets its turn.
const READ_TURN_BYTES: usize = 256 * 1024;
/// Longest time that a goodbye may take.
const GOODBYE: Duration = Duration::from_millis(100);

/// Properties of a connection that are fixed when it begins.
pub(super) struct Terms {
    /// Id of the link, the same on both sides.
    pub(super) id: u64,
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
    /// Incarnations of the peer that the cluster may have on record, as the peer lists them.
    pub(super) incarnations: Vec<IncarnationId>,
    /// Salts of our frames and of theirs.
    pub(super) ours: u64,
    pub(super) theirs: u64,
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
    /// Signals the writing half that there is something to send.
    wake: Notify,
    /// Signals that the bulk lane may have space again, or that the connection ended.
    room: Notify,
    counters: Arc<Counters>,
    /// Time at which anything was last received, and time since which a ping is unanswered (0: none
    /// is).
    heard_at: AtomicU64,
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
            heard_at: AtomicU64::new(now),
            unanswered_since: AtomicU64::new(0),
            consumed: AtomicU64::new(0),
        })
    }

    /// Queues a message.
    pub(super) fn send(&self, message: Message) -> Sending {
        let sending = self.outbox().put(message);
        if sending == Sending::Sent {
            self.wake.notify_one();
        }
        sending
    }

    /// Waits until the bulk lane has space or the connection ends.
    pub(super) async fn bulk_room(&self) -> Sending {
        let mut changed = pin!(self.room.notified());
        loop {
            // Registered before the check, so that no change is missed in between.
            changed.as_mut().enable();
            let room = self.outbox().bulk_room();
            match room {
                Sending::Full => changed.as_mut().await,
                other => return other,
            }
            changed.set(self.room.notified());
        }
    }

    /// Returns the waiting messages and bytes by lane, and the counts of messages not sent.
    pub(super) fn standing(&self) -> ([(usize, usize); 4], Dropped) {
        let outbox = self.outbox();
        (outbox.waiting(), outbox.dropped())
    }

    pub(super) fn heard_ms_ago(&self) -> u64 {
        world::nanoseconds().saturating_sub(self.heard_at.load(Relaxed)) / 1_000_000
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

    fn say(&self, word: ConnectionWord) {
        self.outbox().say(word);
        self.wake.notify_one();
    }
}

impl Creditor for Link {
    fn consumed(&self, bytes: u64) {
        self.consumed.fetch_add(bytes, Relaxed);
        // The wake-up orders the total before the next look at it: no second word says that it
        // grew.
        self.wake.notify_one();
    }
}

/// Writing half: the encoder and the batch of encoded frames.
struct FrameWriter {
    encoder: Encoder,
    batch: FrameBatch,
    /// Total bytes of bulk consumed here, as the peer was last told.
    told: u64,
}

/// Carries messages both ways until the connection ends, on its own or because `ended` resolves;
/// calls the sink when it begins and when it has ended.
pub(super) async fn run(
    link: &Arc<Link>,
    mut stream: TcpStream,
    settings: &PeerSettings,
    sink: &dyn Sink,
    ended: impl Future<Output = Broken>,
) -> Broken {
    let (mut from, mut to) = stream.split();
    let mut writer = FrameWriter {
        encoder: Encoder::new(link.terms.ours),
        batch: FrameBatch::default(),
        told: 0,
    };
    sink.connected(link.terms.node, link.terms.incarnation);
    // Reading comes before watching: data that has arrived counts as received before silence is
    // judged, also after the whole process was suspended.
    let broken = tokio::select! {
        biased;
        broken = ended => broken,
        broken = listen(link, &mut from, sink) => broken,
        error = speak(link, &mut writer, &mut to) => Broken::Socket(error.to_string()),
        broken = watch(link, settings) => broken,
    };
    // First: a sender from here on gets `NoLink`, and fills no queue that nobody empties.
    link.close();
    goodbye(&mut writer, &mut to, &broken).await;
    sink.broken(link.terms.node, &broken);
    broken
}

/// Reads until the end, and delivers what arrives.
async fn listen<R: AsyncRead + Unpin>(link: &Arc<Link>, socket: &mut R, sink: &dyn Sink) -> Broken {
    let mut decoder = Decoder::new(link.terms.theirs);
    let mut buffer = BytesMut::new();
    let mut turn = 0;
    loop {
        buffer.reserve(READ_BYTES);
        match socket.read_buf(&mut buffer).await {
            Ok(0) => return Broken::Ended,
            Ok(read) => turn += read,
            Err(error) => return Broken::Socket(error.to_string()),
        }
        link.heard_at.store(world::nanoseconds(), Relaxed);
        loop {
            match decoder.next(&mut buffer) {
                Ok(None) => break,
                Ok(Some(heard)) => {
                    if let Some(broken) = link.hear(heard, sink) {
                        return broken;
                    }
                }
                Err(error) => return Broken::Frame(error),
            }
        }
        // One task has both halves: a peer that sends without a pause would keep this one silent.
        if turn >= READ_TURN_BYTES {
            turn = 0;
            tokio::task::yield_now().await;
        }
    }
}

impl Link {
    /// Handles a decoded frame. Returns the reason if the connection ends by it.
    fn hear(self: &Arc<Link>, heard: FrameEvent, sink: &dyn Sink) -> Option<Broken> {
        match heard {
            FrameEvent::Message { lane, group, payload } => {
                self.counters.received(lane, payload.len());
                let credit = match lane {
                    Lane::Bulk => Credit::of(self.clone(), payload.len() as u64),
                    _ => Credit::none(),
                };
                let Terms { node: from, incarnation, .. } = self.terms;
                sink.deliver(IncomingMessage { from, incarnation, lane, group, payload, credit });
            }
            FrameEvent::Word(ConnectionWord::Ping(number)) => {
                self.say(ConnectionWord::Pong(number))
            }
            FrameEvent::Word(ConnectionWord::Pong(sent_at)) => {
                // The pong returns the time that we sent: a false one only spoils the statistics.
                self.counters.measured(world::nanoseconds().saturating_sub(sent_at));
                self.unanswered_since.store(0, Relaxed);
            }
            FrameEvent::Word(ConnectionWord::Consumed(bytes)) => {
                if !self.outbox().consumed(bytes) {
                    return Some(Broken::Frame(FrameError::Credit));
                }
                self.wake.notify_one();
            }
            FrameEvent::Word(ConnectionWord::Close(words)) => return Some(Broken::Closed(words)),
        }
        None
    }

    /// Fills the batch with the next frames. Returns nanoseconds to wait if there are none.
    fn fill(&self, writer: &mut FrameWriter) -> u64 {
        let now = world::nanoseconds();
        let mut room = false;
        let mut outbox = self.outbox();
        // The total so far, not each amount: one word stands for all that were not sent.
        let consumed = self.consumed.load(Relaxed);
        if consumed != writer.told {
            writer.told = consumed;
            outbox.say(ConnectionWord::Consumed(consumed));
        }
        let wait = loop {
            if writer.batch.is_full() {
                break 0;
            }
            match outbox.next(now) {
                Next::Word(word) => writer.batch.word(&mut writer.encoder, &word),
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
async fn speak<W: AsyncWrite + Unpin>(
    link: &Link,
    writer: &mut FrameWriter,
    socket: &mut W,
) -> io::Error {
    loop {
        let wait = link.fill(writer);
        if !writer.batch.is_empty() {
            match writer.batch.write_to(socket).await {
                Ok(()) => continue,
                Err(error) => return error,
            }
        }
        tokio::select! {
            biased;
            () = link.wake.notified() => {}
            () = sleep(Duration::from_nanos(wait)), if wait != u64::MAX => {}
        }
    }
}

/// Sends pings; returns when they stay unanswered or nothing is received for too long.
async fn watch(link: &Link, settings: &PeerSettings) -> Broken {
    loop {
        sleep(settings.ping).await;
        let now = world::nanoseconds();
        let past =
            |since: u64, most: Duration| u128::from(now.saturating_sub(since)) > most.as_nanos();
        if past(link.heard_at.load(Relaxed), settings.silence) {
            // After the whole process was suspended, the reading half gets one more turn first.
            tokio::task::yield_now().await;
            if past(link.heard_at.load(Relaxed), settings.silence) {
                return Broken::Silent;
            }
        }
        let unanswered = link.unanswered_since.load(Relaxed);
        // Only the oldest counts: each ping would else begin the wait anew.
        if unanswered == 0 {
            link.unanswered_since.store(now, Relaxed);
        } else if past(unanswered, settings.unanswered) {
            return Broken::Unanswering;
        }
        link.say(ConnectionWord::Ping(now));
    }
}

/// Sends the reason for closing, if the other side still reads: after the frame in progress, so
/// that it decodes as a frame.
async fn goodbye<W: AsyncWrite + Unpin>(writer: &mut FrameWriter, socket: &mut W, why: &Broken) {
    if matches!(why, Broken::Closed(_) | Broken::Ended | Broken::Socket(_)) {
        return;
    }
    writer.batch.word(&mut writer.encoder, &ConnectionWord::Close(why.to_string()));
    // Best effort: the closed socket says the rest.
    let told = timeout(GOODBYE, writer.batch.write_to(socket)).await;
    tracing::trace!(told = told.is_ok(), "said goodbye");
}
