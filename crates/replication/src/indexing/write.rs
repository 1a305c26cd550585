//! Entries that a change of a row adds and removes.

use crate::overlay::Overlay;
use crate::row_change::{NewRow, RowBefore, RowOrigin};
use crate::seals::BOOKKEEPING_BUCKET;
use base::error::corrupt;
use base::{BucketId, Error, Key, Reason, Result, Tags};
use bytes::Bytes;
use indexes::limits::ENTRIES_PER_VALUE_MAX;
use indexes::{
    DefinitionSet, EntryDifference, IndexEntry, IndexField, LivingValue, entries, stored_entries,
};
use replica_state::index_row;
use replica_state::tag_record::{TAG_RECORD_VALUE, tag_record_key};
use runtime::mutants::Mutant;
use std::collections::BTreeSet;

/// Record whose entries are written: its bucket, key and expiry.
#[derive(Clone, Copy)]
pub(super) struct EntryOwner<'a> {
    pub bucket: BucketId,
    pub key: &'a [u8],
    pub expires: Option<u64>,
}

impl Overlay<'_> {
    /// Writes what a change of a row means for the indexes of its bucket. Called before the row
    /// itself changes. `after`: `None` if the row is removed. Errors: those of a value that can't
    /// be indexed ([`entries`]); `already_exists` if another key has the term of a unique index.
    #[inline]
    pub(crate) fn change_entries(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        before: RowBefore<'_>,
        after: Option<NewRow<'_>>,
    ) -> Result<()> {
        if after.is_some_and(|row| row.value.tags.is_some()) {
            self.note_tags(bucket)?;
        }
        if self.indexes.is_empty() {
            return Ok(());
        }
        match self.indexes.maintained(bucket) {
            Some(definitions) => self.reindex(&definitions, (bucket, key), before, after),
            None => Ok(()),
        }
    }

    /// Writes the record of a bucket that gets tags, unless it has one. From then on every change
    /// of a row looks at the row that it replaces. Rows of before have no tags.
    #[cold]
    pub(super) fn note_tags(&mut self, bucket: BucketId) -> Result<()> {
        if self.indexes.insert_tagged(bucket) {
            let key = tag_record_key(bucket);
            self.put(BOOKKEEPING_BUCKET, &key, None, &[TAG_RECORD_VALUE])?;
        }
        Ok(())
    }

    #[cold]
    fn reindex(
        &mut self,
        definitions: &DefinitionSet,
        (bucket, key): (BucketId, &[u8]),
        before: RowBefore<'_>,
        after: Option<NewRow<'_>>,
    ) -> Result<()> {
        let found;
        let before = match before {
            RowBefore::Read(row) => Some(row),
            RowBefore::Unread | RowBefore::Seen { .. } => {
                found = self.stored_row(bucket, key)?;
                found.as_ref()
            }
        };
        let old_expires = before.and_then(|row| row.expires);
        let new_expires = after.and_then(|row| row.expires);
        let is_copied = after.is_some_and(|row| row.origin == RowOrigin::Copied);
        let value = after.map(|row| contiguous(row.value.parts));
        let tags = after.and_then(|row| row.value.tags);
        let has_same_value = before.is_some_and(|row| {
            value.as_deref() == Some(&row.value[..]) && tags == row.tags.as_deref()
        });
        if has_same_value && old_expires == new_expires && !is_copied {
            return Ok(());
        }
        let old = match before {
            Some(row) => self.derive(definitions, row.tags.as_deref(), &row.value)?,
            None => BTreeSet::new(),
        };
        let new = match &value {
            // A value that was accepted before is not refused when only its expiry changes.
            Some(_) if has_same_value => old.clone(),
            Some(value) if is_copied => self.derive(definitions, tags, value)?,
            Some(value) => {
                self.count_derivation(definitions, value.len())?;
                entries(definitions, &[LivingValue { tags: pairs(tags), bytes: value }])?.entries
            }
            None => BTreeSet::new(),
        };
        let mut difference = EntryDifference::between(&old, &new);
        // An entry expires with its record. And a copy of rows that is not at one moment may pass
        // a term from one key to another and back: what the last row says must hold.
        if old_expires != new_expires || is_copied {
            difference.added = new.into_iter().collect();
        }
        if !Mutant::KeepOldIndexEntries.is_active() {
            // Only a row that is older than some of its indexes has so many. What their builders
            // have not put is not removed, so that a sweep fits into an entry of the log.
            let must_exist = difference.removed.len() > ENTRIES_PER_VALUE_MAX;
            for entry in &difference.removed {
                self.remove_entry(definitions, (bucket, key), entry, must_exist)?;
            }
        }
        let owner = EntryOwner { bucket, key, expires: new_expires };
        for entry in &difference.added {
            let is_unique = is_unique(definitions, entry);
            if is_unique
                && !is_copied
                && let Some(holder) = self.living_holder(owner, entry)?
                && !Mutant::SkipUniqueCheck.is_active()
            {
                return Err(duplicate_error(definitions, entry, &holder));
            }
            self.put_entry(owner, is_unique, entry)?;
        }
        Ok(())
    }

    /// Returns the entries of a stored value and its tags.
    pub(super) fn derive(
        &mut self,
        definitions: &DefinitionSet,
        tags: Option<&Tags>,
        value: &[u8],
    ) -> Result<BTreeSet<IndexEntry>> {
        self.count_derivation(definitions, value.len())?;
        let value = LivingValue { tags: pairs(tags), bytes: value };
        Ok(stored_entries(definitions, &[value]).entries)
    }

    /// Counts the derivation of a value's entries like as many look-ups of it: each definition
    /// reads it once.
    fn count_derivation(&mut self, definitions: &DefinitionSet, bytes: usize) -> Result<()> {
        definitions.iter().try_for_each(|_| self.budget.count_row(bytes))
    }

    /// Writes the row of an entry.
    pub(super) fn put_entry(
        &mut self,
        owner: EntryOwner<'_>,
        is_unique: bool,
        entry: &IndexEntry,
    ) -> Result<()> {
        let EntryOwner { bucket, key, expires } = owner;
        let bytes_before = self.open.payload_bytes();
        index_row::index_key((self.group, bucket), is_unique, entry, key, self.scratch);
        self.open.put_raw(self.scratch, &index_row::encode(is_unique, key, expires));
        self.budget.count_entry(self.open.payload_bytes() - bytes_before)
    }

    /// Removes the row of an entry. In a unique index another key may have the term by now: while
    /// the index is built, or while rows are copied. `must_exist`: an entry that is not there is
    /// passed over.
    pub(super) fn remove_entry(
        &mut self,
        definitions: &DefinitionSet,
        (bucket, key): (BucketId, &[u8]),
        entry: &IndexEntry,
        must_exist: bool,
    ) -> Result<()> {
        let is_unique = is_unique(definitions, entry);
        if is_unique && self.holder(bucket, entry)?.is_none_or(|(_, holder)| holder != key) {
            return Ok(());
        }
        index_row::index_key((self.group, bucket), is_unique, entry, key, self.scratch);
        if must_exist && !is_unique && self.get_for_update()?.is_none() {
            return Ok(());
        }
        let bytes_before = self.open.payload_bytes();
        self.open.remove(self.scratch);
        self.budget.count_entry(self.open.payload_bytes() - bytes_before)
    }

    /// Returns the expiry and the key of the record with this entry of a unique index.
    fn holder(
        &mut self,
        bucket: BucketId,
        entry: &IndexEntry,
    ) -> Result<Option<(Option<u64>, Key)>> {
        index_row::index_key((self.group, bucket), true, entry, &[], self.scratch);
        let row = self.get_raw()?;
        row.as_ref().map(index_row::decode_holder).transpose().map_err(corrupt)
    }

    /// Returns another key that has this entry of a unique index. One that has expired is removed
    /// at once, as the sweep would do later.
    pub(super) fn living_holder(
        &mut self,
        owner: EntryOwner<'_>,
        entry: &IndexEntry,
    ) -> Result<Option<Key>> {
        let holder = self.holder(owner.bucket, entry)?.filter(|(_, holder)| holder != owner.key);
        let Some((expires, holder)) = holder else { return Ok(None) };
        if expires.is_none_or(|expires| expires > self.open.time) {
            return Ok(Some(holder));
        }
        self.saw_expired = true;
        match self.stored_row(owner.bucket, &holder)? {
            Some(row) if row.is_expired(self.open.time) => {
                self.remove_expired(owner.bucket, &holder, &row)?;
                Ok(None)
            }
            // An entry expires with its record. If one did not, the record would have the term.
            Some(_) => Ok(Some(holder)),
            None => Ok(None),
        }
    }
}

