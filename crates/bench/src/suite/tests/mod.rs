//! Tests of suites: the file is checked before anything is started; medians, ratios and tables.

mod coupons;
mod feeds;
mod goals;
mod pages;

use super::file::{LoadOverrides, Suite};
use super::output::{charts, write_document};
use super::process::{bind_command, ticks};
use super::results::{Results, Run};
use super::tables::{markdown, points, ratio};
use super::work::{Work, fill_placeholders, redis_benchmark, write_records};
use super::{SUITES, SuiteOptions};
use load_generator::config::Items;
use load_generator::machine::Machine;

const TEXT: &str = r#"
name = "try"
document = "performance.md"
repeat = 3
[load]
duration = "1s"
[server.a]
command = ["{program}", "--port", "{port}"]
driver = { driver = "resp", resp_address = "127.0.0.1:{port}" }
[server.b]
command = ["b"]
driver = { driver = "null" }
[[measure]]
name = "put"
servers = ["a", "b"]
clients = [1, 8]
goal = { 8 = 4.0 }
load = { operations = [["put", 1]] }
[[measure]]
name = "judge"
servers = ["a"]
clients = [50]
quick = false
tool = { command = ["judge", "{units}"], units = 1000, gives = "redis-benchmark" }
[quick]
repeat = 2
share = 0.1
load = { duration = "100ms" }
"#;

fn read(text: &str) -> Result<Suite, String> {
    Suite::read(Items::parse("s.toml", text)?, &LoadOverrides::default())
}

#[test]
fn bundled_suites_parse() {
    for (name, text) in SUITES {
        let suite = read(text).expect(name);
        assert!(suite.points().count() + suite.soaks.len() > 0);
    }
}

#[test]
fn invalid_suite_settings_are_rejected_when_the_suite_is_read() {
    assert!(read(TEXT).is_ok());
    for (from, to, expected) in [
        ("[\"a\", \"b\"]", "[\"a\", \"c\"]", "there is no server `c`"),
        ("\"1s\"", "\"1 day\"", "`duration` wants a time"),
        ("repeat = 3", "repeats = 3", "there is no key `repeats`"),
        ("\"put\", 1", "\"fly\", 1", "`operations` wants an operation"),
        ("\"null\"", "\"nil\"", "`driver` wants one of"),
        ("command = [\"b\"]", "command = []", "wants a command"),
        ("gives = \"redis-benchmark\"", "gives = \"luck\"", "`gives` wants \"redis-benchmark\""),
        ("{ 8 = 4.0 }", "{ many = 4.0 }", "`goal` wants a number of clients"),
    ] {
        let error = read(&TEXT.replace(from, to)).err().unwrap_or_default();
        assert!(error.contains(expected), "{from}: {error}");
    }
}

#[test]
fn command_line_settings_override_those_of_every_load() {
    let settings = Items::parse("--set", "duration = '7s'").expect("whole");
    let overrides = LoadOverrides { quick: true, settings, ..LoadOverrides::default() };
    let suite = Suite::read(Items::parse("s.toml", TEXT).expect("whole"), &overrides);
    let suite = suite.expect("whole");
    let placeholders = [("port", "77".to_string())].into();
    let measure = &suite.measures[0];
    let config = measure.config(&suite.servers["a"], 8, &placeholders, Some(1)).expect("whole");
    assert_eq!(config.duration.map(|duration| duration.as_secs()), Some(7));
    assert_eq!((config.concurrent, config.pin), (8, vec![1]));
    assert!(config.text.contains("127.0.0.1:77"), "{}", config.text);
    assert_eq!(fill_placeholders("a{port}{port2}{x}", &placeholders), "a77{port2}{x}");
}

#[test]
fn ratios_to_the_peer_are_computed_from_the_runs() {
    let (suite, results) = measured_suite();
    assert_eq!(ratio(&suite.measures[0], &results, "b", 8), Some(5.0));
    assert_eq!(ratio(&suite.measures[0], &results, "a", 8), None);
    assert_eq!(ratio(&suite.measures[0], &results, "b", 1), None);
    let text = markdown(&suite, &results, "", None);
    assert!(text.contains("| 8 | b | 3 | 40 | 5.00 (2.00 to 22.50) |"), "{text}");
    assert!(
        text.contains("| put, 8 clients: rate, times that of b | 5.00 | at least 4 | yes |"),
        "{text}"
    );
    assert!(text.contains("- a: v1"));
}

