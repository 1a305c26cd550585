//! One node of the simulation: its disk and store outlive its lives.

use super::chance::Chance;
use super::remains;
use super::rot::Rot;
use super::wire::{Outbox, peers};
use crate::flush::{Flush, FlushStep};
use crate::recovery::{RepairedEntries, Terms, replay, terms};
use base::{Error, GroupId, LogIndex, NodeId, Placement, Result};
use replication::comparison::Comparisons;
use replication::group::{Group, GroupLimits, Shared};
use replication::snapshot::{Pace, Snapshots};
use runtime::TaskScope;
use runtime::log_writer::{
    self, AppendSink, LogWriter, LogWriterHandle, LoggedRecord, record, store_error,
};
use runtime::maintenance_signal::MaintenanceSignal;
use runtime::metrics::Metrics;
use runtime::world;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::{
    Ahead, Disk, Honesty, Log, LogSettings, MemoryDisk, MemoryTrees, Replay, StoreError, Trees,
};

/// The most groups whose members share a node's log, store and disk.
pub(super) const GROUPS_MAX: u64 = 3;
/// Length of the lease, milliseconds.
pub(super) const LEASE_MS: u64 = 600;
/// What need not be synced is not, unless something else is: as histories were.
const NEVER: Duration = Duration::from_secs(1 << 30);

pub(super) struct Mate {
    pub node: NodeId,
    /// The groups, and whom each began with.
    pub placements: Vec<Placement>,
    pub disk: MemoryDisk,
    pub trees: Arc<MemoryTrees>,
    pub life: Option<Life>,
    /// Its clock is ahead by so much, and runs so fast, in millionths of the world's.
    pub clock: (u64, u64),
    /// It does nothing before this time.
    pub sleeps_until: u64,
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
pub(super) struct Life {
    pub number: u64,
    pub seats: Vec<Seat>,
    pub log_writer: Arc<LogWriterHandle>,
    pub outbox: Outbox,
    pub writer: LogWriter,
    /// The round of maintenance that is under way.
    pub flush: Option<Flush>,
    /// When the log says again what must not be forgotten of it, microseconds.
    pub states_at: u64,
}

/// A node's part in one group.
pub(super) struct Seat {
    pub group: Arc<Group>,
    /// A snapshot is on its way.
    pub fetches: bool,
}

impl Life {
    /// Whatever ends the process finds it writing: part of that is in the log, perhaps synced.
    pub(super) fn is_cut_short(
        &mut self,
        chance: &mut Chance,
        synced: impl FnOnce(&mut Chance) -> bool,
    ) {
        for job in self.writer.take_unwritten() {
            if chance.often(300) || self.writer.log_mut().append(&record(&job)).is_err() {
                break;
            }
        }
        if chance.often(500) {
            let _ = self.writer.log_mut().commit(synced(chance)); // Its end comes in any case.
        }
    }

    /// The log writer's next step.
    pub fn write(&mut self) -> std::result::Result<log_writer::WriterStep, StoreError> {
        self.writer.step(&LogCompletions(&self.seats))
    }

    /// A round of maintenance begins. `keep` is what others may still want to be sent, group by
    /// group; none: nothing is kept for them.
    pub fn begin_flush(&mut self, trees: Arc<dyn Trees>, keep: Option<&[LogIndex]>) {
        let end = self.log_writer.end();
        let wanted = self.seats.iter().zip(keep.unwrap_or_default());
        let wanted = wanted.filter_map(|(Seat { group, .. }, keep)| {
            group.state().entries.positions.find(keep.next())
        });
        let spare_bytes = end.0 - wanted.min().unwrap_or(end).min(end).0;
        let groups = self.seats.iter().map(|seat| seat.group.clone()).collect();
        self.flush = Some(Flush::new(trees, self.log_writer.clone(), groups, None, spare_bytes));
    }

    /// Its part in the group that is the first, the second, ...
    pub fn group(&self, which: usize) -> &Arc<Group> {
        &self.seats[which].group
    }

    pub fn leads(&self, which: usize) -> bool {
        self.group(which).leadership.is_master()
    }

    pub fn applied(&self, which: usize) -> LogIndex {
        self.group(which).applied.index()
    }
}

/// Brings the log writer's news to the groups.
struct LogCompletions<'a>(&'a [Seat]);

