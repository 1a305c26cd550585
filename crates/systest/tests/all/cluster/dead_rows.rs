//! Range reads after ten million rows have expired or were deleted, one by one, by prefix and by
//! moves: the rows that they visit are compared with the rows that they return, at once, after a
//! restart, under another master, and at a member that was filled from a snapshot.

use super::SECOND;
use std::time::{Duration, Instant};
use systest::client::{Http, Resp, RespReply};
use systest::report::{Figures, times};
use systest::rigs::{Cluster, Options, Scratch, experiment, wait};

/// Rows that go away in each of the four ways.
const SHORT: usize = 10_000;
const LONG: usize = 2_500_000;
/// Rows of each prefix that stay, spread between those that go away.
const SURVIVORS: usize = 25;
/// Longest time to live of the rows that expire.
const EXPIRY_S: u64 = 5;
/// Most rows visited for each returned, after the store has had time to learn its dead spans.
const WALKED_MAX: f64 = 2.0;
/// Time for learning them in the background.
const LEARNING_MAX: Duration = Duration::from_secs(120);
const PATIENCE: Duration = Duration::from_secs(120);
const WALKED: &str = "credenza_store_rows_walked_total";
const RETURNED: &str = "credenza_store_rows_returned_total";
/// Prefixes, by the way in which their rows go away.
const PREFIXES: [&str; 4] = ["ttl:", "del:", "pre:", "mov:"];

#[test]
fn reads_over_millions_of_dead_rows_walk_what_they_return() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-dead-rows");
    let mut figures = Figures::begin("reads over dead rows");
    let words = ["--memory-bytes-max", "64MiB", "--segment-bytes", "4MiB"].map(String::from);
    let options = Options { words: words.to_vec(), ..Options::of(3) };
    let mut cluster = Cluster::start(&scratch, options);
    cluster.must_serve();
    cluster.operate(&["group", "create", "--replicas", "3"]);
    let rows = times(SHORT, LONG);
    // Moved to another group and back, so that both groups' key spaces have had these rows.
    fill(&cluster, &scratch, "mov:", rows, "[\"put\", 1]");
    for group in [2, 1] {
        move_to(&cluster, group);
    }
    fill(&cluster, &scratch, "mov:", rows, "[\"delete\", 1]");
    fill(&cluster, &scratch, "del:", rows, "[\"put\", 1]");
    fill(&cluster, &scratch, "del:", rows, "[\"delete\", 1]");
    fill(&cluster, &scratch, "pre:", rows, "[\"put\", 1]");
    let mut web = Http::with_patience(cluster.client(cluster.master()), PATIENCE)
        .expect("a node takes connections");
    let removed = web.empty_prefix("pre:").expect("it is emptied in parts");
    assert_eq!(removed, rows as u64);
    fill(&cluster, &scratch, "ttl:", rows, "[\"put_expiring\", 1]");
    survive(&cluster, rows);
    std::thread::sleep(EXPIRY_S as u32 * SECOND);
    cluster.must_settle();

    let master = cluster.master();
    walk(&cluster, master, "at once", &mut figures);
    for node in cluster.nodes() {
        cluster.kill(node);
    }
    cluster.begin_all();
    cluster.must_serve();
    let master = cluster.master();
    walk(&cluster, master, "after a restart", &mut figures);
    let next = cluster.follower();
    cluster.lead(next);
    walk(&cluster, next, "under another master", &mut figures);
    // The others join the first node, so it is not the one that is filled.
    let filled = if next == 3 { 2 } else { 3 };
    cluster.kill(filled);
    cluster.replace(filled);
    cluster.must_catch_up(filled);
    cluster.must_settle();
    cluster.lead(filled);
    walk(&cluster, filled, "after a snapshot", &mut figures);

    cluster.must_be_level();
    figures.ok = 4 * rows as u64;
    figures.print();
}