/// Returns three rounds of the first measure, with 8 clients.
fn measured_suite() -> (Suite, Results) {
    let suite = read(TEXT).expect("whole");
    let mut results = Results::new(&suite, "now".into(), "c0ffee".into(), Machine::default());
    for (server, numbers) in [("a", [100.0, 900.0, 200.0]), ("b", [50.0, 40.0, 10.0])] {
        for throughput in numbers {
            let run = Run { throughput, version: "v1".into(), ..Run::default() };
            results.add("put", server, 8, false, run);
        }
    }
    (suite, results)
}

#[test]
fn quick_suite_is_shorter_and_skips_measures_marked_optional() {
    let overrides = LoadOverrides { quick: true, ..LoadOverrides::default() };
    let suite =
        Suite::read(Items::parse("s.toml", TEXT).expect("whole"), &overrides).expect("whole");
    let placeholders = [("port", "77".to_string())].into();
    let config =
        suite.measures[0].config(&suite.servers["a"], 8, &placeholders, None).expect("whole");
    assert_eq!((config.duration.map(|time| time.as_millis()), suite.repeat), (Some(100), 2));
    let Work::Tool(tool) = &suite.measures[1].work else { panic!("a tool") };
    assert_eq!(tool.units, 100);
    let judge = &suite.measures[1];
    assert!(!judge.is_selected(&[], true) && judge.is_selected(&[], false));
    assert!(
        judge.is_selected(&["judge".into()], true) && !judge.is_selected(&["put".into()], false)
    );
}

#[test]
fn rerun_measure_replaces_its_points_and_keeps_other_measures() {
    let (suite, previous) = measured_suite();
    let mut newer = Results::new(&suite, "later".into(), "c0ffee".into(), Machine::default());
    newer.left_out = vec!["b".into(), "c".into()];
    newer.add("judge", "a", 50, true, Run { throughput: 7.0, ..Run::default() });
    let merged = newer.merged_into(Some(previous.clone()));
    assert_eq!((merged.points.len(), merged.left_out.clone()), (3, vec!["c".to_string()]));
    let mut rerun = Results::new(&suite, "later".into(), "c0ffee".into(), Machine::default());
    rerun.add("put", "a", 8, false, Run { throughput: 1.0, ..Run::default() });
    let merged = rerun.merged_into(Some(merged));
    assert!(merged.point("put", "b", 8).is_none(), "half a measure would compare two days");
    assert_eq!(merged.point("put", "a", 8).map(|point| point.median.throughput), Some(1.0));
    assert!(merged.point("judge", "a", 50).is_some_and(|point| point.quick));
}

#[test]
fn suite_document_links_only_charts_that_were_written() {
    let (suite, results) = measured_suite();
    let folder = std::env::temp_dir().join(format!("bench-document-{}", std::process::id()));
    write_document(&suite, &results, &folder).expect("written");
    let text = std::fs::read_to_string(folder.join("performance.md")).expect("a document");
    let links: Vec<_> = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).collect();
    assert_eq!(links.len(), 3);
    for (chart, _) in links {
        let svg = std::fs::read_to_string(folder.join(chart)).expect(chart);
        assert!(svg.starts_with("<svg"), "{chart}");
    }
    let parsed = Results::read(&folder.join("performance")).expect("reads back");
    assert_eq!(parsed.points.len(), results.points.len());
    std::fs::remove_dir_all(&folder).expect("removed");
    let measures = &points(&suite, &results)[0].1;
    assert_eq!(charts(measures, &results).expect("drawn").len(), 3);
}

#[test]
fn redis_benchmark_csv_is_parsed() {
    let output = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                \"SET\",\"95238.10\",\"0.280\",\"0.112\",\"0.279\",\"0.359\",\"0.463\",\"0.975\"\n";
    let (rate, latency) = redis_benchmark(output).expect("a table");
    assert_eq!((rate, latency.p50, latency.p99), (95_238.1, 279.0, 463.0));
    assert!(redis_benchmark("Could not connect").is_none());
    assert!(redis_benchmark(output.split_once('\n').map_or("", |(names, _)| names)).is_none());
}

#[test]
fn records_have_20_byte_keys_and_distinct_100_byte_values() {
    let file = std::env::temp_dir().join(format!("bench-records-{}", std::process::id()));
    write_records(&file, 100).expect("written");
    let text = std::fs::read_to_string(&file).expect("a file");
    std::fs::remove_file(&file).expect("removed");
    let rows: std::collections::BTreeMap<_, _> =
        text.lines().filter_map(|line| line.split_once('\t')).collect();
    assert_eq!(rows.len(), 100);
    assert!(rows.iter().all(|(key, value)| (key.len(), value.len()) == (20, 100)));
    let values: std::collections::BTreeSet<_> = rows.values().collect();
    assert_eq!(values.len(), 100);
}

