//! Tests of suites: the file is checked before anything is started; medians, ratios and tables.

use super::file::{Suite, Wish};
use super::output::{charts, write_document};
use super::process::{bound, ticks};
use super::results::{Results, Run};
use super::tables::{markdown, points, ratio};
use super::work::{Work, filled, redis_benchmark, write_records};
use super::{SUITES, SuiteOptions};
use crate::config::Items;
use crate::machine::Machine;

const TEXT: &str = r#"
name = "try"
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
    Suite::read(Items::parse("s.toml", text)?, &Wish::default())
}

#[test]
fn the_suites_we_ship_can_be_read() {
    for (name, text) in SUITES {
        let suite = read(text).expect(name);
        assert!(suite.points().count() + suite.soaks.len() > 0);
    }
}

#[test]
fn mistakes_are_found_before_anything_starts() {
    assert!(read(TEXT).is_ok());
    for (from, to, wanted) in [
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
        assert!(error.contains(wanted), "{from}: {error}");
    }
}

#[test]
fn settings_of_the_command_line_replace_every_loads() {
    let settings = Items::parse("--set", "duration = '7s'").expect("whole");
    let wish = Wish { quick: true, settings };
    let suite = Suite::read(Items::parse("s.toml", TEXT).expect("whole"), &wish);
    let suite = suite.expect("whole");
    let words = [("port", "77".to_string())].into();
    let measure = &suite.measures[0];
    let config = measure.config(&suite.servers["a"], 8, &words, Some(1)).expect("whole");
    assert_eq!(config.duration.map(|duration| duration.as_secs()), Some(7));
    assert_eq!((config.concurrent, config.pin), (8, vec![1]));
    assert!(config.text.contains("127.0.0.1:77"), "{}", config.text);
    assert_eq!(filled("a{port}{port2}{x}", &words), "a77{port2}{x}");
}

#[test]
fn ratios_are_those_of_the_runs() {
    let (suite, results) = measured();
    assert_eq!(ratio(&suite.measures[0], &results, "b", 8), Some(5.0));
    assert_eq!(ratio(&suite.measures[0], &results, "a", 8), None);
    assert_eq!(ratio(&suite.measures[0], &results, "b", 1), None);
    let text = markdown(&suite, &results, "");
    assert!(text.contains("| 8 | b | 3 | 40 | 5.00 (2.00 to 22.50) |"), "{text}");
    assert!(text.contains("| put, 8 clients, beside b | 5.00 | 4.00 | yes |"), "{text}");
    assert!(text.contains("- a: v1"));
}

/// Returns three rounds of the first measure, with 8 clients.
fn measured() -> (Suite, Results) {
    let suite = read(TEXT).expect("whole");
    let mut results = Results::new(&suite, "now".into(), Machine::default());
    for (server, numbers) in [("a", [100.0, 900.0, 200.0]), ("b", [50.0, 40.0, 10.0])] {
        for throughput in numbers {
            let run = Run { throughput, version: "v1".into(), ..Run::default() };
            results.add("put", server, 8, false, run);
        }
    }
    (suite, results)
}

#[test]
fn a_quick_run_is_shorter_and_leaves_out_what_it_may() {
    let wish = Wish { quick: true, settings: Items::default() };
    let suite = Suite::read(Items::parse("s.toml", TEXT).expect("whole"), &wish).expect("whole");
    let words = [("port", "77".to_string())].into();
    let config = suite.measures[0].config(&suite.servers["a"], 8, &words, None).expect("whole");
    assert_eq!((config.duration.map(|time| time.as_millis()), suite.repeat), (Some(100), 2));
    let Work::Tool(tool) = &suite.measures[1].work else { panic!("a tool") };
    assert_eq!(tool.units, 100);
    let judge = &suite.measures[1];
    assert!(!judge.is_asked(&[], true) && judge.is_asked(&[], false));
    assert!(judge.is_asked(&["judge".into()], true) && !judge.is_asked(&["put".into()], false));
}

#[test]
fn a_point_that_is_run_again_replaces_itself_and_leaves_the_others() {
    let (suite, known) = measured();
    let mut anew = Results::new(&suite, "later".into(), Machine::default());
    anew.left_out = vec!["b".into(), "c".into()];
    anew.add("judge", "a", 50, true, Run { throughput: 7.0, ..Run::default() });
    let all = anew.merged_into(Some(known.clone()));
    assert_eq!((all.points.len(), all.left_out.clone()), (3, vec!["c".to_string()]));
    let mut again = Results::new(&suite, "later".into(), Machine::default());
    again.add("put", "a", 8, false, Run { throughput: 1.0, ..Run::default() });
    let all = again.merged_into(Some(all));
    assert!(all.point("put", "b", 8).is_none(), "half a measure would compare two days");
    assert_eq!(all.point("put", "a", 8).map(|point| point.median.throughput), Some(1.0));
    assert!(all.point("judge", "a", 50).is_some_and(|point| point.quick));
}

