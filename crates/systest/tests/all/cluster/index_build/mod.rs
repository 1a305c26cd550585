//! An index is built beside writes, and the master is killed twice meanwhile: in the end the index
//! has exactly the entries that the rows say, under this master and under the next one, and every
//! acknowledged write is there. The 99th percentile of writes is compared with that of before.
//!
//! Promises: the build is seen to go on behind a kill, and the check of the index mends nothing.
//! Never: asserts a latency in the short form.

mod writers;

use super::SECOND;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, StopOnDrop, experiment};
use systest::latencies::Latencies;
use systest::report::{Figures, check_bound, is_long_form, ratio, short_or_long};
use writers::{RecordWriter, WriteLedger, load, loaded_term};

const NAME: &str = "index built beside writes";
const BUCKET: &str = "/v1/buckets/default/default";
/// Records that are there before the index.
const SHORT_FORM_RECORDS: usize = 200_000;
const LONG_FORM_RECORDS: usize = 10_000_000;
/// Number of clients that write before and during the build.
const CLIENTS: usize = 8;
/// Parts of the records, as divisors, that are read when the master is killed.
const KILLED_AT: [usize; 2] = [20, 3];
/// Rows of a page. Ten thousand records of this experiment fit into the bytes of a page.
const PAGE_ROWS: usize = 10_000;
/// Most that a write may take at its 99th percentile, as a multiple of that without a build.
const SLOWER_MAX: f64 = 2.0;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Longest wait for a step of the build that a client can see.
const SHORT_FORM_STEP_TIMEOUT: Duration = Duration::from_secs(120);
/// Even at the lowest pace, 10 million records are read within an hour.
const LONG_FORM_STEP_TIMEOUT: Duration = Duration::from_secs(2 * 3_600);

/// Span of the build on the experiment's clock.
struct BuildSpan {
    from: Duration,
    to: Duration,
    /// Kills behind which the build was seen to go on.
    kills_within: usize,
}

#[test]
fn index_built_beside_writes_is_complete_though_masters_are_killed() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-index-build");
    let args = ["--memory-bytes-max", "64MiB", "--segment-bytes", "16MiB"].map(String::from);
    let mut cluster = Cluster::start(&scratch, Options { args: args.to_vec(), ..Options::new(3) });
    cluster.must_serve();
    let mut figures = Figures::start(NAME);
    let records = short_or_long(SHORT_FORM_RECORDS, LONG_FORM_RECORDS);
    load(cluster.client_address(cluster.master()), records);
    let (stop, clock) = (AtomicBool::new(false), Instant::now());
    let addresses = cluster.client_addresses();
    let (build, record) = std::thread::scope(|threads| {
        let _stop = StopOnDrop(&stop);
        let spawn = |client| {
            let writer = RecordWriter::new((client, CLIENTS), records, &addresses, clock);
            let stop = &stop;
            threads.spawn(move || writer.run(stop))
        };
        let writers: Vec<_> = (0..CLIENTS).map(spawn).collect();
        std::thread::sleep(short_or_long(6, 60) as u32 * SECOND);
        let build = build_index(&mut cluster, clock, records);
        stop.store(true, Ordering::SeqCst);
        let mut record = WriteLedger::default();
        for writer in writers {
            record.join(writer.join().expect("a client does not panic"));
        }
        (build, record)
    });
    cluster.must_converge();
    figures.faults = KILLED_AT.len() as u64;
    (figures.ok, figures.fail, figures.info) = (record.ok(), record.refused, record.unknown);
    let entries = check_rows(&cluster, &record, records, &mut figures);
    check_index(&cluster, &entries);
    // The entries of a follower are those that its own log had.
    let next = cluster.follower();
    cluster.make_master(next);
    check_index(&cluster, &entries);
    let mended = |node| cluster.metric(node, "credenza_index_entries_mended_total");
    let mended: f64 = cluster.nodes().map(mended).sum();
    figures.add("entries", entries.len());
    figures.add("mended", mended);
    figures.add("kills_within", build.kills_within);
    let latencies = add_latencies(&record, &build, &mut figures);
    figures.print();
    assert_eq!((figures.lost, mended), (0, 0.0));
    assert!(build.kills_within > 0, "the build was over before a kill: nothing is proved");
    assert!(latencies.iter().all(|sample| sample.count() > 200), "clients did almost nothing");
    if !is_long_form() {
        cluster.must_have_equal_rows();
    }
    let [before, during] = latencies.map(|sample| sample.per_mille(990));
    let name = format!("{NAME}: p99 of writes, times that of before");
    check_bound(&name, ratio(during, before), SLOWER_MAX);
}

/// Creates the index, kills the master at parts of its build, and waits until it is ready.
fn build_index(cluster: &mut Cluster, clock: Instant, records: usize) -> BuildSpan {
    let from = clock.elapsed();
    let create = ["index", "create", "default", "by-n", "--path", "$.n", "--type", "int"];
    cluster.run_tool(&create);
    let mut kills_within = 0;
    for part in KILLED_AT {
        let reached = (records / part) as u64;
        let before = wait_for_build(cluster, |done| done >= reached);
        let master = cluster.master();
        cluster.kill(master);
        cluster.start_node(master);
        cluster.must_serve();
        let Some(before) = before else { continue };
        // The first report of the next master may be about what the killed one had done; the
        // second is about its own steps.
        let first = wait_for_build(cluster, |done| done > before);
        let second = first.and_then(|first| wait_for_build(cluster, |done| done > first));
        kills_within += usize::from(second.is_some());
    }
    assert_eq!(wait_for_build(cluster, |_| false), None);
    BuildSpan { from, to: clock.elapsed(), kills_within }
}

