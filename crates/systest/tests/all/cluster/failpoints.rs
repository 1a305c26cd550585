//! F-07 and F-31: a node of a cluster dies at every fail point, and while logs are truncated and
//! tables are merged under load.

use super::snapshots::write_much;
use super::{SECOND, Trial, plan, waits_for_the_long_tests};
use crate::faults::failpoints::{READ, make_and_drop, take_checkpoint};
use std::path::Path;
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::rigs::{Cluster, Options, Scratch, experiment};
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, Writing};

/// Longest wait until a fail point is reached.
const REACHED_MAX: Duration = Duration::from_secs(60);
/// Configured limit of the log, and the slack for its spare segments and rounding.
const LOG_BYTES_MAX: u64 = 128 << 20;
const SLACK_BYTES: u64 = 48 << 20;

fn options() -> Options {
    let mut options = Options::of(3);
    options.words.extend(["--log-bytes-max", "128MiB"].map(String::from));
    options
}

/// Starts clients whose writes fill segments and tables quickly.
fn fat(cluster: &Cluster, first: usize) -> Load {
    let one = |at: usize| Writing {
        client: first + at,
        keys: 200,
        depth: 4,
        bytes: 20_000,
        protocol: ClientProtocol::Resp,
    };
    Load::roam(&cluster.clients(), &(0..3).map(one).collect::<Vec<_>>(), 5 * SECOND)
}

#[test]
fn a_node_of_a_cluster_comes_back_whereever_it_died() {
    let name = "F-07 death at every failpoint in a cluster";
    if waits_for_the_long_tests(name) {
        return;
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-failpoints");
    let mut cluster = Cluster::start(&scratch, options());
    let mut trial = Trial::begin(name, &cluster, plan(7));
    let points = store::failpoint::POINTS.iter().filter(|(_, name)| *name != READ);
    let points: Vec<_> = points.collect();
    let mut missed = Vec::new();
    for (round, (_, point)) in points.iter().copied().enumerate() {
        let victim = if cluster.master() == 3 { 2 } else { 3 };
        let mut died = false;
        let mut load = None;
        trial.fault(&mut cluster, |cluster| {
            prepare(cluster, victim, point);
            let armed = ("CREDENZA_FAILPOINT".into(), format!("{point}=abort"));
            cluster.how(victim).environment = vec![armed];
            load = Some(fat(cluster, 2_000 + 10 * round));
            died = dies(cluster, victim);
            cluster.how(victim).environment.clear();
            cluster.begin_ended();
            if !died {
                // The fail point was not reached: it is still armed.
                cluster.kill(victim);
            }
            cluster.begin_all();
            cluster.must_settle();
        });
        trial.told.join(load.expect("it was started").stop());
        if !died {
            missed.push(*point);
        }
    }
    trial.figures.also("known", points.len());
    trial.figures.also("reached", points.len() - missed.len());
    trial.end(&cluster);
    assert!(missed.is_empty(), "never reached: {missed:?}");
}

/// Stops a node so that its next incarnation can reach this fail point.
fn prepare(cluster: &mut Cluster, victim: usize, point: &str) {
    cluster.kill(victim);
    if point.starts_with("first_start.") {
        // A first start needs an empty directory, and its name must be free for a fresh node.
        std::fs::remove_dir_all(&cluster.how(victim).data).expect("it is ours");
        cluster.operate(&["cluster", "replace", &format!("n{victim}")]);
    }
    if point.starts_with("install.") {
        write_much(cluster);
    }
}

/// Starts the armed node and runs all operations that reach a fail point, until it dies. Returns
/// false if it never does.
fn dies(cluster: &mut Cluster, victim: usize) -> bool {
    if let Err(refusal) = cluster.try_to_begin(victim) {
        refusal.must_have_died_armed();
        return true;
    }
    let until = Instant::now() + REACHED_MAX;
    for turn in 0.. {
        let server = cluster.server(victim);
        if !server.alive() {
            break;
        }
        if Instant::now() > until {
            return false;
        }
        let _ = make_and_drop(server, turn);
        let _ = take_checkpoint(server, turn);
        let _ = server.wait(Duration::from_millis(100));
    }
    cluster.server(victim).must_have_died_armed(SECOND);
    true
}

/// Kills nodes while logs are truncated and tables are merged, under full load: no write may be
/// lost, and no log may exceed its limit. Of two copies to one place one is refused.
#[test]
fn collapsing_under_load_with_kills_leaks_nothing() {
    let name = "F-31 collapse under load with kills";
    if waits_for_the_long_tests(name) {
        return;
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-collapse");
    let mut cluster = Cluster::start(&scratch, options());
    let mut trial = Trial::begin(name, &cluster, plan(32));
    trial.log_from = None;
    let places = ["log.collapse.before", "log.collapse.renamed", "log.collapse.removed"];
    let places = places.into_iter().chain(["compact.after", "flush.after"]);
    let (mut most, mut deaths) = (0, 0);
    for (round, point) in places.enumerate() {
        // Alternately a follower and the master.
        let victim = cluster.follower();
        let mut load = None;
        trial.fault(&mut cluster, |cluster| {
            cluster.kill(victim);
            let armed = ("CREDENZA_FAILPOINT".into(), format!("{point}=abort@{}", round + 2));
            cluster.how(victim).environment = vec![armed];
            cluster.begin(victim);
            if round % 2 == 1 {
                cluster.must_settle();
                cluster.lead(victim);
            }
            load = Some(fat(cluster, 3_000 + 10 * round));
            let until = Instant::now() + REACHED_MAX;
            while cluster.server(victim).alive() && Instant::now() < until {
                most = most
                    .max(cluster.nodes().map(|node| log_bytes(cluster, node)).max().unwrap_or(0));
                let _ = cluster.server(victim).wait(SECOND / 4);
            }
            cluster.how(victim).environment.clear();
            if !cluster.server(victim).alive() {
                cluster.server(victim).must_have_died_armed(SECOND);
                deaths += 1;
            }
            cluster.kill(victim);
            cluster.begin(victim);
            cluster.must_settle();
        });
        trial.told.join(load.expect("it was started").stop());
    }
    trial.figures.also("deaths", deaths);
    trial.figures.also("log_MiB_at_most", most >> 20);
    trial.figures.also("of_two_copies_refused", two_copies(&mut cluster));
    trial.end(&cluster);
    assert!(deaths >= 3, "almost no place was reached");
    assert!(most <= LOG_BYTES_MAX + SLACK_BYTES, "a log of {most} bytes");
}

fn log_bytes(cluster: &mut Cluster, node: usize) -> u64 {
    fn size(folder: &Path) -> u64 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
    }
    size(&cluster.how(node).data.join("log"))
}

/// Requests two copies to one place at the same time; returns the number of refusals.
fn two_copies(cluster: &mut Cluster) -> usize {
    let target = cluster.how(1).data.join("checkpoints/twice");
    let body = serde_json::json!({ "target": target }).to_string();
    let address = cluster.client(1);
    let ask = || {
        let mut web = Http::with_patience(address, 60 * SECOND).expect("it listens");
        let answer = web.ask("POST", "/v1/admin/checkpoint", body.as_bytes());
        answer.expect("it answers").status
    };
    let answers = std::thread::scope(|threads| {
        let both = [threads.spawn(ask), threads.spawn(ask)];
        both.map(|one| one.join().expect("a client does not panic"))
    });
    let taken = answers.iter().filter(|status| **status / 100 == 2).count();
    assert_eq!(taken, 1, "{answers:?}");
    answers.len() - taken
}
