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
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, resident_bytes};
use systest::fault_injection::{Cable, Frozen, NodeClock};
use systest::report::{is_long_form, print_line};

/// Group that data moves to and back.
pub(super) const SECOND_GROUP: u64 = 2;
/// Bucket that stays in that group.
const SECOND_BUCKET: &str = "default/second";
/// Time between the cuts of flapping links.
const FLAP_INTERVAL: Duration = Duration::from_millis(400);
/// Errors of a wall clock, in seconds.
const CLOCK_OFFSETS_S: [i64; 4] = [3_600, -3_600, 86_400, -600];

/// A fault in progress.
pub struct ActiveFault {
    fault: Fault,
    /// Nodes that can't serve meanwhile, from 1.
    pub victims: Vec<usize>,
    /// Master that a one-way cut keeps from sending to its victim.
    cut_master: Option<usize>,
    /// True if the other nodes are a majority.
    pub leaves_majority: bool,
    hold: Duration,
    frozen: Option<Frozen>,
    filler: Option<PathBuf>,
}

impl ActiveFault {
    /// Returns true for the move of a bucket, which ends by itself.
    pub fn is_bucket_move(&self) -> bool {
        self.fault == BucketMove
    }

    /// Returns the nodes that can't serve while these faults are active together: a node behind a
    /// one-way cut, and the node that can't send to it, if that other one may become the master.
    pub fn victims_among(&self, faults: &[Fault]) -> Vec<usize> {
        let moves_master = faults.iter().any(|fault| matches!(fault, BucketMove | MastershipMove));
        let cut_master = self.cut_master.filter(|_| moves_master);
        self.victims.iter().copied().chain(cut_master).collect()
    }
}

/// A cluster that all faults can be injected into.
pub struct FaultInjector {
    /// The cluster.
    pub cluster: Cluster,
    /// Results of the hostile requests.
    pub hostile: hostile::Report,
    clocks: Vec<NodeClock>,
    /// Group of the default bucket at present.
    pub(super) group: u64,
    pub(super) down: Vec<usize>,
}

impl FaultInjector {
    /// Starts the nodes, each with a clock that can be shifted, a ring of available buckets, and a
    /// second group.
    pub fn start(scratch: &Scratch, options: Options, seed: u64) -> FaultInjector {
        let mut cluster = Cluster::start(scratch, options);
        let clocks = cluster.nodes().map(|node| {
            let clock = NodeClock::new(scratch.join(&format!("clock{node}")));
            assert_eq!(cluster.stop(node), Some(0));
            cluster.setup_mut(node).environment = clock.environment();
            cluster.start_node(node);
            clock
        });
        let clocks = clocks.collect();
        cluster.must_converge();
        cluster.init_ring();
        cluster.run_tool(&["group", "create", "--replicas", "3"]);
        let hostile = hostile::Report::new(seed);
        let injector = FaultInjector { cluster, hostile, clocks, group: 1, down: Vec::new() };
        injector.make_second_bucket();
        injector
    }

    /// Returns the memory of the node that holds most, in bytes.
    pub fn resident_bytes(&mut self) -> u64 {
        let nodes: Vec<_> = self.cluster.nodes().collect();
        let each = nodes.iter().map(|node| resident_bytes(self.cluster.server(*node).pid()));
        each.max().unwrap_or_default()
    }

    /// Runs a command of the tool, at the nodes that are up in turn until one does it: behind a
    /// link that is cut one way a node may not reach the directory's master while others do.
    fn run_tool(&self, args: &[&str]) {
        let mut nodes = self.up().collect::<Vec<_>>().into_iter().cycle();
        wait_until(&args.join(" "), || {
            let node = nodes.next().expect("one is up");
            let output = self.cluster.tool(node, args);
            match output.status.success() {
                true => Ok(()),
                false => Err(format!("n{node}: {}", String::from_utf8_lossy(&output.stderr))),
            }
        });
    }

    /// Returns the nodes that can serve despite the active faults.
    pub(super) fn up(&self) -> impl Iterator<Item = usize> {
        self.cluster.nodes().filter(|node| !self.down.contains(node))
    }

