//! A suite's results as Markdown.

use super::coupons;
use super::failover::GAP;
use super::feeds;
use super::file::Suite;
use super::goals;
use super::measure::Measure;
use super::output::charts;
use super::results::{Point, Results};
use super::soak;
use super::work::{SpeedSource, Work};
use crate::codec::PUBLISHED;
use load_generator::charts::short;
use load_generator::machine::Machine;
use program::units::show_count;

/// Returns the points with their measures that were run, in the order of the suite.
pub fn points<'a>(suite: &'a Suite, results: &Results) -> Vec<(&'a str, Vec<&'a Measure>)> {
    let mut points: Vec<(&str, Vec<&Measure>)> = Vec::new();
    for measure in &suite.measures {
        if !results.points.iter().any(|point| point.measure == measure.name) {
            continue;
        }
        match points.last_mut() {
            Some((point, measures)) if *point == measure.point => measures.push(measure),
            _ => points.push((&measure.point, vec![measure])),
        }
    }
    points
}

/// Returns the first server's throughput divided by this one's. `None`: this is the first, one of
/// the two was not run, or this one's throughput is zero.
pub fn ratio(measure: &Measure, results: &Results, server: &str, clients: usize) -> Option<f64> {
    let first = measure.servers.first()?;
    if first == server {
        return None;
    }
    let own_throughput = results.point(&measure.name, first, clients)?.median.throughput;
    let peer_throughput = results.point(&measure.name, server, clients)?.median.throughput;
    (peer_throughput > 0.0).then_some(own_throughput / peer_throughput)
}

/// Formats the lowest and the highest ratio of two runs of one round.
fn ratio_span(measure: &Measure, results: &Results, server: &str, clients: usize) -> String {
    let runs = |server: &str| Some(&results.point(&measure.name, server, clients)?.runs);
    let (Some(own_runs), Some(peer_runs)) =
        (measure.servers.first().and_then(|s| runs(s)), runs(server))
    else {
        return String::new();
    };
    let pairs = own_runs.iter().zip(peer_runs).filter(|(_, peer)| peer.throughput > 0.0);
    let ratios = pairs.map(|(own, peer)| own.throughput / peer.throughput);
    let span = ratios.fold((f64::MAX, 0.0f64), |(low, high), r| (low.min(r), high.max(r)));
    match own_runs.len() {
        0 | 1 => String::new(),
        _ => format!(" ({:.2} to {:.2})", span.0, span.1),
    }
}

/// Returns the whole document; `charts_in` is the charts' folder relative to the text. `overview`:
/// sections in place of the suite's goals.
pub fn markdown(
    suite: &Suite,
    results: &Results,
    charts_in: &str,
    overview: Option<&str>,
) -> String {
    let mut text = format!(
        "# {}\n\n{}\n\nMachine: {}. Load: credenza {}.{}\n",
        title(suite),
        suite.about,
        results.machine,
        results.credenza,
        commit_note(&results.commit)
    );
    if let (Some(server), Some(driver)) = (suite.server_core, suite.driver_core) {
        text.push_str(&format!(
            "The server is bound to core {server}, the load to core {driver} of the same machine."
        ));
    }
    if !suite.measures.is_empty() {
        text.push_str(MEASURES);
    }
    if !suite.soaks.is_empty() {
        text.push_str(SOAKS);
    }
    for (server, version) in &results.versions {
        text.push_str(&format!("\n- {server}: {version}"));
    }
    for server in &results.left_out {
        text.push_str(&format!("\n- {server}: left out, its program was not there"));
    }
    for failure in &results.failures {
        text.push_str(&format!("\n- a run failed: {failure}"));
    }
    text.push('\n');
    match overview {
        Some(overview) => text.push_str(overview),
        None => text.push_str(&goals::section(suite, results)),
    }
    for (point, measures) in points(suite, results) {
        let again = again(&suite.name, point);
        text.push_str(&format!("\n## {}\n\nAgain: `{again}`\n", capital(point)));
        for measure in &measures {
            text.push_str(&section(measure, results));
        }
        for (file, title, _) in charts(&measures, results).unwrap_or_default() {
            text.push_str(&format!("\n![{title}]({charts_in}{file})\n"));
        }
    }
    if let Some(summary) = &suite.summary {
        text.push_str(&summary.section(&suite.soaks, &results.soaks, charts_in));
    }
    for soak in &suite.soaks {
        text.push_str(&soak::section(&suite.name, soak, &results.soaks, charts_in));
    }
    text.push_str(&codec(results));
    text
}