/// Returns the fields and texts of tags.
fn pairs(tags: Option<&Tags>) -> &[(Bytes, Bytes)] {
    tags.map_or(&[], |tags| &tags.0)
}

/// Returns the parts of a value as one.
fn contiguous<'a>(parts: &'a [&'a [u8]]) -> std::borrow::Cow<'a, [u8]> {
    match parts {
        [whole] => (*whole).into(),
        parts => parts.concat().into(),
    }
}

/// Returns true if an entry is of a unique index.
pub(super) fn is_unique(definitions: &DefinitionSet, entry: &IndexEntry) -> bool {
    match entry.field {
        IndexField::Declared(number) => {
            definitions.get(number).is_some_and(|definition| definition.is_unique)
        }
        IndexField::Tag(_) => false,
    }
}

fn duplicate_error(definitions: &DefinitionSet, entry: &IndexEntry, holder: &Key) -> Error {
    let name = match entry.field {
        IndexField::Declared(number) => definitions.get(number).map(|found| found.name.as_str()),
        IndexField::Tag(_) => None,
    };
    let text = format!(
        "index `{}` is unique, and the key `{}` has the same term: change or delete that record \
         first",
        name.unwrap_or_default(),
        base::codec::printable(holder)
    );
    Error::new(Reason::AlreadyExists, text)
}
