//! Secondary indexes: the entries of a record, their bytes, and their order.
//!
//! An *index entry* is a field and a term ([`IndexEntry`]). A field is a tag that a client wrote
//! beside a value (`colour_bin`), or a declared index, whose [`IndexDefinition`] names a path into
//! the value. [`entries`] derives the entries of a record from its living values; the rows of an
//! index are what this function says, for whoever writes, builds, answers from or verifies them.
//!
//! Promises: the bytes of terms order as their values do; equal records have equal entries, and a
//! definition's entries do not depend on other definitions; decoding never panics, whatever the
//! bytes; memory and recursion are bounded by `limits.rs`, whatever the value.
//! Never: reads or writes a row; knows a group, a vnode or a request; reads a clock.
//! Read next: `term.rs`, `selection.rs`, then `entries.rs` and `layout.rs`.

pub mod layout;
pub mod limits;

mod continuation;
mod definition;
mod definition_set;
mod entries;
mod entry;
mod escape;
mod field;
mod key_query;
mod member_name;
mod path;
mod path_parser;
mod query;
mod selection;
mod term;
mod term_filter;
mod term_range;
mod term_text;
mod value_type;

pub use continuation::{Continuation, QueryDigest};
pub use definition::{IndexDefinition, IndexName};
pub use definition_set::DefinitionSet;
pub use entries::{Derivation, LivingValue, SkipCounts, entries, stored_entries};
pub use entry::{EntryDifference, IndexEntry};
pub use field::{IndexField, IndexNumber};
pub use key_query::KeyQuery;
pub use path::{JsonPath, Selector, Slice};
pub use query::FieldQuery;
pub use selection::{Selection, select};
pub use term::{Term, TermKind, TermValue};
pub use term_filter::TermFilter;
pub use term_range::TermRange;
pub use value_type::{ValueFormat, ValueType};

#[cfg(test)]
mod tests;
