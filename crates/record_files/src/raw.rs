//! Format `raw`: a record is two lengths and its bytes, behind a head that identifies the format.

use super::{Fault, RecordBatch};
use base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::io::{self, BufRead, ErrorKind, Read, Write};

/// First bytes of every file.
pub(super) const HEAD: &[u8; 8] = b"credraw1";
/// Error text for a file that ends inside a record.
pub(super) const TRUNCATED: &str = "the file ends within a record";

/// Reads the head. Returns its length in bytes.
pub fn read_head(source: &mut impl BufRead) -> Result<u64, Fault> {
    let mut head = [0; HEAD.len()];
    source.read_exact(&mut head).map_err(map_truncated)?;
    if &head != HEAD {
        return Err(Fault::End("the file is not in the format raw (no `credraw1`)".into()));
    }
    Ok(HEAD.len() as u64)
}

/// Writes the head.
pub fn write_head(sink: &mut impl Write) -> io::Result<()> {
    sink.write_all(HEAD)
}

/// Reads a record. Returns its length in the file in bytes, or `None` at the end of the file.
pub fn read(source: &mut impl BufRead, batch: &mut RecordBatch) -> Result<Option<u64>, Fault> {
    if source.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let mut lengths = [0; 8];
    source.read_exact(&mut lengths).map_err(map_truncated)?;
    let packed = u64::from_le_bytes(lengths);
    let (key, value) = (packed & u64::from(u32::MAX), packed >> 32);
    if key > KEY_BYTES_MAX as u64 || value > VALUE_BYTES_MAX as u64 {
        let reason =
            format!("a key of {key} or a value of {value} bytes is too large: damaged file?");
        return Err(Fault::End(reason));
    }
    read_exactly(source, key, batch)?;
    batch.end_key();
    read_exactly(source, value, batch)?;
    Ok(Some(8 + key + value))
}

/// Writes a record.
pub fn write(sink: &mut impl Write, key: &[u8], value: &[u8]) -> io::Result<()> {
    let length = |bytes: &[u8]| {
        u32::try_from(bytes.len()).map_err(|_| io::Error::other("a record beyond all limits"))
    };
    sink.write_all(&length(key)?.to_le_bytes())?;
    sink.write_all(&length(value)?.to_le_bytes())?;
    sink.write_all(key)?;
    sink.write_all(value)
}

fn read_exactly(
    source: &mut impl BufRead,
    length: u64,
    batch: &mut RecordBatch,
) -> Result<(), Fault> {
    let read = source.take(length).read_to_end(batch.buffer())?;
    if read as u64 == length { Ok(()) } else { Err(map_truncated(ErrorKind::UnexpectedEof.into())) }
}

fn map_truncated(error: io::Error) -> Fault {
    match error.kind() {
        ErrorKind::UnexpectedEof => Fault::End(TRUNCATED.into()),
        _ => error.into(),
    }
}
