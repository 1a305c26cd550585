//! A cluster with all faults of a soak: how each begins, what it does while it lasts, how it ends,
//! and the nodes that can't serve meanwhile by its nature.

use super::faults::Fault::{self, *};
use super::{SECOND, hostile};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use systest::client::{Http, Resp, RespReply};
use systest::report::long;
use systest::rigs::{Cable, Cluster, Frozen, NodeClock, Options, Scratch, resident_bytes, wait};

/// Group that data moves to and back.
pub(super) const SECOND_GROUP: u64 = 2;
/// Bucket that stays in that group.
const SECOND_BUCKET: &str = "default/second";
/// Time between the cuts of flapping links.
const FLAP: Duration = Duration::from_millis(400);
/// Errors of a wall clock, in seconds.
const WRONG_BY: [i64; 4] = [3_600, -3_600, 86_400, -600];

/// A fault in progress.
pub struct Ongoing {
    fault: Fault,
    /// Nodes that can't serve meanwhile, from 1.
    pub hurt: Vec<usize>,
    /// True if the other nodes are a majority.
    pub leaves_majority: bool,
    hold: Duration,
    frozen: Option<Frozen>,
    filler: Option<PathBuf>,
}

impl Ongoing {
    /// Returns true for the move of a bucket, which ends by itself.
    pub fn is_move(&self) -> bool {
        self.fault == BucketMove
    }
}

/// A cluster that all faults can be injected into.
pub struct Faulty {
    /// The cluster.
    pub cluster: Cluster,
    /// Results of the hostile requests.
    pub hostile: hostile::Report,
    clocks: Vec<NodeClock>,
    /// Group of the default bucket at present.
    pub(super) home: u64,
    pub(super) down: Vec<usize>,
}

impl Faulty {
    /// Starts the nodes, each with a clock that can be shifted, a ring of available buckets, and a
    /// second group.
    pub fn start(scratch: &Scratch, options: Options, seed: u64) -> Faulty {
        let mut cluster = Cluster::start(scratch, options);
        let clocks = cluster.nodes().map(|node| {
            let clock = NodeClock::new(scratch.join(&format!("clock{node}")));
            assert_eq!(cluster.stop(node), Some(0));
            cluster.how(node).environment = clock.environment();
            cluster.begin(node);
            clock
        });
        let clocks = clocks.collect();
        cluster.must_settle();
        cluster.share_ring();
        cluster.operate(&["group", "create", "--replicas", "3"]);
        let hostile = hostile::Report::of(seed);
        let faulty = Faulty { cluster, hostile, clocks, home: 1, down: Vec::new() };
        faulty.make_second_bucket();
        faulty
    }

    /// Returns the memory of the node that holds most, in bytes.
    pub fn resident_bytes(&mut self) -> u64 {
        let nodes: Vec<_> = self.cluster.nodes().collect();
        let each = nodes.iter().map(|node| resident_bytes(self.cluster.server(*node).pid()));
        each.max().unwrap_or_default()
    }

    /// Runs a command of the tool, at the nodes that are up in turn until one does it: behind a
    /// link that is cut one way a node may not reach the directory's master while others do.
    fn operate(&self, words: &[&str]) {
        let mut turns = self.up().collect::<Vec<_>>().into_iter().cycle();
        wait(&words.join(" "), || {
            let node = turns.next().expect("one is up");
            let output = self.cluster.tool(node, words);
            match output.status.success() {
                true => Ok(()),
                false => Err(format!("n{node}: {}", String::from_utf8_lossy(&output.stderr))),
            }
        });
    }

    /// Returns the nodes that no fault keeps from serving.
    pub(super) fn up(&self) -> impl Iterator<Item = usize> {
        self.cluster.nodes().filter(|node| !self.down.contains(node))
    }

