//! Writer of answers to a socket: usually one system call, with a bound on how long a client may
//! not read.

use base::limits::ANSWER_WRITE_MS_MAX;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Answers ready to be sent, in pieces that need not be contiguous.
pub trait Pieces {
    /// Returns the number of bytes of all pieces.
    fn len(&self) -> usize;
    /// Returns the pieces in order; none is empty.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> + Send;
}

/// Pieces handed over in one system call.
const PIECES_MAX: usize = 64;
/// Size of a part that a client must read within `ANSWER_WRITE_MS_MAX`.
const PART_BYTES: usize = 1024 * 1024;
/// Most bytes that are still read from a client after an error ended its connection.
const REST_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest time for which they are read.
const REST_MS_MAX: u64 = 1_000;

/// Sends all pieces. Fails with `TimedOut` if the client does not read in time.
pub async fn write(stream: &mut TcpStream, out: &(impl Pieces + Sync)) -> Result<()> {
    let mut pieces = out.pieces();
    let first = pieces.next().unwrap_or_default();
    let has_more = pieces.next().is_some();
    let mut sent = 0;
    if !has_more {
        match stream.try_write(first) {
            Ok(bytes) if bytes == first.len() => return Ok(()),
            Ok(bytes) => sent = bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    let part_timeout = Duration::from_millis(ANSWER_WRITE_MS_MAX);
    while sent < out.len() {
        let part_end = (sent + PART_BYTES).min(out.len());
        let piece = async {
            while sent < part_end {
                match write_some(stream, out, sent).await? {
                    0 => return Err(Error::from(ErrorKind::WriteZero)),
                    bytes => sent += bytes,
                }
            }
            Ok(())
        };
        timeout(part_timeout, piece).await.map_err(|_| Error::from(ErrorKind::TimedOut))??;
    }
    Ok(())
}

/// Makes one system call that sends bytes from offset `sent` on.
async fn write_some(
    stream: &mut TcpStream,
    out: &(impl Pieces + Sync),
    sent: usize,
) -> Result<usize> {
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

/// Sends bytes. Fails with `TimedOut` if the client does not read a part of them in time.
pub async fn write_bytes(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<()> {
    write_with_timeout(stream, bytes, Duration::from_millis(ANSWER_WRITE_MS_MAX)).await
}

async fn write_with_timeout(
    stream: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    part_timeout: Duration,
) -> Result<()> {
    for piece in bytes.chunks(PART_BYTES) {
        let written = timeout(part_timeout, stream.write_all(piece)).await;
        written.map_err(|_| Error::from(ErrorKind::TimedOut))??;
    }
    Ok(())
}

/// Ends a connection so that the client sees the last answer. Discards further input for a moment,
/// because closing with unread input would send a reset.
pub async fn close_after_answer(stream: &mut TcpStream) {
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
    use std::time::Instant;

    #[tokio::test]
    async fn slow_reader_is_served_and_stalled_reader_times_out() {
        const PIECES: usize = 5;
        let part_timeout = Duration::from_secs(2);
        let bytes = vec![b'x'; PIECES * PART_BYTES];
        let (mut own, mut client) = tokio::io::duplex(64 * 1024);
        let slow = tokio::spawn(async move {
            let mut piece = vec![0; PART_BYTES];
            for _ in 0..PIECES {
                tokio::time::sleep(part_timeout / 4).await;
                client.read_exact(&mut piece).await.expect("it is written");
            }
            client
        });
        let began = Instant::now();
        write_with_timeout(&mut own, &bytes, part_timeout).await.expect("each piece was in time");
        assert!(began.elapsed() > part_timeout, "together they took longer than one may");
        let _silent = slow.await.expect("it ends");
        let error =
            write_with_timeout(&mut own, &bytes, part_timeout).await.expect_err("nobody reads");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
