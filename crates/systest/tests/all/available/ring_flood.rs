//! Flood of keys that all belong to one partition: the ring's hash has no key, so anybody finds
//! such keys by trying. They must cost others no more than as many keys of all partitions do.

use super::{SECOND, options};
use base::{BucketName, Partition};
use logic::ring::{PARTITIONS_DEFAULT, point};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use systest::bystanders::{BystanderCall, BystanderReport, run_bystanders};
use systest::client::Http;
use systest::cluster::Cluster;
use systest::environment::{Scratch, experiment};
use systest::report::{BoundChecks, Figures, short_or_long};

/// Partition of the keys of the flood.
const FLOODED: Partition = Partition(7);
/// Keys that the flood writes in a second.
const RATE: u64 = 400;
/// Clients of the flood at each node.
const CLIENTS: u64 = 2;
/// Largest ratio of the others' p99 beside keys of one partition and beside keys of all.
const RATIO_MAX: f64 = 2.0;

/// Returns keys of a bucket with a prefix: those in the flooded partition, or those in others.
fn keys(bucket: &str, prefix: &str, is_flooded: bool) -> impl Iterator<Item = String> + use<> {
    let name = BucketName::parse(bucket).expect("a name");
    let prefix = prefix.to_string();
    (0_u64..).map(move |number| format!("{prefix}{number}")).filter(move |key| {
        let point = point(name.full().as_bytes(), key.as_bytes());
        (point.partition(PARTITIONS_DEFAULT) == FLOODED) == is_flooded
    })
}

/// Makes a request about a key; fails with the answer if it is refused.
fn ask(web: &mut Http, method: &str, bucket: &str, key: &str) -> Result<(), String> {
    let path = format!("/v1/buckets/{bucket}/keys/{key}");
    let body: &[u8] = if method == "PUT" { b"v" } else { b"" };
    let headers = [("content-type", "application/octet-stream")];
    let answer = web.request_with_headers(method, &path, &headers, body);
    let answer = answer.map_err(|error| error.to_string())?;
    match answer.status {
        200..300 => Ok(()),
        status => Err(format!("{method}: {status} {}", answer.text())),
    }
}

/// Returns the calls of a client that writes a new key of another partition, and reads it back.
fn bystander(address: SocketAddr, prefix: &str) -> BystanderCall {
    let mut web = Http::connect(address).expect("it listens");
    let mut keys = keys("available/calm", prefix, false);
    let mut key = String::new();
    Box::new(move |number| {
        if number % 2 == 0 {
            // Another write of a key without its context would add a sibling.
            key = keys.next().expect("there is always one more");
            return ask(&mut web, "PUT", "available/calm", &key);
        }
        ask(&mut web, "GET", "available/calm", &key)
    })
}

/// Writes keys at a fixed rate for a time; returns how many were acknowledged.
fn flood(address: SocketAddr, keys: &[String], (time, per_second): (Duration, u64)) -> u64 {
    let mut web = Http::connect(address).expect("it listens");
    let (began, mut acknowledged) = (Instant::now(), 0);
    for (at, key) in (0_u64..).zip(keys) {
        let due = Duration::from_micros(at * 1_000_000 / per_second);
        if due >= time {
            break;
        }
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        acknowledged += u64::from(ask(&mut web, "PUT", "available/flood", key).is_ok());
    }
    acknowledged
}

/// Measures clients of other partitions beside a flood of these keys; returns how many of them were
/// acknowledged, too.
fn watch_beside(cluster: &Cluster, name: &str, keys: &[String]) -> (BystanderReport, u64) {
    let time = short_or_long(4, 30) as u32 * SECOND;
    let addresses = cluster.client_addresses();
    let floods = addresses.len() as u64 * CLIENTS;
    let acknowledged = &AtomicU64::new(0);
    let report = std::thread::scope(|threads| {
        let places = addresses.iter().flat_map(|address| (0..CLIENTS).map(move |_| *address));
        let parts = keys.chunks(keys.len().div_ceil(floods as usize));
        for (address, part) in places.zip(parts) {
            threads.spawn(move || {
                let written = flood(address, part, (time, RATE / floods));
                acknowledged.fetch_add(written, Relaxed);
            });
        }
        let prefix = |address: &SocketAddr| format!("{name}{}-", address.ip());
        let calls = addresses.iter().map(|address| bystander(*address, &prefix(address)));
        run_bystanders(calls.collect(), time)
    });
    (report, acknowledged.load(Relaxed))
}

#[test]
fn keys_of_one_partition_cost_others_no_more_than_keys_of_all() {
    let _permit = experiment();
    let scratch = Scratch::new("ring-flood");
    let cluster = Cluster::start(&scratch, options(3));
    cluster.init_ring();
    let mut figures = Figures::start("S31 keys of one partition");
    let count = (RATE * short_or_long(4, 30) as u64) as usize;
    let began = Instant::now();
    let corpus: Vec<_> = keys("available/flood", "flood-", true).take(count).collect();
    figures.add("corpus_found_after_ms", began.elapsed().as_millis());
    let spread: Vec<_> = keys("available/flood", "spread-", false).take(count).collect();
    let (beside_spread, spread_count) = watch_beside(&cluster, "spread-", &spread);
    let (beside_corpus, corpus_count) = watch_beside(&cluster, "corpus-", &corpus);
    let [p99_spread, p99_corpus] =
        [&beside_spread, &beside_corpus].map(|report| report.latencies.per_mille_ms(990));
    figures.ok = (beside_spread.latencies.count() + beside_corpus.latencies.count()) as u64;
    figures.add("written_of_all_partitions", spread_count);
    figures.add("written_of_one_partition", corpus_count);
    figures.add("p99_ms_beside_all", format!("{p99_spread:.2}"));
    figures.add("p99_ms_beside_one", format!("{p99_corpus:.2}"));
    // Copies of the flooded partition are compared like those of any other.
    let equal_after = cluster.must_finish_repair();
    figures.add("equal_after_ms", equal_after.as_millis());
    figures.print();
    beside_spread.must_be_served("beside keys of all partitions");
    beside_corpus.must_be_served("beside keys of one partition");
    assert!(corpus_count > 0, "the flood wrote nothing");
    let mut bounds = BoundChecks::default();
    bounds.check("S31 p99 of other partitions, times", p99_corpus / p99_spread, RATIO_MAX);
    bounds.assert_bounds();
}
