//! Suites are read whole before anything is started; medians, ratios and tables are right.

use super::file::{Suite, filled};
use super::output::{markdown, ratio};
use super::process::ticks;
use super::results::{Results, Run, median};
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
load = { operations = [["put", 1]] }
"#;

fn read(text: &str) -> Result<Suite, String> {
    Suite::read(Items::parse("s.toml", text)?, &Items::default())
}

#[test]
fn the_suites_we_ship_can_be_read() {
    for text in [
        include_str!("../../suites/one-node.toml"),
        include_str!("../../suites/redis.toml"),
        include_str!("../../suites/smoke.toml"),
    ] {
        let suite = read(text).expect("whole");
        assert!(suite.points().count() > 0);
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
    ] {
        let error = read(&TEXT.replace(from, to)).err().unwrap_or_default();
        assert!(error.contains(wanted), "{from}: {error}");
    }
}

#[test]
fn settings_of_the_command_line_replace_every_loads() {
    let settings = Items::parse("--set", "duration = '7s'").expect("whole");
    let suite = Suite::read(Items::parse("s.toml", TEXT).expect("whole"), &settings);
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
fn medians_and_ratios_are_those_of_the_runs() {
    assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    assert_eq!(median([4.0, 1.0].into_iter()), 2.5);
    assert_eq!(median(std::iter::empty()), 0.0);
    let suite = read(TEXT).expect("whole");
    let mut results = Results::new(&suite, "now".into(), Machine::default());
    for (server, numbers) in [("a", [100.0, 900.0, 200.0]), ("b", [50.0, 40.0, 10.0])] {
        for throughput in numbers {
            let run = Run { throughput, version: "v1".into(), ..Run::default() };
            results.add("put", server, 8, run);
        }
    }
    assert_eq!(ratio(&suite.measures[0], &results, "b", 8), Some(5.0));
    assert_eq!(ratio(&suite.measures[0], &results, "a", 8), None);
    assert_eq!(ratio(&suite.measures[0], &results, "b", 1), None);
    let text = markdown(&suite, &results);
    assert!(text.contains("| 8 | b | 3 | 40 | 5.00 |"), "{text}");
    assert!(text.contains("- a: v1"));
}

#[test]
fn cpu_time_is_read_whatever_the_process_is_called() {
    let stat = "12 (a) b (c) R 1 1 1 0 -1 4194304 100 0 0 0 70 30 0 0 20 0 1 0 100";
    assert_eq!(ticks(stat), 100);
    assert_eq!(ticks(""), 0);
}