/// Waits until the build has read as many records as `is_enough` asks for; returns their number.
/// `None`: the index is ready.
fn wait_for_build(cluster: &Cluster, is_enough: impl Fn(u64) -> bool) -> Option<u64> {
    let timeout = if is_long_form() { LONG_FORM_STEP_TIMEOUT } else { SHORT_FORM_STEP_TIMEOUT };
    let deadline = Instant::now() + timeout;
    loop {
        let status = cluster.client_addresses().into_iter().find_map(read_status);
        let status = status.unwrap_or_default();
        match (status["state"].as_str(), status["done"].as_u64()) {
            (Some("ready"), _) => return None,
            (Some("building"), Some(done)) if is_enough(done) => return Some(done),
            (None | Some("building"), _) => {}
            _ => panic!("the index can't be built: {status}"),
        }
        assert!(Instant::now() < deadline, "no progress: {status}\n{}", cluster.describe());
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns the status of the index by one node. `None`: it does not answer now.
fn read_status(address: SocketAddr) -> Option<Value> {
    let mut web = Http::with_timeout(address, 2 * SECOND).ok()?;
    let answer = web.request("GET", &format!("{BUCKET}/indexes/by-n"), b"").ok()?;
    (answer.status == 200).then(|| answer.json())
}

/// Reads all pages of a range or a query at the master.
fn read_pages(cluster: &Cluster, path: &str, mut take: impl FnMut(&Value)) {
    let address = cluster.client_address(cluster.master());
    let mut web = Http::with_timeout(address, ANSWER_TIMEOUT).expect("it listens");
    let mut after = String::new();
    loop {
        let path = format!("{BUCKET}/{path}&limit={PAGE_ROWS}{after}");
        let answer = web.request("GET", &path, b"").expect("it answers");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let page = answer.json();
        take(&page);
        match page["continue"].as_str() {
            Some(place) => after = format!("&after={place}"),
            None => return,
        }
    }
}

/// Returns the number in a record's key.
fn record_number(key: &Value) -> usize {
    let number = key.as_str().and_then(|key| key.strip_prefix('r')?.parse().ok());
    number.unwrap_or_else(|| panic!("no record has the key {key}"))
}

/// Compares the rows with what clients know of them. Returns the entries that the index must have,
/// in its order: terms, and numbers of records.
fn check_rows(
    cluster: &Cluster,
    record: &WriteLedger,
    records: usize,
    figures: &mut Figures,
) -> Vec<(u64, usize)> {
    let mut entries = Vec::with_capacity(records);
    read_pages(cluster, "range?prefix=r&want=entries", |page| {
        for row in page["entries"].as_array().into_iter().flatten() {
            let value: Value = serde_json::from_str(row["value"].as_str().unwrap_or_default())
                .unwrap_or_else(|error| panic!("{row}: {error}"));
            let term = value["n"].as_u64().expect("every record has its number");
            entries.push((term, record_number(&row["key"])));
        }
    });
    let mut found = entries.iter().map(|(term, number)| (*number, *term)).peekable();
    let last = record.last_number().max(records - 1);
    for number in 0..=last {
        let term = found.next_if(|(at, _)| *at == number).map(|(_, term)| term);
        let initial = (number < records).then(|| loaded_term(number));
        if !record.allows(number, initial, term) {
            figures.lost += 1;
            assert!(figures.lost < 100, "record {number} has the term {term:?}");
        }
    }
    assert_eq!(found.next(), None, "a record that nobody wrote");
    entries.sort_unstable();
    entries
}

/// Compares the index with the entries that it must have.
fn check_index(cluster: &Cluster, expected: &[(u64, usize)]) {
    let mut expected = expected.iter();
    read_pages(cluster, "index/by-n?want=terms", |page| {
        for row in page["rows"].as_array().into_iter().flatten() {
            let term = row["term"].as_str().and_then(|term| term.parse().ok());
            let term: u64 = term.unwrap_or_else(|| panic!("no number: {row}"));
            let found = (term, record_number(&row["key"]));
            assert_eq!(Some(&found), expected.next(), "an entry and what the rows say");
        }
    });
    assert_eq!(expected.next(), None, "the index lacks an entry");
}

/// Adds the latencies before and during the build to the figures, and returns them.
fn add_latencies(record: &WriteLedger, build: &BuildSpan, figures: &mut Figures) -> [Latencies; 2] {
    let spans = [("before", Duration::ZERO..build.from), ("during", build.from..build.to)];
    figures.add("build_s", format!("{:.1}", (build.to - build.from).as_secs_f64()));
    spans.map(|(name, span)| {
        let mut sample = Latencies::default();
        let within = record.latencies.iter().filter(|(begun, _)| span.contains(begun));
        within.for_each(|(_, latency)| sample.add(*latency));
        figures.add(&format!("writes_{name}"), sample.count());
        for (part, per_mille) in [("p50", 500), ("p99", 990), ("max", 1_000)] {
            let ms = format!("{:.1}", sample.per_mille_ms(per_mille));
            figures.add(&format!("{part}_ms_{name}"), ms);
        }
        sample
    })
}
