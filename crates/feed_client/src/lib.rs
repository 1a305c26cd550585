//! Readers of feeds of changes, as commands need them: one that follows the feed of a bucket, and
//! one that copies a bucket by its feed.
//!
//! A reader holds a token and a page. When its node does not answer, it goes on at another one with
//! the same token.
//!
//! Promises: a change that was decided is not skipped; the position of a copy is stored behind the
//! records that it covers, so a copy that was killed goes on where it was; memory is bounded by a
//! page.
//! Never: prints; knows a command; gives up on a refusal that time may end, unless it is told to.
//! Read next: `cluster_client.rs`, `follower.rs`, then `copier.rs`.

mod changes;
mod cluster_client;
mod copier;
mod follower;
mod key_differences;
mod target;

pub use cluster_client::{ClusterClient, Patience};
pub use copier::{Copier, CopyCounts, CopyMode};
pub use follower::FeedFollower;
pub use target::{STATE_KEY_PREFIX, SiblingsRule};
