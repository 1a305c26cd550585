//! Move of a bucket to another group while it is used.
//!
//! The directory records the group that keeps a bucket (group S, number `old`) and the group to
//! which it moves (group T, number `new`). The master of S drives the move, from rows alone:
//!
//! | row | says |
//! |---|---|
//! | directory, the bucket's | lives at (S, `old`); moves to (T, `new`), or to nowhere |
//! | S, `s old` | sealed: nothing is evaluated or read there any more |
//! | T, `i new` | rows come in: open or closed, the last part, how far T's time is ahead |
//!
//! | # | step | from | to |
//! |---|---|---|---|
//! | 1 | begin | no `i new` | open; where it exists, someone copied there before: 2 |
//! | 2 | renew | moves to `new` | moves to a fresh number, `new` is dropped; 1 |
//! | 3 | copy | open, part n | open, part n + 1: rows in chunks, then what changed meanwhile |
//! | 4 | seal | not sealed | sealed, once little is left to be copied |
//! | 5 | copy | | what changed before the seal; then T has everything |
//! | 6 | close | open | closed; T gives higher versions than S did, and is as late |
//! | 7 | finish | moves to `new` | lives at (T, `new`); `old` is dropped |
//! | 8 | tidy | the directory knows no `old`, `new` | no `s old`, `i new`, nor indexes of them |
//!
//! After an interruption (a master of either group crashes, a call is lost, a node restarts) the
//! next master of S begins at 1, finds `new` used, and takes a fresh number. So no row of a failed
//! attempt can get among the rows of another. A sealed bucket stays sealed until 7, or until the
//! move is cancelled: then the directory records that the bucket stays at `old`, and the master of
//! S removes the seal. Only the directory decides between the two, in one row.
//!
//! Sessions move along, with the outcomes of their windows: S's stay, T's get what they lack. The
//! bucket's indexes are in force at T from 1 on, which derives their entries from the rows. Entries
//! of the bucket's feed are copied as they are, behind the rows, and T adds its own behind them.
//!
//! Promises: an update that S acknowledged is in T before T is used, and is applied once, also when
//! it is repeated; S gives no answer that T could have made stale; versions continue, and so do
//! times to live.
//! Never: makes a client wait except between 4 and 7; copies rows whose changes it can't have
//! noticed.
//! Read next: `mover.rs` (the steps), `intake.rs` (T's side), `copier.rs`, and for requests that
//! meet such a bucket `node/forward/moved.rs`.

mod copier;
mod directory_access;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod intake;
mod message;
mod mover;
mod progress;
mod reconcile;
mod settings;
mod target;
#[cfg(test)]
mod tests;
mod view;

pub use directory_access::{DirectoryAccess, DirectoryFuture};
pub use intake::on_call;
pub use progress::{MovePhase, MovePoint, MoveProgress, Transfers};
pub use reconcile::reconcile;
pub use settings::MoveSettings;
pub use view::MoveStatus;

use metadata::Directory;
use replica_host::{Groups, Lifecycle, PeerLinks};
use runtime::DiskSpace;
use std::sync::Arc;
use transport::incoming::CallAdmission;

/// Moves of buckets: drives those whose source group has its master here, and receives those of
/// target groups.
pub struct BucketMoves {
    /// Sizes and pauses.
    pub settings: MoveSettings,
    /// The moves that this node drives.
    pub transfers: Transfers,
    /// Access to the directory's master.
    pub directory_master: Box<dyn DirectoryAccess>,
    /// Groups with a replica here.
    pub groups: Arc<Groups>,
    /// Directory of buckets and members, as this node has applied it.
    pub directory: Arc<Directory>,
    /// Links to the other nodes.
    pub links: Arc<PeerLinks>,
    /// Admission of requests of other nodes.
    pub incoming: Arc<CallAdmission>,
    /// Free space of the disk.
    pub space: Arc<DiskSpace>,
    /// State of the node.
    pub lifecycle: Arc<Lifecycle>,
}
