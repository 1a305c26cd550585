//! Definitions in force in one bucket.

use crate::definition::IndexDefinition;
use crate::field::IndexNumber;
use crate::limits::INDEXES_PER_BUCKET_MAX;
use base::{Error, Reason, Result};
use std::collections::BTreeMap;

/// Set of definitions with different numbers and names, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionSet {
    definitions: BTreeMap<IndexNumber, IndexDefinition>,
}

impl DefinitionSet {
    /// Adds a definition. Errors: `already_exists` if its name or number is taken; `too_large`
    /// above [`INDEXES_PER_BUCKET_MAX`].
    pub fn insert(&mut self, definition: IndexDefinition) -> Result<()> {
        let is_taken = self.by_name(definition.name.as_str()).is_some()
            || self.definitions.contains_key(&definition.number);
        if is_taken {
            let text = format!(
                "the bucket has an index `{}` or number {}: drop it first",
                definition.name, definition.number
            );
            return Err(Error::new(Reason::AlreadyExists, text));
        }
        if self.definitions.len() == INDEXES_PER_BUCKET_MAX {
            let text = format!("a bucket has at most {INDEXES_PER_BUCKET_MAX} indexes: drop one");
            return Err(Error::new(Reason::TooLarge, text));
        }
        self.definitions.insert(definition.number, definition);
        Ok(())
    }

    /// Removes a definition and returns it, if it is there.
    pub fn remove(&mut self, number: IndexNumber) -> Option<IndexDefinition> {
        self.definitions.remove(&number)
    }

    /// Returns the definition with this number.
    pub fn get(&self, number: IndexNumber) -> Option<&IndexDefinition> {
        self.definitions.get(&number)
    }

    /// Returns the definition with this name.
    pub fn by_name(&self, name: &str) -> Option<&IndexDefinition> {
        self.iter().find(|definition| definition.name.as_str() == name)
    }

    /// Returns all definitions, the lowest number first.
    pub fn iter(&self) -> impl Iterator<Item = &IndexDefinition> {
        self.definitions.values()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }
}
