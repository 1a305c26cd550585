//! Range reads after ten million rows have expired or were deleted, one by one, by prefix and by
//! moves: the rows that they visit are compared with the rows that they return, at once, after a
//! restart, under another master, and at a member that was filled from a snapshot.

use super::SECOND;
use std::time::{Duration, Instant};
use systest::client::{Http, Resp, RespReply};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, experiment};
use systest::report::{Figures, short_or_long};

/// Rows that go away in each of the four ways.
const SHORT_FORM_ROWS: usize = 10_000;
const LONG_FORM_ROWS: usize = 2_500_000;
/// Rows of each prefix that stay, spread between those that go away.
const SURVIVORS: usize = 25;
/// Rows that a round of reads returns, and those that the store returns for it: a page with a limit
/// reads one row more, to know whether others follow.
const ROWS_ANSWERED: usize = PREFIXES.len() * (SURVIVORS + 3);
const ROWS_READ: usize = PREFIXES.len() * (SURVIVORS + 4);
/// Longest time to live of the rows that expire.
const EXPIRY_S: u64 = 5;
/// Most rows visited for each returned, after the store has had time to record its dead spans.
const WALKED_MAX: f64 = 2.0;
/// Time for recording them in the background.
const LEARNING_TIMEOUT: Duration = Duration::from_secs(120);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
const ROWS_WALKED: &str = "credenza_store_rows_walked_total";
const ROWS_RETURNED: &str = "credenza_store_rows_returned_total";
/// Prefixes, by the way in which their rows go away.
const PREFIXES: [&str; 4] = ["ttl:", "del:", "pre:", "mov:"];

#[test]
fn range_reads_over_dead_rows_visit_at_most_twice_the_rows_returned() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-dead-rows");
    let mut figures = Figures::start("reads over dead rows");
    let args = ["--memory-bytes-max", "64MiB", "--segment-bytes", "4MiB"].map(String::from);
    let options = Options { args: args.to_vec(), ..Options::new(3) };
    let mut cluster = Cluster::start(&scratch, options);
    cluster.must_serve();
    cluster.run_tool(&["group", "create", "--replicas", "3"]);
    let rows = short_or_long(SHORT_FORM_ROWS, LONG_FORM_ROWS);
    // Moved to another group and back, so that both groups' key spaces have had these rows.
    run_on_all_keys(&cluster, &scratch, "mov:", rows, "[\"put\", 1]");
    for group in [2, 1] {
        move_to(&cluster, group);
    }
    run_on_all_keys(&cluster, &scratch, "mov:", rows, "[\"delete\", 1]");
    run_on_all_keys(&cluster, &scratch, "del:", rows, "[\"put\", 1]");
    run_on_all_keys(&cluster, &scratch, "del:", rows, "[\"delete\", 1]");
    run_on_all_keys(&cluster, &scratch, "pre:", rows, "[\"put\", 1]");
    let mut web = Http::with_timeout(cluster.client_address(cluster.master()), ANSWER_TIMEOUT)
        .expect("a node takes connections");
    let removed = web.empty_prefix("pre:").expect("it is emptied in parts");
    assert_eq!(removed, rows as u64);
    run_on_all_keys(&cluster, &scratch, "ttl:", rows, "[\"put_expiring\", 1]");
    write_survivors(&cluster, rows);
    std::thread::sleep(EXPIRY_S as u32 * SECOND);
    cluster.must_converge();

    let master = cluster.master();
    check_walked_ratio(&cluster, master, "at once", &mut figures);
    for node in cluster.nodes() {
        cluster.kill(node);
    }
    cluster.start_all();
    cluster.must_serve();
    let master = cluster.master();
    check_walked_ratio(&cluster, master, "after a restart", &mut figures);
    let next = cluster.follower();
    cluster.make_master(next);
    check_walked_ratio(&cluster, next, "under another master", &mut figures);
    // The others join the first node, so it is not the one that is filled.
    let filled = if next == 3 { 2 } else { 3 };
    cluster.kill(filled);
    cluster.replace(filled);
    cluster.must_catch_up(filled);
    cluster.must_converge();
    cluster.make_master(filled);
    check_walked_ratio(&cluster, filled, "after a snapshot", &mut figures);

    cluster.must_have_equal_rows();
    figures.ok = 4 * rows as u64;
    figures.print();
}

