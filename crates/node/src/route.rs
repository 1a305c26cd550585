//! Router of requests: picks a request's path; the only place that looks at a bucket's consistency.

use crate::answers::Answers;
use crate::flow::{Elsewhere, Flow};
use crate::group_ref::GroupRef;
use crate::groups::Local;
use crate::lifecycle::Lifecycle;
use crate::locator::GroupLocator;
use crate::readiness::Readiness;
use base::error::shutting_down;
use base::{
    Body, BucketName, Call, Error, Properties, ReadLevel, Reason, Reply, Request, Result,
    SessionCall,
};
use dynamo::Available;
use metadata::Directory;
use replication::group::Group;
use runtime::submit::{Submitted, Ticket};
use runtime::{DiskSpace, Metrics};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use transport::incoming::CallAdmission;

/// Path of a request for a bucket, resolved once for each request.
pub(crate) enum Route {
    /// A consistent bucket whose group has a replica here.
    Local(Local),
    /// An available bucket, by its properties.
    Available(Arc<Properties>),
}

/// Router of requests through this node: evaluated here, or forwarded to the node that may.
pub(crate) struct Router {
    pub locator: GroupLocator,
    pub directory: Arc<Directory>,
    /// An unknown bucket is one that does not exist; see `forward/directory.rs`.
    pub heard_directory: AtomicBool,
    /// The available path.
    pub available: Arc<Available>,
    pub readiness: Arc<Readiness>,
    /// Room for answers.
    pub answers: Answers,
    /// Room for requests that other nodes pass on.
    pub incoming: Arc<CallAdmission>,
    pub metrics: Arc<Metrics>,
    /// Room that is left on the disk.
    pub space: Arc<DiskSpace>,
    pub lifecycle: Arc<Lifecycle>,
}

impl Router {
    /// One request from beginning to end: `submit`, then wait.
    pub(crate) async fn handle(self: &Arc<Router>, request: Request) -> Result<Reply> {
        let submitted = self.submit(&mut Flow::default(), request);
        self.answered(submitted).await
    }

    /// Answers a request here if this node may, and sees to it otherwise.
    pub(crate) fn submit(self: &Arc<Router>, flow: &mut Flow, request: Request) -> Submitted {
        if self.lifecycle.is_stopping() {
            return Submitted::Ready(Err(shutting_down()));
        }
        let evaluated = match &request.call {
            Call::Directory(call) => self.directory(flow, &request.bucket, call),
            call => match self.resolve(flow, &request.bucket) {
                Ok(Route::Available(properties)) => {
                    return self.available.submit(request, properties);
                }
                Ok(Route::Local(Local { group, .. })) if self.is_uninformed(&group, call) => {
                    return self.after_information(flow, group, request);
                }
                Ok(Route::Local(local)) => self.evaluate(flow, local, &request),
                Err(error) => Err(error),
            },
        };
        evaluated.unwrap_or_else(|error| self.elsewhere(flow, request, error))
    }

