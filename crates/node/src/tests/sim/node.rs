//! One node of the simulation: its disk and store outlive its lives.

use super::process::{NEVER, cut_short};
use super::rot::Rot;
use super::transport::{Outbox, outbox_peers};
use crate::flush::{Flush, FlushStep};
use crate::recovery::{RepairedEntries, Terms, replay, terms};
use base::{Error, GroupId, LogIndex, NodeId, Placement, Result};
use replication::comparison::Comparisons;
use replication::group::{Group, GroupLimits, Shared};
use replication::snapshot::{Pace, Snapshots};
use runtime::TaskScope;
use runtime::log_writer::{
    self, AppendSink, LogWriter, LogWriterHandle, LoggedRecord, store_error,
};
use runtime::maintenance_signal::MaintenanceSignal;
use runtime::metrics::Metrics;
use sim::{Chance, SimClock};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::{
    Ahead, Disk, Honesty, Log, LogSettings, MemoryDisk, MemoryTrees, Replay, StoreError, Trees,
};

/// The most groups whose members share a node's log, store and disk.
pub(super) const GROUPS_MAX: u64 = 3;
/// Length of the lease, milliseconds.
pub(super) const LEASE_MS: u64 = 600;

pub(super) struct SimNode {
    pub id: NodeId,
    /// The groups, and whom each began with.
    pub placements: Vec<Placement>,
    pub disk: MemoryDisk,
    pub trees: Arc<MemoryTrees>,
    pub process: Option<GroupsProcess>,
    pub clock: SimClock,
    /// When its next turn is due.
    pub next_turn: u64,
    pub slow_disk: bool,
    /// No call of its disk returns before this time.
    pub hangs_until: u64,
    /// How long a record that need not be synced waits for a sync.
    pub interval: Duration,
    /// It keeps no rows.
    pub witness: bool,
    /// As master it answers reads under its lease.
    pub lease_reads: bool,
    /// Its log can't be read everywhere.
    pub rot: Option<Rot>,
}

/// What dies with the node.
pub(super) struct GroupsProcess {
    pub number: u64,
    pub replicas: Vec<GroupReplica>,
    pub log_writer: Arc<LogWriterHandle>,
    pub outbox: Outbox,
    pub writer: LogWriter,
    /// The round of maintenance that is under way.
    pub flush: Option<Flush>,
    /// When the log says again what must not be forgotten of it, microseconds.
    pub states_at: u64,
}

/// A node's part in one group.
pub(super) struct GroupReplica {
    pub group: Arc<Group>,
    /// A snapshot is on its way.
    pub fetches: bool,
}

impl GroupsProcess {
    /// The log writer's next step.
    pub fn write(&mut self) -> std::result::Result<log_writer::WriterStep, StoreError> {
        self.writer.step(&LogCompletions(&self.replicas))
    }

    /// A round of maintenance begins. `keep` is what others may still want to be sent, group by
    /// group; none: nothing is kept for them.
    pub fn begin_flush(&mut self, trees: Arc<dyn Trees>, keep: Option<&[LogIndex]>) {
        let end = self.log_writer.end();
        let wanted = self.replicas.iter().zip(keep.unwrap_or_default());
        let wanted = wanted.filter_map(|(GroupReplica { group, .. }, keep)| {
            group.state().entries.positions.find(keep.next())
        });
        let spare_bytes = end.0 - wanted.min().unwrap_or(end).min(end).0;
        let groups = self.replicas.iter().map(|replica| replica.group.clone()).collect();
        self.flush = Some(Flush::new(trees, self.log_writer.clone(), groups, None, spare_bytes));
    }

    /// Its part in the group that is the first, the second, ...
    pub fn group(&self, which: usize) -> &Arc<Group> {
        &self.replicas[which].group
    }

    pub fn leads(&self, which: usize) -> bool {
        self.group(which).leadership.is_master()
    }

    pub fn applied(&self, which: usize) -> LogIndex {
        self.group(which).applied.index()
    }
}

/// Brings the log writer's news to the groups.
struct LogCompletions<'a>(&'a [GroupReplica]);

impl AppendSink for LogCompletions<'_> {
    fn done(&self, done: &[LoggedRecord]) {
        for done in done {
            let replica = self.0.iter().find(|replica| replica.group.id == done.group);
            let Some(replica) = replica else { continue }; // The directory's statements.
            replica.group.driver.report(&[*done]);
        }
    }

    fn failed(&self, error: Error) {
        panic!("only the log writer's thread says so: {error}");
    }
}

