//! F-07 and F-31: a node of a cluster dies at every fail point, and while logs are truncated and
//! tables are merged under load.

use super::snapshots::write_past_log_limit;
use super::{SECOND, Trial, is_left_to_long_form, plan};
use crate::faults::failpoints::{READ, create_and_drop_bucket, take_checkpoint};
use std::path::Path;
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment};
use systest::workload::Load;
use systest::workload::ledger::{ClientProtocol, WriterPlan};

/// Longest wait until a fail point is reached.
const REACH_TIMEOUT: Duration = Duration::from_secs(60);
/// Configured limit of the log, and the slack for its spare segments and rounding.
const LOG_BYTES_MAX: u64 = 128 << 20;
const SLACK_BYTES: u64 = 48 << 20;

fn options() -> Options {
    let mut options = Options::new(3);
    options.args.extend(["--log-bytes-max", "128MiB"].map(String::from));
    options
}

/// Starts clients whose writes fill segments and tables quickly.
fn start_large_writes(cluster: &Cluster, first: usize) -> Load {
    let one = |at: usize| WriterPlan {
        client: first + at,
        keys: 200,
        depth: 4,
        bytes: 20_000,
        protocol: ClientProtocol::Resp,
    };
    Load::with_failover(
        &cluster.client_addresses(),
        &(0..3).map(one).collect::<Vec<_>>(),
        5 * SECOND,
    )
}

