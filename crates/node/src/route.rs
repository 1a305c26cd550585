//! Router of requests: picks a request's path; the only place that looks at a bucket's consistency.

use crate::access::Authorizer;
use crate::act_recorder::{ActRecorder, PendingRecords};
use crate::answers::Answers;
use crate::diagnostics::Diagnostics;
use crate::flow::{Caller, Flow};
use crate::levels::LevelKeeper;
use crate::locator::GroupLocator;
use crate::readiness::Readiness;
use base::bucket::no_such_bucket;
use base::error::shutting_down;
use base::limits::SESSIONS_PER_USER_MAX;
use base::{
    Body, BucketAudit, BucketName, Call, Error, Kind, Principal, Properties, ReadLevel, Reason,
    Reply, Request, Result, RetryId, SessionCall, UserDigest,
};
use dynamo::Available;
use feed_watch::FeedWatchers;
use metadata::Directory;
use replica_host::feed_page::event_wait;
use replica_host::{GroupRef, Lifecycle, Local};
use replication::bucket::Bucket;
use replication::group::Group;
use replication::session::SessionUse;
use replication::session_counts::SessionOwner;
use runtime::submit::{SubmitResult, Ticket};
use runtime::{DiskSpace, Metrics};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use transport::incoming::CallAdmission;

/// Path of a request for a bucket, resolved once for each request.
pub(crate) enum Route {
    /// A consistent bucket whose group has a replica here.
    Local(Local),
    /// A consistent bucket whose group has none.
    Remote(Arc<Bucket>),
    /// An available bucket, by its properties.
    Available(Arc<Properties>),
}

impl Route {
    /// Returns the operations on the bucket's keys that are recorded.
    #[inline]
    fn audit(&self) -> BucketAudit {
        match self {
            Route::Local(local) => local.bucket.properties.audit,
            Route::Remote(bucket) => bucket.properties.audit,
            Route::Available(properties) => properties.audit,
        }
    }
}

/// Router of requests through this node: evaluated here, or forwarded to the node that may.
pub(crate) struct Router {
    pub locator: GroupLocator,
    /// Decides who may ask what.
    pub access: Authorizer,
    /// Records who did what.
    pub recorder: Arc<ActRecorder>,
    /// Records of updates that are not decided yet.
    pub pending_records: PendingRecords,
    pub directory: Arc<Directory>,
    /// True once an unknown bucket is known not to exist; see `forward/directory.rs`.
    pub directory_caught_up: AtomicBool,
    /// True while tests play the part of the keeper of indexes.
    #[cfg(test)]
    pub is_index_keeper_paused: AtomicBool,
    /// The available path.
    pub available: Arc<Available>,
    pub readiness: Arc<Readiness>,
    /// Memory for answers.
    pub answers: Answers,
    /// Requests that wait for events of feeds.
    pub feed_watchers: FeedWatchers,
    /// Admission of requests that other nodes forward.
    pub incoming: Arc<CallAdmission>,
    pub metrics: Arc<Metrics>,
    /// Free space of the disk.
    pub space: Arc<DiskSpace>,
    pub levels: Arc<LevelKeeper>,
    pub diagnostics: Arc<Diagnostics>,
    pub lifecycle: Arc<Lifecycle>,
}

impl Router {
    /// Executes a request of the node itself, or one that continues a caller's, which was counted
    /// against quotas where it entered: `submit`, then wait for the reply.
    pub(crate) async fn handle(
        self: &Arc<Router>,
        principal: &Principal,
        request: Request,
    ) -> Result<Reply> {
        let mut flow = Flow::internal(Caller::of(principal.clone()));
        let submitted = self.submit(&mut flow, request);
        self.wait_reply(submitted).await
    }

    /// Answers a request here if this node may; forwards it otherwise.
    pub(crate) fn submit(self: &Arc<Router>, flow: &mut Flow, request: Request) -> SubmitResult {
        if self.lifecycle.is_stopping() {
            return SubmitResult::Ready(Err(shutting_down()));
        }
        match self.access.admit(flow, &request) {
            Ok(None) => self.submit_admitted(flow, request),
            Ok(Some(metered)) => metered.follow(self.submit_admitted(flow, request)),
            Err(error) => {
                match error.kind() {
                    Kind::Denied => self.recorder.on_refusal(flow.principal(), &request, &error),
                    _ => self.recorder.on_unadmitted(flow, &request, &error),
                }
                SubmitResult::Ready(Err(error))
            }
        }
    }