impl AppendSink for LogCompletions<'_> {
    fn done(&self, done: &[LoggedRecord]) {
        for done in done {
            let seat = self.0.iter().find(|seat| seat.group.id == done.group);
            let Some(seat) = seat else { continue }; // The directory's statements.
            seat.group.driver.report(&[*done]);
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

impl Mate {
    pub fn new(node: NodeId, placements: Vec<Placement>, clock: (u64, u64)) -> Mate {
        let trees = Arc::new(MemoryTrees::new(1 << 20));
        remains::watch("a store", &trees);
        Mate {
            node,
            placements,
            disk: MemoryDisk::new(Honesty::Honest),
            trees,
            life: None,
            clock,
            sleeps_until: 0,
            next_turn: u64::MAX,
            slow_disk: false,
            hangs_until: 0,
            interval: NEVER,
            witness: false,
            lease_reads: true,
            rot: None,
        }
    }

    /// Sets this thread's clock to what the node's own says, microseconds of the world being `now`.
    pub fn look_at_the_clock(&self, now: u64) {
        let (ahead, rate) = self.clock;
        let own = u128::from(ahead) + u128::from(now) * u128::from(rate) / 1_000_000;
        world::set_time(Some(own as u64 * 1_000));
    }

    /// What is the same for all its groups.
    pub fn terms(&self) -> Terms {
        let mut terms = terms(self.node, LEASE_MS, None).expect("terms");
        for placement in &self.placements {
            terms.add(placement).expect("founders");
        }
        terms.lease.reads = self.lease_reads;
        terms.witness = self.witness;
        terms
    }

    pub fn log_settings(&self) -> LogSettings {
        LogSettings { segment_bytes: 16 << 10, id: self.node.0, ahead: Ahead::Inline }
    }

    pub fn open_past_damage(&self) -> Result<(Log, Replay)> {
        let disk = Arc::new(self.disk.clone());
        Log::open_past_damage(disk, self.log_settings()).map_err(store_error)
    }

    /// Begins a life, from what the disk and the store hold.
    pub fn start(&mut self, number: u64) -> Result<()> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let (log, records) = Log::open(disk, self.log_settings()).map_err(store_error)?;
        let (found, _) =
            replay(&log, records, &*self.trees, &self.terms(), &RepairedEntries::default())?;
        let (log_writer, outbox, all) =
            (LogWriterHandle::new(), Outbox::default(), OnceLock::new());
        let _ = all.set(peers(outbox.clone()));
        let metrics = Arc::<Metrics>::default();
        let reader = log.reader();
        let writer = LogWriter::new(log, log_writer.clone(), metrics.clone(), self.interval);
        let (around, tasks) = ((metrics.clone(), Arc::default()), TaskScope::new("simulated"));
        let trees = self.trees.clone();
        let snapshots = Snapshots::new(trees, around, Pace::default(), tasks.clone());
        let shared = Shared {
            node: self.node,
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
        let seats = simulated.map(|found| {
            let group = Group::new(found, shared.clone());
            group.begin();
            Seat { group: Arc::new(group), fetches: false }
        });
        let seats: Vec<_> = seats.collect();
        seats.iter().for_each(|seat: &Seat| remains::watch("a group", &seat.group));
        assert_eq!(seats.len(), self.placements.len(), "every group is found again");
        self.life =
            Some(Life { number, seats, log_writer, outbox, writer, flush: None, states_at: 0 });
        Ok(())
    }

    /// The power goes: what was being written is there in part, what was not synced perhaps.
    pub fn crash(&mut self, chance: &mut Chance) {
        let Some(mut life) = self.life.take() else { return };
        life.is_cut_short(chance, |_| false);
        drop(life);
        self.power_fails(chance);
        self.ends();
    }

    /// The process is no more, and with it all that the store had in memory.
    pub(super) fn ends(&mut self) {
        self.life = None;
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
        let Some(life) = self.life.as_mut().filter(|life| life.writer.rests()) else {
            return Ok(false);
        };
        life.begin_flush(self.trees.clone(), Some(keep));
        while let Some(flush) = &mut life.flush {
            match flush.step()? {
                FlushStep::Went => {}
                FlushStep::Waits => {
                    for Seat { group, .. } in &life.seats {
                        group.turn(false)?;
                    }
                }
                FlushStep::Ended => life.flush = None,
            }
        }
        Ok(true)
    }
}