/// Does one operation with each key of a prefix, as fast as the cluster accepts them.
fn run_on_all_keys(
    cluster: &Cluster,
    scratch: &Scratch,
    prefix: &str,
    rows: usize,
    operation: &str,
) {
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
    let target = group.to_string();
    cluster.run_tool(&["bucket", "move", "default", "--group", &target, "--no-wait"]);
    wait_until("the end of the move", || {
        let output = cluster.tool(1, &["bucket", "status", "default", "--json"]);
        let status_text = String::from_utf8_lossy(&output.stdout).into_owned();
        let status: serde_json::Value =
            serde_json::from_str(&status_text).map_err(|error| error.to_string())?;
        let is_settled = status["to"].is_null() && status["group"] == group;
        if is_settled { Ok(()) } else { Err(status_text) }
    });
}

/// Writes the rows that stay: each after the key of one that goes away.
fn write_survivors(cluster: &Cluster, rows: usize) {
    let mut client = connect(cluster, cluster.master());
    for prefix in PREFIXES {
        for survivor in 0..SURVIVORS {
            let key = format!("{prefix}{:08}+", survivor * rows / SURVIVORS);
            let reply = client.call(&[b"SET", key.as_bytes(), b"stays"]).expect("an answer");
            assert_eq!(reply, RespReply::Simple("OK".into()));
        }
    }
}

fn connect(cluster: &Cluster, node: usize) -> Resp {
    Resp::with_timeout(cluster.client_address(node), ANSWER_TIMEOUT)
        .expect("a node takes connections")
}

/// Reads every prefix as a whole, and its first rows, until the expired rows are removed and the
/// store has recorded its dead spans; then ten more times, which are checked.
fn check_walked_ratio(cluster: &Cluster, node: usize, phase: &str, figures: &mut Figures) {
    let name = phase.replace(' ', "_");
    let first = read_all(cluster, node);
    figures.add(&format!("first_{name}"), format!("{:.2}", first.ratio()));
    figures.add(&format!("first_{name}_slowest_ms"), first.slowest.as_millis());
    let started = Instant::now();
    while !read_all(cluster, node).is_settled() && started.elapsed() < LEARNING_TIMEOUT {
        std::thread::sleep(SECOND / 10);
    }
    figures.add(&format!("learnt_ms_{name}"), started.elapsed().as_millis());
    let rounds: Vec<ReadRound> = (0..10).map(|_| read_all(cluster, node)).collect();
    let worst_ratio = rounds.iter().map(ReadRound::ratio).fold(0.0, f64::max);
    let slowest = rounds.iter().map(|round| round.slowest).max().unwrap_or_default();
    figures.add(&format!("walked_{name}"), format!("{worst_ratio:.2}"));
    figures.add(&format!("slowest_ms_{name}"), slowest.as_millis());
    // This bound is a count, not a time: it holds on a busy machine, too.
    assert!(worst_ratio <= WALKED_MAX, "too many rows are walked {phase}: {rounds:?}");
}

/// Rows that the store visited and returned while all prefixes were read.
#[derive(Debug)]
struct ReadRound {
    rows_walked: f64,
    rows_returned: f64,
    /// Longest wait for a page.
    slowest: Duration,
}

impl ReadRound {
    /// Returns the rows visited for each that was returned.
    fn ratio(&self) -> f64 {
        self.rows_walked / self.rows_returned
    }

    /// Returns true if the store knows its dead spans. Until a sweep removes an expired row, the
    /// store returns it and the read leaves it out, so that it is dead only later.
    fn is_settled(&self) -> bool {
        self.ratio() <= WALKED_MAX && self.rows_returned <= ROWS_READ as f64
    }
}

fn read_all(cluster: &Cluster, node: usize) -> ReadRound {
    let count = |name| cluster.metric(node, name);
    let before = (count(ROWS_WALKED), count(ROWS_RETURNED));
    let mut client = connect(cluster, node);
    let mut slowest = Duration::ZERO;
    for prefix in PREFIXES {
        for limit in [b"1000".as_slice(), b"3"] {
            let requested_at = Instant::now();
            let args = [b"CREDENZA.PREFIX", prefix.as_bytes(), b"LIMIT", limit, b"KEYS"];
            let page = client.call(&args).expect("an answer");
            slowest = slowest.max(requested_at.elapsed());
            assert!(page.error().is_none(), "{page:?}");
        }
    }
    let (rows_walked, rows_returned) =
        (count(ROWS_WALKED) - before.0, count(ROWS_RETURNED) - before.1);
    assert!(rows_returned >= ROWS_ANSWERED as f64, "{rows_returned} rows were returned");
    ReadRound { rows_walked, rows_returned, slowest }
}