    #[inline]
    fn submit_admitted(self: &Arc<Router>, flow: &mut Flow, request: Request) -> SubmitResult {
        self.diagnostics.hot_keys.count(&request);
        if let Call::Directory(call) = &request.call {
            let executed = self.execute_directory_call(flow, &request.bucket, call);
            return executed.unwrap_or_else(|error| self.redirect(flow, request, error));
        }
        let route = self.resolve(flow, &request.bucket);
        match route.as_ref().map(Route::audit).ok() {
            Some(BucketAudit::Off) => self.submit_to(flow, request, route),
            // An unknown bucket may have been created a moment ago, and may be audited.
            audit => self.submit_operation(flow, request, (route, audit)),
        }
    }

    /// Submits a request whose outcome is recorded, if it is of a recorded class. The property is
    /// `None` for a bucket that is unknown here.
    #[cold]
    fn submit_operation(
        self: &Arc<Router>,
        flow: &mut Flow,
        request: Request,
        (route, audit): (Result<Route>, Option<BucketAudit>),
    ) -> SubmitResult {
        let recorded =
            self.recorder.recorded_operation(flow, &request, audit.unwrap_or(BucketAudit::All));
        let Some(mut recorded) = recorded else { return self.submit_to(flow, request, route) };
        if audit.is_none() {
            recorded = recorded.of_unknown_bucket(&request.bucket);
        }
        let submitted = self.submit_to(flow, request, route);
        self.follow(recorded, submitted)
    }

    /// Submits a request on the path that was resolved for it.
    #[inline]
    pub(crate) fn submit_to(
        self: &Arc<Router>,
        flow: &mut Flow,
        request: Request,
        route: Result<Route>,
    ) -> SubmitResult {
        if let Some(wait) = event_wait(&request) {
            return self.submit_watch(flow, request, (route, wait));
        }
        let evaluated = match route {
            Ok(Route::Available(properties)) => return self.submit_available(request, properties),
            Ok(Route::Local(Local { group, .. }))
                if self.needs_directory_update(&group, &request.call) =>
            {
                return self.after_directory_update(flow, group, request);
            }
            Ok(Route::Local(local)) => self.evaluate(flow, local, &request),
            Ok(Route::Remote(_)) => Err(Error::new(Reason::NotMaster, "None")),
            Err(error) => Err(error),
        };
        evaluated.unwrap_or_else(|error| self.redirect(flow, request, error))
    }

    /// Resolves the path of a request for a bucket: the only place that checks a bucket's
    /// consistency. A bucket that is not consistent may be an available one: those exist
    /// implicitly.
    ///
    /// Errors: `NoSuchBucket`.
    #[inline]
    fn resolve(&self, flow: &mut Flow, name: &BucketName) -> Result<Route> {
        if let Some(local) = flow.cached_bucket(name, &self.locator.groups) {
            return Ok(Route::Local(local));
        }
        // Before the look-up: a change in between then invalidates the cached result.
        let changes = self.locator.groups.changes();
        let catalog = &self.locator.catalog;
        let Some(bucket) = catalog.find(name) else {
            let properties = catalog.available.find(name);
            return properties.map(Route::Available).ok_or_else(|| no_such_bucket(name));
        };
        let Some(group) = self.locator.groups.get(bucket.group) else {
            return Ok(Route::Remote(bucket));
        };
        let local = Local { bucket, group };
        flow.cache_bucket(name, &local, (&self.locator.groups, changes));
        Ok(Route::Local(local))
    }

    /// Returns true if this node is the group's master, its directory may lack changes that clients
    /// have seen, and the answer depends on them.
    #[inline]
    fn needs_directory_update(&self, group: &Group, call: &Call) -> bool {
        let depends = matches!(
            call,
            Call::Update(_) | Call::Session(_) | Call::Read(_, ReadLevel::Consistent)
        );
        depends && group.leadership.is_master() && !self.is_directory_current(group)
    }

    /// Evaluates a request on the replica here. Errors: `NotMaster` if another node must.
    #[inline]
    fn evaluate(
        self: &Arc<Router>,
        flow: &mut Flow,
        local: Local,
        request: &Request,
    ) -> Result<SubmitResult> {
        let name = &request.bucket;
        match &request.call {
            Call::Update(update) => {
                let session = self.session_use(flow, request.retry);
                self.update(flow, name, local, update, session)
            }
            Call::Read(read, level) => self.read(flow, name, local, read, *level),
            Call::Session(call) => self.open_or_close_session(flow, &local, *call),
            Call::Available(call) => Ok(self.submit_available_call(flow, name, call)),
            Call::Directory(call) => self.execute_directory_call(flow, name, call),
        }
    }

