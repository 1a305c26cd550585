//! Parts into rows: checks that each part is the next one, and its rows are those that were sent.

use super::super::layout;
use super::message::{self, Ends, KEY_MAX, Offer, PartHead, VALUE_MAX};
use super::send::CHUNK_BYTES;
use base::GroupId;
use base::codec::Malformed;
use bytes::{Bytes, BytesMut};
use store::TreeRow;

/// The most bytes that a chunk of rows has: one that is not longer than it should be, and one row.
const CHUNK_MAX: usize = CHUNK_BYTES + KEY_MAX + VALUE_MAX + 64;

/// Progress of taking a snapshot's parts.
pub(super) struct Take {
    id: u64,
    prefix: [u8; 4],
    /// Row of the applied mark, which has to come first.
    mark: TreeRow,
    /// Row of the configuration; its value is empty if there is none.
    configuration: TreeRow,
    /// Number of the next part.
    number: u32,
    digest: u64,
    /// Parts of a chunk that has not ended.
    begun: BytesMut,
    /// The last row that was taken, and the digest behind it.
    good: (Option<Bytes>, u64),
}

impl Take {
    pub fn new(group: GroupId, offer: &Offer) -> Take {
        let mut mark = Vec::new();
        layout::mark_key(group, &mut mark);
        let mut key = Vec::new();
        layout::configuration_key(group, &mut key);
        let configuration = layout::write_configuration(offer.base, &offer.configuration);
        Take {
            id: offer.id,
            prefix: group.0.to_be_bytes(),
            mark: (mark.into(), offer.mark.write()),
            configuration: (key.into(), configuration),
            number: 0,
            digest: 0,
            begun: BytesMut::new(),
            good: (None, 0),
        }
    }

    /// The last key that was taken.
    pub fn after(&self) -> Option<Bytes> {
        self.good.0.clone()
    }

    /// A new stream begins behind the last row that was taken.
    pub fn go_back(&mut self) {
        (self.number, self.digest) = (0, self.good.1);
        self.begun.clear();
    }

    /// Takes a part: the rows of the chunk it ends, and whether they are the last. After an error
    /// the stream is of no more use.
    pub fn part(
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
        if self.begun.len() + bytes.len() > CHUNK_MAX {
            return Err(Malformed("length"));
        }
        (self.number, self.digest) = (self.number + 1, digest);
        // A chunk of one part, as most are, is not copied.
        if head.ends == Ends::Within || !self.begun.is_empty() {
            self.begun.extend_from_slice(&bytes);
        }
        let bytes = match (head.ends, self.begun.is_empty()) {
            (Ends::Within, _) => return Ok(None),
            (_, true) => bytes,
            (_, false) => self.begun.split().freeze(),
        };
        let rows = message::read_rows(&bytes)?;
        self.check(&rows)?;
        let last = rows.last().map(|(key, _)| Bytes::copy_from_slice(key));
        // Only with whole chunks of checked rows: a later stream goes on after the last such row.
        self.good = (last.or(self.good.0.take()), digest);
        Ok(Some((rows, head.ends == Ends::All)))
    }

    fn check(&self, rows: &[TreeRow]) -> Result<(), Malformed> {
        let mut before = self.good.0.as_ref();
        for row in rows {
            match before {
                None if *row != self.mark => return Err(Malformed("first row")),
                Some(before) if *before >= row.0 => return Err(Malformed("order of rows")),
                _ if !row.0.starts_with(&self.prefix) => return Err(Malformed("group of a row")),
                _ if row.0 == self.configuration.0 && *row != self.configuration => {
                    return Err(Malformed("configuration"));
                }
                _ => before = Some(&row.0),
            }
        }
        // A snapshot without a row has no mark.
        before.map(|_| ()).ok_or(Malformed("first row"))
    }
}
