//! Simulated node of consistent groups: its disk and trees outlive its incarnations.

use super::process::{NEVER, cut_short};
use super::rot::Rot;
use super::transport::{Outbox, outbox_peers};
use base::{Error, GroupId, LogIndex, NodeId, Placement, Result};
use replica_host::Groups;
use replica_host::flush::{Flush, FlushStep};
use replica_host::recovery::{RepairedEntries, ReplayContext, context, replay};
use replica_state::comparison::Comparisons;
use replica_state::snapshot::{Snapshots, TransferTimeouts};
use replication::group::{Group, GroupLimits, Shared};
use replication::installation::Installation;
use runtime::TaskScope;
use runtime::log_writer::{
    self, AppendCompletion, AppendSink, LogWriter, LogWriterHandle, store_error,
};
use runtime::metrics::Metrics;
use runtime::write_pacer::WritePacer;
use sim::{Chance, SimClock};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::{
    Disk, Honesty, Log, LogSettings, MemoryDisk, MemoryTrees, Replay, SpareWorker, StoreError,
    Trees,
};

/// Most groups whose members share a node's log, trees and disk.
pub(super) const GROUPS_MAX: u64 = 3;
/// Length of the lease, in milliseconds.
pub(super) const LEASE_MS: u64 = 600;

pub(super) struct SimNode {
    pub id: NodeId,
    /// Groups, each with its founders.
    pub placements: Vec<Placement>,
    pub disk: MemoryDisk,
    pub trees: Arc<MemoryTrees>,
    pub process: Option<GroupsProcess>,
    pub clock: SimClock,
    /// Time of its next turn, in microseconds. `u64::MAX`: none is due.
    pub next_turn: u64,
    pub slow_disk: bool,
    /// Time before which none of its disk calls returns, in microseconds.
    pub hangs_until: u64,
    /// Longest time until a record that need not be synced is synced.
    pub interval: Duration,
    /// True if it keeps no rows.
    pub witness: bool,
    /// True if it answers reads under its lease as master.
    pub lease_reads: bool,
    /// Damage of its log. `None`: the log is whole.
    pub rot: Option<Rot>,
}

/// Process of a node: state that is lost in a crash.
pub(super) struct GroupsProcess {
    pub number: u64,
    pub replicas: Vec<GroupReplica>,
    /// Installations of snapshots by the group's number from 0, each with the index that was
    /// applied when it began.
    pub installations: BTreeMap<usize, (LogIndex, Installation)>,
    pub log_writer: Arc<LogWriterHandle>,
    pub outbox: Outbox,
    pub writer: LogWriter,
    /// Round of maintenance in progress.
    pub flush: Option<Flush>,
    /// Time at which the log repeats the groups' statements, in microseconds.
    pub head_due_us: u64,
}

/// Replica of one group.
pub(super) struct GroupReplica {
    pub group: Arc<Group>,
    /// True if a snapshot is being fetched.
    pub is_fetching: bool,
}

impl GroupsProcess {
    /// Takes the log writer's next step.
    pub fn write(&mut self) -> std::result::Result<log_writer::WriterStep, StoreError> {
        self.writer.step(&LogCompletions(&self.replicas))
    }

    /// Starts a round of maintenance. `keep`: for each group, the index behind which members may
    /// still ask for entries. `None`: no entries are kept for them.
    pub fn begin_flush(&mut self, trees: Arc<dyn Trees>, keep: Option<&[LogIndex]>) {
        let end = self.log_writer.end();
        let expected = self.replicas.iter().zip(keep.unwrap_or_default());
        let expected = expected.filter_map(|(GroupReplica { group, .. }, keep)| {
            group.state().entries.positions.find(keep.next())
        });
        let retained_bytes = end.0 - expected.min().unwrap_or(end).min(end).0;
        let groups = self.replicas.iter().map(|replica| replica.group.clone()).collect();
        let groups = Arc::new(Groups::new(groups));
        self.flush = Some(Flush::new(trees, self.log_writer.clone(), groups, None, retained_bytes));
    }

    /// Returns its replica of a group, by the group's number from 0.
    pub fn group(&self, nth: usize) -> &Arc<Group> {
        &self.replicas[nth].group
    }

    pub fn leads(&self, nth: usize) -> bool {
        self.group(nth).leadership.is_master()
    }

    pub fn applied(&self, nth: usize) -> LogIndex {
        self.group(nth).applied.index()
    }
}

/// Reports the log writer's completions to the groups.
struct LogCompletions<'a>(&'a [GroupReplica]);

impl AppendSink for LogCompletions<'_> {
    fn on_completions(&self, done: &[AppendCompletion]) {
        for done in done {
            let replica = self.0.iter().find(|replica| replica.group.id == done.group);
            let Some(replica) = replica else { continue }; // A statement of the directory.
            replica.group.driver.report(&[*done]);
        }
    }

    fn on_log_failure(&self, error: Error) {
        panic!("only the log writer's thread says so: {error}");
    }
}

/// Returns the id of a group, by its number from 0.
pub(super) fn group_id(nth: usize) -> GroupId {
    GroupId(GroupId::DEFAULT.0 + nth as u32)
}