/// The number of the group that is the first, the second, ...
pub(super) fn group_id(which: usize) -> GroupId {
    GroupId(GroupId::DEFAULT.0 + which as u32)
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

    /// What is the same for all its groups.
    pub fn terms(&self) -> Terms {
        let mut terms = terms(self.id, LEASE_MS, None).expect("terms");
        for placement in &self.placements {
            terms.add(placement).expect("founders");
        }
        terms.lease.reads = self.lease_reads;
        terms.witness = self.witness;
        terms
    }

    pub fn log_settings(&self) -> LogSettings {
        LogSettings { segment_bytes: 16 << 10, id: self.id.0, ahead: Ahead::Inline }
    }

    pub fn open_past_damage(&self) -> Result<(Log, Replay)> {
        let disk = Arc::new(self.disk.clone());
        Log::open_past_damage(disk, self.log_settings()).map_err(store_error)
    }

    /// Begins a process, from what the disk and the store hold.
    pub fn start(&mut self, number: u64) -> Result<()> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let (log, records) = Log::open(disk, self.log_settings()).map_err(store_error)?;
        let (found, _) =
            replay(&log, records, &*self.trees, &self.terms(), &RepairedEntries::default())?;
        let (log_writer, outbox, all) =
            (LogWriterHandle::new(), Outbox::default(), OnceLock::new());
        let _ = all.set(outbox_peers(outbox.clone()));
        let metrics = Arc::<Metrics>::default();
        let reader = log.reader();
        let writer = LogWriter::new(log, log_writer.clone(), metrics.clone(), self.interval);
        let (around, tasks) = ((metrics.clone(), Arc::default()), TaskScope::new("simulated"));
        let trees = self.trees.clone();
        let snapshots = Snapshots::new(trees, around, Pace::default(), tasks.clone());
        let shared = Shared {
            node: self.id,
            trees: self.trees.clone(),
            log_writer: log_writer.clone(),
            reader,
            metrics,
            snapshots,
            comparisons: Comparisons::new(self.trees.clone(), tasks.clone()),
            maintenance: Arc::new(MaintenanceSignal::default()),
            peers: Arc::new(all),
            limits: GroupLimits {
                memory_bytes_max: 640 << 20,
                lease_ms: LEASE_MS,
                // Little, so that there are rests: values are small here.
                catch_up_bytes_per_second: 10_000,
                kept_bytes_max: 1 << 20,
            },
            tasks,
            witness: self.witness,
            forced_master: Arc::default(),
        };
        let simulated = found.into_iter().filter(|group| group.id != GroupId::DIRECTORY);
        let replicas = simulated.map(|found| {
            let group = Group::new(found, shared.clone());
            group.begin();
            GroupReplica { group: Arc::new(group), fetches: false }
        });
        let replicas: Vec<_> = replicas.collect();
        replicas.iter().for_each(|replica: &GroupReplica| sim::watch("a group", &replica.group));
        assert_eq!(replicas.len(), self.placements.len(), "every group is found again");
        self.process = Some(GroupsProcess {
            number,
            replicas,
            log_writer,
            outbox,
            writer,
            flush: None,
            states_at: 0,
        });
        Ok(())
    }

    /// The power goes: what was being written is there in part, what was not synced perhaps.
    pub fn crash(&mut self, chance: &mut Chance) {
        let Some(mut process) = self.process.take() else { return };
        cut_short(&mut process.writer, chance, |_| false);
        drop(process);
        self.power_fails(chance);
        self.ends();
    }

    /// The process is no more, and with it all that the store had in memory.
    pub(super) fn ends(&mut self) {
        self.process = None;
        self.trees.crash().expect("memory");
        self.next_turn = u64::MAX;
    }

    /// What was not synced is there or not.
    pub fn power_fails(&mut self, chance: &mut Chance) {
        self.disk = self.disk.crash(&mut |choices| chance.below(choices as u64) as usize);
    }

    /// Makes the store durable as far as it is applied, in one go, while nothing is written. Gives
    /// whether it could be done now.
    pub fn flush(&mut self, keep: &[LogIndex]) -> Result<bool> {
        let Some(process) = self.process.as_mut().filter(|process| process.writer.rests()) else {
            return Ok(false);
        };
        process.begin_flush(self.trees.clone(), Some(keep));
        while let Some(flush) = &mut process.flush {
            match flush.step()? {
                FlushStep::Went => {}
                FlushStep::Waits => {
                    for GroupReplica { group, .. } in &process.replicas {
                        group.turn(false)?;
                    }
                }
                FlushStep::Ended => process.flush = None,
            }
        }
        Ok(true)
    }
}
