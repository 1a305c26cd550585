//! F-67: queries of indexes and followers of feeds, of a consistent and of an available bucket,
//! while nodes die, join, leave and lose their disks, the ring is resized, and the bucket moves.
//!
//! Promises: every complete answer of an index has each row that it must have, once; after every
//! fault, when nobody writes, each follower comes to the rows of its bucket, and no acknowledged
//! write is missing there; in the consistent bucket no put comes twice, and no reader restarts.
//! Never: injects two faults that may hide a write of the available bucket together: copies are
//! compared before the next one.
//! Read next: `crates/systest/src/documents/mod.rs`, then `faults.rs`.

mod faults;
mod quiet;

use super::SECOND;
use super::soak::{choose_seed, long_form_time};
use faults::{BASE_NODES, ClusterFault, DECK, FaultyCluster};
use quiet::QuietBucket;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::cluster::{Cluster, wait_until};
use systest::documents::{
    CommandFollower, DocumentBucket, DocumentCounts, DocumentPlan, DocumentWorkload, INDEX,
};
use systest::environment::{Scratch, experiment};
use systest::report::{BoundChecks, Figures, is_long_form, print_line};

const BUCKETS: [DocumentBucket; 2] = [DocumentBucket::Consistent, DocumentBucket::Available];
/// Longest time from quiet until every follower is level, in seconds.
const LEVEL_MAX_S: f64 = 10.0;
/// Time limit for it: beyond, a follower does not come to the rows at all.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(90);
/// Pause between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which the available feed keeps deletes, in milliseconds: followers that are away for
/// longer in the long form must restart.
const KEEP_MS: &str = "feed_keep_ms=15000";

#[test]
fn indexes_and_feeds_stay_complete_through_faults_and_changes_of_members() {
    let _permit = experiment();
    let name = "F-67 indexes and feeds";
    let seed = choose_seed();
    print_line(&format!("{name}: CREDENZA_SEED={seed}"));
    let scratch = Scratch::new("cluster-documents");
    let mut trial = DocumentTrial::start(name, &scratch, seed);
    let started = Instant::now();
    let mut deck = new_deck(&mut trial.dice);
    let mut rounds = 0;
    loop {
        let fault = match deck.pop() {
            Some(fault) => fault,
            None if is_long_form() => {
                deck = new_deck(&mut trial.dice);
                continue;
            }
            None => break,
        };
        trial.run_round(fault);
        rounds += 1;
        // Neither at first, when the command has just begun, nor at every fault.
        if rounds % 4 == 2 {
            trial.resume_commands();
        }
        if is_long_form() && started.elapsed() > long_form_time() {
            break;
        }
    }
    trial.end();
}

/// Returns all faults in random order; a restart is left to the long form.
fn new_deck(dice: &mut StdRng) -> Vec<ClusterFault> {
    let is_allowed = |fault: &ClusterFault| is_long_form() || *fault != ClusterFault::RestartNode;
    let mut deck: Vec<_> = DECK.into_iter().filter(is_allowed).collect();
    deck.shuffle(dice);
    deck
}

