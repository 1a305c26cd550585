//! Tests of readers of feeds as a measure: its settings, its tables, and its goals.

use super::super::feeds;
use super::super::goals;
use super::*;

const FEEDS: &str = r#"
name = "try"
document = "performance/queries.md"
[quick]
share = 0.04
[server.keys]
command = ["a"]
driver = { driver = "resp", resp_bucket = "changes" }
[server.other]
command = ["a"]
driver = { driver = "http", http_bucket = "changes" }
[[measure]]
name = "read"
servers = ["keys", "other"]
clients = [1]
feed = { read = 500000, values = true, wait = "3s" }
bounds = [
  { figure = "streamed events/s", servers = ["keys", "other"], at_least = 200000.0 },
]
[[measure]]
name = "wait"
limited_by = "timers ([profile](inside/speed.md#timers))"
servers = ["keys"]
clients = [1000]
feed = { watch = "30s", wait = "3s" }
bounds = [{ figure = "% of a core, streams", at_most = 1.0 }]
"#;

fn add(results: &mut Results, (measure, server): (&str, &str), figures: &[(&str, f64)]) {
    let figures = figures.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    let clients = if measure == "wait" { 1_000 } else { 1 };
    let run = Run { figures, version: "v1".into(), ..Run::default() };
    results.add(measure, server, clients, true, run);
}

#[test]
fn figures_of_feeds_stand_in_tables_and_misses_stand_first() {
    let suite = read(FEEDS).expect("whole");
    let mut results = Results::new(&suite, "now".into(), "c0ffee".into(), Machine::default());
    for (server, rate) in [("keys", 250_000.0), ("other", 90_000.0)] {
        let [streamed, server_us, reader_us, bytes] = feeds::STREAM;
        let figures = [
            (feeds::EVENTS, 500_000.0),
            (streamed, rate),
            (server_us, 3.5),
            (reader_us, 0.25),
            (bytes, 60.0),
            (feeds::PAGES[0], rate / 2.0),
        ];
        add(&mut results, ("read", server), &figures);
    }
    let watched = [
        (feeds::ALONE, 0.25),
        (feeds::WATCHED_BY_STREAMS[0], 2.5),
        (feeds::WATCHED_BY_PAGES[0], 0.75),
        (feeds::WATCHED_BY_STREAMS[1], 20.0),
    ];
    add(&mut results, ("wait", "keys"), &watched);
    let text = markdown(&suite, &results, "", None);
    for wanted in [
        "| keys | 1, quick | 500,000 | 250,000 | 3.5 | 0.25 | 60 | 125,000 |",
        "| 1000 | keys | 1, quick | 0.25 | 2.5 | 0.75 | 20 |  | 0 |",
        "| read, other: streamed events/s | 90k, quick | at least 200k | not looked into yet |",
        "| wait: % of a core, streams | 2.50, quick | at most 1 | timers ([profile](../inside/",
        "| read, keys: streamed events/s | 250k, quick | at least 200k | yes |",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let (missed, all) = (text.find("## Missed goals"), text.find("## Goals"));
    assert!(missed.is_some() && missed < all, "{text}");
    for (_, measures) in points(&suite, &results) {
        assert!(charts(&measures, &results).expect("drawn").is_empty(), "they have no operations");
    }
}

#[test]
fn page_without_a_miss_says_so_and_one_without_results_has_no_goals() {
    let suite = read(FEEDS).expect("whole");
    let mut results = Results::new(&suite, "now".into(), "c0ffee".into(), Machine::default());
    assert_eq!(goals::section(&suite, &results), "");
    add(&mut results, ("wait", "keys"), &[(feeds::WATCHED_BY_STREAMS[0], 0.5)]);
    let text = goals::section(&suite, &results);
    assert!(text.contains("## Missed goals\n\nNothing: every goal below is reached."), "{text}");
}

#[test]
fn invalid_work_with_feeds_is_rejected_when_the_suite_is_read() {
    for (from, to, expected) in [
        ("read = 500000, ", "", "wants `read`, a number of events, or `watch`, a time"),
        ("read = 500000, ", "read = 1, watch = '1s', ", "wants `read`, a number of events, or"),
        ("read = 500000", "read = 0", "`read` wants a whole number from 1"),
        ("watch = \"30s\"", "watch = \"47s\"", "of together less than 50 s"),
        ("watch = \"30s\"", "watch = \"30s\", values = true", "there is no key `values` here"),
        ("driver = \"http\", http_bucket = \"changes\"", "driver = \"null\"", "`other` needs the"),
    ] {
        assert!(FEEDS.contains(from), "{from}");
        let error = read(&FEEDS.replace(from, to)).err().unwrap_or_default();
        assert!(error.contains(expected), "{from}: {error}");
    }
}
