//! Writer of answers to a socket: usually one system call, with a bound on how long a client may
//! take to read.
//!
//! A client may stop reading for `ANSWER_WRITE_MS_MAX`, and must read at least
//! `ANSWER_BYTES_PER_SECOND_MIN` on average after that: its answers hold memory that others need.

use base::limits::{ANSWER_BYTES_PER_SECOND_MIN, ANSWER_WRITE_MS_MAX};
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::time::Duration;
use tls::Stream;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

/// Answers ready to be sent, in pieces that need not be contiguous.
pub trait Pieces {
    /// Returns the number of bytes of all pieces.
    fn len(&self) -> usize;
    /// Returns the pieces in order; none is empty.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> + Send;
}

/// Pieces handed over in one system call.
const PIECES_MAX: usize = 64;
/// Most bytes that are still read from a client after an error ended its connection.
const REST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest time for which they are read.
const REST_MS_MAX: u64 = 1_000;

/// Pace at which a client must read its answers.
#[derive(Clone, Copy)]
struct ReadPace {
    /// Time for which it may read nothing.
    patience: Duration,
    /// Bytes that it must read in each second after that, on average.
    bytes_per_second: u64,
}

impl ReadPace {
    const OF_CLIENTS: ReadPace = ReadPace {
        patience: Duration::from_millis(ANSWER_WRITE_MS_MAX),
        bytes_per_second: ANSWER_BYTES_PER_SECOND_MIN,
    };

    /// Returns the time by which a client that has read `sent` bytes since `started` must read
    /// more.
    fn deadline(self, started: Instant, sent: usize) -> Instant {
        let ms = (sent as u64).saturating_mul(1_000) / self.bytes_per_second;
        started + self.patience + Duration::from_millis(ms)
    }
}

/// Sends all pieces. Fails with `TimedOut` if the client does not read in time.
pub async fn write(stream: &mut Stream, out: &(impl Pieces + Sync)) -> Result<()> {
    let mut pieces = out.pieces();
    let first = pieces.next().unwrap_or_default();
    let has_more = pieces.next().is_some();
    let mut sent = 0;
    if let Stream::Plain(socket) = stream
        && !has_more
    {
        match socket.try_write(first) {
            Ok(bytes) if bytes == first.len() => return Ok(()),
            Ok(bytes) => sent = bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    let started = Instant::now();
    while sent < out.len() {
        let deadline = ReadPace::OF_CLIENTS.deadline(started, sent);
        sent += in_time(deadline, write_some(stream, out, sent)).await?;
    }
    flush_encrypted(stream, ReadPace::OF_CLIENTS.deadline(started, sent)).await
}

/// Sends what encryption holds back. A plain stream holds nothing back.
async fn flush_encrypted(stream: &mut Stream, deadline: Instant) -> Result<()> {
    match stream {
        Stream::Plain(_) => Ok(()),
        Stream::Tls(_) => flush(stream, deadline).await,
    }
}

async fn flush(stream: &mut (impl AsyncWrite + Unpin), deadline: Instant) -> Result<()> {
    match timeout_at(deadline, stream.flush()).await {
        Ok(flushed) => flushed,
        Err(_) => Err(Error::from(ErrorKind::TimedOut)),
    }
}

/// Waits for a write until the deadline. A write of no bytes is an error.
async fn in_time(deadline: Instant, write: impl Future<Output = Result<usize>>) -> Result<usize> {
    match timeout_at(deadline, write).await {
        Ok(Ok(0)) => Err(Error::from(ErrorKind::WriteZero)),
        Ok(written) => written,
        Err(_) => Err(Error::from(ErrorKind::TimedOut)),
    }
}

/// Makes one system call that sends bytes from offset `sent` on.
async fn write_some(stream: &mut Stream, out: &(impl Pieces + Sync), sent: usize) -> Result<usize> {
    let mut skip = sent;
    let rest = out.pieces().filter_map(|piece| {
        let skipped = skip.min(piece.len());
        skip -= skipped;
        (skipped < piece.len()).then(|| IoSlice::new(&piece[skipped..]))
    });
    let mut slices = [IoSlice::new(&[]); PIECES_MAX];
    let mut count = 0;
    for (slice, piece) in slices.iter_mut().zip(rest) {
        *slice = piece;
        count += 1;
    }
    stream.write_vectored(&slices[..count]).await
}

/// Sends bytes. Fails with `TimedOut` if the client does not read them in time.
pub async fn write_bytes(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<()> {
    write_at_pace(stream, bytes, ReadPace::OF_CLIENTS).await
}

async fn write_at_pace(
    stream: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    pace: ReadPace,
) -> Result<()> {
    let (started, mut sent) = (Instant::now(), 0);
    while sent < bytes.len() {
        let deadline = pace.deadline(started, sent);
        sent += in_time(deadline, stream.write(&bytes[sent..])).await?;
    }
    flush(stream, pace.deadline(started, sent)).await
}

/// Ends a connection so that the client sees the last answer. Discards further input for a moment,
/// because closing with unread input would send a reset.
pub async fn close_after_answer(stream: &mut Stream) {
    let rest = async {
        stream.shutdown().await?;
        let mut discarded = 0;
        let mut buffer = [0; 4096];
        while discarded < REST_BYTES_MAX {
            match stream.read(&mut buffer).await? {
                0 => break,
                bytes => discarded += bytes,
            }
        }
        Ok::<(), Error>(())
    };
    // The connection ends whether or not this succeeds.
    let _ = timeout(Duration::from_millis(REST_MS_MAX), rest).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    /// Returns the outcome of writing these bytes to a client that reads `piece_bytes` after each
    /// pause.
    async fn write_to_slow_client(bytes: usize, piece_bytes: usize, pace: ReadPace) -> Result<()> {
        let (mut own, mut client) = tokio::io::duplex(64 * 1024);
        let reader = tokio::spawn(async move {
            let mut piece = vec![0; piece_bytes];
            loop {
                sleep(Duration::from_millis(50)).await;
                if client.read_exact(&mut piece).await.is_err() {
                    return client;
                }
            }
        });
        let written = write_at_pace(&mut own, &vec![b'x'; bytes], pace).await;
        reader.abort();
        written
    }

    #[tokio::test]
    async fn reader_below_the_minimum_pace_is_cut_off_and_a_faster_one_is_served() {
        const MIB: usize = 1024 * 1024;
        let pace = ReadPace { patience: Duration::from_millis(400), bytes_per_second: 200_000 };
        // About 1,300,000 bytes a second, for longer than the patience.
        let served = write_to_slow_client(MIB, 64 * 1024, pace).await;
        assert!(served.is_ok(), "{served:?}");
        // Some 20,000 bytes a second: it always reads a little, and would take a minute.
        let started = Instant::now();
        let error = write_to_slow_client(MIB, 1_024, pace).await.expect_err("it is too slow");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }

    #[tokio::test]
    async fn client_that_stops_reading_times_out() {
        let (mut own, _client) = tokio::io::duplex(64 * 1024);
        let pace = ReadPace { patience: Duration::from_millis(100), bytes_per_second: 1 << 20 };
        let error = write_at_pace(&mut own, &vec![0; 1 << 20], pace).await.expect_err("unread");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