/// Returns the command that measures a point anew.
fn again(suite: &str, point: &str) -> String {
    let point = if point.contains(' ') { format!("\"{point}\"") } else { point.into() };
    match suite {
        "performance" => format!("make bench POINT={point}"),
        suite => format!("make bench SUITE={suite} POINT={point}"),
    }
}

fn title(suite: &Suite) -> String {
    if suite.title.is_empty() { capital(&suite.name) } else { suite.title.clone() }
}

fn commit_note(commit: &str) -> String {
    if commit.is_empty() { String::new() } else { format!(" Commit: {commit}.") }
}

/// Returns the document of a suite that was not measured yet: how to measure it, what it measures,
/// and what others published of the same work.
pub fn unmeasured(suite: &Suite) -> String {
    let mut text = format!(
        "# {}\n\n{}\n\n**Not measured yet.** `make bench SUITE={}` measures it and writes this \
         page, with tables and charts; `QUICK=1` takes a short look.\n",
        title(suite),
        suite.about,
        suite.name
    );
    let names = suite.measures.iter().map(|measure| &measure.name);
    let names = names.chain(suite.soaks.iter().map(|soak| &soak.name));
    text.push_str("\nWhat it measures:\n\n");
    names.for_each(|name| text.push_str(&format!("- {name}\n")));
    let empty = Results::new(suite, String::new(), String::new(), Machine::default());
    for measure in &suite.measures {
        let table = match (&measure.published, &measure.work) {
            (Some(published), _) => published.table(measure, &empty),
            (None, Work::Coupons(work)) => work.published().table(),
            (None, _) => String::new(),
        };
        if !table.is_empty() {
            text.push_str(&format!("\n## {}\n\n{table}", capital(&measure.name)));
        }
    }
    text
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Explanation of all measures.
const MEASURES: &str = " One server runs at a time, with a fresh data directory; servers take \
     turns; the median of the rounds counts. A ratio is ours / theirs; in brackets are its lowest \
     and highest value in one round. `fdatasync` is the median time of a 4 KiB write made durable \
     just before; `server us/op` is the server's CPU time for one operation, which a busy machine \
     changes least; latencies are microseconds. `(bound)`: the load's core was full, so the \
     server could do more. Numbers of one machine compare servers; they say little of another.\n";

/// Explanation of all soaks.
const SOAKS: &str = " One server runs at a time, with a fresh data directory. A soak runs several \
     loads at once and looks every second. The load `lone` is one client whose requests are due at \
     fixed times: what it waits, any client waits. A latency counts from when the request was due. \
     `server us/op` is the server's CPU time for one operation of any load. `unserved`: due and \
     never sent, or never answered. Numbers of one machine compare servers; they say little of \
     another.\n";

type Column = (&'static str, fn(&TableRow<'_>) -> String);

/// A row of a table.
struct TableRow<'a> {
    measure: &'a Measure,
    results: &'a Results,
    point: &'a Point,
}

const IDENTITY: [Column; 3] = [
    ("clients", |row| row.point.clients.to_string()),
    ("server", |row| row.point.server.clone()),
    ("rounds", |row| {
        format!("{}{}", row.point.runs.len(), if row.point.quick { ", quick" } else { "" })
    }),
];
const SPEED: [Column; 2] = [
    ("operations/s", |row| format!("{:.0}", row.point.median.throughput)),
    ("ratio", |row| {
        let (server, clients) = (&row.point.server, row.point.clients);
        ratio(row.measure, row.results, server, clients).map_or(String::new(), |found| {
            let span = ratio_span(row.measure, row.results, server, clients);
            format!("{found:.2}{span}")
        })
    }),
];
const LATENCY: [Column; 2] =
    [("p50", |row| short(row.point.median.p50_us)), ("p99", |row| short(row.point.median.p99_us))];