    /// Begins a fault.
    pub fn begin(&mut self, fault: Fault, dice: &mut StdRng) -> Ongoing {
        let hurt = self.victims(fault, dice);
        let leaves_majority = hurt.len() <= self.minority();
        let seconds = if long() { 3.0..8.0 } else { 1.5..2.5 };
        let mut hold = Duration::from_secs_f64(dice.random_range(seconds));
        // The disk hangs for longer than the allowed pause: otherwise a master that stays would not
        // be noticed.
        if matches!(fault, HungDiskOfMaster | HungDiskOfFollower) {
            hold += 3 * SECOND;
        }
        let mut one = Ongoing { fault, hurt, leaves_majority, hold, frozen: None, filler: None };
        match fault {
            KillMaster | KillFollower | KillMajority | KillAll | WipedMember => self.kill(&one),
            PauseMaster | PauseFollowers => {
                one.hurt.iter().for_each(|node| self.cluster.pause(*node));
            }
            IsolateMaster | CutOffMinority | OneWayCut | FlappingCables | LossyCables => {
                self.spoil_cables(&one);
            }
            WrongClock => {
                for clock in &self.clocks {
                    clock.wrong_by(WRONG_BY[dice.random_range(0..WRONG_BY.len())]);
                }
            }
            HungDiskOfMaster | HungDiskOfFollower => {
                one.frozen = Some(self.cluster.disk(one.hurt[0]).freeze());
            }
            FullDisk => {
                let master = self.master();
                one.filler = Some(self.cluster.disk(master).fill(4 << 20));
            }
            // A process whose file system is gone may still acknowledge: it is stopped first.
            PowerCutOfOne | PowerCutOfAll => {
                one.hurt.iter().for_each(|node| self.cluster.pause(*node));
                one.hurt.iter().for_each(|node| self.cluster.disk(*node).cut());
                self.kill(&one);
            }
            Restart => assert_eq!(self.cluster.stop(one.hurt[0]), Some(0)),
            MembersWhileDown => {
                self.kill(&one);
                self.down.extend(&one.hurt);
                self.place(|node| !one.hurt.contains(&node));
                self.down.clear();
            }
            BucketMove => self.move_to(3 - self.home),
            MastershipMove => self.move_mastership(dice),
            Hostile => {}
        }
        self.down.extend(&one.hurt);
        one
    }

    fn kill(&mut self, one: &Ongoing) {
        one.hurt.iter().for_each(|node| self.cluster.kill(*node));
    }

    fn spoil_cables(&mut self, one: &Ongoing) {
        let nodes = self.cluster.nodes();
        match one.fault {
            OneWayCut => {
                let (follower, master) = (one.hurt[0], self.master());
                self.cluster.network().link(master, follower, Cable::CUT);
            }
            LossyCables => {
                let (delay, jitter) = (Duration::from_millis(2), Duration::from_millis(10));
                let bad = Cable { delay, jitter, loss: 50, twice: 20, ..Cable::default() };
                for (from, to) in nodes.clone().flat_map(|a| nodes.clone().map(move |b| (a, b))) {
                    if from != to {
                        self.cluster.network().link(from, to, bad);
                    }
                }
            }
            _ => self.cut_off(&one.hurt),
        }
    }

    /// Cuts these nodes off from the others; clients reach all of them.
    fn cut_off(&self, some: &[usize]) {
        for node in some {
            for other in self.cluster.nodes().filter(|other| !some.contains(other)) {
                self.cluster.cut(*node, other);
            }
        }
    }

    fn move_mastership(&self, dice: &mut StdRng) {
        let members = self.cluster.said(self.master(), self.home).map(|said| said.members);
        let voters: Vec<_> = members.into_iter().flatten().map(|(name, _)| name).collect();
        let to = &voters[dice.random_range(0..voters.len())];
        // It is refused if that node lags too far; the next draw moves it.
        let _ = self.cluster.tool(
            self.master(),
            &["cluster", "move-master", to, "--group", &self.home.to_string()],
        );
    }

    /// Places the second group on the wanted nodes, three at most.
    fn place(&self, wanted: impl Fn(usize) -> bool) {
        let chosen = self.cluster.nodes().filter(|node| wanted(*node)).take(3);
        let names: Vec<_> = chosen.map(|node| format!("n{node}")).collect();
        let group = SECOND_GROUP.to_string();
        let words =
            ["group", "members", &group].into_iter().chain(names.iter().map(String::as_str));
        self.operate(&words.collect::<Vec<_>>());
    }

    /// Waits for the length of the faults, and does their repeated actions meanwhile.
    pub fn hold(&mut self, all: &[Ongoing], dice: &mut StdRng) {
        let hold = all.iter().map(|one| one.hold).max().unwrap_or_default();
        if all.iter().any(|one| one.fault == Hostile) {
            let alone = all.len() == 1;
            let before = alone.then(|| self.ballot());
            let up: Vec<_> = self.up().collect();
            let pids = up.iter().map(|node| self.cluster.server(*node).pid()).collect::<Vec<_>>();
            let address = self.cluster.client(up[dice.random_range(0..up.len())]);
            let narrow = all.iter().any(|one| one.fault == LossyCables);
            self.hostile.send(&self.cluster, address, &pids, (hold, narrow));
            if before.is_some_and(|before| before != self.ballot()) {
                self.hostile.master_changes += 1;
            }
            return;
        }
        let (begun, mut cut) = (Instant::now(), true);
        while begun.elapsed() < hold {
            std::thread::sleep(FLAP.min(hold.saturating_sub(begun.elapsed())));
            if let Some(one) = all.iter().find(|one| one.fault == FlappingCables) {
                cut = !cut;
                if cut { self.cut_off(&one.hurt) } else { self.cluster.heal() }
            }
        }
    }

