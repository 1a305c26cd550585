//! A suite's results as tables and charts.

use super::file::{Measure, Suite};
use super::results::Results;
use crate::charts::{Axis, Chart, Scale, Series, short};
use crate::report::file_label;
use std::path::Path;

/// Writes `results.md` and the charts; gives the Markdown text.
pub fn write(suite: &Suite, results: &Results, folder: &Path) -> Result<String, String> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    let text = markdown(suite, results);
    write("results.md", &text)?;
    for measure in measured(suite, results) {
        let name = file_label(&measure.name);
        write(&format!("{name}.svg"), &throughput(measure, results).lines()?)?;
        write(&format!("{name}-latency.svg"), &latency(measure, results).lines()?)?;
        if measure.servers.len() > 1 {
            write(&format!("{name}-ratio.svg"), &ratios(measure, results).bars()?)?;
        }
    }
    Ok(text)
}

fn measured<'a>(suite: &'a Suite, results: &'a Results) -> impl Iterator<Item = &'a Measure> {
    let was_run = |measure: &&Measure| results.points.iter().any(|p| p.measure == measure.name);
    suite.measures.iter().filter(was_run)
}

/// The tables.
pub fn markdown(suite: &Suite, results: &Results) -> String {
    let machine = &results.machine;
    let mut text = format!(
        "# {}\n\n{}\n\n{}, {} cores, {} GB, {}; {} UTC; load: credenza {}.\n",
        results.name,
        results.about,
        machine.processor,
        machine.cores,
        machine.memory_bytes.div_ceil(1 << 30),
        machine.kernel,
        results.started,
        results.credenza
    );
    let cores = match (suite.server_core, suite.driver_core) {
        (Some(server), Some(driver)) => {
            format!("Server on core {server}, load on core {driver}, ")
        }
        _ => String::new(),
    };
    text.push_str(&format!(
        "{cores}one server at a time, turn by turn; medians. Ratio: {} / the other. \
         Latencies in microseconds.\n",
        "the first"
    ));
    for (server, version) in &results.versions {
        text.push_str(&format!("\n- {server}: {version}"));
    }
    text.push('\n');
    for measure in measured(suite, results) {
        text.push_str(&table(measure, results));
    }
    text
}

fn table(measure: &Measure, results: &Results) -> String {
    let mut text = format!(
        "\n## {}\n\n| clients | server | runs | operations/s | ratio | p50 | p99 | \
         fdatasync | server cores | load cores | memory MB | failed |\n\
         |--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        measure.name
    );
    for clients in &measure.clients {
        for server in &measure.servers {
            let Some(point) = results.point(&measure.name, server, *clients) else { continue };
            let median = &point.median;
            let failed: u64 = point.runs.iter().map(|run| run.failed).sum();
            // The load's core nearly full means that the server could do more.
            let bound = if median.driver_cpu > 0.93 { " (bound)" } else { "" };
            text.push_str(&format!(
                "| {clients} | {server} | {} | {:.0} | {} | {} | {} | {} | {:.2} | {:.2}{bound} | {:.0} | \
                 {failed} |\n",
                point.runs.len(),
                median.throughput,
                ratio(measure, results, server, *clients).map_or("".into(), |r| format!("{r:.2}")),
                short(median.p50_us),
                short(median.p99_us),
                short(median.fdatasync_us),
                median.server_cpu,
                median.driver_cpu,
                median.memory_bytes / 1e6,
            ));
        }
    }
    text
}

/// How many times the first server's throughput is this one's.
pub fn ratio(measure: &Measure, results: &Results, server: &str, clients: usize) -> Option<f64> {
    let first = measure.servers.first()?;
    if first == server {
        return None;
    }
    let ours = results.point(&measure.name, first, clients)?.median.throughput;
    let theirs = results.point(&measure.name, server, clients)?.median.throughput;
    (theirs > 0.0).then_some(ours / theirs)
}

fn clients_axis(measure: &Measure) -> Axis {
    let names = measure.clients.iter().map(usize::to_string).collect();
    Axis::new("clients", Scale::Names(names))
}

fn throughput(measure: &Measure, results: &Results) -> Chart {
    let line = |server: &String| {
        let points = measure.clients.iter().enumerate().filter_map(|(place, clients)| {
            let point = results.point(&measure.name, server, *clients)?;
            Some((place as f64, point.median.throughput))
        });
        Series { name: server.clone(), points: points.collect() }
    };
    Chart {
        title: format!("{}: operations a second", measure.name),
        x: clients_axis(measure),
        y: Axis::new("operations/s", Scale::Linear),
        series: measure.servers.iter().map(line).collect(),
    }
}

fn latency(measure: &Measure, results: &Results) -> Chart {
    let lines = measure.servers.iter().flat_map(|server| {
        ["p50", "p99"].map(|name| {
            let points = measure.clients.iter().enumerate().filter_map(|(place, clients)| {
                let median = &results.point(&measure.name, server, *clients)?.median;
                let us = if name == "p50" { median.p50_us } else { median.p99_us };
                Some((place as f64, us / 1000.0))
            });
            Series { name: format!("{server} {name}"), points: points.collect() }
        })
    });
    Chart {
        title: format!("{}: latency", measure.name),
        x: clients_axis(measure),
        y: Axis::new("milliseconds", Scale::Logarithmic),
        series: lines.collect(),
    }
}

fn ratios(measure: &Measure, results: &Results) -> Chart {
    let others = measure.servers.iter().skip(1);
    let bars = others.map(|server| {
        let points = measure.clients.iter().enumerate().filter_map(|(place, clients)| {
            Some((place as f64, ratio(measure, results, server, *clients)?))
        });
        Series { name: format!("{} / {server}", measure.servers[0]), points: points.collect() }
    });
    Chart {
        title: format!("{}: how many times the other's throughput", measure.name),
        x: clients_axis(measure),
        y: Axis::new("ratio", Scale::Linear),
        series: bars.collect(),
    }
}
