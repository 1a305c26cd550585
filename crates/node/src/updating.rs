//! Updates: evaluated on the thread that received them as a rule, on a thread of their own if that
//! may take long, and away from the group's lock if they only read.

use crate::answers::steps_answer_bytes_max;
use crate::flow::Flow;
use crate::route::Router;
use base::error::shutting_down;
use base::request::Expiry;
use base::{Body, BucketName, Call, Error, Outcome, Reason, Reply, Request, Result, Update, check};
use replica_host::Local;
use replication::Weight;
use replication::bucket::Bucket;
use replication::group::Group;
use replication::read::confirm_master;
use replication::session::SessionUse;
use replication::submit::{Stamp, Submission};
use runtime::metrics::Metrics;
use runtime::submit::SubmitResult;
use std::sync::Arc;

/// Maximum number of look-ups of a bucket that is being altered.
const LOOKUPS_MAX: usize = 8;

impl Router {
    /// Evaluates an update; `not_master` if another node must.
    pub(crate) fn update(
        self: &Arc<Router>,
        flow: &mut Flow,
        name: &BucketName,
        local: Local,
        update: &Update,
        session: Option<SessionUse>,
    ) -> Result<SubmitResult> {
        let Local { mut bucket, mut group } = local;
        for _ in 0..LOOKUPS_MAX {
            self.check_update(&bucket, &group, update)?;
            let weight = Weight::measure(update, group.reads_replaced_rows(&bucket));
            // An update with a retry id goes through the log, so that a retry returns the same
            // outcome.
            let is_read_only = weight.is_read_only && session.is_none();
            if weight.is_heavy() {
                return Ok(match is_read_only {
                    true => self.read_steps_later(flow, name, update, weight),
                    false => self.update_later(flow, name, update, session, weight),
                });
            }
            if is_read_only && let Some(answer) = read_steps(flow, &group, &bucket, update)? {
                Metrics::count(&self.metrics.reads);
                return Ok(SubmitResult::Ready(answer));
            }
            let submission = if is_read_only {
                group.submit_read(&bucket, update)
            } else if weight.is_large() {
                let Some(turn) = group.large.try_turn() else {
                    return Ok(self.update_later(flow, name, update, session, weight));
                };
                group.submit_large(&bucket, update, session, turn).map(Some)
            } else {
                group.submit(&bucket, update, session).map(Some)
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
        Err(keeps_changing_error())
    }

    /// Checks that an update of the bucket may be evaluated here now.
    fn check_update(&self, bucket: &Bucket, group: &Group, update: &Update) -> Result<()> {
        if !group.leadership.is_master() {
            return Err(Error::new(Reason::NotMaster, "None"));
        }
        if self.space.is_full() && !frees_space(update) {
            Metrics::count(&self.metrics.updates_refused);
            return Err(self.space.refusal_error());
        }
        check::update(update, &bucket.properties)
    }

    /// Executes an update that may take long, or must wait for its turn.
    fn update_later(
        self: &Arc<Router>,
        flow: &Flow,
        name: &BucketName,
        update: &Update,
        session: Option<SessionUse>,
        weight: Weight,
    ) -> SubmitResult {
        let (router, caller, previous) = (self.clone(), flow.caller(), flow.last);
        let (bucket, update) = (name.clone(), Arc::new(update.clone()));
        SubmitResult::Later(Box::pin(async move {
            // Only the order matters: the outcomes of earlier requests were sent already.
            let _ = router.wait_applied(previous).await;
            let permit =
                router.answers.reserve(steps_answer_bytes_max(weight.may_return_values)).await?;
            let submitted = router.submit_in_turn(&bucket, &update, session, weight).await;
            let (ticket, stamp, outcome) = match submitted {
                Ok(submission) => submission,
                // Nothing was done here.
                Err(error) => {
                    let call = Call::Update(Arc::unwrap_or_clone(update));
                    let retry = session.map(|session| session.retry);
                    let request = Request { bucket, call, retry };
                    return router.unless_mastership_lost(Err(error), caller, request).await;
                }
            };
            router.wait_applied(ticket).await?;
            drop(permit);
            answer(stamp, outcome)
        }))
    }

    /// Submits a heavy or large update in its turn.
    async fn submit_in_turn(
        &self,
        name: &BucketName,
        update: &Arc<Update>,
        session: Option<SessionUse>,
        weight: Weight,
    ) -> Result<Submission> {
        for _ in 0..LOOKUPS_MAX {
            let (bucket, group) = self.locator.bucket(name)?;
            // The bucket may have been altered while the update was queued.
            let submission = if weight.is_heavy() {
                let mut turn = group.heavy.turn().await?;
                check::update(update, &bucket.properties)?;
                turn.submit(&group, &bucket, update, session).await
            } else {
                let turn = group.large.turn().await?;
                check::update(update, &bucket.properties)?;
                group.submit_large(&bucket, update, session, turn)
            };
            match submission {
                Err(error) if error.reason == Reason::Moved && bucket.is_retired() => {}
                submission => return submission,
            }
        }
        Err(keeps_changing_error())
    }

    /// Executes reads that must be consistent with each other and may take long.
    fn read_steps_later(
        self: &Arc<Router>,
        flow: &Flow,
        name: &BucketName,
        update: &Update,
        weight: Weight,
    ) -> SubmitResult {
        let (router, caller, previous) = (self.clone(), flow.caller(), flow.tickets());
        let (bucket, update) = (name.clone(), Arc::new(update.clone()));
        Metrics::count(&self.metrics.reads);
        SubmitResult::Later(Box::pin(async move {
            for ticket in previous {
                let _ = router.wait_applied(Some(ticket)).await;
            }
            let permit =
                router.answers.reserve(steps_answer_bytes_max(weight.may_return_values)).await?;
            let reply = router.read_steps_blocking(&bucket, &update).await;
            drop(permit);
            let call = Call::Update(Arc::unwrap_or_clone(update));
            router
                .unless_mastership_lost(reply, caller, Request { bucket, call, retry: None })
                .await
        }))
    }

    async fn read_steps_blocking(&self, name: &BucketName, update: &Arc<Update>) -> Result<Reply> {
        let (bucket, group) = self.locator.bucket(name)?;
        let read = async || {
            let (group, bucket, update) = (group.clone(), bucket.clone(), update.clone());
            let read = move || group.read_steps(&bucket, &update);
            let read = self.lifecycle.tasks.requests.run_blocking(read).await;
            let stopping = || Err(shutting_down());
            read.map_or_else(stopping, |(index, outcome)| answer(Stamp::for_read(index), outcome))
        };
        if group.leadership.can_read() {
            let reply = read().await;
            if group.leadership.can_read() {
                return group.check_seal(&bucket).and(reply);
            }
        }
        confirm_master(&group).await?;
        let reply = read().await;
        group.check_seal(&bucket).and(reply)
    }
}

/// Evaluates reads that must be consistent with each other on the applied rows. `None`: they must
/// see this connection's own undecided updates, or this node has no valid lease.
fn read_steps(
    flow: &mut Flow,
    group: &Group,
    bucket: &Bucket,
    update: &Update,
) -> Result<Option<Result<Reply>>> {
    let previous = flow.pending_in(group.id, group.applied.index());
    if previous.is_some() || !group.leadership.can_read() {
        return Ok(None);
    }
    flow.settle(group.id);
    let (index, outcome) = group.read_steps(bucket, update);
    if !group.leadership.can_read() {
        return Ok(None);
    }
    group.check_seal(bucket)?;
    Ok(Some(answer(Stamp::for_read(index), outcome)))
}

/// Returns the reply to an update with this outcome.
#[inline]
fn answer(stamp: Stamp, outcome: Result<Outcome>) -> Result<Reply> {
    let Stamp { index, version } = stamp;
    outcome.map(|outcome| Reply { index, version, body: to_body(outcome) })
}

/// Converts an outcome into an answer.
fn to_body(outcome: Outcome) -> Body {
    match outcome {
        Outcome::Read(body) => *body,
        outcome => Body::Updated(outcome),
    }
}

fn keeps_changing_error() -> Error {
    Error::new(Reason::MetadataChanged, "the bucket keeps changing: try again")
}

/// Returns the answer of an evaluated update, with the ticket that it waits for.
#[inline]
pub(crate) fn pending(flow: &mut Flow, (ticket, stamp, outcome): Submission) -> SubmitResult {
    let reply = answer(stamp, outcome);
    match ticket {
        Some(ticket) => {
            flow.note(ticket);
            SubmitResult::Pending(ticket, reply)
        }
        None => SubmitResult::Ready(reply),
    }
}

/// Returns true if an update can only free space: such updates are accepted when the disk is nearly
/// full.
fn frees_space(update: &Update) -> bool {
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
        | Update::AssertAbsentSince { .. }
        | Update::Read(_)
        | Update::Nop => true,
        Update::Sequence { steps, .. } => steps.iter().all(frees_space),
        _ => false,
    }
}
