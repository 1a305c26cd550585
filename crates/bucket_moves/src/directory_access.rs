//! Access to the directory at whichever node leads it, which the node's router implements.

use base::{BucketName, DirectoryCall, Result};
use replication::group::Group;
use std::pin::Pin;

/// Outcome of an access, once it is known.
pub type DirectoryFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// Access to the directory at whichever node leads it.
pub trait DirectoryAccess: Send + Sync {
    /// Makes sure that this master of a group has applied every directory change that clients may
    /// have seen.
    fn make_current<'a>(&'a self, group: &'a Group) -> DirectoryFuture<'a>;

    /// Waits until this node has applied the present directory of the directory's master.
    fn wait_current(&self) -> DirectoryFuture<'_>;

    /// Executes a call about a bucket.
    fn execute(&self, bucket: BucketName, call: DirectoryCall) -> DirectoryFuture<'_>;
}
