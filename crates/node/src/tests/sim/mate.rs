//! One node of the simulation: its disk and store outlive its lives.

use super::chance::Chance;
use super::remains;
use super::rot::Rot;
use super::wire::{Outbox, peers};
use crate::consistent::comparison::Comparisons;
use crate::consistent::group::{Group, Shared};
use crate::consistent::snapshot::{Pace, Snapshots};
use crate::housekeeping::Bell;
use crate::keeper::{Done, Job, Keeper, record, store_error};
use crate::metrics::Metrics;
use crate::recovery::{DEFAULT_GROUP, DIRECTORY, Mended, Terms, replay, terms};
use crate::world::SIMULATED;
use base::{GroupId, LogIndex, NodeId, Placement, Result};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use store::{
    Ahead, Disk, Honesty, Log, LogSettings, MemoryDisk, MemoryTrees, Position, Replay, Trees,
};

/// The most groups whose members share a node's log, store and disk.
pub(super) const GROUPS_MAX: u64 = 3;
/// Length of the lease, milliseconds.
pub(super) const LEASE_MS: u64 = 600;

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
    /// It keeps no rows.
    pub witness: bool,
    /// Its log can't be read everywhere.
    pub rot: Option<Rot>,
}

/// What dies with the node.
pub(super) struct Life {
    pub number: u64,
    pub seats: Vec<Seat>,
    pub keeper: Arc<Keeper>,
    pub outbox: Outbox,
    pub log: Log,
    /// What the disk is busy with.
    pub writing: Option<Writing>,
    /// When the log says again what must not be forgotten of it, microseconds.
    pub states_at: u64,
}

/// What is being written, and what of it is in the log's buffer or behind it.
#[derive(Default)]
pub(super) struct Writing {
    pub jobs: VecDeque<Job>,
    pub done: Vec<Done>,
    pub sync: bool,
    /// What others build on by name is among it.
    pub stated: bool,
    /// From where on the log is needed once this is written.
    pub collapse: Option<Position>,
}

impl Writing {
    pub fn of(jobs: Vec<Job>) -> Writing {
        Writing { jobs: jobs.into(), ..Writing::default() }
    }
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
        let jobs = self.writing.take().into_iter().flat_map(|writing| writing.jobs);
        for job in jobs {
            if chance.often(300) || self.log.append(&record(&job)).is_err() {
                break;
            }
        }
        if chance.often(500) {
            let _ = self.log.commit(synced(chance)); // Its end comes in any case.
        }
    }

    /// Its part in the group that is the first, the second, ...
    pub fn group(&self, which: usize) -> &Arc<Group> {
        &self.seats[which].group
    }

    pub fn leads(&self, which: usize) -> bool {
        self.group(which).master.load(Ordering::Acquire)
    }

    pub fn applied(&self, which: usize) -> LogIndex {
        self.group(which).applied.index()
    }
}

/// The number of the group that is the first, the second, ...
pub(super) fn group_id(which: usize) -> GroupId {
    GroupId(DEFAULT_GROUP.0 + which as u32)
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
            witness: false,
            rot: None,
        }
    }

    /// Sets this thread's clock to what the node's own says, microseconds of the world being `now`.
    pub fn look_at_the_clock(&self, now: u64) {
        let (ahead, rate) = self.clock;
        let own = u128::from(ahead) + u128::from(now) * u128::from(rate) / 1_000_000;
        SIMULATED.set(Some(own as u64 * 1_000));
    }

    /// What is the same for all its groups.
    pub fn terms(&self) -> Terms {
        let mut terms = terms(self.node, LEASE_MS, None).expect("terms");
        for placement in &self.placements {
            terms.add(placement).expect("founders");
        }
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
        let (found, _) = replay(&log, records, &*self.trees, &self.terms(), &Mended::default())?;
        let (keeper, outbox, all) = (Keeper::new(), Outbox::default(), OnceLock::new());
        let _ = all.set(peers(outbox.clone()));
        keeper.publish(&log);
        let metrics = Arc::<Metrics>::default();
        let snapshots =
            Snapshots::new(self.trees.clone(), (metrics.clone(), Arc::default()), Pace::default());
        let shared = Shared {
            node: self.node,
            trees: self.trees.clone(),
            keeper: keeper.clone(),
            reader: log.reader(),
            metrics,
            snapshots,
            comparisons: Comparisons::new(self.trees.clone()),
            bell: Arc::new(Bell::default()),
            peers: Arc::new(all),
            memory_bytes_max: 640 << 20,
            lease_ms: LEASE_MS,
            // Little, so that there are rests: values are small here.
            catch_up_bytes_per_second: 10_000,
            witness: self.witness,
            kept_bytes_max: 1 << 20,
            forced_master: Arc::default(),
        };
        let simulated = found.into_iter().filter(|group| group.id != DIRECTORY);
        let seats = simulated.map(|found| {
            let group = Group::new(found, shared.clone());
            group.begin();
            Seat { group: Arc::new(group), fetches: false }
        });
        let seats: Vec<_> = seats.collect();
        seats.iter().for_each(|seat: &Seat| remains::watch("a group", &seat.group));
        assert_eq!(seats.len(), self.placements.len(), "every group is found again");
        self.life = Some(Life { number, seats, keeper, outbox, log, writing: None, states_at: 0 });
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

    /// Makes the store durable as far as it is applied, as the housekeeper does; what the disk is
    /// busy with then lets the log become shorter. `keep` is what others may still want to be sent,
    /// group by group. Gives whether it could be done now.
    pub fn flush(&mut self, keep: &[LogIndex]) -> Result<bool> {
        let Some(life) = self.life.as_mut().filter(|life| life.writing.is_none()) else {
            return Ok(false);
        };
        let end = life.log.end();
        let wanted = life.seats.iter().zip(keep).flat_map(|(Seat { group, .. }, keep)| {
            [group.log_needed_from(), group.state().values.runs.find(keep.next())]
        });
        let keep_from = wanted.flatten().min().unwrap_or(end).min(end);
        self.trees.rotate().expect("memory");
        self.trees.flush().expect("memory");
        for Seat { group, .. } in &life.seats {
            let (copied, _handed) = std::sync::mpsc::sync_channel(1);
            group.state().statement.copy = Some(copied);
            group.turn(false)?;
        }
        let (jobs, _) = life.keeper.take();
        life.writing = Some(Writing { collapse: Some(keep_from), ..Writing::of(jobs) });
        Ok(true)
    }
}
