//! A request passed on, as bytes: which kind of call it is (1), how far the asking node has applied
//! the directory (8), then the request as `base` writes it. The answer is `base`'s.

use base::codec::{Malformed, Reader};
use base::limits::{PEER_CALL_BYTES_MAX, PEER_HEAD_BYTES_MAX};
use base::{Call, Error, LogIndex, Reason, Request, Result};
use bytes::Bytes;

/// The first byte of a call between nodes that is a request passed on.
pub(crate) const PASSED_ON: u8 = 1;
const HEAD_BYTES: usize = 9;
/// Longest request, with its head, and longest answer.
pub(super) const BYTES_MAX: usize = PEER_CALL_BYTES_MAX - PEER_HEAD_BYTES_MAX;

/// The letter of a request; what is too large for one, or could not be read back, is refused.
pub(super) fn write(directory: LogIndex, request: &Request) -> Result<Bytes> {
    let length = HEAD_BYTES + request.wire_bytes();
    if length > BYTES_MAX {
        return Err(Error::new(
            Reason::TooLarge,
            format!(
                "a request of {length} bytes; at most {BYTES_MAX} go from node to node \
                 (peer_call_bytes_max): ask for less, or ask the master"
            ),
        ));
    }
    let mut bytes = Vec::with_capacity(length);
    bytes.push(PASSED_ON);
    bytes.extend_from_slice(&directory.0.to_le_bytes());
    request.write(&mut bytes);
    let bytes = Bytes::from(bytes);
    // Reads and updates have met the house's limits; the rest is small, and met none yet.
    if matches!(request.call, Call::Directory(_) | Call::Session(_) | Call::Available(_)) {
        read(&bytes).map_err(|Malformed(field)| {
            Error::new(Reason::TooLarge, format!("`{field}` is not within the house's limits"))
        })?;
    }
    Ok(bytes)
}

/// Reads a letter: how far the directory must be, and the request.
pub(super) fn read(bytes: &Bytes) -> std::result::Result<(LogIndex, Request), Malformed> {
    let mut reader = Reader::new(bytes);
    if reader.u8("which call")? != PASSED_ON {
        return Err(Malformed("which call"));
    }
    let directory = LogIndex(reader.u64("directory")?);
    Ok((directory, Request::read(&bytes.slice(HEAD_BYTES..))?))
}