    /// Begins a fault.
    pub fn inject(&mut self, fault: Fault, dice: &mut StdRng) -> ActiveFault {
        let hurt = self.choose_victims(fault, dice);
        let leaves_majority = hurt.len() <= self.minority();
        let seconds = if is_long_form() { 3.0..8.0 } else { 1.5..2.5 };
        let mut duration = Duration::from_secs_f64(dice.random_range(seconds));
        // The disk hangs for longer than the allowed pause: otherwise a master that stays would not
        // be detected.
        if matches!(fault, HungDiskOfMaster | HungDiskOfFollower) {
            duration += 3 * SECOND;
        }
        let mut active = ActiveFault {
            fault,
            victims: hurt,
            cut_master: (fault == OneWayCut).then(|| self.master()),
            leaves_majority,
            hold: duration,
            frozen: None,
            filler: None,
        };
        match fault {
            KillMaster | KillFollower | KillMajority | KillAll | WipedMember => {
                self.kill_victims(&active)
            }
            PauseMaster | PauseFollowers => {
                active.victims.iter().for_each(|node| self.cluster.pause(*node));
            }
            IsolateMaster | CutOffMinority | OneWayCut | FlappingCables | LossyCables => {
                self.disturb_links(&active);
            }
            WrongClock => {
                for clock in &self.clocks {
                    clock.set_offset(CLOCK_OFFSETS_S[dice.random_range(0..CLOCK_OFFSETS_S.len())]);
                }
            }
            HungDiskOfMaster | HungDiskOfFollower => {
                active.frozen = Some(self.cluster.disk(active.victims[0]).freeze());
            }
            FullDisk => {
                let master = self.master();
                active.filler = Some(self.cluster.disk(master).fill(4 << 20));
            }
            // A process whose file system is gone may still acknowledge: it is stopped first.
            PowerCutOfOne | PowerCutOfAll => {
                active.victims.iter().for_each(|node| self.cluster.pause(*node));
                active.victims.iter().for_each(|node| self.cluster.disk(*node).cut_power());
                self.kill_victims(&active);
            }
            Restart => assert_eq!(self.cluster.stop(active.victims[0]), Some(0)),
            MembersWhileDown => {
                self.kill_victims(&active);
                self.down.extend(&active.victims);
                self.place_second_group(|node| !active.victims.contains(&node));
                self.down.clear();
            }
            BucketMove => self.move_to(3 - self.group),
            MastershipMove => self.move_mastership(dice),
            Hostile => {}
        }
        self.down.extend(&active.victims);
        active
    }

    fn kill_victims(&mut self, active: &ActiveFault) {
        active.victims.iter().for_each(|node| self.cluster.kill(*node));
    }

    fn disturb_links(&mut self, active: &ActiveFault) {
        let nodes = self.cluster.nodes();
        match active.fault {
            OneWayCut => {
                let (follower, master) = (active.victims[0], active.cut_master);
                let master = master.expect("a one-way cut has two ends");
                self.cluster.network().set_link(master, follower, Cable::CUT);
            }
            LossyCables => {
                let (delay, jitter) = (Duration::from_millis(2), Duration::from_millis(10));
                let lossy_cable =
                    Cable { delay, jitter, loss: 50, duplicate: 20, ..Cable::default() };
                for (from, to) in nodes.clone().flat_map(|a| nodes.clone().map(move |b| (a, b))) {
                    if from != to {
                        self.cluster.network().set_link(from, to, lossy_cable);
                    }
                }
            }
            _ => self.cut_off(&active.victims),
        }
    }

    /// Cuts these nodes off from the others; clients reach all of them.
    fn cut_off(&self, nodes: &[usize]) {
        for node in nodes {
            for other in self.cluster.nodes().filter(|other| !nodes.contains(other)) {
                self.cluster.cut(*node, other);
            }
        }
    }

    fn move_mastership(&self, dice: &mut StdRng) {
        let members =
            self.cluster.group_status(self.master(), self.group).map(|status| status.members);
        let voters: Vec<_> = members.into_iter().flatten().map(|(name, _)| name).collect();
        let target = &voters[dice.random_range(0..voters.len())];
        // It is refused if that node lags too far; the next draw moves it.
        let _ = self.cluster.tool(
            self.master(),
            &["cluster", "move-master", target, "--group", &self.group.to_string()],
        );
    }

    /// Places the second group on the selected nodes, three at most.
    fn place_second_group(&self, is_member: impl Fn(usize) -> bool) {
        let members = self.cluster.nodes().filter(|node| is_member(*node)).take(3);
        let names: Vec<_> = members.map(|node| format!("n{node}")).collect();
        let group = SECOND_GROUP.to_string();
        let args = ["group", "members", &group].into_iter().chain(names.iter().map(String::as_str));
        self.run_tool(&args.collect::<Vec<_>>());
    }

    /// Waits for the length of the faults, and does their repeated actions meanwhile.
    pub fn wait(&mut self, active: &[ActiveFault], dice: &mut StdRng) {
        let duration = active.iter().map(|fault| fault.hold).max().unwrap_or_default();
        if active.iter().any(|fault| fault.fault == Hostile) {
            let is_only_fault = active.len() == 1;
            let before = is_only_fault.then(|| self.ballot_and_spreads());
            let nodes_up: Vec<_> = self.up().collect();
            let pids =
                nodes_up.iter().map(|node| self.cluster.server(*node).pid()).collect::<Vec<_>>();
            let address =
                self.cluster.client_address(nodes_up[dice.random_range(0..nodes_up.len())]);
            let is_lossy = active.iter().any(|fault| fault.fault == LossyCables);
            self.hostile.send(&self.cluster, address, &pids, (duration, is_lossy));
            let after = is_only_fault.then(|| self.ballot_and_spreads());
            if let (Some((before, spreads)), Some((after, spreads_after))) = (before, after)
                && before != after
                && spreads == spreads_after
            {
                self.hostile.master_changes += 1;
                print_line(&format!(
                    "    the master changed: ballot {before}, now {after}\n{}",
                    self.cluster.last_log_lines(80)
                ));
            }
            return;
        }
        let (started, mut is_cut) = (Instant::now(), true);
        while started.elapsed() < duration {
            std::thread::sleep(FLAP_INTERVAL.min(duration.saturating_sub(started.elapsed())));
            if let Some(fault) = active.iter().find(|fault| fault.fault == FlappingCables) {
                is_cut = !is_cut;
                if is_cut { self.cut_off(&fault.victims) } else { self.cluster.heal() }
            }
        }
    }

