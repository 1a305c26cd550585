//! Installations of snapshots in steps: drivers take turns between any two of them, logs are
//! truncated there, and processes end.

use super::flavours::{FROZEN, Flavour, lived};
use super::mutants::check;
use super::node::{GroupReplica, group_id};
use super::snapshots::Fetcher;
use super::world::{Event, World};
use base::{LogIndex, Result};
use replica_state::layout::{Mark, mark_key};
use replication::installation::{InstallOutcome, InstallStep};
use runtime::mutants::Mutant;
use sim::{Counts, Suite};
use std::time::Duration;
use store::Trees;

/// Time until the next step of an installation, in microseconds: up to two leases.
const STEP_US: (u64, u64) = (2_000, 1_200_000);
/// Interval between two looks at an installation that is awaited, in microseconds: less than the
/// time until its first step.
const LOOK_US: u64 = 1_000;
/// Time limit of everything that is awaited in a quiet history, in microseconds.
const PATIENCE_US: u64 = 60_000_000;
/// Time for which a master has no other voter than the one that installs, in microseconds.
const ALONE_US: u64 = 6_000_000;
/// Number of snapshots of which one is installed.
const ATTEMPTS_MAX: usize = 5;
/// Number of quiet histories, and of the seeds among which they are.
const HISTORIES: usize = 3;
const SEEDS: u64 = 200;

/// Installation whose store has switched. It does not end before [`World::release`].
pub(super) struct HeldInstallation {
    by: Fetcher,
    /// Index that was applied before.
    pub applied: LogIndex,
    /// Index of the snapshot.
    pub installed: LogIndex,
}

/// Nodes of a quiet history.
#[derive(Clone, Copy)]
pub(super) struct Roles {
    pub master: usize,
    /// Follower that lags.
    pub lagging: usize,
    /// Follower with all entries.
    pub level: usize,
}

impl GroupReplica {
    /// Takes a turn of the driver. An installation that it begins is done at once, unless it is
    /// done `in_steps`. Returns the time until the next turn.
    pub(super) fn turn(&self, in_steps: bool) -> Result<Duration> {
        let sleep = self.group.turn(false)?;
        if in_steps {
            return Ok(sleep);
        }
        let Some(installation) = self.group.begin_install() else { return Ok(sleep) };
        self.group.on_install_ended(installation.run()?);
        Ok(Duration::ZERO)
    }
}

impl World {
    /// Begins the installations that are due at a node, where they are done in steps. Asserts that
    /// those in progress are left alone.
    pub(super) fn begin_installations(&mut self, nth: usize) {
        if self.flavour != Flavour::Installing {
            return;
        }
        for group in 0..self.judges.len() {
            let Some(process) = &mut self.nodes[nth].process else { return };
            let (number, now) = (process.number, process.applied(group));
            if let Some((applied, _)) = process.installations.get(&group) {
                assert!(now == *applied, "applied during an installation: {applied} to {now}");
                self.journal.count("turn during an installation");
            }
            let Some(installation) = process.group(group).begin_install() else { continue };
            process.installations.insert(group, (now, installation));
            let by = Fetcher { node: nth, group, process: number };
            let pause = self.steps.between(STEP_US.0, STEP_US.1);
            self.at(pause, Event::Installs(by));
        }
    }

    /// Takes the next step of an installation.
    pub(super) fn install_step(&mut self, by: Fetcher) {
        let now = self.queue.now();
        let node = &mut self.nodes[by.node];
        let returns = node.can_step_at(now, true);
        let Some(process) = node.process.as_mut().filter(|process| process.number == by.process)
        else {
            return self.journal.count("installation cut off");
        };
        if returns > now {
            return self.at(returns - now, Event::Installs(by));
        }
        node.clock.enter(now);
        let Some((applied, installation)) = process.installations.remove(&by.group) else { return };
        match installation.step() {
            Ok(InstallStep::Progressed(next)) => {
                process.installations.insert(by.group, (applied, next));
                let pause = self.steps.between(STEP_US.0, STEP_US.1);
                self.at(pause, Event::Installs(by));
            }
            Ok(InstallStep::Ended(outcome)) => {
                let name = match &outcome {
                    InstallOutcome::Installed(_) => "installed",
                    InstallOutcome::Unusable(_) => "not installed",
                };
                process.group(by.group).on_install_ended(outcome);
                self.journal.count(name);
                self.wake(by.node, 0);
            }
            Err(error) => self.fail_node(by.node, &error),
        }
    }