    fn ballot(&self) -> String {
        self.cluster.said(self.master(), self.home).map(|said| said.ballot).unwrap_or_default()
    }

    /// Ends a fault.
    pub fn end(&mut self, one: Ongoing) {
        let Ongoing { fault, hurt, frozen, filler, .. } = one;
        drop(frozen);
        match fault {
            KillMaster | KillFollower | KillMajority | KillAll => self.cluster.begin_all(),
            PauseMaster | PauseFollowers => {
                hurt.iter().for_each(|node| self.cluster.wake(*node));
            }
            IsolateMaster | CutOffMinority | OneWayCut | FlappingCables | LossyCables => {
                self.cluster.heal();
            }
            WrongClock => self.clocks.iter().for_each(|clock| clock.wrong_by(0)),
            FullDisk => {
                if let Some(filler) = filler {
                    std::fs::remove_file(filler).expect("the filler is ours");
                }
                self.cluster.begin_ended();
            }
            PowerCutOfOne | PowerCutOfAll => {
                hurt.iter().for_each(|node| self.cluster.disk(*node).power_again());
                self.cluster.begin_all();
            }
            Restart => self.cluster.begin(hurt[0]),
            WipedMember => self.cluster.replace(hurt[0]),
            MembersWhileDown => {
                self.cluster.begin(hurt[0]);
                // A node without the group must still forward requests to its members.
                self.must_serve_second(hurt[0]);
                self.down.retain(|node| !hurt.contains(node));
                self.place(|_| true);
            }
            BucketMove => {
                self.must_live_in(3 - self.home);
                self.home = 3 - self.home;
            }
            HungDiskOfMaster | HungDiskOfFollower | MastershipMove | Hostile => {}
        }
        self.down.retain(|node| !hurt.contains(node));
        if fault == WipedMember {
            self.cluster.must_settle();
        }
    }

    fn move_to(&self, group: u64) {
        let group = group.to_string();
        self.operate(&["bucket", "move", "default", "--group", &group, "--no-wait"]);
    }

    /// Waits until the default bucket has moved to a group.
    fn must_live_in(&self, group: u64) {
        let mut turns = self.up().collect::<Vec<_>>().into_iter().cycle();
        wait("the end of the move", || {
            let node = turns.next().expect("one is up");
            let output = self.cluster.tool(node, &["bucket", "status", "default", "--json"]);
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            match (status["group"].as_u64(), status["to"].is_null()) {
                (Some(found), true) if found == group => Ok(()),
                _ => Err(status.to_string()),
            }
        });
    }

    /// Creates the bucket that stays in the second group.
    fn make_second_bucket(&self) {
        let (address, path) = (self.cluster.client(1), format!("/v1/buckets/{SECOND_BUCKET}"));
        let body = format!("{{\"group\": {SECOND_GROUP}}}");
        self.cluster.from_clients(|| {
            wait("the second bucket", || {
                let said = Http::with_patience(address, 5 * SECOND)
                    .and_then(|mut web| web.ask("PUT", &path, body.as_bytes()));
                match said {
                    Ok(answer) if answer.status < 300 => Ok(()),
                    Ok(answer) => Err(answer.text()),
                    Err(error) => Err(error.to_string()),
                }
            });
        });
    }

    /// Waits until every node accepts writes to the buckets of both groups.
    pub fn must_serve_all(&self) {
        self.cluster.must_serve();
        self.cluster.nodes().for_each(|node| self.must_serve_second(node));
    }

    fn must_serve_second(&self, node: usize) {
        let address = self.cluster.client(node);
        self.cluster.from_clients(|| {
            wait(&format!("a write of {SECOND_BUCKET} at node {node}"), || {
                let ask = || {
                    let mut redis = Resp::with_patience(address, 5 * SECOND)?;
                    redis.say(&format!("CREDENZA.BUCKET {SECOND_BUCKET}"))?;
                    redis.say("SET probe served")
                };
                match ask() {
                    Ok(RespReply::Simple(_)) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            });
        });
    }

    /// Moves the default bucket back to the group whose applied indexes are checked.
    pub fn come_home(&mut self) {
        if self.home != 1 {
            self.move_to(1);
            self.must_live_in(1);
            self.home = 1;
        }
    }
}
