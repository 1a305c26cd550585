//! Authorization: whether a principal may make a request or do an act, by this node's copy of users
//! and roles.
//!
//! It is asked where a client's request enters a node, where an operator's act does, and again
//! where a request that another node forwarded is opened: there the principal travels with it, and
//! the copy is at least as new as that of its sender. `base/rights` says what a request needs.
//!
//! While access is off the listener decides, and a data request costs one branch. A node that has
//! not reached the directory's master for [`STALE_MS`] decides by the last version that it has, but
//! refuses what changes the cluster.

use crate::Node;
use crate::flow::{Flow, RecentRights};
use base::access::{ApiTokenAccount, Grant, ListenerRights, Login, UserAccount, UserQuota, Verb};
use base::rights::{Need, Operate};
use base::{BucketName, Call, Error, Principal, Reason, Request, Result, TokenDigest};
use metadata::catalog::Catalog;
use replica_host::Groups;
use runtime::mutants::Mutant;
use runtime::submit::Ticket;
use runtime::{Sample, world};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use usage::{MeteredRequest, Metering, UserMeters, UserUse, meter_request};

/// Time without the directory's master after which acts on the cluster are refused, in
/// milliseconds: rights that were revoked meanwhile must not change it.
const STALE_MS: u64 = 30_000;

/// Decides about requests and acts.
pub(crate) struct Authorizer {
    catalog: Arc<Catalog>,
    groups: Arc<Groups>,
    /// Meters of users with a quota.
    meters: UserMeters,
    /// Last time at which the directory's master was reached, in milliseconds.
    contact_ms: AtomicU64,
}

impl Authorizer {
    /// Decides by this catalog. `now_ms`: the time of the start.
    pub(crate) fn new(catalog: Arc<Catalog>, groups: Arc<Groups>, now_ms: u64) -> Authorizer {
        let (meters, contact_ms) = (UserMeters::default(), AtomicU64::new(now_ms));
        Authorizer { catalog, groups, meters, contact_ms }
    }