#[test]
fn unknown_point_is_rejected_with_a_list_of_known_points() {
    let folder = std::env::temp_dir().join("bench-never-made");
    let options = SuiteOptions { only: vec!["pit".into()], results: folder, ..Default::default() };
    let error = super::run("s.toml", TEXT, &options, &mut |_| ()).expect_err("refused");
    assert!(
        error.text.contains("no point `pit`") && error.text.contains("put, judge, codec"),
        "{error}"
    );
}

#[test]
fn server_that_fails_to_start_is_recorded_and_other_runs_continue() {
    let text = TEXT.replace("command = [\"b\"]", "command = [\"sleep\", \"60\"]");
    let text = text.replace("\"{program}\", \"--port\", \"{port}\"", "\"false\"");
    let text = text.replace("clients = [1, 8]", "clients = [1]");
    let folder = std::env::temp_dir().join(format!("bench-failing-{}", std::process::id()));
    let settings = Items::parse("--set", "duration = '50ms'").expect("whole");
    let options = SuiteOptions {
        only: vec!["put".into()],
        results: folder.clone(),
        documents: Some(folder.join("documents")),
        repeat: Some(2),
        overrides: LoadOverrides { settings, ..LoadOverrides::default() },
        ..SuiteOptions::default()
    };
    let mut said = Vec::new();
    let result = super::run("s.toml", &text, &options, &mut |line| said.push(line.to_string()));
    let error = result.expect_err("two runs failed");
    assert!(
        error.text.contains("2 runs failed") && error.text.contains("the server ended"),
        "{error}"
    );
    assert_eq!(said.len(), 4, "{said:?}");
    let written = Results::read(&folder.join("documents/performance")).expect("written");
    assert_eq!((written.failures.len(), written.points.len()), (2, 1));
    assert_eq!(written.point("put", "b", 1).map(|point| point.runs.len()), Some(2));
    let document = std::fs::read_to_string(folder.join("documents/performance.md"));
    assert!(document.expect("written").contains("a run failed: put on a with 1 clients"));
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn results_from_another_machine_are_kept_and_labelled() {
    let (suite, _) = measured_suite();
    let clients = |measure: &str| if measure == "put" { 1 } else { 50 };
    let results_on = |processor: &str, measure: &str, rate: f64| {
        let machine = Machine { processor: processor.into(), ..Machine::default() };
        let mut results = Results::new(&suite, "now".into(), String::new(), machine);
        results.add(
            measure,
            "a",
            clients(measure),
            false,
            Run { throughput: rate, ..Run::default() },
        );
        results
    };
    let merged = results_on("new", "put", 2.0).merged_into(Some(results_on("old", "judge", 1.0)));
    let rate_and_machine = |results: &Results, measure: &str| {
        let point = results.point(measure, "a", clients(measure)).expect("it was run");
        (point.median.throughput, point.elsewhere.as_ref().map(|machine| machine.processor.clone()))
    };
    assert_eq!(
        (merged.machine.processor.as_str(), rate_and_machine(&merged, "put")),
        ("new", (2.0, None))
    );
    assert_eq!(rate_and_machine(&merged, "judge"), (1.0, Some("old".into())));
    let text = markdown(&suite, &merged, "", None);
    assert_eq!(text.matches("Run on another machine: old").count(), 1, "{text}");
    // On the old machine again, the results of the new one name it.
    let swapped = results_on("old", "judge", 3.0).merged_into(Some(merged));
    assert_eq!(rate_and_machine(&swapped, "judge"), (3.0, None));
    assert_eq!(rate_and_machine(&swapped, "put"), (2.0, Some("new".into())));
}

#[test]
fn cpu_time_parses_with_parentheses_in_the_process_name() {
    let stat = "12 (a) b (c) R 1 1 1 0 -1 4194304 100 0 0 0 70 30 5 6 20 0 1 0 100";
    assert_eq!(ticks(stat), (100, 11));
    assert_eq!(ticks(""), (0, 0));
    assert_eq!(bind_command(&["a".into()], Some(1)), ["taskset", "-c", "1", "a"]);
    assert_eq!(bind_command(&["a".into()], None), ["a"]);
}
