//! Moves of buckets on this node: what they and the keeper of feeds need of the router, and the
//! sizes and pauses of moves.

use crate::route::Router;
use base::{BucketName, DirectoryCall};
use bucket_moves::{DirectoryAccess, DirectoryFuture, MoveSettings};
use replica_host::{DirectoryFreshness, FreshnessFuture};
use replication::group::Group;
use std::sync::Arc;

/// Directory at whichever node leads it, by the router.
pub(crate) struct RoutedDirectory(pub Arc<Router>);

impl DirectoryAccess for RoutedDirectory {
    fn make_current<'a>(&'a self, group: &'a Group) -> DirectoryFuture<'a> {
        Box::pin(self.0.make_directory_current(group))
    }

    fn wait_current(&self) -> DirectoryFuture<'_> {
        Box::pin(self.0.wait_directory_current(None))
    }

    fn execute(&self, bucket: BucketName, call: DirectoryCall) -> DirectoryFuture<'_> {
        Box::pin(self.0.call_directory(bucket, call))
    }
}

impl DirectoryFreshness for RoutedDirectory {
    fn make_current<'a>(&'a self, group: &'a Group) -> FreshnessFuture<'a> {
        Box::pin(self.0.make_directory_current(group))
    }
}

/// Returns the sizes and pauses of moves. Tests copy little and need many parts.
pub(crate) fn move_settings() -> MoveSettings {
    match cfg!(test) {
        true => MoveSettings { part_bytes: 2 << 10, retry_ms: 50 },
        false => MoveSettings::default(),
    }
}
