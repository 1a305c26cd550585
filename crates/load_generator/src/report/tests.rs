//! Tests that other programs can read a run's report.

use super::csv::{errors_text, file_label, latency_line, summary_line};
use super::*;
use crate::charts::{Axis, Chart, Scale, Series};
use crate::config::Items;
use crate::load::{OperationWindow, RunPart, new_histogram};

fn window(microseconds: &[u64], failed: u64) -> OperationWindow {
    let mut latency = new_histogram();
    for number in microseconds {
        latency.record(number * 1000).expect("in bounds");
    }
    let mut window = OperationWindow { ok: latency.len(), ..OperationWindow::default() };
    window.latency = (!microseconds.is_empty()).then_some(latency);
    if failed > 0 {
        window.errors.insert("timeout".into(), failed);
    }
    window
}

fn row(operations: Vec<OperationWindow>) -> ReportRow {
    ReportRow { part: RunPart::Measured, elapsed_s: 10.0, window_s: 1.0, operations }
}

#[test]
fn csv_tables_match_basho_bench_byte_for_byte() {
    let full = window(&[100, 200, 300, 400], 2);
    assert_eq!(
        latency_line(10.0, 1.0, &full),
        "10.0, 1.0, 4, 100, 250.0, 200, 400, 400, 400, 400, 2\n"
    );
    let empty = window(&[], 3);
    assert_eq!(latency_line(10.25, 0.25, &empty), "10.25, 0.25, 0, 0, 0, 0, 0, 0, 0, 0, 3\n");
    assert_eq!(summary_line(&row(vec![full, empty])), "10.0, 1.0, 9, 4, 5\n");
    assert_eq!(csv::SUMMARY, "elapsed, window, total, successful, failed\n");
    assert_eq!(
        csv::LATENCIES,
        "elapsed, window, n, min, mean, median, 95th, 99th, 99_9th, max, errors\n"
    );
    assert_eq!(csv::ERRORS, "\"error\",\"count\"\n");
    assert_eq!(file_label("get 50%/x"), "get-50--x");
}

#[test]
fn run_folder_names_are_utc_timestamps() {
    let name_at = |seconds| time_name(UNIX_EPOCH + Duration::from_secs(seconds));
    assert_eq!(name_at(0), "19700101_000000");
    assert_eq!(name_at(951_782_399), "20000228_235959");
    assert_eq!(name_at(951_782_400), "20000229_000000");
    assert_eq!(name_at(4_107_542_400), "21000301_000000");
}

#[test]
fn percentile_files_have_the_hdrhistogram_format() {
    let window = window(&(1..=1000).collect::<Vec<_>>(), 0);
    let text = hgrm::text(&window.latency.expect("filled"));
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("       Value     Percentile TotalCount 1/(1-Percentile)"));
    assert_eq!(lines.next(), Some(""));
    let mut count_before = 0;
    for line in lines.clone().take_while(|line| !line.starts_with('#')) {
        let fields: Vec<f64> =
            line.split_whitespace().map(|f| f.parse().expect("number")).collect();
        assert!(fields[2] as u64 >= count_before && fields[1] <= 1.0, "{line}");
        count_before = fields[2] as u64;
        // 1..=1000 microseconds: the value at p is p * 1000.
        assert!((fields[0] - fields[1] * 1000.0).abs() < 3.0, "{line}");
    }
    assert_eq!(count_before, 1000);
    assert!(text.contains("#[Mean    ="));
    assert!(text.contains("Total count    =         1000]"));
}

