//! F-26 and F-27: system calls of one node that fail, are interrupted, or do half of their work.

use super::{SECOND, Trial, is_left_to_long_form, plan};
use std::time::Duration;
use systest::client::{Http, Resp, RespReply};
use systest::cluster::{Cluster, Options};
use systest::environment::{Root, Scratch, compile_helper, experiment, missing, path_str};
use systest::fault_injection::Trace;
use systest::report::skipped;

/// Time limit for a node that can't sync to end by itself.
const END_MAX: Duration = Duration::from_secs(60);
/// Number of rows that are read while no read of a file succeeds: more than any cache holds.
const ROWS: usize = 600;
const VALUE_BYTES: usize = 48 << 10;

#[test]
fn node_with_failed_store_sync_stops_and_peers_continue() {
    let name = "F-26 failed store sync in a cluster";
    if is_left_to_long_form(name) {
        return;
    }
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-store-sync");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    let mut trial = Trial::start(name, &cluster, plan(26));
    // The log is synced by fdatasync, the store by fsync.
    trial.fail_next_sync(&mut cluster, ("fsync", END_MAX), &scratch, write_rows);
    trial.end(&cluster);
}

/// Writes the rows, so that tables are flushed, through any of these nodes that serves.
fn write_rows(nodes: &[std::net::SocketAddr]) {
    let value = vec![b'x'; VALUE_BYTES];
    let mut at = 0;
    let mut connection = Resp::with_timeout(nodes[0], 10 * SECOND);
    for number in 0..ROWS {
        let key = format!("row{number}");
        for _ in 0..600 {
            let redis = connection.as_mut().ok();
            let answer = redis.and_then(|redis| redis.call(&[b"SET", key.as_bytes(), &value]).ok());
            if matches!(answer, Some(RespReply::Simple(_))) {
                break;
            }
            at += 1;
            std::thread::sleep(SECOND / 10);
            connection = Resp::with_timeout(nodes[at % nodes.len()], 10 * SECOND);
        }
    }
}

/// A read that the disk fails is an error, at a follower and at a master; the row is never answered
/// as absent.
#[test]
fn failed_store_read_in_cluster_is_an_error_never_not_found() {
    let name = "F-26 failed store read in a cluster";
    if is_left_to_long_form(name) {
        return;
    }
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-store-read");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    let addresses = cluster.client_addresses();
    write_rows(&addresses);
    let mut trial = Trial::start(name, &cluster, plan(27));
    let (mut reads_answered, mut reads_failed) = (0, 0);
    for as_master in [false, true] {
        let node = cluster.follower();
        trial.fault(&mut cluster, |cluster| {
            assert_eq!(cluster.stop(node), Some(0));
            cluster.start_node(node); // with empty caches
            cluster.must_converge();
            if as_master {
                cluster.make_master(node);
            }
            let pid = cluster.server(node).pid();
            let record = scratch.join(&format!("reads{as_master}"));
            let mut trace = Trace::attach(pid, "pread64", "error=EIO:when=1+", record);
            let (answered, errors) = read_rows(cluster, node);
            assert!(trace.injections() > 0, "no read reached the disk");
            (reads_answered, reads_failed) = (reads_answered + answered, reads_failed + errors);
            if cluster.server(node).is_alive() {
                trace.detach();
            }
            cluster.restart_ended();
        });
    }
    trial.figures.add("reads_answered", reads_answered);
    trial.figures.add("reads_failed", reads_failed);
    trial.end(&cluster);
    assert!(reads_failed > 0, "failed reads were answered as if they had not");
}

/// Reads every row of this node's own copy; returns the numbers of answers and of errors.
fn read_rows(cluster: &Cluster, node: usize) -> (u64, u64) {
    let (mut answered, mut failed) = (0, 0);
    for number in 0..ROWS {
        let path = format!("/v1/buckets/default/default/keys/row{number}?consistency=dirty");
        let web = Http::with_timeout(cluster.client_address(node), 5 * SECOND);
        match web.and_then(|mut web| web.request("GET", &path, b"")) {
            Ok(answer) if answer.status == 200 => answered += 1,
            Ok(answer) => {
                assert_ne!(answer.status, 404, "row{number} exists: {}", answer.text());
                failed += 1;
            }
            Err(_) => failed += 1,
        }
    }
    (answered, failed)
}

/// Interrupts calls, at a follower and at the master; then halves the writes of all nodes.
#[test]
fn interrupted_and_short_system_calls_in_cluster_lose_nothing() {
    let name = "F-27 interrupted and short calls in a cluster";
    if is_left_to_long_form(name) {
        return;
    }
    if let Some(reason) = missing(Root::Needed, &["strace", "cc"]) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-short");
    let mut options = Options::new(3);
    options.wrapper = vec![
        path_str(&compile_helper("shortwrite")).into(),
        "3".into(),
        path_str(scratch.path()).into(),
    ];
    // Each node runs under the tracer that halves its writes, from its start.
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::start(name, &cluster, plan(28));
    let mut halved = 0;
    for node in cluster.nodes() {
        trial.fault(&mut cluster, |cluster| {
            std::thread::sleep(2 * SECOND);
            halved += stop_and_count_halved_writes(cluster, node);
            cluster.setup_mut(node).wrapper.clear();
            cluster.start_node(node);
        });
    }
    let calls = "pwrite64,pwritev,fdatasync,fsync,fallocate,ftruncate";
    let mut interrupted = 0;
    for pick_node in [Cluster::follower, Cluster::master] {
        let node = pick_node(&cluster);
        let record = scratch.join(&format!("interrupted{node}"));
        trial.fault(&mut cluster, |cluster| {
            let pid = cluster.server(node).pid();
            let mut trace = Trace::attach(pid, calls, "error=EINTR:when=2+5", record);
            std::thread::sleep(3 * SECOND);
            interrupted += trace.injections();
            trace.detach();
            assert!(cluster.server(node).is_alive(), "{}", cluster.server(node).stderr_text());
        });
    }
    trial.figures.add("writes_cut", halved);
    trial.figures.add("calls_interrupted", interrupted);
    trial.end(&cluster);
    assert!(halved > 30 && interrupted > 30, "almost nothing was tampered with");
}

/// Stops a node under the tracer; returns the number of writes that were halved.
fn stop_and_count_halved_writes(cluster: &mut Cluster, node: usize) -> u64 {
    let server = cluster.server(node);
    let status = server.stop(END_MAX).expect("it stops when asked");
    assert!(status.success(), "{}", server.stderr_text());
    let stderr = server.stderr_text();
    cluster.kill(node);
    let count = stderr.lines().find_map(|line| line.strip_prefix("shortwrite: cut "));
    count.and_then(|count| count.trim().parse().ok()).expect("the tracer says it at its end")
}
