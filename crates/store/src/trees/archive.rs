//! The bytes of a table file, read without trusting any of them; and those of a list of tables,
//! also written.
//!
//! The LSM library checks every block that it reads, but reserves memory for a file's table of
//! contents before it compares its checksum; so contents are checked here first.
//!
//! A file is an archive of sections, then `TOC!`, a count u32 and the sections (offset u64, bytes
//! u64, name length u16, name), then `SFA!`, version 1 u8, checksum kind 0 u8, xxh3-128 of the
//! contents u128, their offset u64, their length u64. Sections hold blocks: a header (magic 4
//! bytes, type u8, xxh3-128 of the data u128, data length u32, unpacked length u32, low 32 bits of
//! the xxh3-128 of the header so far) and the data. All little endian.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use crate::StoreError;

const TRAILER_BYTES: u64 = 4 + 1 + 1 + 16 + 8 + 8;
const HEADER_BYTES: usize = 4 + 1 + 16 + 4 + 4 + 4;
/// Sections that consist of blocks.
const BLOCK_SECTIONS: [&[u8]; 6] = [b"data", b"tli", b"index", b"filter", b"filter_tli", b"meta"];

/// One section of an archive.
#[derive(Debug)]
pub(crate) struct ArchiveSection {
    /// Name of the section.
    pub name: Vec<u8>,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Result of reading a whole file.
#[derive(Debug, Default)]
pub(crate) struct ArchiveWalk {
    /// Blocks whose checksums match.
    pub blocks: u64,
    /// Damage: offset in bytes, and description.
    pub damage: Vec<(u64, String)>,
    /// xxh3-128 of all bytes.
    pub checksum: u128,
}

/// Lists the sections of an archive by its contents; they lie in the file one behind the other.
pub(crate) fn sections(path: &Path) -> Result<Vec<ArchiveSection>, StoreError> {
    let failed = |error: io::Error| StoreError::io(format!("read {}", path.display()), error);
    let file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let bad = |offset: u64, description: &str| StoreError::Corrupt {
        file: path.display().to_string(),
        offset,
        description: description.into(),
    };
    let at = length.checked_sub(TRAILER_BYTES).ok_or_else(|| bad(0, "the file is too short"))?;
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact_at(&mut trailer, at).map_err(failed)?;
    let mut fields = ArchiveFields(&trailer);
    if fields.take(6) != Some(b"SFA!\x01\x00") {
        return Err(bad(at, "the file does not end as a table"));
    }
    let numbers = (fields.u128(), fields.u64(), fields.u64());
    let (Some(sum), Some(begin), Some(bytes)) = numbers else {
        return Err(bad(at, "the end of the file is short"));
    };
    if begin.checked_add(bytes) != Some(at) {
        return Err(bad(at, "the contents are not where the end of the file says"));
    }
    let mut contents = vec![0; bytes as usize];
    file.read_exact_at(&mut contents, begin).map_err(failed)?;
    if xxh3_128(&contents) != sum {
        return Err(bad(begin, "the contents' checksum does not match"));
    }
    parse(&contents, begin).ok_or_else(|| bad(begin, "the contents are malformed"))
}

/// Encodes an archive: the sections, one behind the other, and its contents.
pub(crate) fn encode(sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut contents = b"TOC!".to_vec();
    contents.extend_from_slice(&(sections.len() as u32).to_le_bytes());
    for (name, section) in sections {
        contents.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        contents.extend_from_slice(&(section.len() as u64).to_le_bytes());
        contents.extend_from_slice(&(name.len() as u16).to_le_bytes());
        contents.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(section);
    }
    let begin = bytes.len() as u64;
    bytes.extend_from_slice(&contents);
    bytes.extend_from_slice(b"SFA!\x01\x00");
    bytes.extend_from_slice(&xxh3_128(&contents).to_le_bytes());
    bytes.extend_from_slice(&begin.to_le_bytes());
    bytes.extend_from_slice(&(contents.len() as u64).to_le_bytes());
    bytes
}

fn parse(contents: &[u8], end: u64) -> Option<Vec<ArchiveSection>> {
    let mut fields = ArchiveFields(contents);
    if fields.take(4)? != b"TOC!" {
        return None;
    }
    let mut sections = Vec::new();
    let mut expected = 0;
    for _ in 0..fields.u32()? {
        let (offset, bytes, name) = (fields.u64()?, fields.u64()?, fields.u16()?);
        let name = fields.take(name.into())?.to_vec();
        if offset != expected {
            return None;
        }
        expected = offset.checked_add(bytes)?;
        sections.push(ArchiveSection { name, offset, bytes });
    }
    (expected == end).then_some(sections)
}

/// Reads every byte of a file and checks every block in it.
pub(crate) fn walk(path: &Path, sections: &[ArchiveSection]) -> Result<ArchiveWalk, StoreError> {
    let failed = |error: io::Error| StoreError::io(format!("read {}", path.display()), error);
    let file = File::open(path).map_err(failed)?;
    let reader = BufReader::with_capacity(256 * 1024, file);
    let mut source = ArchiveSource { reader, hasher: Xxh3Default::new(), offset: 0 };
    let mut walk = ArchiveWalk::default();
    for section in sections {
        let end = section.offset + section.bytes;
        while BLOCK_SECTIONS.contains(&section.name.as_slice()) && source.offset < end {
            let at = source.offset;
            match check_block(&mut source, end).map_err(failed)? {
                None => walk.blocks += 1,
                Some(description) => walk.damage.push((at, description.into())),
            }
        }
        source.skip(end - source.offset).map_err(failed)?;
    }
    source.skip(u64::MAX).map_err(failed)?;
    walk.checksum = source.hasher.digest128();
    Ok(walk)
}

/// Reads and checks one block. Returns a description of its damage. If its length can't be trusted,
/// the rest of the section is skipped, because the next block's beginning is unknown.
fn check_block(source: &mut ArchiveSource, end: u64) -> io::Result<Option<&'static str>> {
    let mut header = [0; HEADER_BYTES];
    if end - source.offset < HEADER_BYTES as u64 {
        source.skip(end - source.offset)?;
        return Ok(Some("a block's header is cut off"));
    }
    source.read(&mut header)?;
    let (body, header_sum) = header.split_at(HEADER_BYTES - 4);
    let header_sum = u32::from_le_bytes(header_sum.try_into().expect("four bytes"));
    let mut fields = ArchiveFields(body);
    let is_valid = fields.take(4) == Some(b"LSM\x03") && xxh3_128(body) as u32 == header_sum;
    let (_, sum, bytes) = (fields.take(1), fields.u128(), fields.u32());
    let (Some(sum), Some(bytes)) = (sum, bytes) else { return Ok(Some("a block's header")) };
    if !is_valid || u64::from(bytes) > end - source.offset {
        source.skip(end - source.offset)?;
        return Ok(Some("the checksum of a block's header does not match"));
    }
    let mut data = vec![0; bytes as usize];
    source.read(&mut data)?;
    Ok((xxh3_128(&data) != sum).then_some("a block's checksum does not match"))
}

/// Sequential reader of a file, with its position and the checksum so far.
struct ArchiveSource {
    reader: BufReader<File>,
    hasher: Xxh3Default,
    offset: u64,
}

impl ArchiveSource {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.reader.read_exact(bytes)?;
        self.hasher.update(bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Skips this many bytes, or the rest of the file.
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let mut left = bytes;
        let mut chunk = [0; 4096];
        while left > 0 {
            let length = left.min(chunk.len() as u64) as usize;
            let count = self.reader.read(&mut chunk[..length])?;
            if count == 0 {
                return Ok(());
            }
            self.hasher.update(&chunk[..count]);
            self.offset += count as u64;
            left -= count as u64;
        }
        Ok(())
    }
}

/// Decoder of little-endian numbers, from the front.
pub(crate) struct ArchiveFields<'a>(pub &'a [u8]);

impl<'a> ArchiveFields<'a> {
    pub fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(front)
    }

    pub fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub fn u128(&mut self) -> Option<u128> {
        Some(u128::from_le_bytes(self.take(16)?.try_into().ok()?))
    }
}
