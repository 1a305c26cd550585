//! One member of the cluster: groups and vnodes put together, started, tended and stopped.
//!
//! Promises: an update is answered only after it is decided; an answer carries the index it
//! reflects.
//! Never: decides (that is `logic`), knows a client's language, reads settings files.
//! Read next: `startup.rs`, then `route.rs`; then the crates `replication` and `dynamo`.

mod access;
mod access_bootstrap;
mod act_recorder;
mod alarm_register;
mod alarm_watch;
mod alarms;
mod answers;
mod assembly;
mod available_query;
mod checkpoints;
mod clock_monitor;
mod cluster;
mod count_keeper;
mod diagnostics;
mod dispatch;
mod emptying;
mod feed_read;
mod flow;
mod forward;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod index_keeper;
mod index_query;
mod levels;
mod listener_reports;
mod location;
mod locator;
mod master_alarm;
mod member_request;
mod moves;
mod read;
mod readiness;
mod recorded_requests;
mod ring;
mod ring_replacement;
mod route;
mod runs;
mod settings;
mod shutdown;
mod sibling_adapter;
mod startup;
mod status;
mod status_reader;
mod updating;
mod vnode_index_keeper;

pub use act_recorder::RecordedAct;
pub use available_query::{check_tag_filter, continuation_behind};
pub use bucket_moves::{MovePhase, MoveProgress, MoveStatus};
pub use checkpoints::CheckpointStatus;
pub use cluster::{
    ClusterStatus, DamagedMember, MemberStatus, PartStatus, PendingJoin, PlaceStatus,
    SurvivingData, SurvivingGroup, SurvivingRing,
};
pub use dynamo::{AvailableStatus, HintsStatus};
pub use emptying::{EmptyPrefixCursor, EmptyPrefixProgress};
pub use flow::{Elsewhere, Flow};
pub use location::{BucketPlacement, PlacedMember};
pub use replica_host::recovery::{LogRepair, trust_log};
pub use replica_state::comparison::{ComparisonStatus, DifferenceStatus};
pub use replica_state::snapshot::SnapshotStatus;
pub use replication::entry_times::EntryStages;
pub use replication::point_reads::LentValue;
pub use runs::{GetRun, RUN_BYTES_MAX, RUN_REQUESTS_MAX, SetRun};
pub use runtime::mutants::break_rule;
pub use runtime::process::processor_seconds;
pub use runtime::submit::{LaterReply, SubmitResult, Ticket};
pub use runtime::{Activity, BeatStatus, Sample, SampleKind, WarningLimiter, Watch, round};
pub use settings::{NodeSettings, PeerAddresses};
pub use status::{DiskStatus, GroupStatus, LogStatus, Status, StoreStatus};
pub use usage::{
    HotKey, KeyAccess, KeyFingerprint, SlowEntry, SlowRequest, SlowStages, UserUse, call_key,
};

use base::error::shutting_down;
use base::rights::Operate;
use base::{
    BucketName, Call, ClusterCall, DirectoryCall, Error, FeatureLevel, GroupId, JoinToken,
    JoinTokenTerms, LogIndex, Principal, Read, Reason, Reply, Request, Result, RingDescription,
    TokenDigest,
};
use bucket_moves::BucketMoves;
use bytes::Bytes;
use cluster::ClusterAgent;
use flow::Caller;
use replica_host::{Checkpointer, Housekeeper, Lifecycle};
use replication::read::read_at_once;
use route::Router;
use shutdown::DropGuard;
use status_reader::StatusReader;
use std::sync::Arc;
use usage::Metering;

/// A running node. Cheap to clone. [`Node::stop`] ends it.
#[derive(Clone)]
pub struct Node {
    /// Path of requests.
    router: Arc<Router>,
    /// Cluster agent of this node.
    cluster: Arc<ClusterAgent>,
    moves: Arc<BucketMoves>,
    housekeeper: Arc<Housekeeper>,
    checkpointer: Arc<Checkpointer>,
    status: Arc<StatusReader>,
    lifecycle: Arc<Lifecycle>,
    /// Guard that ends a started node whose last handle is dropped without a stop.
    drop_guard: Option<Arc<DropGuard>>,
}

impl Node {
    /// Opens the data directory (makes it at first start), recovers, and serves.
    ///
    /// Errors name the remedy: `Corrupt` (file and offset), `NotSupported` (foreign format
    /// version), `TooMany` (the directory is locked by another process), `StoreFailed`.
    pub async fn start(settings: NodeSettings) -> Result<Node> {
        startup::start(settings, None).await
    }

    /// Takes a request without waiting: the front-end's hot path. `flow` belongs to one connection
    /// and makes its requests see each other's effects in order. What comes back is valid at once,
    /// once a ticket is decided, or later.
    pub fn submit(&self, flow: &mut Flow, request: Request) -> SubmitResult {
        self.router.submit_recorded(flow, request)
    }