#[test]
fn a_document_holds_every_chart_it_shows() {
    let (suite, results) = measured();
    let folder = std::env::temp_dir().join(format!("bench-document-{}", std::process::id()));
    write_document(&suite, &results, &folder).expect("written");
    let text = std::fs::read_to_string(folder.join("performance.md")).expect("a document");
    let shown: Vec<_> = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).collect();
    assert_eq!(shown.len(), 3);
    for (chart, _) in shown {
        let svg = std::fs::read_to_string(folder.join(chart)).expect(chart);
        assert!(svg.starts_with("<svg"), "{chart}");
    }
    let again = Results::read(&folder.join("performance")).expect("reads back");
    assert_eq!(again.points.len(), results.points.len());
    std::fs::remove_dir_all(&folder).expect("removed");
    let measures = &points(&suite, &results)[0].1;
    assert_eq!(charts(measures, &results).expect("drawn").len(), 3);
}

#[test]
fn the_judges_table_is_read() {
    let said = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                \"SET\",\"95238.10\",\"0.280\",\"0.112\",\"0.279\",\"0.359\",\"0.463\",\"0.975\"\n";
    let (rate, latency) = redis_benchmark(said).expect("a table");
    assert_eq!((rate, latency.p50, latency.p99), (95_238.1, 279.0, 463.0));
    assert!(redis_benchmark("Could not connect").is_none());
    assert!(redis_benchmark(said.split_once('\n').map_or("", |(names, _)| names)).is_none());
}

#[test]
fn records_have_keys_of_20_bytes_and_values_of_100_and_differ() {
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
fn an_unknown_point_is_refused_with_those_there_are() {
    let folder = std::env::temp_dir().join("bench-never-made");
    let options = SuiteOptions { only: vec!["pit".into()], results: folder, ..Default::default() };
    let error = super::run("s.toml", TEXT, &options, &mut |_| ()).expect_err("refused");
    assert!(
        error.text.contains("no point `pit`") && error.text.contains("put, judge, codec"),
        "{error}"
    );
}

#[test]
fn a_server_that_does_not_start_is_noted_and_the_others_go_on() {
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
        wish: Wish { quick: false, settings },
        ..SuiteOptions::default()
    };
    let mut said = Vec::new();
    let done = super::run("s.toml", &text, &options, &mut |line| said.push(line.to_string()));
    let error = done.expect_err("two runs failed");
    assert!(
        error.text.contains("2 runs failed") && error.text.contains("the server ended"),
        "{error}"
    );
    assert_eq!(said.len(), 4, "{said:?}");
    let known = Results::read(&folder.join("documents/performance")).expect("written");
    assert_eq!((known.failures.len(), known.points.len()), (2, 1));
    assert_eq!(known.point("put", "b", 1).map(|point| point.runs.len()), Some(2));
    let document = std::fs::read_to_string(folder.join("documents/performance.md"));
    assert!(document.expect("written").contains("a run failed: put on a with 1 clients"));
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn measures_of_another_machine_stay_and_say_so() {
    let (suite, _) = measured();
    let clients = |measure: &str| if measure == "put" { 1 } else { 50 };
    let on = |processor: &str, measure: &str, rate: f64| {
        let machine = Machine { processor: processor.into(), ..Machine::default() };
        let mut results = Results::new(&suite, "now".into(), machine);
        results.add(
            measure,
            "a",
            clients(measure),
            false,
            Run { throughput: rate, ..Run::default() },
        );
        results
    };
    let both = on("new", "put", 2.0).merged_into(Some(on("old", "judge", 1.0)));
    let place = |all: &Results, measure: &str| {
        let point = all.point(measure, "a", clients(measure)).expect("it was run");
        (point.median.throughput, point.elsewhere.as_ref().map(|one| one.processor.clone()))
    };
    assert_eq!((both.machine.processor.as_str(), place(&both, "put")), ("new", (2.0, None)));
    assert_eq!(place(&both, "judge"), (1.0, Some("old".into())));
    let text = markdown(&suite, &both, "");
    assert_eq!(text.matches("Run on another machine: old").count(), 1, "{text}");
    // On the old machine again, the results of the new one name it.
    let back = on("old", "judge", 3.0).merged_into(Some(both));
    assert_eq!(place(&back, "judge"), (3.0, None));
    assert_eq!(place(&back, "put"), (2.0, Some("new".into())));
}

#[test]
fn cpu_time_is_read_whatever_the_process_is_called() {
    let stat = "12 (a) b (c) R 1 1 1 0 -1 4194304 100 0 0 0 70 30 5 6 20 0 1 0 100";
    assert_eq!(ticks(stat), (100, 11));
    assert_eq!(ticks(""), (0, 0));
    assert_eq!(bound(&["a".into()], Some(1)), ["taskset", "-c", "1", "a"]);
    assert_eq!(bound(&["a".into()], None), ["a"]);
}
