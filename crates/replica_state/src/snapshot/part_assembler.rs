//! Assembly of parts into rows: checks that each part is the next one, and that its rows are those
//! that were sent.

use super::super::layout;
use super::message::{self, KEY_MAX, Offer, PartEnd, PartHead, VALUE_MAX};
use super::open_snapshots::CHUNK_BYTES;
use base::GroupId;
use base::codec::Malformed;
use bytes::{Bytes, BytesMut};
use store::TreeRow;

/// Maximum bytes of a chunk: its regular size and one row.
const CHUNK_MAX: usize = CHUNK_BYTES + KEY_MAX + VALUE_MAX + 64;

/// State of assembling a snapshot's parts.
pub(super) struct PartAssembler {
    id: u64,
    prefix: [u8; 4],
    /// Row of the applied mark, which must be the first.
    mark: TreeRow,
    /// Row of the configuration.
    configuration: TreeRow,
    /// Number of the next part.
    number: u32,
    digest: u64,
    /// Bytes of a chunk that is incomplete.
    incomplete: BytesMut,
    /// Key of the last row of a verified chunk, and the digest behind it.
    verified: (Option<Bytes>, u64),
}

impl PartAssembler {
    pub fn new(group: GroupId, offer: &Offer) -> PartAssembler {
        let mut mark = Vec::new();
        layout::mark_key(group, &mut mark);
        let mut key = Vec::new();
        layout::configuration_key(group, &mut key);
        let configuration = layout::write_configuration(offer.base, &offer.configuration);
        PartAssembler {
            id: offer.id,
            prefix: group.0.to_be_bytes(),
            mark: (mark.into(), offer.mark.write()),
            configuration: (key.into(), configuration),
            number: 0,
            digest: 0,
            incomplete: BytesMut::new(),
            verified: (None, 0),
        }
    }

    /// Returns the key of the last verified row.
    pub fn last_key(&self) -> Option<Bytes> {
        self.verified.0.clone()
    }

    /// Restarts behind the last verified row, for a new stream.
    pub fn rewind(&mut self) {
        (self.number, self.digest) = (0, self.verified.1);
        self.incomplete.clear();
    }

    /// Accepts a part. Returns the rows of the chunk that it completes, and true if they are the
    /// last. `None`: the chunk is incomplete. After an error the stream can't be continued.
    pub fn accept(
        &mut self,
        head: PartHead,
        bytes: Bytes,
    ) -> Result<Option<(Vec<TreeRow>, bool)>, Malformed> {
        if head.id != self.id {
            return Err(Malformed("snapshot"));
        }
        if head.number != self.number {
            return Err(Malformed("order: one is missing"));
        }
        let digest = message::digest(self.digest, &bytes);
        if digest != head.digest {
            return Err(Malformed("digest"));
        }
        if self.incomplete.len() + bytes.len() > CHUNK_MAX {
            return Err(Malformed("length"));
        }
        (self.number, self.digest) = (self.number + 1, digest);
        // Most chunks have one part, which is not copied.
        if head.end == PartEnd::MidChunk || !self.incomplete.is_empty() {
            self.incomplete.extend_from_slice(&bytes);
        }
        let bytes = match (head.end, self.incomplete.is_empty()) {
            (PartEnd::MidChunk, _) => return Ok(None),
            (_, true) => bytes,
            (_, false) => self.incomplete.split().freeze(),
        };
        let rows = message::read_rows(&bytes)?;
        self.check(&rows)?;
        let last = rows.last().map(|(key, _)| Bytes::copy_from_slice(key));
        // Updated only for complete chunks of checked rows: a later stream continues behind the
        // last such row.
        self.verified = (last.or(self.verified.0.take()), digest);
        Ok(Some((rows, head.end == PartEnd::Snapshot)))
    }

    fn check(&self, rows: &[TreeRow]) -> Result<(), Malformed> {
        let mut previous = self.verified.0.as_ref();
        for row in rows {
            match previous {
                None if *row != self.mark => return Err(Malformed("first row")),
                Some(previous) if *previous >= row.0 => return Err(Malformed("order of rows")),
                _ if !row.0.starts_with(&self.prefix) => return Err(Malformed("group of a row")),
                _ if row.0 == self.configuration.0 && *row != self.configuration => {
                    return Err(Malformed("configuration"));
                }
                _ => previous = Some(&row.0),
            }
        }
        // A snapshot without a row has no mark.
        previous.map(|_| ()).ok_or(Malformed("first row"))
    }
}
