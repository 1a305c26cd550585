//! Transfer of the frames of a link, from the first to the last. One task owns both halves of the
//! stream, plain or encrypted.

use super::activity::LinkActivity;
use super::frame::{ControlFrame, Decoder};
use super::link::{FrameWriter, Link};
use super::network::{Broken, Sink};
use super::settings::PeerSettings;
use bytes::BytesMut;
use runtime::world;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tls::Stream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

/// Size of one read.
const READ_BYTES: usize = 64 * 1024;
/// Bytes read without a pause after which the reading half yields to the writing half.
const READ_YIELD_BYTES: usize = 256 * 1024;
/// Longest wait for the answers of a connection that retires. Requests that are unanswered then
/// have an unknown outcome, as where a connection breaks.
const RETIRE_NS_MAX: u64 = 2_000_000_000;
/// Pause between two counts of its unanswered requests.
const RETIRE_PAUSE: Duration = Duration::from_millis(5);
/// Maximum duration of a goodbye.
const GOODBYE: Duration = Duration::from_millis(100);

/// Transfers messages in both directions until the connection ends, by itself or because `ended`
/// resolves; calls the sink at the begin. The caller calls it after the end.
pub(super) async fn run(
    link: &Arc<Link>,
    stream: Stream,
    settings: &PeerSettings,
    sink: &dyn Sink,
    ended: impl Future<Output = Broken>,
) -> Broken {
    match stream {
        Stream::Plain(mut socket) => {
            let halves = socket.split();
            transfer(link, halves, settings, sink, ended).await
        }
        stream @ Stream::Tls(_) => {
            let halves = tokio::io::split(stream);
            transfer(link, halves, settings, sink, ended).await
        }
    }
}

/// Does what `run` promises, over both halves of a stream.
async fn transfer<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    link: &Arc<Link>,
    (mut from, mut to): (R, W),
    settings: &PeerSettings,
    sink: &dyn Sink,
    ended: impl Future<Output = Broken>,
) -> Broken {
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
        broken = retire(link, sink) => broken,
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
        let activity = LinkActivity {
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

/// Ends the connection in order once its retirement has begun: when no request of either side is
/// unanswered, or at the latest after `RETIRE_NS_MAX`.
async fn retire(link: &Link, sink: &dyn Sink) -> Broken {
    link.retirement.wait_begun().await;
    let deadline = world::nanoseconds().saturating_add(RETIRE_NS_MAX);
    loop {
        // Counted after the begin: a request that is not counted is refused by `Link::send`.
        let calls = sink.unanswered_calls(link.terms.node) as u64;
        link.queue_control(ControlFrame::Retire(calls));
        let is_drained = calls == 0 && link.retirement.is_peer_drained();
        if is_drained || world::nanoseconds() >= deadline {
            return Broken::Renewed;
        }
        sleep(RETIRE_PAUSE).await;
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