/// Does one operation with each key of a prefix, as fast as the cluster accepts them.
fn fill(cluster: &Cluster, scratch: &Scratch, prefix: &str, rows: usize, operation: &str) {
    let settings = format!(
        "duration = \"infinity\"\nconcurrent = 64\npipeline = 32\noperations = [{operation}]\n\
         expiry_s = [1, {EXPIRY_S}]\nvalue_generator = [\"fixed_bin\", 40]\nkey_generator = \
         [\"fixed_width\", 12, \"{prefix}\", [\"partitioned_sequential_int\", 1, {rows}]]\n"
    );
    let verb = operation.trim_start_matches("[\"").split('"').next().unwrap_or_default();
    let name = format!("{}-{verb}", prefix.trim_end_matches(':'));
    let report = cluster.bench(scratch.path(), &name, cluster.master(), &settings).report();
    assert_eq!(report["ok"], rows, "{report}");
}

fn move_to(cluster: &Cluster, group: u64) {
    let to = group.to_string();
    cluster.operate(&["bucket", "move", "default", "--group", &to, "--no-wait"]);
    wait("the end of the move", || {
        let output = cluster.tool(1, &["bucket", "status", "default", "--json"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let status: serde_json::Value =
            serde_json::from_str(&said).map_err(|error| error.to_string())?;
        let rests = status["to"].is_null() && status["group"] == group;
        if rests { Ok(()) } else { Err(said) }
    });
}

/// Writes the rows that stay: each after the key of one that goes away.
fn survive(cluster: &Cluster, rows: usize) {
    let mut client = client(cluster, cluster.master());
    for prefix in PREFIXES {
        for survivor in 0..SURVIVORS {
            let key = format!("{prefix}{:08}+", survivor * rows / SURVIVORS);
            let told = client.call(&[b"SET", key.as_bytes(), b"stays"]).expect("an answer");
            assert_eq!(told, RespReply::Simple("OK".into()));
        }
    }
}

fn client(cluster: &Cluster, node: usize) -> Resp {
    Resp::with_patience(cluster.client(node), PATIENCE).expect("a node takes connections")
}

/// Reads every prefix as a whole, and its first rows, until the store has learned its dead spans;
/// then ten more times, which are checked.
fn walk(cluster: &Cluster, node: usize, when: &str, figures: &mut Figures) {
    let name = when.replace(' ', "_");
    let (first, slowest) = read_all(cluster, node);
    figures.also(&format!("first_{name}"), format!("{first:.2}"));
    figures.also(&format!("first_{name}_slowest_ms"), slowest.as_millis());
    let begun = Instant::now();
    while read_all(cluster, node).0 > WALKED_MAX && begun.elapsed() < LEARNING_MAX {
        std::thread::sleep(SECOND / 10);
    }
    figures.also(&format!("learnt_ms_{name}"), begun.elapsed().as_millis());
    let (mut worst, mut slowest) = (0f64, Duration::ZERO);
    for _ in 0..10 {
        let (ratio, time) = read_all(cluster, node);
        (worst, slowest) = (worst.max(ratio), slowest.max(time));
    }
    figures.also(&format!("walked_{name}"), format!("{worst:.2}"));
    figures.also(&format!("slowest_ms_{name}"), slowest.as_millis());
    // This bound is a count, not a time: it holds on a busy machine, too.
    assert!(worst <= WALKED_MAX, "{worst:.2} rows walked for each returned {when}");
}

/// Returns the rows visited for each that was returned, and the longest wait for a page.
fn read_all(cluster: &Cluster, node: usize) -> (f64, Duration) {
    let count = |name| cluster.metric(node, name);
    let before = (count(WALKED), count(RETURNED));
    let mut client = client(cluster, node);
    let mut slowest = Duration::ZERO;
    for prefix in PREFIXES {
        for limit in [b"1000".as_slice(), b"3"] {
            let asked = Instant::now();
            let words = [b"CREDENZA.PREFIX", prefix.as_bytes(), b"LIMIT", limit, b"KEYS"];
            let page = client.call(&words).expect("an answer");
            slowest = slowest.max(asked.elapsed());
            assert!(page.error().is_none(), "{page:?}");
        }
    }
    let (walked, returned) = (count(WALKED) - before.0, count(RETURNED) - before.1);
    let wanted = (PREFIXES.len() * (SURVIVORS + 3)) as f64;
    assert!(returned >= wanted, "{returned} rows were returned, {wanted} stay");
    (walked / returned, slowest)
}
