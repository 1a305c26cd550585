//! Updates: evaluated on the thread that received them as a rule, on a thread of their own if that
//! may take long, and away from the group's lock if they only read.

use crate::answers::bytes_of_steps;
use crate::flow::Flow;
use crate::groups::Local;
use crate::route::Router;
use base::error::shutting_down;
use base::request::Expiry;
use base::{
    Body, BucketName, Call, Error, Outcome, Reason, Reply, Request, Result, RetryId, Update, check,
};
use replication::Weight;
use replication::bucket::Bucket;
use replication::group::Group;
use replication::read::still_master;
use replication::submit::{Stamp, Submission};
use runtime::metrics::Metrics;
use runtime::submit::{Submitted, Ticket};
use std::sync::Arc;

/// Attempts to find a bucket that is altered again and again.
const LOOKUPS_MAX: usize = 8;

impl Router {
    /// Evaluates an update; `not_master` if another node must.
    pub(crate) fn update(
        self: &Arc<Router>,
        flow: &mut Flow,
        name: &BucketName,
        local: Local,
        update: &Update,
        retry: Option<RetryId>,
    ) -> Result<Submitted> {
        let Local { mut bucket, mut group } = local;
        for _ in 0..LOOKUPS_MAX {
            self.may_update(&bucket, &group, update)?;
            let weight = Weight::of(update);
            // With a retry id it goes through the log: a repetition finds the same outcome.
            let only_reads = weight.only_reads && retry.is_none();
            if weight.is_heavy() {
                return Ok(match only_reads {
                    true => self.read_steps_later(flow, name, update, weight),
                    false => self.update_later(flow, name, update, retry, weight),
                });
            }
            if only_reads && let Some(answer) = read_steps(flow, &group, &bucket, update)? {
                Metrics::count(&self.metrics.reads);
                return Ok(Submitted::Ready(answer));
            }
            let submission = match only_reads {
                true => group.submit_read(&bucket, update),
                false => group.submit(&bucket, update, retry).map(Some),
            };
            match submission {
                Ok(Some(submission)) => return Ok(pending(flow, submission)),
                Ok(None) => return Ok(self.read_steps_later(flow, name, update, weight)),
                Err(error) if error.reason == Reason::Moved && bucket.is_retired() => {
                    (bucket, group) = self.locator.bucket(name)?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(keeps_changing())
    }

    /// Checks that an update of the bucket may be evaluated here and now.
    fn may_update(&self, bucket: &Bucket, group: &Group, update: &Update) -> Result<()> {
        if !group.leadership.is_master() {
            return Err(Error::new(Reason::NotMaster, "None"));
        }
        if self.space.is_full() && !frees(update) {
            Metrics::count(&self.metrics.updates_refused);
            return Err(self.space.refusal());
        }
        check::update(update, &bucket.properties)
    }

    /// An update that may take long.
    fn update_later(
        self: &Arc<Router>,
        flow: &Flow,
        name: &BucketName,
        update: &Update,
        retry: Option<RetryId>,
        weight: Weight,
    ) -> Submitted {
        let (router, elsewhere, before) = (self.clone(), flow.elsewhere, flow.last);
        let (bucket, update) = (name.clone(), Arc::new(update.clone()));
        Submitted::Later(Box::pin(async move {
            // The outcomes of earlier requests were sent already; here only the order counts.
            let _ = router.settled(before).await;
            let room = router.answers.room(bytes_of_steps(weight.brings_values)).await?;
            let (ticket, stamp, outcome) = match router.submit_heavy(&bucket, &update, retry).await
            {
                Ok(submission) => submission,
                // Nothing was done here.
                Err(error) => {
                    let call = Call::Update(Arc::unwrap_or_clone(update));
                    let request = Request { bucket, call, retry };
                    return router.unless_moved(Err(error), elsewhere, request).await;
                }
            };
            router.settled(ticket).await?;
            drop(room);
            answer(stamp, outcome)
        }))
    }

    async fn submit_heavy(
        &self,
        name: &BucketName,
        update: &Arc<Update>,
        retry: Option<RetryId>,
    ) -> Result<Submission> {
        for _ in 0..LOOKUPS_MAX {
            let (bucket, group) = self.locator.bucket(name)?;
            let mut turn = group.heavy.turn().await?;
            // It may have been altered while this one waited in line.
            check::update(update, &bucket.properties)?;
            match turn.submit(&group, &bucket, update, retry).await {
                Err(error) if error.reason == Reason::Moved && bucket.is_retired() => {}
                submission => return submission,
            }
        }
        Err(keeps_changing())
    }

    /// Reads that hold together and may take long.
    fn read_steps_later(
        self: &Arc<Router>,
        flow: &Flow,
        name: &BucketName,
        update: &Update,
        weight: Weight,
    ) -> Submitted {
        let (router, elsewhere, before) = (self.clone(), flow.elsewhere, flow.last);
        let (bucket, update) = (name.clone(), Arc::new(update.clone()));
        Metrics::count(&self.metrics.reads);
        Submitted::Later(Box::pin(async move {
            let _ = router.settled(before).await;
            let room = router.answers.room(bytes_of_steps(weight.brings_values)).await?;
            let here = router.read_steps_apart(&bucket, &update).await;
            drop(room);
            let call = Call::Update(Arc::unwrap_or_clone(update));
            router.unless_moved(here, elsewhere, Request { bucket, call, retry: None }).await
        }))
    }

    async fn read_steps_apart(&self, name: &BucketName, update: &Arc<Update>) -> Result<Reply> {
        let (bucket, group) = self.locator.bucket(name)?;
        let read = async || {
            let (group, bucket, update) = (group.clone(), bucket.clone(), update.clone());
            let read = move || group.read_steps(&bucket, &update);
            let read = self.lifecycle.tasks.requests.run_blocking(read).await;
            let stopping = || Err(shutting_down());
            read.map_or_else(stopping, |(index, outcome)| answer(Stamp::of_read(index), outcome))
        };
        if group.leadership.readable() {
            let reply = read().await;
            if group.leadership.readable() {
                return group.check_seal(&bucket).and(reply);
            }
        }
        still_master(&group).await?;
        let reply = read().await;
        group.check_seal(&bucket).and(reply)
    }
}

/// Evaluates reads that must hold together, on the applied rows. `None`: they must see this
/// connection's own undecided updates, or this node is not sure that it is still master.
fn read_steps(
    flow: &mut Flow,
    group: &Group,
    bucket: &Bucket,
    update: &Update,
) -> Result<Option<Result<Reply>>> {
    let waits = |ticket: &Ticket| ticket.index > group.applied.index();
    if flow.last.as_ref().is_some_and(waits) || !group.leadership.readable() {
        return Ok(None);
    }
    flow.last = None;
    let (index, outcome) = group.read_steps(bucket, update);
    if !group.leadership.readable() {
        return Ok(None);
    }
    group.check_seal(bucket)?;
    Ok(Some(answer(Stamp::of_read(index), outcome)))
}

/// The reply to an update of this outcome.
#[inline]
fn answer(stamp: Stamp, outcome: Result<Outcome>) -> Result<Reply> {
    let Stamp { index, version } = stamp;
    outcome.map(|outcome| Reply { index, version, body: told(outcome) })
}

/// Converts an outcome into an answer.
fn told(outcome: Outcome) -> Body {
    match outcome {
        Outcome::Read(body) => *body,
        outcome => Body::Updated(outcome),
    }
}

fn keeps_changing() -> Error {
    Error::new(Reason::MetadataChanged, "the bucket keeps changing: repeat")
}

/// Returns the answer of an evaluated update, with the ticket that it waits for.
#[inline]
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

/// Returns true if an update can only make the store smaller: such updates are taken when the disk
/// is nearly full.
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
