//! Entries of a record: the pure function that says what an index must contain.
//!
//! The caller hands in the record's living values: one for a row of a consistent bucket, the
//! siblings of a row of an available one; none for a tombstone, a data type or an expired row. The
//! entries are the union over them.
//!
//! [`entries`] is for a value that is being written, and refuses it; [`stored_entries`] is for rows
//! that were acknowledged, perhaps before a definition was in force, and refuses nothing: it leaves
//! out what can't be indexed, and counts it. Where the first succeeds, both return the same. What
//! [`stored_entries`] returns for one definition does not depend on the others.

use crate::definition::IndexDefinition;
use crate::definition_set::DefinitionSet;
use crate::entry::IndexEntry;
use crate::field::{IndexField, IndexNumber};
use crate::limits::ENTRIES_PER_VALUE_MAX;
use crate::selection::select;
use crate::term::{Term, TermKind};
use base::{Error, Reason, Result};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Living value of a record.
#[derive(Clone, Copy, Debug)]
pub struct LivingValue<'a> {
    /// Tags that the client wrote beside the value: names and texts, as `Headers::indexes` of
    /// `base` keeps them.
    pub tags: &'a [(Bytes, Bytes)],
    /// Bytes of the value.
    pub bytes: &'a [u8],
}

/// Number of places of a record that an index has no entries for, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkipCounts {
    /// Values that are not of the definition's format.
    pub unreadable: u64,
    /// Values in which a singular path selects nothing.
    pub absent: u64,
    /// Selected nodes of another type; of tags, texts that are no integer or names that are no
    /// field.
    pub mistyped: u64,
    /// Values with more entries than are allowed; of tags, texts and names that are too long.
    pub oversized: u64,
}

/// Entries of a record, and the number of places without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Derivation {
    /// Entries, each once.
    pub entries: BTreeSet<IndexEntry>,
    /// Places without an entry, by declared index; indexes without any are left out.
    pub skipped: BTreeMap<IndexNumber, SkipCounts>,
    /// Tags without an entry.
    pub skipped_tags: SkipCounts,
}

/// Returns the entries of a record that is being written. Errors: those of its tags
/// ([`IndexField::tag`], [`Term::tag_integer`], [`Term::tag_bytes`]); `malformed` if a strict
/// definition has no term for a value; `too_large` if a value has more than
/// [`ENTRIES_PER_VALUE_MAX`] entries.
pub fn entries(definitions: &DefinitionSet, values: &[LivingValue<'_>]) -> Result<Derivation> {
    let mut deriver = Deriver::default();
    deriver.add(definitions, values);
    match deriver.refusal {
        Some(refusal) => Err(refusal),
        None => Ok(deriver.derivation),
    }
}

/// Returns the entries of a record that is stored. A tag that [`entries`] refuses has none. A value
/// with more than [`ENTRIES_PER_VALUE_MAX`] terms for one definition has none of this definition.
pub fn stored_entries(definitions: &DefinitionSet, values: &[LivingValue<'_>]) -> Derivation {
    let mut deriver = Deriver::default();
    deriver.add(definitions, values);
    deriver.derivation
}

/// State of a derivation: what is derived so far, and the first reason to refuse the record.
#[derive(Default)]
struct Deriver {
    derivation: Derivation,
    refusal: Option<Error>,
}

impl Deriver {
    fn add(&mut self, definitions: &DefinitionSet, values: &[LivingValue<'_>]) {
        for value in values {
            let mut entries = BTreeSet::new();
            for (name, text) in value.tags {
                self.add_tag(name, text, &mut entries);
            }
            for definition in definitions.iter() {
                self.add_declared(definition, value.bytes, &mut entries);
            }
            if entries.len() > ENTRIES_PER_VALUE_MAX {
                self.refuse(too_many_entries());
            }
            self.derivation.entries.append(&mut entries);
        }
    }

    fn add_tag(&mut self, name: &Bytes, text: &Bytes, entries: &mut BTreeSet<IndexEntry>) {
        match tag_entry(name, text) {
            Ok(entry) => {
                entries.insert(entry);
            }
            Err(error) => {
                let skipped = &mut self.derivation.skipped_tags;
                match error.reason {
                    Reason::TooLarge => skipped.oversized += 1,
                    _ => skipped.mistyped += 1,
                }
                self.refuse(error);
            }
        }
    }

    fn add_declared(
        &mut self,
        definition: &IndexDefinition,
        bytes: &[u8],
        entries: &mut BTreeSet<IndexEntry>,
    ) {
        let IndexDefinition { path, value_type, format, .. } = definition;
        let mut counts = SkipCounts::default();
        let terms = match select(path, *value_type, *format, bytes) {
            Ok(selection) => {
                counts.absent = (path.is_singular() && selection.nodes == 0).into();
                counts.mistyped = selection.mistyped;
                counts.oversized = selection.is_oversized.into();
                selection.terms
            }
            Err(_) => {
                counts.unreadable = 1;
                BTreeSet::new()
            }
        };
        if counts.oversized > 0 {
            self.refuse(too_many_entries());
        }
        if definition.is_strict && counts.unreadable + counts.absent + counts.mistyped > 0 {
            self.refuse(strict_refusal(definition, &counts));
        }
        if counts != SkipCounts::default() {
            let total = self.derivation.skipped.entry(definition.number).or_default();
            total.unreadable += counts.unreadable;
            total.absent += counts.absent;
            total.mistyped += counts.mistyped;
            total.oversized += counts.oversized;
        }
        let field = definition.field();
        entries.extend(terms.into_iter().map(|term| IndexEntry { field: field.clone(), term }));
    }

    fn refuse(&mut self, error: Error) {
        self.refusal.get_or_insert(error);
    }
}

/// Returns the entry of a tag.
fn tag_entry(name: &[u8], text: &[u8]) -> Result<IndexEntry> {
    let field = IndexField::tag(name)?;
    let term = match field.tag_kind() {
        Some(TermKind::TagInteger) => Term::tag_integer(text)?,
        _ => Term::tag_bytes(text)?,
    };
    Ok(IndexEntry { field, term })
}

fn too_many_entries() -> Error {
    let text = format!(
        "the value has more than {ENTRIES_PER_VALUE_MAX} index entries: split the record, or \
         drop an index"
    );
    Error::new(Reason::TooLarge, text)
}

fn strict_refusal(definition: &IndexDefinition, counts: &SkipCounts) -> Error {
    let IndexDefinition { name, path, value_type, format, .. } = definition;
    let text = if counts.unreadable > 0 {
        format!("index `{name}` is strict, and the value can't be read as {}", format.name())
    } else if counts.absent > 0 {
        format!("index `{name}` is strict, and the value has nothing at `{path}`")
    } else {
        format!("index `{name}` is strict, and `{path}` is not of type {}", value_type.name())
    };
    Error::new(Reason::Malformed, text)
}
