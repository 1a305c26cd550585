//! A suite's results as files: the text with its tables, and the charts beside it.

use super::file::Suite;
use super::measure::Measure;
use super::overview;
use super::results::{Point, Results};
use super::soak;
use super::tables::{markdown, points, ratio, unmeasured};
use super::work::Work;
use load_generator::charts::{Axis, Chart, LineWeight, Scale, Series};
use load_generator::report::file_label;
use std::path::{Path, PathBuf};

/// Writes `results.md`, `results.json` and the charts; returns the Markdown text.
pub fn write(suite: &Suite, results: &Results, folder: &Path) -> Result<String, String> {
    write_charts(suite, results, folder)?;
    results.write(folder)?;
    let text = markdown(suite, results, "", None);
    write_file(&folder.join("results.md"), &text)?;
    Ok(text)
}

/// Returns the folder of a suite's charts and numbers: beside its document, with its name. `None`:
/// the suite has no document.
pub fn folder_of(suite: &Suite, documents: &Path) -> Option<PathBuf> {
    Some(documents.join(suite.document.as_ref()?.with_extension("")))
}

/// Writes the suite's document, and the charts and numbers into the folder beside it. A suite
/// without a document writes nothing.
pub fn write_document(suite: &Suite, results: &Results, documents: &Path) -> Result<(), String> {
    let (Some(folder), Some(document)) = (folder_of(suite, documents), &suite.document) else {
        return Ok(());
    };
    super::create_directory(&folder)?;
    write_charts(suite, results, &folder)?;
    results.write(&folder)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let overview = match suite.has_overview {
        true => Some(overview::sections(documents)?),
        false => None,
    };
    let text = markdown(suite, results, &format!("{name}/"), overview.as_deref());
    write_file(&documents.join(document), &text)
}

/// Writes the documents of all suites anew, from the numbers that a folder of documents has; a
/// suite without numbers gets a page that says how to measure it. Nothing is measured.
pub fn write_pages(documents: &Path) -> Result<(), String> {
    for suite in overview::bundled_suites()? {
        let Some(document) = &suite.document else { continue };
        match overview::results_of(&suite, documents) {
            Some(results) => write_document(&suite, &results, documents)?,
            None => write_file(&documents.join(document), &unmeasured(&suite))?,
        }
    }
    write_overviews(documents)
}

/// Writes the documents with an overview anew, whose goals are those of all suites.
pub fn write_overviews(documents: &Path) -> Result<(), String> {
    let measured = overview::measured_suites(documents)?;
    let mut with_overview = measured.iter().filter(|(suite, _)| suite.has_overview);
    with_overview.try_for_each(|(suite, results)| write_document(suite, results, documents))
}

