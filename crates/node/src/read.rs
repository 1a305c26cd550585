//! Reads: the freshness that an answer must have, and whether this node may give it.
//!
//! A read that accepts this node's state is answered at once. A consistent read is answered by the
//! master only: from its own rows while its lease lasts, else after a majority has confirmed that
//! it still is master (*read index*).

use crate::answers::read_answer_bytes_max;
use crate::flow::Flow;
use crate::index_query::{NamedBucket, read_rows, read_rows_at_once};
use crate::route::Router;
use crate::updating::pending;
use base::error::shutting_down;
use base::{
    BucketName, Call, Error, LogIndex, Read, ReadLevel, Reason, Reply, Request, Result, Update,
    check,
};
use replica_host::{Local, follows};
use replication::bucket::Bucket;
use replication::group::Group;
use replication::read::confirm_master;
use replication::seals::bucket_moved_error;
use runtime::metrics::Metrics;
use runtime::submit::{SubmitResult, Ticket};
use runtime::world::timeout;
use std::sync::Arc;
use std::time::Duration;

/// Maximum wait of a read for entries that were being applied when it arrived.
const APPLY_WAIT_MAX: Duration = Duration::from_secs(1);

impl Router {
    /// Answers a read; `not_master` if another node must.
    pub(crate) fn read(
        self: &Arc<Router>,
        flow: &mut Flow,
        name: &BucketName,
        local: Local,
        read: &Read,
        level: ReadLevel,
    ) -> Result<SubmitResult> {
        let Local { bucket, group } = local;
        if level == ReadLevel::Consistent && !group.leadership.is_master() {
            return Err(Error::new(Reason::NotMaster, "None"));
        }
        let has_rows = || follows(&group) && !group.is_witness_replica();
        if level != ReadLevel::Consistent && !has_rows() {
            return Err(Error::new(Reason::NotMaster, "None"));
        }
        check::read(read, &bucket.properties)?;
        Metrics::count(&self.metrics.reads);
        let applied = group.applied.index();
        let named = NamedBucket { name, bucket: &bucket };
        match level {
            ReadLevel::Consistent => self.read_consistent(flow, named, &group, read),
            ReadLevel::AtLeast(index) if group.applied.visible_index() < index => {
                Err(stale_replica(applied, index))
            }
            ReadLevel::AtLeast(_) | ReadLevel::Dirty => {
                // A result that shows the first of several entries being applied must be labelled
                // with the last of them.
                let awaited_index = match level {
                    ReadLevel::AtLeast(index) => Some(index).filter(|index| *index > applied),
                    _ => None,
                };
                if awaited_index.is_none()
                    && let Some(reply) = self.read_at_once(&group, named, read)
                {
                    check_placement(&group, &bucket, level)?;
                    return Ok(SubmitResult::Ready(reply));
                }
                let (router, caller) = (self.clone(), flow.caller());
                let (name, read) = (name.clone(), read.clone());
                Ok(SubmitResult::Later(Box::pin(async move {
                    if let Some(index) = awaited_index {
                        let reached =
                            timeout(APPLY_WAIT_MAX, group.applied.wait_reached(index)).await;
                        // A group that failed meanwhile returns an error meant for updates.
                        if !matches!(reached, Some(Ok(()))) {
                            return Err(stale_replica(applied, index));
                        }
                    }
                    let local = Local { bucket: bucket.clone(), group: group.clone() };
                    let reply = router.read_blocking(local, &name, &read).await;
                    let reply = check_placement(&group, &bucket, level).and(reply);
                    let call = Call::Read(read, level);
                    let request = Request { bucket: name, call, retry: None };
                    router.unless_moving(reply, caller, request).await
                })))
            }
        }
    }