/// Checks that every tag that is opened is closed, in order, and that texts contain no bare `<` or
/// `&`.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        for (position, _) in rest[..start].match_indices('&') {
            assert!(rest[position..start].contains(';'), "bare & in {:?}", &rest[..start]);
        }
        let end = rest[start..].find('>').expect("a tag ends") + start;
        let tag = &rest[start + 1..end];
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or_default();
        match tag {
            tag if tag.starts_with('/') => assert_eq!(open.pop(), Some(name.to_string())),
            tag if tag.ends_with('/') || tag.starts_with('!') || tag.starts_with('?') => {}
            _ => open.push(name.to_string()),
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn charts_are_well_formed_svg_with_escaped_labels() {
    let series = |name: &str, factor: f64| {
        let points = (0..4).map(|n| (f64::from(n), factor * f64::from(n + 1)));
        Series::new(name, points.collect())
    };
    let names = ["1", "8", "64", "256"].map(String::from).to_vec();
    let mut chart = Chart {
        title: "put <b> & \"get\"".into(),
        x: Axis::new("clients", Scale::Names(names)),
        y: Axis::new("operations/s", Scale::Linear),
        series: vec![series("credenza", 20_000.0), series("etcd", 3_000.0)],
    };
    for svg in [chart.lines().expect("drawn"), chart.bars().expect("drawn")] {
        assert_well_formed(&svg);
        for word in ["put &lt;b&gt; &amp; ", "clients", "operations/s", "credenza", "etcd", "64"] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(svg.contains("80k"), "{svg}");
    }
    chart.x.scale = Scale::Percentiles;
    chart.y.scale = Scale::Logarithmic;
    let svg = chart.lines().expect("drawn");
    assert_well_formed(&svg);
    for word in ["90%", "99.9%", "100k"] {
        assert!(svg.contains(word), "{word}");
    }
    chart.series.clear();
    assert_well_formed(&chart.lines().expect("an empty chart is one too"));
}

#[test]
fn run_writes_all_report_files_and_never_overwrites_a_folder() {
    let directory = std::env::temp_dir().join(format!("bench-report-{}", std::process::id()));
    let settings = format!(
        "driver = 'null'\nduration = '0.3s'\nreport_interval = '100ms'\nwarm_up = '50ms'\n\
         operations = [['get', 3], ['write it', 'put', 1]]\ntest_dir = {:?}",
        directory.display().to_string()
    );
    let config = Config::read(Items::parse("a.toml", &settings).expect("whole")).expect("whole");
    let (folder, report) =
        crate::job::run(&config, Some("one"), crate::job::ProgressDisplay::Nothing).expect("runs");
    assert!(report.ok > 0 && report.failed == 0);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect(name);
    let summary = read("summary.csv");
    let totals = summary.lines().skip(1).map(|line| {
        let fields: Vec<_> = line.split(", ").collect();
        fields[3].parse::<u64>().expect("number")
    });
    assert_eq!((totals.clone().count(), totals.sum()), (3, report.ok));
    assert_eq!(read("write-it_latencies.csv").lines().count(), 4);
    assert_eq!(read("errors.csv"), "\"error\",\"count\"\n");
    let parsed: RunReport = serde_json::from_str(&read("report.json")).expect("reads back");
    assert_eq!(parsed.operations["get"].ok, report.operations["get"].ok);
    let get = &report.operations["get"].latency_us;
    assert!(get.p50 <= get.p99 && get.p99 <= get.p99_99 && get.p99_99 <= get.max * 1.001);
    let text = report.text();
    let header: Vec<_> = text.lines().nth(1).unwrap_or("").split_whitespace().collect();
    assert_eq!(header, ["operation", "(us)", "op/s", "p50", "p95", "p99", "p99.9", "max"]);
    for name in ["throughput.svg", "latencies.svg", "distribution.svg"] {
        assert_well_formed(&read(name));
    }
    for name in ["get.hgrm", "write-it.hgrm", "all.hgrm", "config.toml"] {
        assert!(!read(name).is_empty());
    }
    let link = std::fs::read_link(directory.join("current")).expect("a link");
    assert_eq!(link, PathBuf::from("one"));
    let repeated = crate::job::run(&config, Some("one"), crate::job::ProgressDisplay::Nothing);
    assert!(repeated.expect_err("never overwrites").text.contains("can't make"));
    std::fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn error_table_has_one_row_per_operation_and_kind() {
    let mut collected = crate::load::Collected {
        seconds: 1.0,
        operations: Vec::new(),
        unstarted: 0,
        unanswered: 0,
    };
    assert_eq!(errors_text(&collected), csv::ERRORS);
    collected.operations.push(crate::load::OperationTotals {
        label: "get".into(),
        latency: new_histogram(),
        service: None,
        failure: new_histogram(),
        call_times: [None, None],
        causality: None,
        ok: 0,
        late: 0,
        missing: 0,
        not_applied: 0,
        errors: [("a \"b\"".to_string(), 3)].into(),
    });
    assert_eq!(errors_text(&collected), "\"error\",\"count\"\n\"{get,a 'b'}\",\"3\"\n");
}