    /// Begins a run of consistent gets of one connection; see [`GetRun`]. `None`: they are to be
    /// submitted one by one.
    pub fn begin_gets(&self, flow: &mut Flow, bucket: &BucketName) -> Option<GetRun<'_>> {
        self.router.begin_gets(flow, bucket)
    }

    /// Begins a run of sets of one connection; see [`SetRun`]. `None`: they are to be submitted one
    /// by one.
    pub fn begin_sets(&self, flow: &Flow, bucket: &BucketName) -> Option<SetRun> {
        self.router.begin_sets(flow, bucket)
    }

    /// Waits until everything up to the ticket is decided (and applied). An error means: the
    /// outcome of updates up to the ticket that were not yet known decided is unknown.
    pub async fn wait_decided(&self, ticket: Ticket) -> Result<()> {
        self.router.wait_applied(Some(ticket)).await
    }

    /// One request of a principal from beginning to end: `submit`, then wait.
    pub async fn handle(&self, principal: &Principal, request: Request) -> Result<Reply> {
        self.handle_metered(principal, request, Metering::Request).await
    }

    /// Continues an answer that has begun, as [`Node::handle`] does: the request counts against the
    /// quota of its user, but is not refused for it.
    pub async fn handle_next(&self, principal: &Principal, request: Request) -> Result<Reply> {
        self.handle_metered(principal, request, Metering::Continuation).await
    }

    async fn handle_metered(
        &self,
        principal: &Principal,
        request: Request,
        metering: Metering,
    ) -> Result<Reply> {
        let mut flow = Flow::metered(Caller::of(principal.clone()), metering);
        let submitted = self.router.submit_recorded(&mut flow, request);
        self.router.wait_reply(submitted).await
    }

    /// Returns everything that a health check or a dashboard needs.
    pub fn status(&self) -> Status {
        self.status.read()
    }

    /// Returns the group of a bucket and its master, as this node knows them; needs no quorum.
    pub fn placement(&self, bucket: &BucketName) -> Result<BucketPlacement> {
        self.router.describe_placement(bucket)
    }

    /// Returns the name of the master of a bucket's group, if that is another node. A request sent
    /// there saves one hop.
    pub fn remote_master(&self, bucket: &BucketName) -> Option<String> {
        self.router.other_master(bucket)
    }

    /// Returns true if this node can tell the number of a bucket's keys at once: the bucket keeps
    /// counts, and its count here is complete.
    pub fn has_count(&self, bucket: &BucketName) -> bool {
        let found = self.router.locator.bucket(bucket);
        found.is_ok_and(|(bucket, group)| {
            matches!(read_at_once(&group, &bucket, &Read::KeyCount), Some(Ok(_)))
        })
    }

    /// Returns the feature level in force, as this node knows it.
    pub fn feature_level(&self) -> FeatureLevel {
        self.router.locator.catalog.cluster().level
    }

    /// Returns the group of a bucket, the group that it moves to, and the progress.
    pub async fn move_status(&self, bucket: &BucketName) -> Result<MoveStatus> {
        self.moves.move_status(bucket).await
    }

    /// Returns members and placement, as this node knows them; needs no quorum.
    pub fn cluster(&self) -> ClusterStatus {
        self.status.view.status()
    }

    /// Returns members and placement, with details that only the groups' masters know, if they
    /// answer within a second.
    pub async fn overview(&self) -> ClusterStatus {
        self.status.view.overview().await
    }

    /// Returns the ring of available buckets, as this node knows it; needs no quorum. `None`: there
    /// is none.
    pub fn ring(&self) -> Option<RingDescription> {
        let ring = self.router.available.schema.ring();
        ring.map(|ring| metadata::describe_ring(&ring))
    }

    /// Makes another voter master of a group that this node is master of, once it has everything.
    pub fn hand_over(&self, group: GroupId, to: &str) -> Result<()> {
        self.cluster.calls.hand_over(group, to)
    }

    /// Makes another voter master of a group, whichever node is its master: that node is asked to.
    pub async fn transfer(&self, group: GroupId, to: &str) -> Result<()> {
        self.cluster.calls.transfer(group, to).await
    }

    /// Returns an entry of a group's log that this node knows to be decided, for a member that lost
    /// it; needs no quorum. `token`: the join token of a caller who is no operator; that is
    /// recorded.
    ///
    /// Errors: `StaleReplica` (this node does not know it, or has it in its store only),
    /// `Forbidden`.
    pub async fn decided_value(
        &self,
        caller: &Principal,
        group: GroupId,
        index: LogIndex,
        token: Option<TokenDigest>,
    ) -> Result<Bytes> {
        let recorded = match &token {
            Some(digest) => {
                let checked = self.router.directory.check_join_token(digest);
                let act = Operate::ReadLogEntry;
                self.router.recorder.on_act_with_token(caller, act, checked)?
            }
            None => RecordedAct::UNRECORDED,
        };
        recorded.confirm().await?;
        let group = self.router.locator.groups.find(group);
        let value = match group {
            Ok(group) => {
                let read = move || group.decided_entry(index);
                let found = self.lifecycle.tasks.requests.run_blocking(read).await;
                let abnormal = || Error::new(Reason::StoreFailed, "the read ended abnormally");
                found.unwrap_or_else(|| Err(abnormal()))
            }
            Err(error) => Err(error),
        };
        recorded.finish(&value);
        value
    }

    /// Makes a join token, which admits nodes by these terms. It is returned here and nowhere else,
    /// with the terms in force; the cluster keeps its digest. A cluster of the first feature level
    /// knows only tokens for any number of nodes.
    pub async fn make_join_token(
        &self,
        principal: &Principal,
        terms: JoinTokenTerms,
    ) -> Result<(JoinToken, JoinTokenTerms)> {
        let has_uses = self.router.locator.catalog.cluster().level >= FeatureLevel::WITH_TOKEN_USES;
        let terms = JoinTokenTerms { uses: terms.uses.filter(|_| has_uses), ..terms };
        let token = JoinToken::from_secret(runtime::world::secret());
        let call = ClusterCall::AddToken { digest: token.digest(), terms };
        let call = Call::Directory(DirectoryCall::Cluster(call));
        self.handle(principal, Request { bucket: BucketName::default(), call, retry: None })
            .await?;
        let JoinTokenTerms { lifetime_ms, uses } = terms;
        tracing::info!(target: "node", lifetime_ms, uses, "a join token was created");
        Ok((token, terms))
    }

    /// Compares the replicas of a group, from the first row to the last, as soon as its master can,
    /// whichever node that is. Returns the number of the pass that will have done it; see
    /// [`ComparisonStatus`].
    pub async fn verify(&self, group: GroupId) -> Result<u64> {
        self.cluster.calls.verify(group).await
    }

    /// Gives mastership of a bucket's group to the nearest other voter, if this node has it, and
    /// waits until that one has it.
    pub async fn drop_master(&self, bucket: &BucketName) -> Result<()> {
        self.router.drop_master(bucket).await
    }

    /// All metrics as samples, for `/metrics` and `INFO`.
    pub fn samples(&self) -> Vec<Sample> {
        let mut samples = self.status.samples();
        samples.extend(self.router.access.samples());
        samples
    }

    /// Returns true if the node serves (`/ready`): recovered, every group's master known and
    /// connected, the ring of available buckets known and most of its owners reached (or searched
    /// for long enough after the start), not stopping, not failed. A full disk leaves it ready:
    /// reads and deletes continue, and only deletes can free space.
    pub fn ready(&self) -> bool {
        self.readiness().is_ok()
    }

    /// Returns the reason for which the node is not ready. `Ok`: it is.
    pub fn readiness(&self) -> Result<()> {
        if let Some(error) = self.lifecycle.failure() {
            let text = format!("the node has failed and stops: {}", error.text());
            return Err(Error::new(error.reason, text));
        }
        if self.lifecycle.is_stopping() {
            return Err(shutting_down());
        }
        self.status.readiness.check_masters_reached()?;
        self.status.readiness.check_ring_known()?;
        self.router.available.check_warmup()
    }

    /// Resolves when the node has stopped by itself: the reason (a failed sync, say). The process
    /// must exit then.
    pub async fn wait_failed(&self) -> Error {
        self.lifecycle.failed().await
    }

    /// Hands over the groups that this node leads, as far as others can lead them: before a stop,
    /// while its clients are told to leave. Taken updates are decided and answered; new ones are
    /// answered by the new masters. Resolves when those are known, or soon after. The node leads
    /// nothing any more.
    pub async fn step_down(&self) {
        shutdown::step_down(self).await;
    }

    /// Stops taking requests, finishes those in flight, flushes the store, closes the log.
    pub async fn stop(&self) -> Result<()> {
        shutdown::stop(self).await
    }

    /// An online checkpoint of the whole data directory into `target` (which must not exist): hard
    /// links for tables, a new log. `target` is a data directory that `serve --data` can open; it
    /// holds every update answered before.
    pub async fn checkpoint(&self, target: std::path::PathBuf) -> Result<()> {
        let checkpointer = self.checkpointer.clone();
        let make = move || checkpointer.checkpoint(&target);
        let result = self.lifecycle.tasks.requests.run_blocking(make).await;
        result.unwrap_or_else(|| Err(shutting_down()))
    }
}

#[cfg(test)]
mod tests;
