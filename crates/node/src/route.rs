//! Which path a request takes; the only place that looks at a bucket's promise.

use crate::away::Whom;
use crate::catalog::Bucket;
use crate::consistent::group::Group;
use crate::consistent::submit::Submission;
use crate::directory::no_such_bucket;
use crate::metrics::Metrics;
use crate::submit::{Elsewhere, Flow, Submitted, Ticket};
use crate::updating::answer;
use crate::{Inner, Node};
use base::request::Expiry;
use base::{
    Body, BucketName, Call, Error, NodeId, Properties, Reason, Reply, Request, Result, SessionCall,
    Update,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why a request can't be evaluated now.
pub(crate) enum Unrouted {
    /// For this reason.
    Failed(Error),
    /// This node has become master of the group, and does not know yet that its directory is as
    /// clients left it.
    Uninformed(Arc<Group>),
    /// The bucket is available, with these properties.
    Available(Arc<Properties>),
}

impl From<Error> for Unrouted {
    fn from(error: Error) -> Unrouted {
        Unrouted::Failed(error)
    }
}

/// A request that was evaluated, or why not.
pub(crate) type Routed = std::result::Result<Submitted, Unrouted>;

impl Node {
    pub(crate) fn route(&self, flow: &mut Flow, request: Request) -> Submitted {
        self.inner.submit(flow, request)
    }
}

impl Inner {
    /// Answers a request here if this node may, and sees to it otherwise.
    pub(crate) fn submit(self: &Arc<Inner>, flow: &mut Flow, request: Request) -> Submitted {
        if self.stopping.load(Ordering::Acquire) {
            return Submitted::Ready(Err(Error::new(Reason::GoingDown, "the node is stopping")));
        }
        let routed = match &request.call {
            Call::Update(update) => self.update(flow, &request.bucket, update, request.retry),
            Call::Read(read, consistency) => self.read(flow, &request.bucket, read, *consistency),
            Call::Session(call) => self.session(flow, &request.bucket, *call),
            Call::Directory(call) => self.directory(flow, &request.bucket, call),
            Call::Available(call) => self.one_value(&request.bucket, call),
        };
        match routed {
            Ok(submitted) => submitted,
            Err(Unrouted::Failed(error)) => self.elsewhere(flow, request, error),
            Err(Unrouted::Uninformed(group)) => self.after_information(flow, group, request),
            Err(Unrouted::Available(properties)) => self.of_keys(request, &properties),
        }
    }

    /// What this node can't answer: another is asked, or the client is told whom to ask.
    #[cold]
    pub(crate) fn elsewhere(
        self: &Arc<Inner>,
        flow: &mut Flow,
        request: Request,
        error: Error,
    ) -> Submitted {
        let alone = self.peers.get().is_none();
        let elsewhere = flow.elsewhere;
        match error.reason {
            Reason::Moved if !elsewhere.told_of_moves => {
                self.after_move(flow.last.take(), elsewhere, request)
            }
            Reason::NotMaster if alone => Submitted::Ready(Err(error)),
            Reason::NotMaster => match self.group_of(&request) {
                Ok(whom) if elsewhere.named => {
                    Submitted::Ready(Err(self.named(whom.standing().borrow().master)))
                }
                Ok(whom) => self.pass_on(whom, flow.last.take(), elsewhere, request),
                Err(error) => Submitted::Ready(Err(error)),
            },
            Reason::NoSuchBucket if !elsewhere.named && !alone && self.may_be_new(&request) => {
                self.look_again(flow.last.take(), request, error)
            }
            _ => Submitted::Ready(Err(self.unless_unheard(error))),
        }
    }

    /// `not_master` with the master's name, as clients that look for it parse it.
    pub(crate) fn master_of(&self, group: &Group) -> Error {
        let master = group.standing().borrow().master;
        self.named(master)
    }

    fn named(&self, master: Option<NodeId>) -> Error {
        let name = master.map_or_else(|| "None".into(), |node| self.name_of(node));
        Error::new(Reason::NotMaster, name)
    }

    /// The group that decides about a request.
    pub(crate) fn group_of(&self, request: &Request) -> Result<Whom> {
        match &request.call {
            Call::Directory(_) => Ok(Whom::Here(self.directory.group.clone())),
            Call::Update(_) | Call::Read(..) | Call::Session(_) | Call::Available(_) => {
                self.whom(&request.bucket)
            }
        }
    }

    /// Mastership may go while something long is done here; then nothing was done, and it is done
    /// elsewhere.
    pub(crate) async fn unless_moved(
        self: &Arc<Inner>,
        here: Result<Reply>,
        elsewhere: Elsewhere,
        request: Request,
    ) -> Result<Reply> {
        match here {
            Err(error) if error.reason == Reason::NotMaster => {
                let mut flow = Flow { last: None, elsewhere };
                let answer = self.elsewhere(&mut flow, request, error);
                self.answered(answer).await
            }
            here => self.unless_away(here, elsewhere, request).await,
        }
    }

    /// A bucket, and its group; `not_master` if this node has no part in that.
    pub(crate) fn bucket(&self, name: &BucketName) -> Result<(Arc<Bucket>, Arc<Group>)> {
        let bucket = self.known_bucket(name)?;
        let group = self.groups.get(bucket.group);
        let group = group.ok_or_else(|| Error::new(Reason::NotMaster, "None"))?;
        Ok((bucket, group))
    }

    /// A consistent bucket.
    pub(crate) fn known_bucket(&self, name: &BucketName) -> Result<Arc<Bucket>> {
        self.catalog.find(name).ok_or_else(|| no_such_bucket(name))
    }

    /// A consistent bucket and its group, on the way of a client's request. What is no consistent
    /// bucket may be an available one: they exist by being named. The one place that asks for a
    /// bucket's promise.
    #[inline]
    pub(crate) fn asked_bucket(
        &self,
        name: &BucketName,
    ) -> std::result::Result<(Arc<Bucket>, Arc<Group>), Unrouted> {
        match self.bucket(name) {
            Err(error) if error.reason == Reason::NoSuchBucket => {
                match self.catalog.available.find(name) {
                    Some(properties) => Err(Unrouted::Available(properties)),
                    None => Err(error.into()),
                }
            }
            found => Ok(found?),
        }
    }

    pub(crate) fn full_disk(&self) -> Error {
        Metrics::count(&self.metrics.updates_refused);
        Error::new(
            Reason::OutOfSpace,
            match self.space.lacks_files() {
                false => {
                    "the disk is nearly full: deletes and reads go on; free some space, or lower \
                     reserve_bytes"
                }
                true => {
                    "the disk has nearly no inodes left (df -i): deletes and reads go on; remove \
                     files that are not needed"
                }
            },
        )
    }

    fn session(&self, flow: &mut Flow, name: &BucketName, call: SessionCall) -> Routed {
        let (bucket, group) = self.asked_bucket(name)?;
        let (ticket, body) = match call {
            SessionCall::Open => {
                let (ticket, session) = group.open_session(&bucket)?;
                (Some(ticket), Body::Session(session))
            }
            SessionCall::Close(session) => (group.close_session(&bucket, session)?, Body::Done),
        };
        let index = ticket.map_or_else(|| group.applied.shown(), |ticket| ticket.index);
        let reply = Reply::new(index, body);
        flow.last = ticket.or(flow.last);
        Ok(match ticket {
            Some(ticket) => Submitted::Pending(ticket, Ok(reply)),
            None => Submitted::Ready(Ok(reply)),
        })
    }

    /// Waits for what came of a request.
    pub(crate) async fn answered(&self, submitted: Submitted) -> Result<Reply> {
        match submitted {
            Submitted::Ready(answer) => answer,
            Submitted::Pending(ticket, answer) => self.settled(Some(ticket)).await.and(answer),
            Submitted::Later(answer) | Submitted::Apart(_, answer) => answer.await,
        }
    }

    /// Waits until a connection's earlier updates are decided.
    pub(crate) async fn settled(&self, before: Option<Ticket>) -> Result<()> {
        match before {
            Some(ticket) => {
                let group = self.groups.find(ticket.group)?;
                let settled = group.settled(ticket).await;
                settled.map_err(|error| match error.reason {
                    Reason::NotMaster => self.master_of(&group),
                    _ => error,
                })
            }
            None => Ok(()),
        }
    }
}

/// The answer of an evaluated update, and what it waits for.
pub(crate) fn pending(flow: &mut Flow, (ticket, stamp, outcome): Submission) -> Submitted {
    let reply = answer(stamp, outcome);
    match ticket {
        Some(ticket) => {
            flow.last = Some(ticket);
            Submitted::Pending(ticket, reply)
        }
        None => Submitted::Ready(reply),
    }
}

/// Whether an update can only make the store smaller: those go on when the disk is nearly full.
pub(crate) fn frees(update: &Update) -> bool {
    match update {
        Update::Delete { .. }
        | Update::DeletePrefix { .. }
        | Update::Replace { wanted: None, .. }
        | Update::TestAndSet { wanted: None, .. }
        | Update::Expire { expiry: Expiry::After(_), .. }
        | Update::Assert { .. }
        | Update::AssertExists { .. }
        | Update::AssertRange { .. }
        | Update::AssertVersion { .. }
        | Update::Read(_)
        | Update::Nop => true,
        Update::Sequence { steps, .. } => steps.iter().all(frees),
        _ => false,
    }
}