    /// Returns true if requests need rights.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.catalog.access.is_on()
    }

    /// Notes that the directory's master is reached now.
    pub(crate) fn note_contact(&self) {
        self.contact_ms.store(world::milliseconds(), Relaxed);
    }

    /// Decides about a request, and counts it if its user has a quota and it enters the cluster
    /// here. Errors: `Forbidden`, `Unauthenticated`; equal for buckets that exist and that don't;
    /// `Quota`.
    #[inline]
    pub(crate) fn admit(
        &self,
        flow: &mut Flow,
        request: &Request,
    ) -> Result<Option<MeteredRequest>> {
        // What a listener refuses while access is off are calls to the directory alone.
        if !self.is_on() && !matches!(request.call, Call::Directory(_)) {
            return Ok(None);
        }
        if skips_decision(flow) {
            return Ok(None);
        }
        self.decide(flow, request)
    }

    /// Decides about a request as [`Authorizer::admit`] does, but counts nothing.
    pub(crate) fn check_request(&self, flow: &mut Flow, request: &Request) -> Result<()> {
        request.needs(&mut |need| self.check_flow(flow, &need))
    }

    fn decide(&self, flow: &mut Flow, request: &Request) -> Result<Option<MeteredRequest>> {
        let principal = flow.principal().clone();
        match &principal {
            Principal::Node => Ok(None),
            Principal::User(login, _) if self.is_on() => {
                let Flow { rights, place, metering, .. } = flow;
                let recent = self.recent_rights((rights, *metering), login, &request.bucket)?;
                // First: what is refused for a quota has cost nothing else.
                let metered = match &recent.meter {
                    Some(meter) => meter_request(meter, (*metering, place), request, &|ticket| {
                        self.is_settled(ticket)
                    })?,
                    None => None,
                };
                let decided = request.needs(&mut |need| self.check_recent(recent, login, &need));
                decided.map(|()| metered)
            }
            _ => request.needs(&mut |need| self.check(&principal, &need)).map(|()| None),
        }
    }

    /// Decides about one need of a flow's principal.
    pub(crate) fn check_flow(&self, flow: &mut Flow, need: &Need<'_>) -> Result<()> {
        if !self.is_on() && !need.is_of_cluster() || skips_decision(flow) {
            return Ok(());
        }
        let principal = flow.principal().clone();
        match (&principal, need) {
            (Principal::User(login, _), Need::Keys(_, bucket, _)) if self.is_on() => {
                let Flow { rights, metering, .. } = flow;
                let recent = self.recent_rights((rights, *metering), login, bucket)?;
                self.check_recent(recent, login, need)
            }
            _ => self.check(&principal, need),
        }
    }

    /// Decides about one need by rights that were looked up for its bucket.
    fn check_recent(&self, recent: &RecentRights, login: &Login, need: &Need<'_>) -> Result<()> {
        let is_whole = matches!(need, Need::Keys(verb, ..) if recent.verbs.contains(*verb));
        match is_whole || recent.rights.cover(need) {
            true => self.check_contact(need),
            false => Err(forbidden(login, need)),
        }
    }

    /// Returns true if a ticket is decided and applied, or never will be.
    fn is_settled(&self, ticket: Ticket) -> bool {
        let group = self.groups.get(ticket.group);
        group.is_none_or(|group| {
            group.applied.index() >= ticket.index || group.applied.epoch() != ticket.epoch
        })
    }

    /// Returns the rights of a flow's login, and the meter of its user if the flow's requests are
    /// counted; looked up again if users, roles, quotas or the bucket changed.
    fn recent_rights<'f>(
        &self,
        (known, metering): (&'f mut Option<RecentRights>, Metering),
        login: &Login,
        bucket: &BucketName,
    ) -> Result<&'f RecentRights> {
        let table = &self.catalog.access;
        // Before the look-up: a change in between makes the next request look up again.
        let changes = table.changes();
        let recent = known.take().filter(|recent| recent.changes == changes);
        let recent = match recent {
            Some(recent) if recent.bucket == *bucket => recent,
            Some(recent) => {
                let verbs = recent.rights.on_bucket(bucket);
                RecentRights { bucket: bucket.clone(), verbs, ..recent }
            }
            None => {
                let rights = table.rights(login)?;
                let verbs = rights.on_bucket(bucket);
                let meter = match metering {
                    Metering::None => None,
                    _ => self.meters.of(table, &login.user),
                };
                RecentRights { changes, rights, bucket: bucket.clone(), verbs, meter }
            }
        };
        Ok(known.insert(recent))
    }

    /// Returns true if the flow's requests with this verb on any keys of the bucket are allowed, as
    /// far as its last request showed, and none of them is to be counted.
    #[inline]
    pub(crate) fn allows_run(&self, flow: &Flow, bucket: &BucketName, verb: Verb) -> bool {
        if !self.is_on() {
            return true;
        }
        match flow.principal() {
            Principal::Node | Principal::LocalOperator => true,
            Principal::Anonymous(_) => false,
            Principal::User(..) => flow.rights.as_ref().is_some_and(|recent| {
                recent.changes == self.catalog.access.changes()
                    && recent.verbs.contains(verb)
                    && recent.meter.is_none()
                    && recent.bucket == *bucket
            }),
        }
    }

    /// Returns the metrics of quotas.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.meters.samples(&|ticket| self.is_settled(ticket))
    }

    /// Decides about an act of an operator.
    pub(crate) fn check_act(&self, principal: &Principal, act: Operate) -> Result<()> {
        if Mutant::SkipFrontEndRights.is_active() {
            return Ok(());
        }
        self.check(principal, &act.needs())
    }

    /// Decides about one need of a principal.
    pub(crate) fn check(&self, principal: &Principal, need: &Need<'_>) -> Result<()> {
        match principal {
            Principal::Node => Ok(()),
            _ if *need == Need::Member => Err(members_only()),
            Principal::LocalOperator => Ok(()),
            _ if !self.is_on() => check_listener(principal.listener(), need),
            Principal::Anonymous(_) => Err(unauthenticated()),
            Principal::User(login, _) => {
                let rights = self.catalog.access.rights(login)?;
                match rights.cover(need) {
                    true => self.check_contact(need),
                    false => Err(forbidden(login, need)),
                }
            }
        }
    }

    /// Refuses acts on the cluster after too long without the directory's master.
    fn check_contact(&self, need: &Need<'_>) -> Result<()> {
        let changes_cluster =
            matches!(need.verb(), Some(Verb::Operate | Verb::Place | Verb::Secure));
        let is_stale =
            || world::milliseconds().saturating_sub(self.contact_ms.load(Relaxed)) > STALE_MS;
        if !changes_cluster || !is_stale() {
            return Ok(());
        }
        let seconds = STALE_MS / 1_000;
        let text = format!(
            "this node has not reached the master of group 0 for {seconds} s, and its users and \
             roles may be out of date: ask another node, or use the local socket (admin.sock in \
             the data directory)"
        );
        Err(Error::new(Reason::StaleReplica, text))
    }
}