/// Retries until an attempt succeeds; fails the test with the last error.
fn await_state(what: &str, timeout: Duration, mut attempt: impl FnMut() -> Result<(), String>) {
    let started = Instant::now();
    while let Err(reason) = attempt() {
        assert!(started.elapsed() < timeout, "{what} did not come: {reason}");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Clients of one bucket, and the command that follows its feed beside them.
struct BucketClients {
    /// Declared before the workload: its process ends first.
    command: CommandFollower,
    workload: DocumentWorkload,
}

/// The experiment, with its clients at work.
struct DocumentTrial {
    figures: Figures,
    buckets: [BucketClients; 2],
    faulty: FaultyCluster,
    dice: StdRng,
    /// Number of faults of each kind.
    faults: BTreeMap<ClusterFault, u64>,
    /// Longest time from quiet until every follower was level.
    level_max: Duration,
}

impl DocumentTrial {
    fn start(name: &str, scratch: &Scratch, seed: u64) -> DocumentTrial {
        let figures = Figures::start(name);
        let faulty = FaultyCluster::start(scratch);
        let cluster = &faulty.cluster;
        cluster.run_tool(&["bucket", "create", "docs", "feed=values"]);
        cluster.run_tool(&["bucket", "create", "available/docs", "feed=keys", KEEP_MS]);
        for bucket in BUCKETS {
            let args = ["index", "create", bucket.name(), INDEX, "--path", "$.n", "--type", "int"];
            cluster.run_tool(&[&args[..], &["--wait"]].concat());
        }
        must_answer(cluster);
        // The available feed must forget deletes while somebody is away: 25 s are longer.
        let absence_max = if is_long_form() { 25 * SECOND } else { 3 * SECOND };
        let mut command_nodes = [2, 3].into_iter().map(|node| cluster.client_address(node));
        let buckets = BUCKETS.map(|bucket| {
            let node = command_nodes.next().expect("there are two buckets");
            let command = CommandFollower::start(bucket, scratch.path(), node);
            let plan = DocumentPlan { bucket, seed: seed % 0xffff, absence_max };
            let workload = DocumentWorkload::start(plan, &cluster.client_addresses());
            BucketClients { command, workload }
        });
        let (dice, faults) = (StdRng::seed_from_u64(seed), BTreeMap::new());
        std::thread::sleep(3 * SECOND);
        DocumentTrial { figures, buckets, faulty, dice, faults, level_max: Duration::ZERO }
    }

    /// Does one fault while clients are at work, and judges everything when it is over.
    fn run_round(&mut self, fault: ClusterFault) {
        // Printed first, so that a round that does not end is reported, too.
        print_line(&format!("    begins: {fault:?}"));
        let set_nodes = |nodes: &[SocketAddr]| {
            self.buckets.iter().for_each(|clients| clients.workload.set_nodes(nodes));
        };
        self.faulty.inject(fault, &mut self.dice, set_nodes);
        *self.faults.entry(fault).or_default() += 1;
        self.figures.faults += 1;
        must_answer(&self.faulty.cluster);
        std::thread::sleep(SECOND);
        self.judge_at_rest(false);
    }

    /// Ends the commands that follow, as an operator does; they go on behind their tokens, at other
    /// nodes.
    fn resume_commands(&mut self) {
        for clients in &mut self.buckets {
            let node = self.dice.random_range(1..=BASE_NODES);
            clients.command.resume(self.faulty.cluster.client_address(node));
        }
    }

    /// Stops all writes, waits until every follower is level, and judges rows and findings. At the
    /// end of the experiment, also what must have expired.
    fn judge_at_rest(&mut self, is_end: bool) {
        let DocumentTrial { figures, buckets, faulty, dice, level_max, .. } = self;
        let cluster = &faulty.cluster;
        let mut quiet_buckets = buckets.each_mut().map(QuietBucket::new);
        let began = Instant::now();
        let mut any_node = || cluster.client_address(dice.random_range(1..=cluster.size()));
        await_state("followers that are level", LEVEL_TIMEOUT, || {
            let looks = quiet_buckets.each_mut().map(|bucket| bucket.look(any_node(), began));
            looks.into_iter().collect()
        });
        for bucket in &quiet_buckets {
            *level_max = (*level_max).max(bucket.level_after.unwrap_or_default());
        }
        cluster.must_suspect_none();
        await_comparison(cluster);
        for bucket in &mut quiet_buckets {
            bucket.judge(&mut any_node, figures);
            if is_end {
                bucket.judge_end(cluster, figures);
            }
        }
    }

    /// Stops all clients and prints the figures.
    fn end(mut self) {
        self.judge_at_rest(true);
        let DocumentTrial { mut figures, buckets, faulty, faults, level_max, .. } = self;
        let mut counts = Vec::new();
        for BucketClients { mut command, workload } in buckets {
            counts.push((workload.bucket(), workload.stop(&mut command)));
        }
        for (bucket, counts) in &counts {
            add_figures(&mut figures, *bucket, counts);
        }
        for (fault, count) in &faults {
            figures.add(&format!("{fault:?}"), count);
        }
        figures.add("level_max_ms", level_max.as_millis());
        figures.print();
        for (bucket, counts) in &counts {
            must_have_been_busy(*bucket, counts);
        }
        // Dropped here: a node that panicked fails the test before a bound does.
        drop(faulty);
        let mut checks = BoundChecks::default();
        let what = format!("{}: until every follower is level, s", figures.name());
        checks.check(&what, level_max.as_secs_f64(), LEVEL_MAX_S);
        checks.assert_bounds();
    }
}

/// Waits until every node answers queries of both indexes completely, and reads of both feeds.
fn must_answer(cluster: &Cluster) {
    for (node, address) in (1..).zip(cluster.client_addresses()) {
        let paths = BUCKETS.map(|bucket| {
            let index = format!("{}/index/{INDEX}?want=terms&limit=10", bucket.path());
            [index, format!("{}/feed?from=now", bucket.path())]
        });
        for path in paths.concat() {
            wait_until("an answer", || {
                let client = Http::with_timeout(address, 12 * SECOND);
                let answer = client.and_then(|mut client| client.request("GET", &path, b""));
                match answer {
                    Ok(answer) if answer.status == 200 && answer.json()["partial"] != true => {
                        Ok(())
                    }
                    other => Err(format!("node {node}: {path}: {other:?}")),
                }
            });
        }
    }
}

/// Waits until no hint is left, and every node has compared all its copies since: the next fault
/// hides no write that only one owner has. Records that expire differ again and again, so it does
/// not wait until nothing differs.
fn await_comparison(cluster: &Cluster) {
    let rounds = || {
        let rounds = "credenza_anti_entropy_rounds_total";
        cluster.nodes().map(|node| cluster.metric(node, rounds)).collect::<Vec<_>>()
    };
    wait_until("the delivery of hints", || match cluster.hints() {
        0.0 => Ok(()),
        hints => Err(format!("{hints} hints")),
    });
    let before = rounds();
    wait_until("a comparison of all copies", || {
        let now = rounds();
        // A round that was in progress may have passed a copy already.
        let is_done = now.iter().zip(&before).all(|(now, before)| *now >= before + 2.0);
        if is_done { Ok(()) } else { Err(format!("{now:?} rounds, before {before:?}")) }
    });
}

fn add_figures(figures: &mut Figures, bucket: DocumentBucket, counts: &DocumentCounts) {
    let DocumentCounts { writes, queries, events, restarts, resumptions } = counts;
    figures.ok += writes.ok;
    figures.fail += writes.fail;
    figures.info += writes.info;
    let name = format!("{bucket:?}").to_lowercase();
    for (what, count) in [
        ("answers", queries.complete),
        ("answers_partial", queries.partial),
        ("answers_unavailable", queries.unavailable),
        ("rows_certain", queries.certain_keys),
        ("events", *events),
        ("restarts", *restarts),
        ("resumed", *resumptions),
    ] {
        figures.add(&format!("{name}_{what}"), count);
    }
}

/// Fails unless the clients of a bucket did enough to prove something.
fn must_have_been_busy(bucket: DocumentBucket, counts: &DocumentCounts) {
    let DocumentCounts { writes, queries, events, restarts, resumptions } = counts;
    let is_busy = writes.ok > 100
        && queries.complete > 100
        && queries.certain_keys > 1_000
        && *events > 100
        && *resumptions > 0;
    assert!(is_busy, "clients of {} did almost nothing: {counts:?}", bucket.name());
    // Its feed keeps deletes for a day: every token stays valid, wherever the bucket moves.
    let has_restarted = bucket == DocumentBucket::Consistent && *restarts > 0;
    assert!(!has_restarted, "readers of the consistent bucket had to restart: {counts:?}");
}
