//! Runs: consecutive plain gets, or plain sets, of one connection on one consistent bucket, which
//! this node answers together.
//!
//! A client that pipelines sends many small requests at once. A run looks up the bucket, checks
//! that this node may answer, and locks the group once for all of them. It covers the usual case
//! only. The rest is left to the requests one by one (`route.rs`), with the same answers: a bucket
//! that was not looked up yet or whose requests are recorded, another master, a lost lease, a move,
//! a value over a limit, too much undecided.
//!
//! Promises: each request of a run has the effect, the answer, the place in the log and the ticket
//! that it would have alone; requests that a run leaves out had no effect.
//! Never: waits; makes requests atomic.

use crate::flow::Flow;
use crate::route::Router;
use base::access::Verb;
use base::rights::AuditClass;
use base::{BucketName, GroupId, LogIndex, Properties, Reply, Result};
use replica_host::Local;
use replication::group::Group;
use replication::point_reads::{self, LentValueVisitor};
use runtime::metrics::Metrics;
use runtime::submit::Ticket;
use std::sync::Arc;

/// Maximum number of requests in a run. A set of a run may delay its group's driver by all others.
pub const RUN_REQUESTS_MAX: usize = 64;
/// Maximum bytes of a run's keys and values together, and of one value.
pub const RUN_BYTES_MAX: usize = 64 * 1024;

/// Run of consistent gets that may begin.
pub struct GetRun<'a> {
    router: &'a Router,
    local: Local,
}

/// Run of sets without options that may begin.
pub struct SetRun {
    local: Local,
}

impl Router {
    /// Returns the bucket that the connection used last, if it is this one, its requests are
    /// evaluated here, its principal has the verb on all of it, and they are not recorded.
    fn run_target(self: &Arc<Router>, flow: &Flow, name: &BucketName, verb: Verb) -> Option<Local> {
        if !self.access.allows_run(flow, name, verb) {
            return None;
        }
        let local = flow.cached_bucket(name, &self.locator.groups)?;
        // A recorded request goes alone: each has its own line, with its own outcome.
        let class = if verb == Verb::Write { AuditClass::Write } else { AuditClass::Read };
        let is_recorded = class.is_recorded(local.bucket.properties.audit);
        (!is_recorded && self.evaluates(&local.group)).then_some(local)
    }

    /// Returns true if this node is master of the group, with a directory as its clients left it.
    fn evaluates(&self, group: &Group) -> bool {
        !self.lifecycle.is_stopping()
            && group.leadership.is_master()
            && self.is_directory_current(group)
    }

    /// Answers a consistent get of a key in this group, if the row is in memory and this node may
    /// answer. `None`: the request takes the usual way.
    pub(crate) fn get_in_memory(
        &self,
        name: &BucketName,
        group: GroupId,
        key: &[u8],
    ) -> Option<Result<Reply>> {
        let (bucket, group) =
            self.locator.bucket(name).ok().filter(|(_, found)| found.id == group)?;
        let is_valid = key.len() <= bucket.properties.key_bytes_max && self.evaluates(&group);
        // Before and after the read, as for any read under a lease.
        if !is_valid || !group.leadership.can_read() {
            return None;
        }
        let reply = point_reads::get_in_memory(&group, &bucket, key)?;
        if !group.leadership.can_read() || group.check_seal(&bucket).is_err() {
            return None;
        }
        Metrics::count(&self.metrics.reads);
        Some(reply)
    }

    /// Begins a run of consistent gets. `None`: they are to be submitted one by one.
    pub(crate) fn begin_gets(
        self: &Arc<Router>,
        flow: &mut Flow,
        name: &BucketName,
    ) -> Option<GetRun<'_>> {
        let local = self.run_target(flow, name, Verb::Read)?;
        let Local { bucket, group } = &local;
        // A read behind undecided updates of its connection is evaluated like an update.
        let is_settled = flow.pending_in(group.id, group.applied.index()).is_none();
        if !is_settled || !group.leadership.can_read() || group.check_seal(bucket).is_err() {
            return None;
        }
        flow.settle(group.id);
        Some(GetRun { router: self, local })
    }

    /// Begins a run of sets. `None`: they are to be submitted one by one.
    pub(crate) fn begin_sets(self: &Arc<Router>, flow: &Flow, name: &BucketName) -> Option<SetRun> {
        let local = self.run_target(flow, name, Verb::Write)?;
        // A set of a row that expires, is counted or indexed reads the row before, perhaps from the
        // disk.
        let Local { bucket, group } = &local;
        let reads_rows = bucket.properties.ttl_ms > 0 || group.reads_replaced_rows(bucket);
        (!reads_rows && !self.space.is_full()).then_some(SetRun { local })
    }
}

impl GetRun<'_> {
    /// Returns true if the key is within the bucket's limit.
    #[inline]
    pub fn accepts(&self, key: &[u8]) -> bool {
        key.len() <= self.local.bucket.properties.key_bytes_max
    }

    /// Reads the keys in order, and passes the value of each to `visit` until that returns false.
    /// Returns an index at or above that of every row. `None`: what was visited must not be
    /// answered, and the gets are to be submitted one by one.
    pub fn read(&self, keys: &[&[u8]], visit: &mut LentValueVisitor<'_>) -> Option<LogIndex> {
        let Local { bucket, group } = &self.local;
        let mut count = 0;
        let index = point_reads::get_each(group, bucket, keys, &mut |value| {
            count += 1;
            visit(value)
        });
        // The lease was checked when the run began: one that ended since proves nothing about the
        // rows. A seal is checked last, because the rows of a moved bucket may be removed.
        if !group.leadership.can_read() || group.check_seal(bucket).is_err() {
            return None;
        }
        Metrics::add(&self.router.metrics.reads, count);
        Some(index)
    }
}

impl SetRun {
    /// Returns true if the key and the value are within the bucket's limits.
    #[inline]
    pub fn accepts(&self, key: &[u8], value: &[u8]) -> bool {
        let Properties { key_bytes_max, value_bytes_max, .. } = self.local.bucket.properties;
        key.len() <= key_bytes_max && value.len() <= value_bytes_max
    }

    /// Submits the sets in order, and passes the ticket of each to `accepted`: its answer is that
    /// it is done, once the ticket is decided. Returns the number of accepted ones. The next one is
    /// to be submitted alone, and has had no effect.
    pub fn submit(
        &self,
        flow: &mut Flow,
        sets: &[(&[u8], &[u8])],
        accepted: &mut dyn FnMut(Ticket),
    ) -> usize {
        let Local { bucket, group } = &self.local;
        let submitted = group.submit_sets(bucket, sets, &mut |ticket| {
            flow.note(ticket);
            accepted(ticket);
        });
        // The first one alone gets the error, or goes to where the bucket is now.
        submitted.unwrap_or(0)
    }
}