fn write_file(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn write_charts(suite: &Suite, results: &Results, folder: &Path) -> Result<(), String> {
    for (_, measures) in points(suite, results) {
        for (name, _, chart) in charts(&measures, results)? {
            write_file(&folder.join(name), &chart)?;
        }
    }
    if let Some(summary) = &suite.summary {
        for (name, _, chart) in summary.charts(&suite.soaks, &results.soaks)? {
            write_file(&folder.join(name), &chart)?;
        }
    }
    for soak in &suite.soaks {
        for (name, _, chart) in soak::charts(soak, &results.soaks)? {
            write_file(&folder.join(name), &chart)?;
        }
    }
    Ok(())
}

/// Returns the charts of a point: file name, caption, SVG.
pub fn charts(
    measures: &[&Measure],
    results: &Results,
) -> Result<Vec<(String, String, String)>, String> {
    let mut rendered = Vec::new();
    let mut add = |name: String, chart: &Chart, svg: String| {
        rendered.push((format!("{}.svg", file_label(&name)), chart.title.clone(), svg));
    };
    let is_comparable = |measure: &&&Measure| {
        !matches!(
            measure.work,
            Work::Idle(_) | Work::Failover(_) | Work::Coupons(_) | Work::Feed(_)
        )
    };
    let has_client_series = |measure: &&Measure| measure.clients.len() > 1;
    for measure in
        measures.iter().filter(is_comparable).filter(|measure| has_client_series(measure))
    {
        let chart = throughput(measure, results);
        add(measure.name.clone(), &chart, chart.lines()?);
        let chart = latency(measure, results);
        add(format!("{} latency", measure.name), &chart, chart.lines()?);
        if measure.servers.len() > 1 {
            let chart = ratios(measure, results);
            add(format!("{} ratio", measure.name), &chart, chart.bars()?);
        }
    }
    let single_points: Vec<_> = measures
        .iter()
        .filter(is_comparable)
        .filter(|measure| !has_client_series(measure))
        .collect();
    let (Some(first), true) =
        (single_points.first(), single_points.iter().any(|measure| measure.servers.len() > 1))
    else {
        return Ok(rendered);
    };
    let names: Vec<_> = single_points.iter().map(|measure| measure.name.clone()).collect();
    let mut servers: Vec<&String> =
        single_points.iter().flat_map(|measure| &measure.servers).collect();
    servers.sort_unstable();
    servers.dedup();
    let series = servers.iter().map(|server| {
        let bars = single_points.iter().enumerate().filter_map(|(index, measure)| {
            let point = results.point(&measure.name, server, *measure.clients.first()?)?;
            Some((index as f64, point.median.throughput))
        });
        Series::new(server.as_str(), bars.collect())
    });
    let chart = Chart {
        title: format!("{}: operations a second", first.point),
        x: Axis::new("", Scale::Names(names)),
        y: Axis::new("operations/s", Scale::Linear),
        series: series.collect(),
    };
    add(format!("{} together", first.point), &chart, chart.bars()?);
    Ok(rendered)
}

fn clients_axis(measure: &Measure) -> Axis {
    let names = measure.clients.iter().map(usize::to_string).collect();
    Axis::new("clients (one step each, not to scale)", Scale::Names(names))
}

/// Draws a line over the numbers of clients.
fn line(
    measure: &Measure,
    results: &Results,
    server: &str,
    name: String,
    value_of: impl Fn(&Point) -> f64,
) -> Series {
    let points = measure.clients.iter().enumerate().filter_map(|(index, clients)| {
        Some((index as f64, value_of(results.point(&measure.name, server, *clients)?)))
    });
    Series::new(name, points.collect())
}

fn throughput(measure: &Measure, results: &Results) -> Chart {
    let lines = measure.servers.iter().map(|server| {
        line(measure, results, server, server.clone(), |point| point.median.throughput)
    });
    Chart {
        title: format!("{}: operations a second", measure.name),
        x: clients_axis(measure),
        y: Axis::new("operations/s", Scale::Linear),
        series: lines.collect(),
    }
}

fn latency(measure: &Measure, results: &Results) -> Chart {
    let lines = measure.servers.iter().enumerate().flat_map(|(colour, server)| {
        let p50 = |point: &Point| point.median.p50_us / 1000.0;
        let p99 = |point: &Point| point.median.p99_us / 1000.0;
        let p50 = line(measure, results, server, format!("{server} p50"), p50);
        let p99 = line(measure, results, server, format!("{server} p99"), p99);
        [p50.with_style(colour, LineWeight::Strong), p99.with_style(colour, LineWeight::Medium)]
    });
    Chart {
        title: format!("{}: latency", measure.name),
        x: clients_axis(measure),
        y: Axis::new("milliseconds", Scale::Logarithmic),
        series: lines.collect(),
    }
}

fn ratios(measure: &Measure, results: &Results) -> Chart {
    let bars = measure.servers.iter().skip(1).map(|server| {
        let points = measure.clients.iter().enumerate().filter_map(|(index, clients)| {
            Some((index as f64, ratio(measure, results, server, *clients)?))
        });
        Series::new(format!("{} / {server}", measure.servers[0]), points.collect())
    });
    Chart {
        title: format!("{}: how many times the other's throughput", measure.name),
        x: clients_axis(measure),
        y: Axis::new("ratio", Scale::Linear),
        series: bars.collect(),
    }
}