    /// Lets all nodes drop the entries that they do not need themselves: members that are away need
    /// snapshots.
    pub(super) fn drop_all_entries(&mut self) -> &'static str {
        for nth in 0..self.nodes.len() {
            if self.nodes[nth].clock.paused_until <= self.queue.now() {
                self.drop_entries(nth);
            }
        }
        "drop entries"
    }

    /// Returns histories of three voters in one group, without faults and without maintenance.
    pub(super) fn quiet(flavour: Flavour) -> Vec<World> {
        let quiet = |seed| {
            let mut world = World::with(seed, flavour);
            world.queue.retain(|event| !matches!(event, Event::Fault | Event::Housekeeping));
            world.has_faults = false;
            world
        };
        let is_usual = |world: &World| {
            let keep_rows = world.nodes.iter().all(|node| !node.witness);
            world.nodes.len() == 3 && world.judges.len() == 1 && keep_rows
        };
        let worlds: Vec<_> = (0..SEEDS).map(quiet).filter(is_usual).take(HISTORIES).collect();
        assert_eq!(worlds.len(), HISTORIES, "three voters in one group");
        worlds
    }

    /// Runs until `holds` returns true.
    pub(super) fn run_until(&mut self, what: &str, mut holds: impl FnMut(&mut World) -> bool) {
        let end = self.queue.now() + PATIENCE_US;
        while !holds(self) {
            assert!(self.queue.now() < end, "waited in vain for {what}");
            self.run(LOOK_US);
        }
    }

    /// Runs a quiet history until it has a master, and names its nodes.
    pub(super) fn begin_quiet(&mut self) -> Roles {
        self.run(3_000_000);
        let master = self.master(0).expect("nothing happens");
        let lagging = (0..3).find(|nth| *nth != master).expect("there are three");
        Roles { master, lagging, level: 3 - master - lagging }
    }

    /// Cuts a node off from both others.
    pub(super) fn cut_off(&mut self, nth: usize) {
        for other in (0..self.nodes.len()).filter(|other| *other != nth) {
            self.cuts.cut(nth, other);
            self.cuts.cut(other, nth);
        }
    }

    /// Lets the master drop entries until it can't send all that a node lacks.
    pub(super) fn outrun(&mut self, Roles { master, lagging, .. }: Roles) {
        let mut due = self.queue.now();
        self.run_until("a log that is too short", |world| {
            if world.queue.now() >= due {
                due = world.queue.now() + 500_000;
                world.drop_entries(master);
            }
            let of = |nth: usize| world.process(nth).expect("it lives").group(0).state();
            let floor = of(master).replica.floor();
            floor > of(lagging).replica.last()
        });
    }

    /// Runs until a node begins to install a snapshot, lets its store switch, and holds the
    /// installation there.
    pub(super) fn hold_installation(&mut self, nth: usize) -> HeldInstallation {
        let begun = |world: &World| {
            let process = world.process(nth)?;
            let (applied, _) = process.installations.get(&0)?;
            Some((Fetcher { node: nth, group: 0, process: process.number }, *applied))
        };
        let hold = |world: &mut World| {
            world.queue.retain(|event| !matches!(event, Event::Installs(_)));
        };
        for _ in 0..ATTEMPTS_MAX {
            self.run_until("an installation", |world| begun(world).is_some());
            let (by, applied) = begun(self).expect("awaited");
            hold(self);
            assert_eq!(self.stored_index(nth), applied, "the store has not switched");
            self.install_step(by);
            hold(self);
            let installed = self.stored_index(nth);
            if installed > applied {
                return HeldInstallation { by, applied, installed };
            }
            // Entries were applied while the snapshot was received: another one is fetched.
        }
        panic!("the store has switched");
    }

    /// Lets a held installation end.
    pub(super) fn release(&mut self, held: &HeldInstallation) {
        self.at(0, Event::Installs(held.by));
    }

    /// Returns the applied index of the first group in a node's store.
    fn stored_index(&self, nth: usize) -> LogIndex {
        let mut key = Vec::new();
        mark_key(group_id(0), &mut key);
        let mark = self.nodes[nth].trees.get(&key).expect("memory");
        LogIndex(mark.map_or(0, |mark| Mark::read(&mark).expect("a mark").applied))
    }

    /// Asserts that a held installation is as it was: no entry was applied meanwhile. An answer
    /// that shows one of its rows names the index of the snapshot.
    fn assert_held(&self, held: &HeldInstallation) {
        let nth = held.by.node;
        let watermarks = &self.process(nth).expect("it lives").group(0).applied;
        let (applied, now) = (held.applied, watermarks.index());
        assert!(now == applied, "applied during an installation: {applied} to {now}");
        assert_eq!(self.stored_index(nth), held.installed, "an entry was applied over the rows");
        assert!(watermarks.visible_index() >= held.installed, "its rows are visible");
    }
}

