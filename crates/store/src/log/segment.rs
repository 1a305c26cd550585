//! A segment's name and header page.

use super::frame::FRAME_HEADER_BYTES;
use crate::StoreError;
use crate::disk::{Access, Disk, DiskFile};
use base::codec::{Reader, checksum};
use std::sync::Arc;

/// Size of the header page; frames begin behind it.
pub(super) const HEADER_BYTES: u64 = 4096;
const MAGIC: &[u8; 8] = b"CREDZLOG";
/// A segment has the first version unless it may hold a kind of record that only a later version
/// has.
pub(super) const VERSION_FIRST: u32 = 1;
const VERSION_LAST: u32 = 2;
const CHECKSUM_AT: usize = HEADER_BYTES as usize - 8;

/// Content of a header page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Format version: determines which kinds of records the segment may hold.
    pub version: u32,
    pub generation: u32,
    pub log_id: u64,
    pub sequence: u64,
    /// Stream position of the file's byte 0.
    pub base: u64,
    /// Length of the file in bytes.
    pub length: u64,
}

impl Header {
    /// Returns the stream position of the successor's byte 0.
    pub fn end(&self) -> u64 {
        self.base + self.length
    }

    pub fn name(&self) -> String {
        segment_name(self.sequence)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; HEADER_BYTES as usize];
        page[0..8].copy_from_slice(MAGIC);
        page[8..12].copy_from_slice(&self.version.to_le_bytes());
        page[12..16].copy_from_slice(&self.generation.to_le_bytes());
        page[16..24].copy_from_slice(&self.log_id.to_le_bytes());
        page[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        page[32..40].copy_from_slice(&self.base.to_le_bytes());
        page[40..48].copy_from_slice(&self.length.to_le_bytes());
        let sum = checksum(&page[..CHECKSUM_AT], 0);
        page[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// Decodes the header page of a file with this name. The error describes the damage.
    fn decode(page: &[u8]) -> Result<Header, HeaderError> {
        let damaged = |_| HeaderError::Damaged("the header page is cut short");
        let (front, sum) = page.split_at(CHECKSUM_AT);
        let mut reader = Reader::new(front);
        if reader.take(8, "magic").map_err(damaged)? != MAGIC {
            return Err(HeaderError::Damaged("it does not begin like a segment of the log"));
        }
        if checksum(front, 0).to_le_bytes() != sum {
            return Err(HeaderError::Damaged("the header page does not match its checksum"));
        }
        let version = reader.u32("version").map_err(damaged)?;
        if !(VERSION_FIRST..=VERSION_LAST).contains(&version) {
            return Err(HeaderError::Foreign(version));
        }
        let header = Header {
            version,
            generation: reader.u32("generation").map_err(damaged)?,
            log_id: reader.u64("log").map_err(damaged)?,
            sequence: reader.u64("sequence").map_err(damaged)?,
            base: reader.u64("base").map_err(damaged)?,
            length: reader.u64("length").map_err(damaged)?,
        };
        let is_valid = header.sequence > 0
            && header.generation > 0
            && header.length > HEADER_BYTES + FRAME_HEADER_BYTES as u64
            && header.base.checked_add(header.length).is_some();
        if is_valid {
            Ok(header)
        } else {
            Err(HeaderError::Damaged("the header page is malformed"))
        }
    }
}

/// Reason for which a header page is refused.
enum HeaderError {
    /// Description of the damage.
    Damaged(&'static str),
    /// A version that this program does not read.
    Foreign(u32),
}

/// A segment's file, held open.
#[derive(Clone)]
pub(super) struct Segment {
    pub header: Header,
    pub file: Arc<dyn DiskFile>,
}

impl Segment {
    /// Opens the file and checks header, name and length against each other.
    pub fn open(disk: &dyn Disk, sequence: u64, access: Access) -> Result<Segment, StoreError> {
        let name = segment_name(sequence);
        let file = disk
            .open(&name, access)
            .map_err(|error| StoreError::io(format!("can't open {name}"), error))?;
        let mut page = vec![0; HEADER_BYTES as usize];
        let count = read_at(&*file, &name, &mut page, 0)?;
        let corrupt = |offset, description: String| StoreError::Corrupt {
            file: name.clone(),
            offset,
            description,
        };
        if count < page.len() {
            return Err(corrupt(count as u64, "the file ends within its header page".into()));
        }
        let header = match Header::decode(&page) {
            Ok(header) => header,
            Err(HeaderError::Foreign(found)) => {
                return Err(StoreError::Version { found, known: VERSION_LAST });
            }
            Err(HeaderError::Damaged(description)) => return Err(corrupt(0, description.into())),
        };
        if header.sequence != sequence {
            let description = format!("its header says that it is segment {}", header.sequence);
            return Err(corrupt(24, description));
        }
        let size = file
            .size()
            .map_err(|error| StoreError::io(format!("can't ask the size of {name}"), error))?;
        if size != header.length {
            let description =
                format!("the file has {size} bytes and should have {}", header.length);
            return Err(corrupt(size.min(header.length), description));
        }
        Ok(Segment { header, file })
    }
}

/// Reads from a file, with its name in the error.
pub(super) fn read_at(
    file: &dyn DiskFile,
    name: &str,
    buffer: &mut [u8],
    offset: u64,
) -> Result<usize, StoreError> {
    file.read_at(buffer, offset)
        .map_err(|error| StoreError::io(format!("can't read {name} at {offset}"), error))
}

/// Suffixes of the names of segments, of spares, and of spares in preparation.
const SEGMENT: &str = ".log";
pub(super) const SPARE: &str = ".spare";
pub(super) const UNFINISHED: &str = ".new";

fn segment_name(sequence: u64) -> String {
    format!("{sequence:016x}{SEGMENT}")
}

pub(super) fn spare_name(number: u64, ending: &str) -> String {
    format!("{number:016x}{ending}")
}

/// Files in the log's directory, by their names. Other names are ignored.
#[derive(Debug, Default)]
pub(super) struct LogNames {
    /// Sequence numbers, ascending.
    pub segments: Vec<u64>,
    /// Numbers of spares, ascending.
    pub spares: Vec<u64>,
    /// Numbers of files whose preparation as spares was interrupted.
    pub unfinished: Vec<u64>,
}

impl LogNames {
    pub fn list(disk: &dyn Disk) -> Result<LogNames, StoreError> {
        let names =
            disk.list().map_err(|error| StoreError::io("can't list the log's files", error))?;
        let mut log_names = LogNames::default();
        for name in &names {
            let list = [
                (SEGMENT, &mut log_names.segments),
                (SPARE, &mut log_names.spares),
                (UNFINISHED, &mut log_names.unfinished),
            ];
            for (ending, numbers) in list {
                numbers.extend(name.strip_suffix(ending).and_then(parse_number));
            }
        }
        for numbers in [&mut log_names.segments, &mut log_names.spares, &mut log_names.unfinished] {
            numbers.sort_unstable();
        }
        Ok(log_names)
    }
}

/// Parses a number of 16 lower-case hexadecimal digits.
fn parse_number(text: &str) -> Option<u64> {
    let is_lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (text.len() == 16 && text.bytes().all(is_lower_hex))
        .then(|| u64::from_str_radix(text, 16).ok())?
}
