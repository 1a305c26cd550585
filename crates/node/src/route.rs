//! Which path a request takes; the only place that looks at a bucket's promise.

use crate::catalog::Bucket;
use crate::consistent::check;
use crate::consistent::group::{Group, Submission};
use crate::consistent::read::{self, is_long};
use crate::directory::no_such_bucket;
use crate::metrics::Metrics;
use crate::submit::{Flow, Submitted, Ticket};
use crate::{Inner, Node};
use base::request::Expiry;
use base::{
    Body, BucketName, Call, Consistency, DirectoryCall, Error, Outcome, Promise, Read, Reason,
    Reply, Request, Result, RetryId, SessionCall, Update,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Attempts to find a bucket that is altered again and again.
const LOOKUPS_MAX: usize = 8;

impl Node {
    pub(crate) fn route(&self, flow: &mut Flow, request: Request) -> Submitted {
        let inner = &self.inner;
        if inner.stopping.load(Ordering::Acquire) {
            return Submitted::Ready(Err(Error::new(Reason::GoingDown, "the node is stopping")));
        }
        let routed = match request.call {
            Call::Update(update) => inner.update(flow, &request.bucket, &update, request.retry),
            Call::Read(read, consistency) => inner.read(flow, &request.bucket, read, consistency),
            Call::Session(call) => inner.session(flow, &request.bucket, call),
            Call::Directory(call) => Ok(self.directory(flow, request.bucket, call)),
        };
        routed.unwrap_or_else(|error| Submitted::Ready(Err(error)))
    }

    fn directory(&self, flow: &Flow, name: BucketName, call: DirectoryCall) -> Submitted {
        let inner = self.inner.clone();
        let before = flow.last;
        Submitted::Later(Box::pin(async move {
            inner.settled(before).await?;
            inner.directory.execute(&name, call).await
        }))
    }
}

impl Inner {
    pub(crate) fn bucket(&self, name: &BucketName) -> Result<(Arc<Bucket>, Arc<Group>)> {
        let bucket = self.catalog.find(name).ok_or_else(|| no_such_bucket(name))?;
        // The one match on a bucket's promise in the whole house.
        match bucket.properties.promise {
            Promise::Consistent => {
                let group = self.groups.find(bucket.group)?;
                Ok((bucket, group))
            }
            Promise::Available => {
                Err(Error::new(Reason::NotSupported, "this version serves consistent buckets only"))
            }
        }
    }

    fn update(
        &self,
        flow: &mut Flow,
        name: &BucketName,
        update: &Update,
        retry: Option<RetryId>,
    ) -> Result<Submitted> {
        if self.full.load(Ordering::Relaxed) && !frees(update) {
            Metrics::count(&self.metrics.updates_refused);
            return Err(Error::new(
                Reason::OutOfSpace,
                "the disk is nearly full: deletes and reads go on; free some space, or lower \
                 reserve_bytes",
            ));
        }
        for _ in 0..LOOKUPS_MAX {
            let (bucket, group) = self.bucket(name)?;
            check::update(update, &bucket.properties)?;
            let (ticket, index, outcome) = match group.submit(&bucket, update, retry) {
                Err(error) if error.reason == Reason::Moved => continue,
                submission => submission?,
            };
            let submission: Submission = (ticket, index, outcome);
            return Ok(pending(flow, submission));
        }
        Err(Error::new(Reason::Changed, "the bucket keeps changing: repeat"))
    }

    fn read(
        &self,
        flow: &mut Flow,
        name: &BucketName,
        read: Read,
        consistency: Consistency,
    ) -> Result<Submitted> {
        let (bucket, group) = self.bucket(name)?;
        check::read(&read, &bucket.properties)?;
        Metrics::count(&self.metrics.reads);
        let before = match consistency {
            Consistency::Consistent => {
                // With one voter this node's lease never ends while it is master.
                if !group.master.load(Ordering::Acquire) {
                    return Err(Error::new(Reason::NotMaster, "None"));
                }
                flow.last.filter(|ticket| ticket.index > group.applied.index())
            }
            Consistency::Dirty => None,
            Consistency::AtLeast(index) if group.applied.index() >= index => None,
            Consistency::AtLeast(index) => {
                let applied = group.applied.index();
                let text = format!(
                    "applied up to {applied}, asked for {index}: wait, or ask the \
                                    master"
                );
                return Err(Error::new(Reason::NotFresh, text));
            }
        };
        if is_long(&read) {
            return Ok(self.read_later(before, bucket, group.clone(), read));
        }
        if before.is_none() {
            flow.last = None;
            return Ok(Submitted::Ready(read::read(&group, &bucket, &read)));
        }
        // This connection's own updates are on their way: the read sees them and waits with them.
        let update = Update::Read(read);
        let (ticket, index, outcome) = group.submit(&bucket, &update, None)?;
        Ok(pending(flow, (ticket, index, outcome)))
    }

    fn read_later(
        &self,
        before: Option<Ticket>,
        bucket: Arc<Bucket>,
        group: Arc<Group>,
        read: Read,
    ) -> Submitted {
        Submitted::Later(Box::pin(async move {
            if let Some(ticket) = before {
                group.settled(ticket).await?;
            }
            let reading = move || read::read(&group, &bucket, &read);
            tokio::task::spawn_blocking(reading)
                .await
                .unwrap_or_else(|_| Err(Error::new(Reason::GoingDown, "the node is stopping")))
        }))
    }

    fn session(&self, flow: &mut Flow, name: &BucketName, call: SessionCall) -> Result<Submitted> {
        let (_, group) = self.bucket(name)?;
        let (ticket, body) = match call {
            SessionCall::Open => {
                let (ticket, session) = group.open_session()?;
                (Some(ticket), Body::Session(session))
            }
            SessionCall::Close(session) => (group.close_session(session)?, Body::Done),
        };
        let index = ticket.map_or_else(|| group.applied.index(), |ticket| ticket.index);
        let reply = Reply { index, body };
        flow.last = ticket.or(flow.last);
        Ok(match ticket {
            Some(ticket) => Submitted::Pending(ticket, Ok(reply)),
            None => Submitted::Ready(Ok(reply)),
        })
    }

    /// Waits until a connection's earlier updates are decided.
    pub(crate) async fn settled(&self, before: Option<Ticket>) -> Result<()> {
        match before {
            Some(ticket) => self.groups.find(ticket.group)?.settled(ticket).await,
            None => Ok(()),
        }
    }
}

fn pending(flow: &mut Flow, (ticket, index, outcome): Submission) -> Submitted {
    let reply = outcome.map(|outcome| {
        let body = match outcome {
            Outcome::Read(body) => *body,
            outcome => Body::Updated(outcome),
        };
        Reply { index, body }
    });
    match ticket {
        Some(ticket) => {
            flow.last = Some(ticket);
            Submitted::Pending(ticket, reply)
        }
        None => Submitted::Ready(reply),
    }
}

/// Whether an update can only make the store smaller: those go on when the disk is nearly full.
fn frees(update: &Update) -> bool {
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
