//! F-26 and F-27: system calls of one node that fail, are interrupted, or do half of their work.

use super::{SECOND, Trial, plan, waits_for_the_long_tests};
use std::time::Duration;
use systest::client::{Http, Resp, RespReply};
use systest::report::skipped;
use systest::rigs::{Cluster, Options, Root, Scratch, Trace, compiled, experiment, missing, text};

/// Time limit for a node that can't sync to end by itself.
const END_MAX: Duration = Duration::from_secs(60);
/// Number of rows that are read while no read of a file succeeds: more than any cache holds.
const ROWS: usize = 600;
const VALUE_BYTES: usize = 48 << 10;

#[test]
fn a_node_whose_store_fails_stops_and_the_others_go_on() {
    let name = "F-26 failed store sync in a cluster";
    if waits_for_the_long_tests(name) {
        return;
    }
    if let Some(why) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-store-sync");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    let mut trial = Trial::begin(name, &cluster, plan(26));
    // The log is synced by fdatasync, the store by fsync.
    trial.syncs_fail(&mut cluster, ("fsync", END_MAX), &scratch, put_rows);
    trial.end(&cluster);
}

/// Writes the rows, so that tables are flushed, through any of these nodes that serves.
fn put_rows(nodes: &[std::net::SocketAddr]) {
    let value = vec![b'x'; VALUE_BYTES];
    let mut at = 0;
    let mut connection = Resp::with_patience(nodes[0], 10 * SECOND);
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
            connection = Resp::with_patience(nodes[at % nodes.len()], 10 * SECOND);
        }
    }
}

/// A read that the disk fails is an error, at a follower and at a master; the row is never answered
/// as absent.
#[test]
fn a_read_that_fails_at_a_node_of_a_cluster_is_an_error() {
    let name = "F-26 failed store read in a cluster";
    if waits_for_the_long_tests(name) {
        return;
    }
    if let Some(why) = missing(Root::Needed, &["strace"]) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-store-read");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    let addresses = cluster.clients();
    put_rows(&addresses);
    let mut trial = Trial::begin(name, &cluster, plan(27));
    let (mut read, mut failed) = (0, 0);
    for leads in [false, true] {
        let node = cluster.follower();
        trial.fault(&mut cluster, |cluster| {
            assert_eq!(cluster.stop(node), Some(0));
            cluster.begin(node); // with empty caches
            cluster.must_settle();
            if leads {
                cluster.lead(node);
            }
            let pid = cluster.server(node).pid();
            let record = scratch.join(&format!("reads{leads}"));
            let mut trace = Trace::attach(pid, "pread64", "error=EIO:when=1+", record);
            let (some, none) = read_rows(cluster, node);
            assert!(trace.injections() > 0, "no read reached the disk");
            (read, failed) = (read + some, failed + none);
            if cluster.server(node).alive() {
                trace.release();
            }
            cluster.begin_ended();
        });
    }
    trial.figures.also("reads_answered", read);
    trial.figures.also("reads_failed", failed);
    trial.end(&cluster);
    assert!(failed > 0, "failed reads were answered as if they had not");
}

/// Reads every row of this node's own copy; returns the numbers of answers and of errors.
fn read_rows(cluster: &Cluster, node: usize) -> (u64, u64) {
    let (mut read, mut failed) = (0, 0);
    for number in 0..ROWS {
        let path = format!("/v1/buckets/default/default/keys/row{number}?consistency=dirty");
        let web = Http::with_patience(cluster.client(node), 5 * SECOND);
        match web.and_then(|mut web| web.ask("GET", &path, b"")) {
            Ok(answer) if answer.status == 200 => read += 1,
            Ok(answer) => {
                assert_ne!(answer.status, 404, "row{number} exists: {}", answer.text());
                failed += 1;
            }
            Err(_) => failed += 1,
        }
    }
    (read, failed)
}

/// Interrupts calls, at a follower and at the master; then halves the writes of all nodes.
#[test]
fn interrupted_and_short_calls_change_nothing_in_a_cluster() {
    let name = "F-27 interrupted and short calls in a cluster";
    if waits_for_the_long_tests(name) {
        return;
    }
    if let Some(why) = missing(Root::Needed, &["strace", "cc"]) {
        return skipped(name, &why);
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-short");
    let mut options = Options::of(3);
    options.wrapper =
        vec![text(&compiled("shortwrite")).into(), "3".into(), text(scratch.path()).into()];
    // Each node runs under the tracer that halves its writes, from its start.
    let mut cluster = Cluster::start(&scratch, options);
    let mut trial = Trial::begin(name, &cluster, plan(28));
    let mut cut = 0;
    for node in cluster.nodes() {
        trial.fault(&mut cluster, |cluster| {
            std::thread::sleep(2 * SECOND);
            cut += stop_and_count(cluster, node);
            cluster.how(node).wrapper.clear();
            cluster.begin(node);
        });
    }
    let calls = "pwrite64,pwritev,fdatasync,fsync,fallocate,ftruncate";
    let mut interrupted = 0;
    for who in [Cluster::follower, Cluster::master] {
        let node = who(&cluster);
        let record = scratch.join(&format!("interrupted{node}"));
        trial.fault(&mut cluster, |cluster| {
            let pid = cluster.server(node).pid();
            let mut trace = Trace::attach(pid, calls, "error=EINTR:when=2+5", record);
            std::thread::sleep(3 * SECOND);
            interrupted += trace.injections();
            trace.release();
            assert!(cluster.server(node).alive(), "{}", cluster.server(node).said());
        });
    }
    trial.figures.also("writes_cut", cut);
    trial.figures.also("calls_interrupted", interrupted);
    trial.end(&cluster);
    assert!(cut > 30 && interrupted > 30, "almost nothing was tampered with");
}

/// Stops a node under the tracer; returns the number of writes that were halved.
fn stop_and_count(cluster: &mut Cluster, node: usize) -> u64 {
    let server = cluster.server(node);
    let status = server.stop(END_MAX).expect("it stops when asked");
    assert!(status.success(), "{}", server.said());
    let said = server.said();
    cluster.kill(node);
    let count = said.lines().find_map(|line| line.strip_prefix("shortwrite: cut "));
    count.and_then(|count| count.trim().parse().ok()).expect("the tracer says it at its end")
}
