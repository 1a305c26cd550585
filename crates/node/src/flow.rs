//! Order of one connection: its requests in flight, and the bucket that it found last.

use base::access::Verbs;
use base::rights::Rights;
use base::{BucketName, GroupId, LogIndex, Principal, UserDigest};
use replica_host::{Groups, Local};
use replication::bucket::Bucket;
use replication::group::Group;
use runtime::submit::Ticket;
use std::sync::{Arc, OnceLock, Weak};
use usage::{ConnectionPlace, Metering, UserMeter};

/// Requests of one connection in flight; makes its later ones see its earlier ones. One per
/// connection, not shared. All are made for one principal at a time.
pub struct Flow {
    /// The last ticket given out on this connection that is not known to be decided.
    pub last: Option<Ticket>,
    /// Such tickets of other groups, the last of each: indexes of different groups can't be
    /// compared.
    others: Vec<Ticket>,
    /// Ways of requests that another node must answer.
    pub elsewhere: Elsewhere,
    /// Principal of its requests.
    principal: Principal,
    /// Digest of its user's name, once it was needed: every update in a session needs it.
    user: OnceLock<Option<UserDigest>>,
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
        let (others, user, is_forwarded) = (Vec::new(), OnceLock::new(), false);
        Flow {
            last,
            others,
            elsewhere,
            principal,
            user,
            cached,
            rights,
            metering,
            place,
            is_forwarded,
        }
    }

    /// Notes a ticket that was given out.
    #[inline]
    pub(crate) fn note(&mut self, ticket: Ticket) {
        if let Some(last) = self.last.replace(ticket).filter(|last| last.group != ticket.group) {
            self.others.retain(|other| ![last.group, ticket.group].contains(&other.group));
            self.others.push(last);
        }
    }

    /// Returns the last ticket of a group that is not applied up to here.
    #[inline]
    pub(crate) fn pending_in(&self, group: GroupId, applied: LogIndex) -> Option<Ticket> {
        let mut all = self.last.iter().chain(&self.others);
        all.find(|ticket| ticket.group == group && ticket.index > applied).copied()
    }

    /// Returns the tickets of all groups.
    pub(crate) fn tickets(&self) -> Vec<Ticket> {
        self.others.iter().chain(&self.last).copied().collect()
    }

    /// Forgets the ticket of a group, which is applied.
    #[inline]
    pub(crate) fn settle(&mut self, group: GroupId) {
        self.last.take_if(|last| last.group == group);
        if !self.others.is_empty() {
            self.others.retain(|other| other.group != group);
        }
    }

    /// Returns true if its requests come from a client of this node: those of other nodes entered
    /// elsewhere, and what continues a request was recorded with it.
    pub(crate) fn enters_here(&self) -> bool {
        self.metering != Metering::None
    }

    /// Returns the principal of the requests.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Returns the digest of the user's name. `None`: the principal is no user.
    pub(crate) fn user_digest(&self) -> Option<UserDigest> {
        *self.user.get_or_init(|| self.principal.user_digest())
    }

    /// Sets the principal of later requests: the client has logged in.
    pub fn set_principal(&mut self, principal: Principal) {
        (self.principal, self.user) = (principal, OnceLock::new());
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

#[cfg(test)]
mod tests {
    use super::*;
    use base::access::{ListenerRights, Login};

    #[test]
    fn flow_remembers_the_last_ticket_of_each_group() {
        let mut flow = Flow::of(Principal::Node);
        let ticket =
            |group, index| Ticket { group: GroupId(group), index: LogIndex(index), epoch: 1 };
        let pending = |flow: &Flow, group, applied| {
            flow.pending_in(GroupId(group), LogIndex(applied)).map(|ticket| ticket.index.0)
        };
        for (group, index) in [(1, 5), (2, 900), (1, 6), (3, 1), (2, 901)] {
            flow.note(ticket(group, index));
        }
        assert_eq!(flow.last, Some(ticket(2, 901)));
        assert_eq!(
            [1, 2, 3, 4].map(|group| pending(&flow, group, 0)),
            [Some(6), Some(901), Some(1), None]
        );
        assert_eq!((pending(&flow, 1, 6), pending(&flow, 2, 900)), (None, Some(901)));
        flow.settle(GroupId(1));
        assert_eq!([1, 2, 3].map(|group| pending(&flow, group, 0)), [None, Some(901), Some(1)]);
        flow.settle(GroupId(2));
        assert_eq!((flow.last, pending(&flow, 3, 0)), (None, Some(1)));
        flow.note(ticket(3, 2));
        assert_eq!((pending(&flow, 3, 1), flow.others.len()), (Some(2), 1));
        flow.note(ticket(2, 902));
        assert_eq!((pending(&flow, 3, 1), flow.others.len()), (Some(2), 1));
    }

    #[test]
    fn digest_of_the_user_follows_each_login() {
        let user = |name| {
            let login = Login::by_certificate(name);
            Principal::User(login.into(), ListenerRights::default())
        };
        let mut flow = Flow::of(Principal::LocalOperator);
        assert_eq!(flow.user_digest(), None);
        for principal in [user("ada"), user("bob"), Principal::Node] {
            flow.set_principal(principal.clone());
            for _ in 0..2 {
                assert_eq!(flow.user_digest(), principal.user_digest());
            }
        }
    }
}