const COST: [Column; 6] = [
    ("server us/op", |row| {
        let median = &row.point.median;
        short(median.server_cpu * 1e6 / median.throughput.max(1e-9))
    }),
    ("fdatasync", |row| short(row.point.median.fdatasync_us)),
    ("server cores", |row| format!("{:.2}", row.point.median.server_cpu)),
    ("load cores", |row| {
        let used = row.point.median.driver_cpu;
        format!("{used:.2}{}", if used > 0.93 { " (bound)" } else { "" })
    }),
    ("memory MiB", |row| format!("{:.0}", row.point.median.memory_bytes / 1_048_576.0)),
    ("failed", |row| row.point.runs.iter().map(|run| run.failed).sum::<u64>().to_string()),
];
const FAILOVER: [Column; 3] = [
    ("gap ms, median", |row| gaps(row).0),
    ("least and most", |row| gaps(row).1),
    ("failed", |row| row.point.runs.iter().map(|run| run.failed).sum::<u64>().to_string()),
];
const COUPONS: [Column; 9] = [
    (coupons::LOAD, |row| figure(row, coupons::LOAD)),
    (coupons::LOAD_CPU, |row| figure(row, coupons::LOAD_CPU)),
    (coupons::FIRST_QUERY, |row| figure(row, coupons::FIRST_QUERY)),
    (coupons::QUERY, |row| figure(row, coupons::QUERY)),
    (coupons::QUERY_P99, |row| figure(row, coupons::QUERY_P99)),
    (coupons::KEY_QUERIES, |row| figure(row, coupons::KEY_QUERIES)),
    (coupons::ROWS, |row| figure(row, coupons::ROWS)),
    COST[1],
    COST[5],
];
const UPDATED_COUPONS: [Column; 12] = [
    (coupons::UPDATES, |row| figure(row, coupons::UPDATES)),
    (coupons::UPDATE_RATE, |row| figure(row, coupons::UPDATE_RATE)),
    (coupons::UPDATE_CPU, |row| figure(row, coupons::UPDATE_CPU)),
    (coupons::BEFORE, |row| figure(row, coupons::BEFORE)),
    (coupons::RIGHT_AFTER, |row| figure(row, coupons::RIGHT_AFTER)),
    (coupons::SETTLED, |row| figure(row, coupons::SETTLED)),
    (coupons::GROWTH, |row| figure(row, coupons::GROWTH)),
    (coupons::KEY_QUERIES_BEFORE, |row| figure(row, coupons::KEY_QUERIES_BEFORE)),
    (coupons::KEY_QUERIES_SETTLED, |row| figure(row, coupons::KEY_QUERIES_SETTLED)),
    (coupons::KEY_GROWTH, |row| figure(row, coupons::KEY_GROWTH)),
    (coupons::ROWS, |row| figure(row, coupons::ROWS)),
    COST[5],
];
const FEED_READ: [Column; 10] = [
    (feeds::EVENTS, |row| figure(row, feeds::EVENTS)),
    (feeds::STREAM[0], |row| figure(row, feeds::STREAM[0])),
    (feeds::STREAM[1], |row| figure(row, feeds::STREAM[1])),
    (feeds::STREAM[2], |row| figure(row, feeds::STREAM[2])),
    (feeds::STREAM[3], |row| figure(row, feeds::STREAM[3])),
    (feeds::PAGES[0], |row| figure(row, feeds::PAGES[0])),
    (feeds::PAGES[1], |row| figure(row, feeds::PAGES[1])),
    (feeds::PAGES[2], |row| figure(row, feeds::PAGES[2])),
    (feeds::PAGES[3], |row| figure(row, feeds::PAGES[3])),
    COST[4],
];
const FEED_WATCH: [Column; 6] = [
    (feeds::ALONE, |row| figure(row, feeds::ALONE)),
    (feeds::WATCHED_BY_STREAMS[0], |row| figure(row, feeds::WATCHED_BY_STREAMS[0])),
    (feeds::WATCHED_BY_PAGES[0], |row| figure(row, feeds::WATCHED_BY_PAGES[0])),
    (feeds::WATCHED_BY_STREAMS[1], |row| figure(row, feeds::WATCHED_BY_STREAMS[1])),
    (feeds::WATCHED_BY_PAGES[1], |row| figure(row, feeds::WATCHED_BY_PAGES[1])),
    COST[4],
];
const IDLE: [Column; 2] = [
    ("% of a core", |row| format!("{:.2}", row.point.median.server_cpu * 100.0)),
    ("memory MiB", |row| format!("{:.0}", row.point.median.memory_bytes / 1_048_576.0)),
];

