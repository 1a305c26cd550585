//! Feeds: the steps by which the feed of a bucket is begun, built, trimmed and removed.
//!
//! Entries of changes are derived where entries of the log are applied (`replica_state/feed/`). The
//! steps here are updates of the group's master: what a replica can't derive is an effect like any
//! other.
//!
//! Promises: a feed that is ready has an entry for every row; a removed entry is dead, or a delete
//! that readers are told of.
//! Never: sees an entry of a change that is not applied yet. So a step that relies on all entries
//! is taken only once the record that ends them is applied.
//! Read next: `manage.rs`, then `build.rs` and `trim.rs`.

mod build;
mod manage;
mod moving;
mod trim;

#[cfg(test)]
mod tests;

pub use trim::TrimStep;
