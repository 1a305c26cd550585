//! Reads: the freshness that an answer must have, and whether this node may give it.
//!
//! A read that accepts this node's state is answered at once. A consistent read is answered by the
//! master only: from its own rows while its lease lasts, else after a majority has confirmed that
//! it still is master (*read index*).

use crate::answers::bytes_of_read;
use crate::flow::Flow;
use crate::groups::{Local, keeps_up};
use crate::route::Router;
use crate::updating::pending;
use base::error::shutting_down;
use base::{
    BucketName, Call, Error, LogIndex, Read, ReadLevel, Reason, Reply, Request, Result, Update,
    check,
};
use replication::bucket::Bucket;
use replication::group::Group;
use replication::read::{self, still_master};
use replication::seals::sealed;
use runtime::metrics::Metrics;
use runtime::submit::{Submitted, Ticket};
use runtime::world::timeout;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait of a read for values that were being applied when it came.
const BEING_APPLIED: Duration = Duration::from_secs(1);

impl Router {
    /// Answers a read; `not_master` if another node must.
    pub(crate) fn read(
        self: &Arc<Router>,
        flow: &mut Flow,
        name: &BucketName,
        local: Local,
        read: &Read,
        level: ReadLevel,
    ) -> Result<Submitted> {
        let Local { bucket, group } = local;
        if level == ReadLevel::Consistent && !group.leadership.is_master() {
            return Err(Error::new(Reason::NotMaster, "None"));
        }
        let holds = || keeps_up(&group) && !group.is_bare();
        if level != ReadLevel::Consistent && !holds() {
            return Err(Error::new(Reason::NotMaster, "None"));
        }
        check::read(read, &bucket.properties)?;
        Metrics::count(&self.metrics.reads);
        let applied = group.applied.index();
        match level {
            ReadLevel::Consistent => self.read_consistent(flow, name, &bucket, &group, read),
            ReadLevel::AtLeast(index) if group.applied.shown() < index => {
                Err(not_fresh(applied, index))
            }
            ReadLevel::AtLeast(_) | ReadLevel::Dirty => {
                // An answer that shows the first of several values that are being applied names the
                // last of them.
                let being_applied = match level {
                    ReadLevel::AtLeast(index) => Some(index).filter(|index| *index > applied),
                    _ => None,
                };
                if being_applied.is_none()
                    && let Some(here) = read::read_at_once(&group, &bucket, read)
                {
                    in_place(&group, &bucket, level)?;
                    return Ok(Submitted::Ready(here));
                }
                let (router, elsewhere) = (self.clone(), flow.elsewhere);
                let (name, read) = (name.clone(), read.clone());
                Ok(Submitted::Later(Box::pin(async move {
                    if let Some(index) = being_applied {
                        let reached = timeout(BEING_APPLIED, group.applied.reached(index)).await;
                        // A group that failed meanwhile returns an error meant for updates.
                        if !matches!(reached, Some(Ok(()))) {
                            return Err(not_fresh(applied, index));
                        }
                    }
                    let here = router.read_apart(group.clone(), bucket.clone(), &read).await;
                    let here = in_place(&group, &bucket, level).and(here);
                    let call = Call::Read(read, level);
                    let request = Request { bucket: name, call, retry: None };
                    router.unless_away(here, elsewhere, request).await
                })))
            }
        }
    }

    fn read_consistent(
        self: &Arc<Router>,
        flow: &mut Flow,
        name: &BucketName,
        bucket: &Bucket,
        group: &Group,
        read: &Read,
    ) -> Result<Submitted> {
        let before = flow.last.filter(|ticket| ticket.index > group.applied.index());
        if before.is_some() {
            // This connection's own updates are under way: the read sees them and waits with them.
            // One that takes long waits for them first.
            return Ok(match group.submit_read(bucket, &Update::Read(read.clone()))? {
                Some(submission) => pending(flow, submission),
                None => self.read_later(flow, before, name, read),
            });
        }
        flow.last = None;
        // Before and after: a lease that ended while the rows were read says nothing about them.
        if group.leadership.readable()
            && let Some(reply) = read::read_at_once(group, bucket, read)
            && group.leadership.readable()
        {
            group.check_seal(bucket)?;
            return Ok(Submitted::Ready(reply));
        }
        Ok(self.read_later(flow, None, name, read))
    }

    /// A consistent read that takes long, or must ask the others first.
    fn read_later(
        self: &Arc<Router>,
        flow: &Flow,
        before: Option<Ticket>,
        name: &BucketName,
        read: &Read,
    ) -> Submitted {
        let (router, elsewhere) = (self.clone(), flow.elsewhere);
        let (bucket, read) = (name.clone(), read.clone());
        Submitted::Later(Box::pin(async move {
            // The outcomes of earlier requests were sent already; here only the order counts.
            let _ = router.settled(before).await;
            let here = router.read_fresh(&bucket, &read).await;
            let call = Call::Read(read, ReadLevel::Consistent);
            router.unless_moved(here, elsewhere, Request { bucket, call, retry: None }).await
        }))
    }

    async fn read_fresh(&self, name: &BucketName, read: &Read) -> Result<Reply> {
        let (bucket, group) = self.locator.bucket(name)?;
        if group.leadership.readable() {
            let reply = self.read_now(&group, &bucket, read).await;
            if group.leadership.readable() {
                return group.check_seal(&bucket).and(reply);
            }
        }
        // No check after the read: the majority was asked once the read had come, and rows only get
        // newer.
        still_master(&group).await?;
        let reply = self.read_now(&group, &bucket, read).await;
        group.check_seal(&bucket).and(reply)
    }

    async fn read_now(
        &self,
        group: &Arc<Group>,
        bucket: &Arc<Bucket>,
        read: &Read,
    ) -> Result<Reply> {
        match read::read_at_once(group, bucket, read) {
            Some(reply) => reply,
            None => self.read_apart(group.clone(), bucket.clone(), read).await,
        }
    }

    /// Reads on a thread that may block, once memory for the answer is free.
    async fn read_apart(
        &self,
        group: Arc<Group>,
        bucket: Arc<Bucket>,
        read: &Read,
    ) -> Result<Reply> {
        // Released when the caller has the answer.
        let _room = self.answers.room(bytes_of_read(read)).await?;
        let read = read.clone();
        let read = move || read::read(&group, &bucket, &read);
        let read = self.lifecycle.tasks.requests.run_blocking(read).await;
        read.unwrap_or_else(|| Err(shutting_down()))
    }
}

fn not_fresh(applied: LogIndex, asked: LogIndex) -> Error {
    let text = format!("applied up to {applied}, asked for {asked}: wait, or ask the master");
    Error::new(Reason::StaleReplica, text)
}

/// Checks that the group still keeps the bucket after a read at this level: rows of a bucket that
/// has left may be gone.
fn in_place(group: &Group, bucket: &Bucket, level: ReadLevel) -> Result<()> {
    if bucket.is_retired() {
        return Err(sealed());
    }
    if level == ReadLevel::Dirty { Ok(()) } else { group.check_seal(bucket) }
}