#[test]
fn node_killed_at_every_failpoint_rejoins_its_cluster() {
    let name = "F-07 death at every failpoint in a cluster";
    if is_left_to_long_form(name) {
        return;
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-failpoints");
    let mut cluster = Cluster::start(&scratch, options());
    let mut trial = Trial::start(name, &cluster, plan(7));
    let points = store::failpoint::POINTS.iter().filter(|(_, name)| *name != READ);
    let points: Vec<_> = points.collect();
    let mut unreached = Vec::new();
    for (round, (_, point)) in points.iter().copied().enumerate() {
        let victim = if cluster.master() == 3 { 2 } else { 3 };
        let mut died = false;
        let mut load = None;
        trial.fault(&mut cluster, |cluster| {
            prepare(cluster, victim, point);
            let armed = ("CREDENZA_FAILPOINT".into(), format!("{point}=abort"));
            cluster.setup_mut(victim).environment = vec![armed];
            load = Some(start_large_writes(cluster, 2_000 + 10 * round));
            died = run_until_death(cluster, victim);
            cluster.setup_mut(victim).environment.clear();
            cluster.restart_ended();
            if !died {
                // The fail point was not reached: it is still armed.
                cluster.kill(victim);
            }
            cluster.start_all();
            cluster.must_converge();
        });
        trial.extra_ledger.join(load.expect("it was started").stop());
        if !died {
            unreached.push(*point);
        }
    }
    trial.figures.add("known", points.len());
    trial.figures.add("reached", points.len() - unreached.len());
    trial.end(&cluster);
    assert!(unreached.is_empty(), "never reached: {unreached:?}");
}

/// Stops a node so that its next incarnation can reach this fail point.
fn prepare(cluster: &mut Cluster, victim: usize, point: &str) {
    cluster.kill(victim);
    if point.starts_with("first_start.") {
        // A first start needs an empty directory, and its name must be free for a fresh node.
        std::fs::remove_dir_all(&cluster.setup_mut(victim).data).expect("it is ours");
        cluster.run_tool(&["cluster", "replace", &format!("n{victim}")]);
    }
    if point.starts_with("install.") {
        write_past_log_limit(cluster);
    }
}

/// Starts the armed node and runs all operations that reach a fail point, until it dies. Returns
/// false if it never does.
fn run_until_death(cluster: &mut Cluster, victim: usize) -> bool {
    if let Err(refusal) = cluster.try_start(victim) {
        refusal.must_have_died_at_failpoint();
        return true;
    }
    let deadline = Instant::now() + REACH_TIMEOUT;
    for round in 0.. {
        let server = cluster.server(victim);
        if !server.is_alive() {
            break;
        }
        if Instant::now() > deadline {
            return false;
        }
        let _ = create_and_drop_bucket(server, round);
        let _ = take_checkpoint(server, round);
        let _ = server.wait(Duration::from_millis(100));
    }
    cluster.server(victim).must_have_died_at_failpoint(SECOND);
    true
}

/// Kills nodes while logs are truncated and tables are merged, under full load: no write may be
/// lost, and no log may exceed its limit. Of two checkpoints with one target one is refused.
#[test]
fn kills_during_log_truncation_and_merges_lose_nothing_and_bound_log() {
    let name = "F-31 collapse under load with kills";
    if is_left_to_long_form(name) {
        return;
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-collapse");
    let mut cluster = Cluster::start(&scratch, options());
    let mut trial = Trial::start(name, &cluster, plan(32));
    trial.log_from = None;
    let points = ["log.collapse.before", "log.collapse.renamed", "log.collapse.removed"];
    let points = points.into_iter().chain(["compact.after", "flush.after"]);
    let (mut largest_log_bytes, mut deaths) = (0, 0);
    for (round, point) in points.enumerate() {
        // Alternately a follower and the master.
        let victim = cluster.follower();
        let mut load = None;
        trial.fault(&mut cluster, |cluster| {
            cluster.kill(victim);
            let armed = ("CREDENZA_FAILPOINT".into(), format!("{point}=abort@{}", round + 2));
            cluster.setup_mut(victim).environment = vec![armed];
            cluster.start_node(victim);
            if round % 2 == 1 {
                cluster.must_converge();
                cluster.make_master(victim);
            }
            load = Some(start_large_writes(cluster, 3_000 + 10 * round));
            let deadline = Instant::now() + REACH_TIMEOUT;
            while cluster.server(victim).is_alive() && Instant::now() < deadline {
                largest_log_bytes = largest_log_bytes
                    .max(cluster.nodes().map(|node| log_bytes(cluster, node)).max().unwrap_or(0));
                let _ = cluster.server(victim).wait(SECOND / 4);
            }
            cluster.setup_mut(victim).environment.clear();
            if !cluster.server(victim).is_alive() {
                cluster.server(victim).must_have_died_at_failpoint(SECOND);
                deaths += 1;
            }
            cluster.kill(victim);
            cluster.start_node(victim);
            cluster.must_converge();
        });
        trial.extra_ledger.join(load.expect("it was started").stop());
    }
    trial.figures.add("deaths", deaths);
    trial.figures.add("log_MiB_at_most", largest_log_bytes >> 20);
    trial.figures.add("of_two_copies_refused", request_two_checkpoints(&mut cluster));
    trial.end(&cluster);
    assert!(deaths >= 3, "almost no place was reached");
    assert!(largest_log_bytes <= LOG_BYTES_MAX + SLACK_BYTES, "a log of {largest_log_bytes} bytes");
}

fn log_bytes(cluster: &mut Cluster, node: usize) -> u64 {
    fn size(folder: &Path) -> u64 {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
    }
    size(&cluster.setup_mut(node).data.join("log"))
}

/// Requests two checkpoints with one target at the same time; returns the number of refusals.
fn request_two_checkpoints(cluster: &mut Cluster) -> usize {
    let target = cluster.setup_mut(1).data.join("checkpoints/twice");
    let body = serde_json::json!({ "target": target }).to_string();
    let address = cluster.client_address(1);
    let request_checkpoint = || {
        let mut web = Http::with_timeout(address, 60 * SECOND).expect("it listens");
        let answer = web.request("POST", "/v1/admin/checkpoint", body.as_bytes());
        answer.expect("it answers").status
    };
    let answers = std::thread::scope(|threads| {
        let requests = [threads.spawn(request_checkpoint), threads.spawn(request_checkpoint)];
        requests.map(|request| request.join().expect("a client does not panic"))
    });
    let accepted = answers.iter().filter(|status| **status / 100 == 2).count();
    assert_eq!(accepted, 1, "{answers:?}");
    answers.len() - accepted
}
