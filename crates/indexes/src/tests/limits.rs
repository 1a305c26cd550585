//! Limits: what is at a limit is accepted, what is beyond is refused with the right reason.

mod continuation_text;
mod declared_terms;
mod digits;
mod entries_per_value;
mod field_names;
mod indexes_per_bucket;
mod nesting;
mod paths;
mod row_keys;
mod tag_terms;
mod wildcards;