/// Returns true if a test has broken the decision about what enters here.
#[inline(always)]
fn skips_decision(flow: &Flow) -> bool {
    Mutant::SkipFrontEndRights.is_active() && !flow.is_forwarded
}

/// Decides while access is off.
fn check_listener(listener: ListenerRights, need: &Need<'_>) -> Result<()> {
    if listener.operates || !need.is_of_cluster() {
        return Ok(());
    }
    let text = "this command is served to operators only: at `admin_listen` if that is set, \
                otherwise on loopback";
    Err(Error::new(Reason::Forbidden, text))
}

fn members_only() -> Error {
    Error::new(Reason::Forbidden, "only members of the cluster ask this")
}

fn unauthenticated() -> Error {
    Error::new(Reason::Unauthenticated, "log in first: this cluster requires a user")
}

fn forbidden(login: &Login, need: &Need<'_>) -> Error {
    let user = &login.user;
    let text = format!(
        "user `{user}` lacks {need}: `credenza access check {user} VERB SCOPE` shows what decides"
    );
    Error::new(Reason::Forbidden, text)
}

impl Node {
    /// Returns true if requests need rights.
    #[inline]
    pub fn is_access_on(&self) -> bool {
        self.router.access.is_on()
    }

    /// Returns true if a front-end refuses whoever has not logged in, before it asks the node.
    #[inline]
    pub fn requires_login(&self) -> bool {
        self.is_access_on() && !Mutant::SkipFrontEndRights.is_active()
    }

    /// Returns the version of the users and roles that this node has applied.
    pub fn access_version(&self) -> u64 {
        self.router.locator.catalog.access.version()
    }

    /// Returns the account of a user.
    pub fn user_account(&self, name: &str) -> Option<UserAccount> {
        self.router.locator.catalog.access.user(name)
    }

    /// Returns the quota of a user, with what its clients use of this node. `None` in place of the
    /// use: nothing since the node started, or since the user got its quota.
    pub fn user_quota(&self, name: &str) -> Option<(UserQuota, Option<UserUse>)> {
        let access = &self.router.access;
        let quota = access.catalog.access.quota(name)?;
        Some((quota, access.meters.used(name, &|ticket| access.is_settled(ticket))))
    }

    /// Returns all users with their accounts, in the order of their names.
    pub fn user_accounts(&self) -> Vec<(String, UserAccount)> {
        self.router.locator.catalog.access.users()
    }

    /// Returns all roles but the built-in ones, in the order of their names.
    pub fn roles(&self) -> Vec<(String, Vec<Grant>)> {
        self.router.locator.catalog.access.roles()
    }

    /// Returns the account of an API token.
    pub fn api_token(&self, digest: &TokenDigest) -> Option<ApiTokenAccount> {
        self.router.locator.catalog.access.token(digest)
    }

    /// Returns the API tokens of a user, in the order of their labels.
    pub fn api_tokens_of(&self, user: &str) -> Vec<ApiTokenAccount> {
        self.router.locator.catalog.access.tokens_of(user)
    }

    /// Returns the grants of a user, each with its role, in the order of the roles.
    pub fn grants_of(&self, user: &str) -> Vec<(String, Grant)> {
        self.router.locator.catalog.access.grants_of(user)
    }

    /// Returns true if the login has not ended and may do anything in the bucket.
    pub fn may_enter(&self, login: &Login, bucket: &BucketName) -> bool {
        let rights = self.router.locator.catalog.access.rights(login);
        rights.is_ok_and(|rights| rights.include_bucket(bucket))
    }
}