    /// Resolves the path of a request for a bucket: the only place that looks at a bucket's
    /// consistency. What is no consistent bucket may be an available one: those exist by being
    /// named.
    ///
    /// Errors: `NotMaster` (the group of the bucket has no replica here), `NoSuchBucket`.
    #[inline]
    fn resolve(&self, flow: &mut Flow, name: &BucketName) -> Result<Route> {
        if let Some(local) = flow.recent(name, &self.locator.groups) {
            return Ok(Route::Local(local));
        }
        // Before the look-up: a change in between voids what is remembered.
        let changes = self.locator.groups.changes();
        match self.locator.bucket(name) {
            Ok((bucket, group)) => {
                let local = Local { bucket, group };
                flow.remember(name, &local, (&self.locator.groups, changes));
                Ok(Route::Local(local))
            }
            Err(error) if error.reason == Reason::NoSuchBucket => {
                self.locator.catalog.available.find(name).map(Route::Available).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// True if this node is the group's master, has not yet learnt that its directory is as clients
    /// left it, and the request's answer depends on that.
    #[inline]
    fn is_uninformed(&self, group: &Group, call: &Call) -> bool {
        let depends = matches!(call, Call::Update(_) | Call::Read(_, ReadLevel::Consistent));
        depends && group.leadership.is_master() && !self.is_informed(group)
    }

    /// Evaluates a request on the replica here. Errors: `NotMaster` if another node must.
    #[inline]
    fn evaluate(
        self: &Arc<Router>,
        flow: &mut Flow,
        local: Local,
        request: &Request,
    ) -> Result<Submitted> {
        let name = &request.bucket;
        match &request.call {
            Call::Update(update) => self.update(flow, name, local, update, request.retry),
            Call::Read(read, level) => self.read(flow, name, local, read, *level),
            Call::Session(call) => session(flow, &local, *call),
            Call::Available(call) => Ok(self.one_value(name, call)),
            Call::Directory(call) => self.directory(flow, name, call),
        }
    }

    /// Passes a request on that this node can't answer, or names the other node to the client.
    #[cold]
    pub(crate) fn elsewhere(
        self: &Arc<Router>,
        flow: &mut Flow,
        request: Request,
        error: Error,
    ) -> Submitted {
        let links = &self.locator.links;
        let alone = links.peers.get().is_none();
        let elsewhere = flow.elsewhere;
        match error.reason {
            Reason::Moved if !elsewhere.told_of_moves => {
                self.after_move(flow.last.take(), elsewhere, request)
            }
            Reason::NotMaster if alone => Submitted::Ready(Err(error)),
            Reason::NotMaster => match self.group_of(&request) {
                Ok(group_ref) if elsewhere.named => {
                    Submitted::Ready(Err(links.not_master(group_ref.standing().borrow().master)))
                }
                Ok(group_ref) => self.pass_on(group_ref, flow.last.take(), elsewhere, request),
                Err(error) => Submitted::Ready(Err(error)),
            },
            Reason::NoSuchBucket if !elsewhere.named && !alone && self.may_be_new(&request) => {
                self.look_again(flow.last.take(), request, error)
            }
            _ => Submitted::Ready(Err(self.unless_unheard(error))),
        }
    }

    /// The group that decides about a request.
    pub(crate) fn group_of(&self, request: &Request) -> Result<GroupRef> {
        match &request.call {
            Call::Directory(_) => Ok(GroupRef::Local(self.directory.group.clone())),
            Call::Update(_) | Call::Read(..) | Call::Session(_) | Call::Available(_) => {
                self.locator.group_ref(&request.bucket)
            }
        }
    }

    /// Executes a request elsewhere if mastership was lost during a long evaluation here. Nothing
    /// was done then.
    pub(crate) async fn unless_moved(
        self: &Arc<Router>,
        here: Result<Reply>,
        elsewhere: Elsewhere,
        request: Request,
    ) -> Result<Reply> {
        match here {
            Err(error) if error.reason == Reason::NotMaster => {
                let mut flow = Flow::passing(elsewhere);
                let answer = self.elsewhere(&mut flow, request, error);
                self.answered(answer).await
            }
            here => self.unless_away(here, elsewhere, request).await,
        }
    }

    /// Waits for the outcome of a request.
    pub(crate) async fn answered(&self, submitted: Submitted) -> Result<Reply> {
        match submitted {
            Submitted::Ready(answer) => answer,
            Submitted::Pending(ticket, answer) => self.settled(Some(ticket)).await.and(answer),
            Submitted::Later(answer) | Submitted::Independent(_, answer) => answer.await,
        }
    }

    /// Waits until a connection's earlier updates are decided.
    pub(crate) async fn settled(&self, before: Option<Ticket>) -> Result<()> {
        match before {
            Some(ticket) => {
                let group = self.locator.groups.find(ticket.group)?;
                let settled = group.settled(ticket).await;
                settled.map_err(|error| match error.reason {
                    Reason::NotMaster => self.locator.links.master_of(&group),
                    _ => error,
                })
            }
            None => Ok(()),
        }
    }
}

/// Opens or closes a session of retried updates.
fn session(flow: &mut Flow, local: &Local, call: SessionCall) -> Result<Submitted> {
    let Local { bucket, group } = local;
    let (ticket, body) = match call {
        SessionCall::Open => {
            let (ticket, session) = group.open_session(bucket)?;
            (Some(ticket), Body::Session(session))
        }
        SessionCall::Close(session) => (group.close_session(bucket, session)?, Body::Done),
    };
    let index = ticket.map_or_else(|| group.applied.shown(), |ticket| ticket.index);
    let reply = Reply::new(index, body);
    flow.last = ticket.or(flow.last);
    Ok(match ticket {
        Some(ticket) => Submitted::Pending(ticket, Ok(reply)),
        None => Submitted::Ready(Ok(reply)),
    })
}
