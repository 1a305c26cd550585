//! Tests of a soak's bounds, and of errors in its settings.

use super::verdicts::end_medians;
use super::{SoakRun, charts, section, verdicts};
use crate::suite::file::{LoadOverrides, Suite};
use load_generator::config::Items;

const TEXT: &str = r#"
name = "try"
document = "performance/try.md"
[quick]
load = { duration = "1s" }
[load]
duration = "1m"
[server.a]
command = ["a"]
driver = { driver = "null" }
[server.b]
command = ["b"]
driver = { driver = "null" }
[[soak]]
name = "queue"
servers = ["a", "b"]
prepare = { duration = "2s", concurrent = 7 }
quick_prepare = { duration = "1s" }
bounds = [
  { figure = "lone p99.9", beside = "b", at_most = 3.0 },
  { figure = "pops p50", since_start = true, at_most = 1.5 },
  { figure = "lone rate", at_least = 10.0 },
]
[[soak.load]]
name = "lone"
probe = true
operations = [["put", 1]]
[[soak.load]]
name = "pops"
servers = ["a"]
operations = [["pop", 1]]
[[soak.after]]
name = "gets"
wait = "1s"
duration = "2s"
operations = [["get", 1]]
"#;

fn read(text: &str, quick: bool) -> Result<Suite, String> {
    let overrides = LoadOverrides { quick, ..LoadOverrides::default() };
    Suite::read(Items::parse("s.toml", text)?, &overrides)
}

fn run(server: &str, whole: &[(&str, f64)], pops: impl Fn(f64) -> f64) -> SoakRun {
    let series = (1..=100).map(|at| (f64::from(at), pops(f64::from(at)))).collect();
    SoakRun {
        soak: "queue".into(),
        server: server.into(),
        whole: whole.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
        series: [("pops p50".to_string(), series)].into(),
        ..SoakRun::default()
    }
}

#[test]
fn soak_bounds_compare_with_peer_with_start_and_with_number() {
    let suite = read(TEXT, false).expect("whole");
    let soak = &suite.soaks[0];
    let good = run("a", &[("lone p99.9", 3.0), ("lone rate", 50.0)], |_| 1.0);
    let peer = run("b", &[("lone p99.9", 1.0)], |_| 1.0);
    let all = verdicts(soak, &[good.clone(), peer.clone()]);
    assert_eq!(all.iter().map(|verdict| verdict.is_met).collect::<Vec<_>>(), [true; 3], "{all:?}");
    // Pops get slower, the lone client waits, and the rate is low.
    let bad = run("a", &[("lone p99.9", 3.1), ("lone rate", 9.0)], |at| at);
    let all = verdicts(soak, &[bad, peer.clone()]);
    assert_eq!(all.iter().map(|verdict| verdict.is_met).collect::<Vec<_>>(), [false; 3], "{all:?}");
    assert_eq!(all[0].line(), "MISSED: lone p99.9, times that of b: 3.10 (at most 3)");
    // Without the peer there is no verdict; a figure that was not measured violates its bound.
    let all = verdicts(soak, &[run("a", &[], |_| 1.0)]);
    assert_eq!(
        all.iter().map(|verdict| verdict.is_met).collect::<Vec<_>>(),
        [true, false],
        "{all:?}"
    );
    assert!(verdicts(soak, &[peer]).is_empty(), "the bounds are of the first server");
}

#[test]
fn series_ends_are_medians_of_the_first_and_last_tenth() {
    let series = (1..=100).map(|at| (f64::from(at), f64::from(at))).collect();
    assert_eq!(end_medians(&series), (5.5, 95.0));
    assert!(end_medians(&Vec::new()).0.is_nan());
}

#[test]
fn soak_section_shows_verdicts_table_and_chart() {
    let suite = read(TEXT, false).expect("whole");
    let soak = &suite.soaks[0];
    let mut bad = run("a", &[("pops p50", 1.0), ("pops rate", 7.0)], |at| at);
    bad.load_average = 3.0;
    let runs = [bad];
    let text = section("growth", soak, &runs, "try/");
    for wanted in [
        "- **missed**: pops p50, last tenth to first: 17.27 (at most 1.5)",
        "a busy machine (load average 3.0 before)",
        "| a | pops | 7 | 1.00 |",
        "(try/queue-pops-latency.svg)",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let names: Vec<_> =
        charts(soak, &runs).expect("drawn").into_iter().map(|chart| chart.0).collect();
    assert_eq!(names, ["queue-pops-latency.svg"]);
    assert_eq!(section("growth", soak, &[], "try/"), "");
}

#[test]
fn loads_after_the_soak_wait_and_show_their_costs() {
    let suite = read(TEXT, false).expect("whole");
    let soak = &suite.soaks[0];
    let configs = soak.follow_up_configs(&suite.servers["a"], &Default::default(), None);
    let configs = configs.expect("whole");
    let [(follow_up, config)] = configs.as_slice() else { panic!("one") };
    assert_eq!((follow_up.wait.as_secs(), config.duration.map(|d| d.as_secs())), (1, Some(2)));
    let figures = [
        ("gets rate", 9.0),
        ("gets server us/op", 12.0),
        ("disk bytes/op", 600.0),
        ("merged disk bytes/op", 700.0),
    ];
    let text = section("growth", soak, &[run("a", &figures, |_| 1.0)], "try/");
    for wanted in [
        "| a | gets | 9 |",
        "| server | disk bytes/op | merged disk bytes/op | gets server us/op |",
        "| a | 600 | 700 | 12 |",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn soak_inherits_suite_settings_and_quick_run_is_shorter() {
    let duration = |quick: bool| {
        let suite = read(TEXT, quick).expect("whole");
        let configs = suite.soaks[0].configs("a", &suite.servers["a"], &Default::default(), None);
        let configs = configs.expect("whole");
        let prepare = suite.soaks[0].prepare.as_ref().map(Items::text);
        (configs.len(), configs[0].1.duration.map(|duration| duration.as_secs()), prepare)
    };
    let (loads, seconds, prepare) = duration(false);
    assert_eq!((loads, seconds), (2, Some(60)));
    assert!(prepare.expect("there is one").contains("\"2s\""));
    let (_, seconds, prepare) = duration(true);
    let prepare = prepare.expect("there is one");
    assert_eq!(seconds, Some(1));
    assert!(prepare.contains("\"1s\"") && prepare.contains('7'), "{prepare}");
}

#[test]
fn invalid_soak_settings_are_rejected_when_the_suite_is_read() {
    for (from, to, expected) in [
        ("beside = \"b\"", "beside = \"c\"", "there is no server `c`"),
        ("at_least = 10.0", "since_start = true", "wants `at_most` or `at_least`"),
        ("[[\"pop\", 1]]", "[[\"fly\", 1]]", "wants an operation"),
        ("probe = true", "prob = true", "there is no key `prob`"),
        ("performance/try.md", "../try.md", "`document` wants a path"),
        ("[[soak.load]]\nname = \"lone\"", "[[soak.load]]", "name"),
        ("wait = \"1s\"", "wait = \"soon\"", "wait"),
        ("[[\"get\", 1]]", "[[\"got\", 1]]", "wants an operation"),
    ] {
        let error = read(&TEXT.replace(from, to), false).err().unwrap_or_default();
        assert!(error.contains(expected), "{from}: {error}");
    }
}
