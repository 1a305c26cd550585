//! Tests of a measure's goals: ratios, limits, times of others, and gaps of a failover.

use super::super::goals::verdicts;
use super::*;
use load_generator::report::Percentiles;

const GOALS: &str = r#"
name = "try"
document = "performance.md"
[server.a]
command = ["a"]
driver = { driver = "null" }
leader_metric = "leads"
survivors = { driver = "null" }
[server.b]
command = ["b"]
driver = { driver = "null" }
[[measure]]
name = "put"
servers = ["a", "b"]
clients = [8, 64]
goal = { 8 = 4.0 }
bounds = [
  { figure = "p99 ms", clients = [64], beside = "b", at_most = 0.5 },
  { figure = "server us/op", at_most = 16.0 },
  { figure = "rate", clients = [64], at_least = 60000.0 },
]
[[measure]]
name = "sets"
servers = ["a"]
clients = [1, 8]
published = { per_client = 1000000, rows = [{ name = "Arakoon", seconds = { 1 = 294, 8 = 2180 } }] }
[[measure]]
name = "gap"
servers = ["a"]
clients = [16]
failover = { after = "1s" }
bounds = [{ figure = "gap ms", at_most = 500.0 }]
"#;

fn suite_and_results() -> (Suite, Results) {
    let suite = read(GOALS).expect("whole");
    let results = Results::new(&suite, "now".into(), "c0ffee".into(), Machine::default());
    (suite, results)
}

fn run(throughput: f64, p99_us: f64, server_cpu: f64) -> Run {
    let latency_us = Percentiles { p99: p99_us, ..Percentiles::default() };
    Run { throughput, latency_us, server_cpu, ..Run::default() }
}

#[test]
fn goals_are_judged_for_each_number_of_clients() {
    let (suite, mut results) = suite_and_results();
    results.add("put", "a", 8, false, run(40_000.0, 900.0, 0.5));
    results.add("put", "b", 8, false, run(8_000.0, 900.0, 0.5));
    results.add("put", "a", 64, false, run(50_000.0, 900.0, 1.0));
    let lines = |results: &Results| -> Vec<String> {
        let goals = verdicts(&suite.measures[0], results);
        goals.iter().map(|goal| goal.verdict.line()).collect()
    };
    assert_eq!(
        lines(&results),
        [
            "kept: put, 8 clients: rate, times that of b: 5.00 (at least 4)",
            "kept: put, 8 clients: server us/op: 12.50 (at most 16)",
            "MISSED: put, 64 clients: server us/op: 20.00 (at most 16)",
            "MISSED: put, 64 clients: rate: 50k (at least 60k)",
        ],
        "beside a server that was not run there is no verdict"
    );
    results.add("put", "b", 64, false, run(8_000.0, 2_000.0, 1.0));
    let peer = "kept: put, 64 clients: p99 ms, times that of b: 0.45 (at most 0.5)";
    assert!(lines(&results).iter().any(|line| line == peer), "{:?}", lines(&results));
}

#[test]
fn invalid_bounds_of_a_measure_are_rejected_when_the_suite_is_read() {
    for (from, to, expected) in [
        ("beside = \"b\", at_most", "beside = \"c\", at_most", "there is no server `c`"),
        ("beside = \"b\"", "since_start = true", "`since_start` is for soaks"),
        (", at_most = 16.0", "", "wants `at_most` or `at_least`"),
        ("leader_metric = \"leads\"", "", "needs `leader_metric` and `survivors`"),
        ("after = \"1s\"", "after = \"soon\"", "`after` wants a time"),
        ("per_client = 1000000,", "", "needs the key `per_client`"),
        ("{ 1 = 294,", "{ one = 294,", "wants a number of clients"),
    ] {
        let error = read(&GOALS.replace(from, to)).err().unwrap_or_default();
        assert!(error.contains(expected), "{from}: {error}");
    }
}

#[test]
fn published_times_stand_beside_ours_and_scaled_ones_say_so() {
    let (suite, mut results) = suite_and_results();
    let published = suite.measures[1].published.as_ref().expect("there are");
    for (clients, rate, operations) in [(1, 2_000.0, 1_000_000), (8, 10_000.0, 80_000)] {
        let mut run = run(rate, 0.0, 1.0);
        published.add_figures(&mut run, clients, operations);
        run.version = "credenza 0.1.0".into();
        results.add("sets", "a", clients, false, run);
    }
    let table = published.table(&suite.measures[1], &results);
    for wanted in [
        "| seconds for 1,000,000 operations of each client | 1 | 8 |",
        "| Arakoon, published | 294 | 2,180 |",
        "| a (credenza 0.1.0) | 500 | 800 (scaled from 10,000 each) |",
        "| Arakoon, times ours | 0.59 | 2.73 |",
    ] {
        assert!(table.contains(wanted), "{wanted}: {table}");
    }
    assert!(markdown(&suite, &results, "", None).contains("| Arakoon, published | 294 | 2,180 |"));
}

#[test]
fn gaps_of_a_failover_are_shown_with_their_least_and_most() {
    let (suite, mut results) = suite_and_results();
    for gap in [480.0, 760.0, 450.0] {
        let mut run = run(900.0, 0.0, 0.5);
        run.figures.insert("gap ms".into(), gap);
        results.add("gap", "a", 16, false, run);
    }
    let text = markdown(&suite, &results, "", None);
    assert!(text.contains("| gap: gap ms | 480.00 | at most 500 | yes |"), "{text}");
    assert!(text.contains("| 16 | a | 3 | 480 | 450 to 760 | 0 |"), "{text}");
}