    fn read_consistent(
        self: &Arc<Router>,
        flow: &mut Flow,
        named: NamedBucket<'_>,
        group: &Group,
        read: &Read,
    ) -> Result<SubmitResult> {
        let NamedBucket { name, bucket } = named;
        let previous = flow.pending_in(group.id, group.applied.index());
        if previous.is_some() {
            // This connection's own updates are undecided: the read sees them and waits with them.
            // A long read waits for them first.
            let submitted = match read {
                // The group knows no name of an index; a feed has what is decided.
                Read::Index(_) | Read::Feed(_) => None,
                read => group.submit_read(bucket, &Update::Read(read.clone()))?,
            };
            return Ok(match submitted {
                Some(submission) => pending(flow, submission),
                None => self.read_later(flow, previous, name, read),
            });
        }
        flow.settle(group.id);
        // Checked before and after: a lease that ended during the read proves nothing about the
        // rows.
        if group.leadership.can_read()
            && let Some(reply) = self.read_at_once(group, named, read)
            && group.leadership.can_read()
        {
            group.check_seal(bucket)?;
            return Ok(SubmitResult::Ready(reply));
        }
        Ok(self.read_later(flow, None, name, read))
    }

    /// Executes a consistent read that takes long, or must be confirmed by a quorum first.
    fn read_later(
        self: &Arc<Router>,
        flow: &Flow,
        previous: Option<Ticket>,
        name: &BucketName,
        read: &Read,
    ) -> SubmitResult {
        let (router, caller) = (self.clone(), flow.caller());
        let (bucket, read) = (name.clone(), read.clone());
        SubmitResult::Later(Box::pin(async move {
            // Only the order matters: the outcomes of earlier requests were sent already.
            let _ = router.wait_applied(previous).await;
            let reply = router.read_confirmed(&bucket, &read).await;
            let call = Call::Read(read, ReadLevel::Consistent);
            router
                .unless_mastership_lost(reply, caller, Request { bucket, call, retry: None })
                .await
        }))
    }

    async fn read_confirmed(&self, name: &BucketName, read: &Read) -> Result<Reply> {
        let (bucket, group) = self.locator.bucket(name)?;
        let local = || Local { bucket: bucket.clone(), group: group.clone() };
        if group.leadership.can_read() {
            let reply = self.read_local(local(), name, read).await;
            if group.leadership.can_read() {
                return group.check_seal(&bucket).and(reply);
            }
        }
        // No check after the read: the quorum confirmed this master after the read arrived, and
        // rows only get newer.
        confirm_master(&group).await?;
        let reply = self.read_local(local(), name, read).await;
        group.check_seal(&bucket).and(reply)
    }

    async fn read_local(&self, local: Local, name: &BucketName, read: &Read) -> Result<Reply> {
        let named = NamedBucket { name, bucket: &local.bucket };
        match self.read_at_once(&local.group, named, read) {
            Some(reply) => reply,
            None => self.read_blocking(local, name, read).await,
        }
    }

    /// Reads at once. `None`: the read belongs on a thread that may block.
    fn read_at_once(
        &self,
        group: &Group,
        of: NamedBucket<'_>,
        read: &Read,
    ) -> Option<Result<Reply>> {
        read_rows_at_once(&self.locator.catalog, group, of, read)
    }

    /// Reads on a blocking thread, once memory for the answer is free.
    async fn read_blocking(&self, local: Local, name: &BucketName, read: &Read) -> Result<Reply> {
        // Released when the caller has the answer.
        let _permit = self.answers.reserve(read_answer_bytes_max(read)).await?;
        let (catalog, name, read) = (self.locator.catalog.clone(), name.clone(), read.clone());
        let read = move || {
            let of = NamedBucket { name: &name, bucket: &local.bucket };
            read_rows(&catalog, &local.group, of, &read)
        };
        let read = self.lifecycle.tasks.requests.run_blocking(read).await;
        read.unwrap_or_else(|| Err(shutting_down()))
    }
}

fn stale_replica(applied: LogIndex, asked: LogIndex) -> Error {
    let text = format!(
        "this node has applied index {applied}, and the read requires {asked}: wait, or ask the \
         master"
    );
    Error::new(Reason::StaleReplica, text)
}

/// Checks after a read at this level that the group still stores the bucket: the rows of a moved
/// bucket may be removed.
fn check_placement(group: &Group, bucket: &Bucket, level: ReadLevel) -> Result<()> {
    if bucket.is_retired() {
        return Err(bucket_moved_error());
    }
    if level == ReadLevel::Dirty { Ok(()) } else { group.check_seal(bucket) }
}