    /// Forwards a request that this node can't answer, or names the other node to the client.
    #[cold]
    pub(crate) fn redirect(
        self: &Arc<Router>,
        flow: &mut Flow,
        request: Request,
        error: Error,
    ) -> SubmitResult {
        let links = &self.locator.links;
        let is_alone = links.peers.get().is_none();
        let elsewhere = flow.elsewhere;
        match error.reason {
            Reason::Moved if !elsewhere.told_of_moves => {
                self.after_move(flow.last.take(), flow.caller(), request)
            }
            Reason::NotMaster if is_alone => SubmitResult::Ready(Err(error)),
            Reason::NotMaster => match self.group_of(&request) {
                Ok(group_ref) if elsewhere.named => SubmitResult::Ready(Err(
                    links.not_master(group_ref.watch_leadership().borrow().master)
                )),
                Ok(group_ref) => {
                    self.submit_forwarded(group_ref, flow.last.take(), flow.caller(), request)
                }
                Err(error) => SubmitResult::Ready(Err(error)),
            },
            Reason::NoSuchBucket if !elsewhere.named && !is_alone && self.may_be_new(&request) => {
                self.retry_unknown_bucket(flow, request, error)
            }
            _ => SubmitResult::Ready(Err(self.or_stale_directory(error))),
        }
    }

    /// Returns the group that executes a request.
    pub(crate) fn group_of(&self, request: &Request) -> Result<GroupRef> {
        match &request.call {
            Call::Directory(_) => Ok(GroupRef::Local(self.directory.group.clone())),
            Call::Update(_) | Call::Read(..) | Call::Session(_) | Call::Available(_) => {
                self.locator.group_ref(&request.bucket)
            }
        }
    }

    /// Executes a request elsewhere if mastership was lost during a long evaluation here. Nothing
    /// was done here then.
    pub(crate) async fn unless_mastership_lost(
        self: &Arc<Router>,
        reply: Result<Reply>,
        caller: Caller,
        request: Request,
    ) -> Result<Reply> {
        match reply {
            Err(error) if error.reason == Reason::NotMaster => {
                let mut flow = Flow::internal(caller);
                let answer = self.redirect(&mut flow, request, error);
                self.wait_reply(answer).await
            }
            reply => self.unless_moving(reply, caller, request).await,
        }
    }

    /// Waits for the outcome of a request.
    pub(crate) async fn wait_reply(&self, submitted: SubmitResult) -> Result<Reply> {
        match submitted {
            SubmitResult::Ready(answer) => answer,
            SubmitResult::Pending(ticket, answer) => {
                self.wait_applied(Some(ticket)).await.and(answer)
            }
            SubmitResult::Later(answer) | SubmitResult::Independent(_, answer) => answer.await,
        }
    }

    /// Waits until a connection's earlier updates are decided.
    pub(crate) async fn wait_applied(&self, previous: Option<Ticket>) -> Result<()> {
        match previous {
            Some(ticket) => {
                let group = self.locator.groups.find(ticket.group)?;
                let applied = group.wait_applied(ticket).await;
                applied.map_err(|error| match error.reason {
                    Reason::NotMaster => self.locator.links.master_of(&group),
                    _ => error,
                })
            }
            None => Ok(()),
        }
    }

    /// Returns the use of a session by an update of a flow.
    #[inline]
    fn session_use(&self, flow: &Flow, retry: Option<RetryId>) -> Option<SessionUse> {
        retry.map(|retry| SessionUse { retry, user: self.session_user(flow) })
    }

    /// Returns the user whose sessions a flow may use. `None`: all, because access is off, or
    /// because the flow is of no user.
    fn session_user(&self, flow: &Flow) -> Option<UserDigest> {
        if self.access.is_on() { flow.user_digest() } else { None }
    }

    /// Returns the owner of a session that a flow opens. `None`: everybody may use it.
    fn session_owner(&self, flow: &Flow) -> Option<SessionOwner> {
        let user = self.session_user(flow)?;
        let quota = self.locator.catalog.access.quota(flow.principal().user()?);
        let sessions_max = quota.and_then(|quota| quota.sessions).unwrap_or(SESSIONS_PER_USER_MAX);
        Some(SessionOwner { user, sessions_max })
    }

    /// Opens or closes a session of retried updates.
    fn open_or_close_session(
        &self,
        flow: &mut Flow,
        local: &Local,
        call: SessionCall,
    ) -> Result<SubmitResult> {
        let Local { bucket, group } = local;
        let (ticket, body) = match call {
            SessionCall::Open => {
                let (ticket, session) = group.open_session(bucket, self.session_owner(flow))?;
                (Some(ticket), Body::Session(session))
            }
            SessionCall::Close(session) => {
                (group.close_session(bucket, session, self.session_user(flow))?, Body::Done)
            }
        };
        let index = ticket.map_or_else(|| group.applied.visible_index(), |ticket| ticket.index);
        let reply = Reply::new(index, body);
        ticket.into_iter().for_each(|ticket| flow.note(ticket));
        Ok(match ticket {
            Some(ticket) => SubmitResult::Pending(ticket, Ok(reply)),
            None => SubmitResult::Ready(Ok(reply)),
        })
    }
}
