//! Order of one connection: its requests in flight, and the bucket that it found last.

use crate::groups::{Groups, Local};
use base::BucketName;
use replication::bucket::Bucket;
use replication::group::Group;
use runtime::submit::Ticket;
use std::sync::{Arc, Weak};

/// Requests of one connection in flight; makes its later ones see its earlier ones. One per
/// connection, not shared.
#[derive(Default)]
pub struct Flow {
    /// The last ticket given out on this connection that is not known to be decided.
    pub last: Option<Ticket>,
    /// Ways of requests that another node must answer.
    pub elsewhere: Elsewhere,
    /// The bucket of its last request.
    recent: Option<RecentBucket>,
}

/// Ways of a request that can't be answered here, or not now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// A request that only another node may answer gets `not_master` and the master's name;
    /// otherwise it is passed on, and answered here.
    pub named: bool,
    /// A request for a bucket that moves is answered with `moved`; otherwise it waits until the
    /// bucket is where it goes, and is answered from there.
    pub told_of_moves: bool,
}

/// A bucket as it was found last, and its group. Mostly the next request names it again, and need
/// not look for either.
struct RecentBucket {
    name: BucketName,
    bucket: Arc<Bucket>,
    /// Weak: an idle connection keeps no group that has ended, with its files.
    group: Weak<Group>,
    /// The node's groups, for a flow may outlive its node, and their changes until then.
    groups: Weak<Groups>,
    changes: u64,
}

impl Flow {
    /// Flow of a client that looks for the master itself: what this node may not answer is refused
    /// with `not_master` and the master's name (`None` if none is known), and is not passed on.
    pub fn redirected() -> Flow {
        Flow::passing(Elsewhere { named: true, told_of_moves: false })
    }

    /// Flow of one request of the node's own.
    pub(crate) fn passing(elsewhere: Elsewhere) -> Flow {
        Flow { elsewhere, ..Flow::default() }
    }

    /// The bucket of this name and its group, if the last request named it, too, and both are still
    /// in force.
    #[inline]
    pub(crate) fn recent(&self, name: &BucketName, groups: &Groups) -> Option<Local> {
        let recent = self.recent.as_ref()?;
        let in_force = std::ptr::eq(recent.groups.as_ptr(), groups)
            && recent.changes == groups.changes()
            && recent.name == *name
            && !recent.bucket.is_retired();
        let group = recent.group.upgrade().filter(|_| in_force)?;
        Some(Local { bucket: Arc::clone(&recent.bucket), group })
    }

    /// Remembers where a bucket was found among these groups; `changes`: theirs before it was
    /// looked for.
    pub(crate) fn remember(
        &mut self,
        name: &BucketName,
        local: &Local,
        (groups, changes): (&Arc<Groups>, u64),
    ) {
        self.recent = Some(RecentBucket {
            name: name.clone(),
            bucket: Arc::clone(&local.bucket),
            group: Arc::downgrade(&local.group),
            groups: Arc::downgrade(groups),
            changes,
        });
    }
}