    /// Returns the ballot of the default bucket's group, and the number of groups that were handed
    /// over to spread them over the nodes: that follows earlier faults.
    fn ballot_and_spreads(&self) -> (String, usize) {
        let status = self.cluster.group_status(self.master(), self.group);
        let spread = "mastership is transferred to a node that leads fewer groups";
        let ballot = status.map(|status| status.ballot).unwrap_or_default();
        (ballot, self.cluster.count_log_lines(spread))
    }

    /// Ends a fault.
    pub fn undo(&mut self, active: ActiveFault) {
        let ActiveFault { fault, victims, frozen, filler, .. } = active;
        drop(frozen);
        match fault {
            KillMaster | KillFollower | KillMajority | KillAll => self.cluster.start_all(),
            PauseMaster | PauseFollowers => {
                victims.iter().for_each(|node| self.cluster.resume(*node));
            }
            IsolateMaster | CutOffMinority | OneWayCut | FlappingCables | LossyCables => {
                self.cluster.heal();
            }
            WrongClock => self.clocks.iter().for_each(|clock| clock.set_offset(0)),
            FullDisk => {
                if let Some(filler) = filler {
                    std::fs::remove_file(filler).expect("the filler is ours");
                }
                self.cluster.restart_ended();
            }
            PowerCutOfOne | PowerCutOfAll => {
                victims.iter().for_each(|node| self.cluster.disk(*node).restore_power());
                self.cluster.start_all();
            }
            Restart => self.cluster.start_node(victims[0]),
            WipedMember => self.cluster.replace(victims[0]),
            MembersWhileDown => {
                self.cluster.start_node(victims[0]);
                // A node without the group must still forward requests to its members.
                self.must_serve_second(victims[0]);
                self.down.retain(|node| !victims.contains(node));
                self.place_second_group(|_| true);
            }
            BucketMove => {
                self.must_be_in_group(3 - self.group);
                self.group = 3 - self.group;
            }
            HungDiskOfMaster | HungDiskOfFollower | MastershipMove | Hostile => {}
        }
        self.down.retain(|node| !victims.contains(node));
        if fault == WipedMember {
            self.cluster.must_converge();
        }
    }

    fn move_to(&self, group: u64) {
        let group = group.to_string();
        self.run_tool(&["bucket", "move", "default", "--group", &group, "--no-wait"]);
    }

    /// Waits until the default bucket has moved to a group.
    fn must_be_in_group(&self, group: u64) {
        let mut nodes = self.up().collect::<Vec<_>>().into_iter().cycle();
        wait_until("the end of the move", || {
            let node = nodes.next().expect("one is up");
            let output = self.cluster.tool(node, &["bucket", "status", "default", "--json"]);
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            match (status["group"].as_u64(), status["to"].is_null()) {
                (Some(current), true) if current == group => Ok(()),
                _ => Err(status.to_string()),
            }
        });
    }

    /// Creates the bucket that stays in the second group.
    fn make_second_bucket(&self) {
        let (address, path) =
            (self.cluster.client_address(1), format!("/v1/buckets/{SECOND_BUCKET}"));
        let body = format!("{{\"group\": {SECOND_GROUP}}}");
        self.cluster.on_client_host(|| {
            wait_until("the second bucket", || {
                let response = Http::with_timeout(address, 5 * SECOND)
                    .and_then(|mut web| web.request("PUT", &path, body.as_bytes()));
                match response {
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
        let address = self.cluster.client_address(node);
        self.cluster.on_client_host(|| {
            wait_until(&format!("a write of {SECOND_BUCKET} at node {node}"), || {
                let write_probe = || {
                    let mut redis = Resp::with_timeout(address, 5 * SECOND)?;
                    let selected = redis.call_line(&format!("CREDENZA.BUCKET {SECOND_BUCKET}"))?;
                    if !matches!(selected, RespReply::Simple(_)) {
                        return Ok(selected);
                    }
                    redis.call_line("SET probe served")
                };
                match write_probe() {
                    Ok(RespReply::Simple(_)) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            });
        });
    }

    /// Moves the default bucket back to the group whose applied indexes are checked.
    pub fn move_back_to_first_group(&mut self) {
        if self.group != 1 {
            self.move_to(1);
            self.must_be_in_group(1);
            self.group = 1;
        }
    }
}