/// Returns a quiet history in which a follower installs a snapshot, and holds there.
fn held_history(nth: u64) -> (World, Roles, HeldInstallation) {
    let mut world = World::quiet(Flavour::Installing).swap_remove(nth as usize);
    let roles = world.begin_quiet();
    world.cut_off(roles.lagging);
    world.outrun(roles);
    world.cuts.heal();
    let held = world.hold_installation(roles.lagging);
    (world, roles, held)
}

/// Runs a history in which entries behind a snapshot, and many before its end, are decided at a
/// follower while it installs the snapshot: another node, whose log is whole, becomes master.
fn decided_meanwhile(nth: u64) -> (u64, Counts) {
    let (mut world, Roles { master, lagging, level }, held) = held_history(nth);
    let mut due = 0;
    world.run_until("the master whose log is whole", |world| {
        if world.queue.now() >= due {
            due = world.queue.now() + 100_000;
            world.nodes[master].clock.enter(world.queue.now());
            let successor = world.nodes[level].id;
            // Fails until the successor has all entries.
            let _ = world.process(master).expect("it lives").group(0).hand_over(successor);
            world.wake(master, 0);
        }
        world.master(0) == Some(level)
    });
    let decided =
        |world: &World| world.process(lagging).expect("it lives").group(0).state().progress.decided;
    world.run_until("entries behind the snapshot", |world| decided(world) > held.installed);
    world.run(1_000_000);
    world.assert_held(&held);
    let last = decided(&world);
    world.release(&held);
    world.run_until("the end of the installation", |world| {
        world.process(lagging).is_some_and(|process| process.applied(0) >= last)
    });
    world.finish_and_check()
}

fn installing(seed: u64) -> (u64, Counts) {
    lived(World::with(seed, Flavour::Installing))
}

const INSTALLING: Suite = Suite {
    name: "installations in steps",
    history: installing,
    required_events: &[
        "wrote",
        "read",
        "crash",
        "drop entries",
        "snapshot",
        "installed",
        "turn during an installation",
        "installation cut off",
    ],
    ..FROZEN
};

/// The master hears one voter alone, which installs a snapshot: if that did not answer its
/// heartbeats, the master would give up, and no read would be answered.
#[test]
fn follower_keeps_its_master_while_it_installs_a_snapshot() {
    for nth in 0..HISTORIES as u64 {
        let (mut world, roles, held) = held_history(nth);
        let promised = |world: &World| {
            world.process(roles.master).expect("it lives").group(0).state().replica.promised()
        };
        let (ballot, reads) = (promised(&world), world.journal.count_of("read"));
        world.cut_off(roles.level);
        world.run(ALONE_US);
        assert_eq!(world.master(0), Some(roles.master), "it leads as before");
        assert_eq!(promised(&world), ballot);
        assert!(world.journal.count_of("read") > reads, "it answers reads");
        world.assert_held(&held);
        world.cuts.heal();
        world.release(&held);
        world.finish_and_check();
    }
}

#[test]
fn entries_decided_during_an_installation_are_applied_after_it() {
    for nth in 0..HISTORIES as u64 {
        decided_meanwhile(nth);
    }
}

#[test]
fn apply_during_an_installation_is_detected() {
    check(decided_meanwhile, 1).assert_detected(&[Mutant::ApplyDuringInstall], &[]);
}

#[test]
fn histories_with_installations_in_steps_lose_no_write() {
    INSTALLING.run();
}

#[test]
fn seed_determines_the_history_with_installations_in_steps() {
    INSTALLING.assert_repeatable(&[3]);
}