impl SimNode {
    pub fn new(id: NodeId, placements: Vec<Placement>, clock: SimClock) -> SimNode {
        let trees = Arc::new(MemoryTrees::new(1 << 20));
        sim::watch("a store", &trees);
        SimNode {
            id,
            placements,
            disk: MemoryDisk::new(Honesty::Honest),
            trees,
            process: None,
            clock,
            next_turn: u64::MAX,
            slow_disk: false,
            hangs_until: 0,
            interval: NEVER,
            witness: false,
            lease_reads: true,
            rot: None,
        }
    }

    /// Returns the settings that all its groups share, with their placements.
    pub fn context(&self) -> ReplayContext {
        let mut context = context(self.id, LEASE_MS, None).expect("terms");
        for placement in &self.placements {
            context.add(placement).expect("founders");
        }
        context.lease.allows_reads = self.lease_reads;
        context.is_witness = self.witness;
        context
    }

    pub fn log_settings(&self) -> LogSettings {
        LogSettings {
            segment_bytes: 16 << 10,
            log_id: self.id.0,
            spare_worker: SpareWorker::Inline,
        }
    }

    pub fn open_past_damage(&self) -> Result<(Log, Replay)> {
        let disk = Arc::new(self.disk.clone());
        Log::open_past_damage(disk, self.log_settings()).map_err(store_error)
    }

    /// Starts a process from the contents of disk and trees.
    pub fn start(&mut self, number: u64) -> Result<()> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let (log, records) = Log::open(disk, self.log_settings()).map_err(store_error)?;
        let (found, _) =
            replay(&log, records, &*self.trees, &self.context(), &RepairedEntries::default())?;
        let (log_writer, outbox, all) =
            (LogWriterHandle::new(), Outbox::default(), OnceLock::new());
        let _ = all.set(outbox_peers(outbox.clone()));
        let metrics = Arc::<Metrics>::default();
        let reader = log.reader();
        let writer = LogWriter::new(log, log_writer.clone(), metrics.clone(), self.interval);
        let (around, tasks) =
            ((metrics.clone(), Arc::default(), Arc::default()), TaskScope::new("simulated"));
        let trees = self.trees.clone();
        let snapshots = Snapshots::new(trees, around, TransferTimeouts::default(), tasks.clone());
        let shared = Shared {
            node: self.id,
            trees: self.trees.clone(),
            log_writer: log_writer.clone(),
            reader,
            metrics,
            snapshots,
            comparisons: Comparisons::new(self.trees.clone(), tasks.clone()),
            pacer: Arc::new(WritePacer::new(self.trees.clone())),
            build_pacer: Arc::default(),
            peers: Arc::new(all),
            limits: GroupLimits {
                memory_bytes_max: 640 << 20,
                lease_ms: LEASE_MS,
                // A low rate, so that pauses occur: values are small here.
                catch_up_bytes_per_second: 10_000,
                kept_bytes_max: 1 << 20,
            },
            tasks,
            is_witness: self.witness,
            forced_master: Arc::default(),
        };
        let simulated = found.into_iter().filter(|group| group.id != GroupId::DIRECTORY);
        let replicas = simulated.map(|found| {
            let group = Group::new(found, shared.clone());
            group.begin();
            GroupReplica { group: Arc::new(group), is_fetching: false }
        });
        let replicas: Vec<_> = replicas.collect();
        replicas.iter().for_each(|replica: &GroupReplica| sim::watch("a group", &replica.group));
        assert_eq!(replicas.len(), self.placements.len(), "every group is found again");
        self.process = Some(GroupsProcess {
            number,
            replicas,
            installations: BTreeMap::new(),
            log_writer,
            outbox,
            writer,
            flush: None,
            head_due_us: 0,
        });
        Ok(())
    }

    /// Crashes the node: part of the write in progress is on disk, and unsynced records may be.
    pub fn crash(&mut self, chance: &mut Chance) {
        let Some(mut process) = self.process.take() else { return };
        cut_short(&mut process.writer, chance, |_| false);
        drop(process);
        self.lose_unsynced(chance);
        self.ends();
    }

    /// Ends the process, and with it all unflushed rows of the trees.
    pub(super) fn ends(&mut self) {
        self.process = None;
        self.trees.crash().expect("memory");
        self.next_turn = u64::MAX;
    }

    /// Loses power: unsynced writes may survive or not.
    pub fn lose_unsynced(&mut self, chance: &mut Chance) {
        self.disk = self.disk.crash(&mut |choices| chance.below(choices as u64) as usize);
    }

    /// Makes the applied rows durable in one go. Returns false if a write is in progress, which
    /// prevents that.
    pub fn flush(&mut self, keep: &[LogIndex]) -> Result<bool> {
        let Some(process) =
            self.process.as_mut().filter(|process| process.writer.is_between_rounds())
        else {
            return Ok(false);
        };
        process.begin_flush(self.trees.clone(), Some(keep));
        while let Some(flush) = &mut process.flush {
            match flush.step()? {
                FlushStep::Progressed => {}
                FlushStep::Blocked => {
                    for GroupReplica { group, .. } in &process.replicas {
                        group.turn(false)?;
                    }
                }
                FlushStep::Finished => process.flush = None,
            }
        }
        Ok(true)
    }
}