/// Formats the median of a figure: whole above 1,000, in groups of three digits.
fn figure(row: &TableRow<'_>, name: &str) -> String {
    row.point.figure(name).map_or_else(String::new, |value| match value {
        value if value >= 1_000.0 => show_count(value.round() as u64),
        value => short(value),
    })
}

/// Returns the median, and the least and the most, of the gaps of a failover.
fn gaps(row: &TableRow<'_>) -> (String, String) {
    let gaps = || row.point.runs.iter().filter_map(|run| run.figures.get(GAP).copied());
    let (least, most) = (gaps().fold(f64::MAX, f64::min), gaps().fold(0.0, f64::max));
    let median = row.point.figure(GAP).map_or_else(String::new, |gap| format!("{gap:.0}"));
    (median, format!("{least:.0} to {most:.0}"))
}

fn section(measure: &Measure, results: &Results) -> String {
    let columns: Vec<Column> = match &measure.work {
        Work::Failover(_) => [&IDENTITY[..], &FAILOVER[..]].concat(),
        Work::Idle(_) => [&IDENTITY[1..], &IDLE[..]].concat(),
        Work::Coupons(work) if work.has_updates() => {
            [&IDENTITY[1..], &UPDATED_COUPONS[..]].concat()
        }
        Work::Coupons(_) => [&IDENTITY[1..], &COUPONS[..]].concat(),
        Work::Feed(work) if work.is_watch() => [&IDENTITY[..], &FEED_WATCH[..]].concat(),
        Work::Feed(_) => [&IDENTITY[1..], &FEED_READ[..]].concat(),
        Work::Tool(tool) if tool.speed_source == SpeedSource::Time => {
            [&IDENTITY[1..], &SPEED[..], &COST[..]].concat()
        }
        _ => [&IDENTITY[..], &SPEED[..], &LATENCY[..], &COST[..]].concat(),
    };
    let mut text = format!("\n### {}\n\n", capital(&measure.name));
    if !measure.note.is_empty() {
        text.push_str(&format!("{}\n\n", measure.note.trim()));
    }
    let first_point = results.points.iter().find(|point| point.measure == measure.name);
    text.push_str(&machine_note(first_point.and_then(|point| point.elsewhere.as_ref())));
    if let Some(point) = first_point.filter(|point| point.commit != results.commit) {
        let commit = if point.commit.is_empty() { "unknown" } else { &point.commit };
        text.push_str(&format!("Run with another commit: {commit}.\n\n"));
    }
    if let Some(published) = &measure.published {
        text.push_str(&format!("{}\n", published.table(measure, results)));
    }
    text.push('|');
    columns.iter().for_each(|(name, _)| text.push_str(&format!(" {name} |")));
    text.push_str("\n|");
    for (name, _) in &columns {
        text.push_str(if *name == "server" { "---|" } else { "--:|" });
    }
    text.push('\n');
    if let Work::Coupons(work) = &measure.work {
        let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
        text.push_str(&work.published().rows(&names));
    }
    for clients in &measure.clients {
        for server in &measure.servers {
            let Some(point) = results.point(&measure.name, server, *clients) else { continue };
            let row = TableRow { measure, results, point };
            text.push('|');
            columns
                .iter()
                .for_each(|(_, format_cell)| text.push_str(&format!(" {} |", format_cell(&row))));
            text.push('\n');
        }
    }
    text
}

/// Names the machine it ran on, if that is not the results' machine.
fn machine_note(machine: Option<&Machine>) -> String {
    machine.map_or(String::new(), |machine| format!("Run on another machine: {machine}.\n\n"))
}

fn codec(results: &Results) -> String {
    if results.codec.is_empty() {
        return String::new();
    }
    let [naive, second, words] = PUBLISHED;
    let mut text = format!(
        "\n## Codec\n\nAgain: `credenza bench codec`\n\nNumbers and strings written as bytes and \
         read back, each verified. Published for int32 in OCaml, 2013: {naive} million round trips \
         a second in a naive loop, {second} million in a second attempt, {words} million by whole \
         words.\n\n{}| what | million round trips/s |\n|---|--:|\n",
        machine_note(results.codec_elsewhere.as_ref())
    );
    for result in &results.codec {
        text.push_str(&format!("| {} | {:.0} |\n", result.name, result.per_second / 1e6));
    }
    text
}
