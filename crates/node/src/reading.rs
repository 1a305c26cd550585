//! Reads: how fresh an answer must be, and whether this node may give it.
//!
//! Whoever is content with what this node has is answered at once. A consistent read is answered by
//! the master only: from its own rows while its lease lasts, else after a majority has said that it
//! still is master (*read index*).

use crate::Inner;
use crate::answers::bytes_of_read;
use crate::catalog::Bucket;
use crate::consistent::check;
use crate::consistent::group::Group;
use crate::consistent::read;
use crate::consistent::seals::sealed;
use crate::metrics::Metrics;
use crate::route::{Routed, Unrouted, pending};
use crate::submit::{Flow, Submitted, Ticket};
use crate::world::{self, timeout};
use base::limits::FORWARD_MS_MAX;
use base::{
    BucketName, Call, Consistency, Error, LogIndex, Read, Reason, Reply, Request, Result, Update,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest wait of a read for values that were being applied when it came.
const BEING_APPLIED: Duration = Duration::from_secs(1);

impl Inner {
    /// Answers a read; `not_master` if another node must.
    pub(crate) fn read(
        self: &Arc<Inner>,
        flow: &mut Flow,
        name: &BucketName,
        read: &Read,
        consistency: Consistency,
    ) -> Routed {
        let (bucket, group) = self.asked_bucket(name)?;
        if consistency == Consistency::Consistent && !group.master.load(Ordering::Acquire) {
            return Err(Error::new(Reason::NotMaster, "None").into());
        }
        let holds = || self.keeps_up(&group) && !group.is_bare();
        if consistency != Consistency::Consistent && !holds() {
            return Err(Error::new(Reason::NotMaster, "None").into());
        }
        check::read(read, &bucket.properties)?;
        Metrics::count(&self.metrics.reads);
        let applied = group.applied.index();
        match consistency {
            Consistency::Consistent if !self.is_informed(&group) => {
                Err(Unrouted::Uninformed(group))
            }
            Consistency::Consistent => Ok(self.read_consistent(flow, name, &bucket, &group, read)?),
            Consistency::AtLeast(index) if group.applied.shown() < index => {
                Err(not_fresh(applied, index).into())
            }
            Consistency::AtLeast(_) | Consistency::Dirty => {
                // An answer that shows the first of several values that are being applied names the
                // last of them.
                let being_applied = match consistency {
                    Consistency::AtLeast(index) => Some(index).filter(|index| *index > applied),
                    _ => None,
                };
                if being_applied.is_none()
                    && let Some(here) = read::read_at_once(&group, &bucket, read)
                {
                    in_place(&group, &bucket, consistency)?;
                    return Ok(Submitted::Ready(here));
                }
                let (inner, elsewhere) = (self.clone(), flow.elsewhere);
                let (name, read) = (name.clone(), read.clone());
                Ok(Submitted::Later(Box::pin(async move {
                    if let Some(index) = being_applied {
                        let reached = timeout(BEING_APPLIED, group.applied.reached(index)).await;
                        // A group that failed meanwhile says so in words for updates.
                        if !matches!(reached, Some(Ok(()))) {
                            return Err(not_fresh(applied, index));
                        }
                    }
                    let here = inner.read_apart(group.clone(), bucket.clone(), &read).await;
                    let here = in_place(&group, &bucket, consistency).and(here);
                    let call = Call::Read(read, consistency);
                    let request = Request { bucket: name, call, retry: None };
                    inner.unless_away(here, elsewhere, request).await
                })))
            }
        }
    }

    fn read_consistent(
        self: &Arc<Inner>,
        flow: &mut Flow,
        name: &BucketName,
        bucket: &Bucket,
        group: &Group,
        read: &Read,
    ) -> Result<Submitted> {
        let before = flow.last.filter(|ticket| ticket.index > group.applied.index());
        if before.is_some() {
            // This connection's own updates are on their way: the read sees them and waits with
            // them. One that takes long waits for them first.
            return Ok(match group.submit_read(bucket, &Update::Read(read.clone()))? {
                Some(submission) => pending(flow, submission),
                None => self.read_later(flow, before, name, read),
            });
        }
        flow.last = None;
        if group.readable()
            && let Some(reply) = read::read_at_once(group, bucket, read)
            && group.readable()
        {
            group.check_seal(bucket)?;
            return Ok(Submitted::Ready(reply));
        }
        Ok(self.read_later(flow, None, name, read))
    }

    /// A consistent read that takes long, or must ask the others first.
    fn read_later(
        self: &Arc<Inner>,
        flow: &Flow,
        before: Option<Ticket>,
        name: &BucketName,
        read: &Read,
    ) -> Submitted {
        let (inner, elsewhere) = (self.clone(), flow.elsewhere);
        let (bucket, read) = (name.clone(), read.clone());
        Submitted::Later(Box::pin(async move {
            // What became of them was told already; here only their order counts.
            let _ = inner.settled(before).await;
            let here = inner.read_fresh(&bucket, &read).await;
            let call = Call::Read(read, Consistency::Consistent);
            inner.unless_moved(here, elsewhere, Request { bucket, call, retry: None }).await
        }))
    }

    async fn read_fresh(&self, name: &BucketName, read: &Read) -> Result<Reply> {
        let (bucket, group) = self.bucket(name)?;
        if group.readable() {
            let reply = self.read_now(&group, &bucket, read).await;
            if group.readable() {
                return group.check_seal(&bucket).and(reply);
            }
        }
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

    /// Reads on a thread that may wait, once there is room for the answer.
    async fn read_apart(
        &self,
        group: Arc<Group>,
        bucket: Arc<Bucket>,
        read: &Read,
    ) -> Result<Reply> {
        // Given back when the one who asked has the answer in hand.
        let _room = self.answers.room(bytes_of_read(read)).await?;
        let read = read.clone();
        world::apart(move || read::read(&group, &bucket, &read))
            .await
            .unwrap_or_else(|| Err(Error::new(Reason::GoingDown, "the node is stopping")))
    }
}

fn not_fresh(applied: LogIndex, asked: LogIndex) -> Error {
    let text = format!("applied up to {applied}, asked for {asked}: wait, or ask the master");
    Error::new(Reason::NotFresh, text)
}

/// Whether what was read on no other terms than these still lives here: what left may be gone.
fn in_place(group: &Group, bucket: &Bucket, consistency: Consistency) -> Result<()> {
    if bucket.is_retired() {
        return Err(sealed());
    }
    if consistency == Consistency::Dirty { Ok(()) } else { group.check_seal(bucket) }
}

/// Asks the others whether this node is master, and waits until it has applied all that was decided
/// when it asked.
pub(crate) async fn still_master(group: &Group) -> Result<()> {
    let asking = async {
        let index = group.read_index().await?;
        group.applied.reached(index).await
    };
    timeout(Duration::from_millis(FORWARD_MS_MAX), asking).await.unwrap_or_else(|| {
        let text = format!(
            "no majority of group {} confirmed that this node is its master: try again",
            group.id
        );
        Err(Error::new(Reason::NoQuorum, text))
    })
}
