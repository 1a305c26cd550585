//! Order of one connection: its requests in flight, and the bucket that it found last.

use crate::groups::{Groups, Local};
use crate::quotas::{ConnectionPlace, Metering, UserMeter};
use base::access::Verbs;
use base::rights::Rights;
use base::{BucketName, Principal};
use replication::bucket::Bucket;
use replication::group::Group;
use runtime::submit::Ticket;
use std::sync::{Arc, Weak};

/// Requests of one connection in flight; makes its later ones see its earlier ones. One per
/// connection, not shared. All are made for one principal at a time.
pub struct Flow {
    /// The last ticket given out on this connection that is not known to be decided.
    pub last: Option<Ticket>,
    /// Ways of requests that another node must answer.
    pub elsewhere: Elsewhere,
    /// Principal of its requests.
    principal: Principal,
    /// The bucket of its last request.
    cached: Option<RecentBucket>,
    /// Rights of its principal, as they were looked up last.
    pub(crate) rights: Option<RecentRights>,
    /// Part of its requests that counts against the quota of its user.
    pub(crate) metering: Metering,
    /// Its place among the connections of its user.
    pub(crate) place: Option<ConnectionPlace>,
    /// True if another node has passed its requests on.
    pub(crate) is_forwarded: bool,
}

/// Principal of a request, and the ways in which its answer may come.
#[derive(Clone)]
pub(crate) struct Caller {
    pub principal: Principal,
    pub elsewhere: Elsewhere,
}

impl Caller {
    /// Returns a caller whose requests are answered here, whichever node executes them.
    pub(crate) fn of(principal: Principal) -> Caller {
        Caller { principal, elsewhere: Elsewhere::default() }
    }
}

/// Rights of a flow's principal, with its verbs on the whole of the bucket of its last request.
pub(crate) struct RecentRights {
    /// Change of the users and roles that the rights are of.
    pub changes: u64,
    pub rights: Arc<Rights>,
    pub bucket: BucketName,
    pub verbs: Verbs,
    /// Meter of the user. `None`: it has no quota, or the flow's requests count against none.
    pub meter: Option<Arc<UserMeter>>,
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

/// Bucket and group of the last request. The next request of a connection mostly names the same
/// bucket and then needs no look-up.
struct RecentBucket {
    name: BucketName,
    bucket: Arc<Bucket>,
    /// Weak: an idle connection must not keep a stopped group and its files.
    group: Weak<Group>,
    /// Groups of the node, weak because a flow may outlive the node, and their change counter at
    /// the look-up.
    groups: Weak<Groups>,
    changes: u64,
}

impl Flow {
    /// Flow of a client whose requests are answered here, whichever node executes them.
    pub fn of(principal: Principal) -> Flow {
        Flow::metered(Caller::of(principal), Metering::Connection)
    }

    /// Flow of a client that looks for the master itself: what this node may not answer is refused
    /// with `not_master` and the master's name (`None` if none is known), and is not passed on.
    pub fn with_redirects(principal: Principal) -> Flow {
        let elsewhere = Elsewhere { named: true, told_of_moves: false };
        Flow::metered(Caller { principal, elsewhere }, Metering::Connection)
    }

    /// Returns the flow of a request that the node itself submits for a caller: it was counted
    /// against quotas where it entered.
    pub(crate) fn internal(caller: Caller) -> Flow {
        Flow::metered(caller, Metering::None)
    }

    /// Returns the flow of a request that another node has passed on for a caller: it is decided
    /// about as if it had entered here.
    pub(crate) fn forwarded(caller: Caller) -> Flow {
        Flow { is_forwarded: true, ..Flow::internal(caller) }
    }

    /// Returns a flow whose requests count against quotas like this.
    pub(crate) fn metered(caller: Caller, metering: Metering) -> Flow {
        let Caller { principal, elsewhere } = caller;
        let (last, cached, rights, place) = (None, None, None, None);
        let is_forwarded = false;
        Flow { last, elsewhere, principal, cached, rights, metering, place, is_forwarded }
    }

    /// Returns the principal of the requests.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Sets the principal of later requests: the client has logged in.
    pub fn set_principal(&mut self, principal: Principal) {
        self.principal = principal;
        (self.rights, self.place) = (None, None);
    }

    /// Returns the caller of the requests.
    pub(crate) fn caller(&self) -> Caller {
        Caller { principal: self.principal.clone(), elsewhere: self.elsewhere }
    }

    /// Returns the bucket of this name and its group, if the last request named it and both are
    /// still in force.
    #[inline]
    pub(crate) fn cached_bucket(&self, name: &BucketName, groups: &Groups) -> Option<Local> {
        let cached = self.cached.as_ref()?;
        let is_current = std::ptr::eq(cached.groups.as_ptr(), groups)
            && cached.changes == groups.changes()
            && cached.name == *name
            && !cached.bucket.is_retired();
        let group = cached.group.upgrade().filter(|_| is_current)?;
        Some(Local { bucket: Arc::clone(&cached.bucket), group })
    }

    /// Caches the result of a look-up among these groups. `changes`: their change counter before
    /// the look-up.
    pub(crate) fn cache_bucket(
        &mut self,
        name: &BucketName,
        local: &Local,
        (groups, changes): (&Arc<Groups>, u64),
    ) {
        self.cached = Some(RecentBucket {
            name: name.clone(),
            bucket: Arc::clone(&local.bucket),
            group: Arc::downgrade(&local.group),
            groups: Arc::downgrade(groups),
            changes,
        });
    }
}
