//! A soak's section of the results: tables, verdicts, and plots over time.

use super::verdicts::end_medians;
use super::{
    BUSY_LOAD_AVERAGE, DISK_BYTES, DISK_BYTES_MERGED, DISK_SPACE, DISK_SPACE_MERGED, MEMORY,
    MEMORY_PEAK, RESTART, ROWS_WALKED, SERVER_US, Soak, SoakRun, verdicts,
};
use load_generator::charts::{Axis, Chart, LineWeight, Scale, Series as Line, short};
use load_generator::report::file_label;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Plots of a soak: figure, unit, scale.
const PLOTS: [(&str, &str, Scale); 3] = [
    (SERVER_US, "microseconds of the server's processor time per operation", Scale::Logarithmic),
    (MEMORY, "MiB", Scale::Linear),
    (ROWS_WALKED, "rows walked per row returned", Scale::Logarithmic),
];

/// Figures of the table of costs, before those of the loads that followed.
const COSTS: [&str; 6] =
    [DISK_BYTES, DISK_BYTES_MERGED, DISK_SPACE, DISK_SPACE_MERGED, MEMORY_PEAK, RESTART];

/// Returns the section of a soak of this suite that was run; `charts_in` is the charts' folder
/// relative to the text.
pub fn section(suite: &str, soak: &Soak, all: &[SoakRun], charts_in: &str) -> String {
    let runs: Vec<_> = all.iter().filter(|run| run.soak == soak.name).collect();
    if runs.is_empty() {
        return String::new();
    }
    let mut text = format!("\n## {}\n\n", capital(&soak.name));
    if !soak.note.is_empty() {
        let _ = write!(text, "{}\n\n", soak.note.trim());
    }
    let chosen = match soak.size {
        Some(size) => format!("SIZES={size}"),
        None => format!("POINT=\"{}\"", soak.name),
    };
    let _ = write!(text, "Again: `make bench SUITE={suite} {chosen}`\n\n");
    for verdict in verdicts(soak, all) {
        let _ = writeln!(text, "- {}", verdict.line().replace("MISSED", "**missed**"));
    }
    for run in &runs {
        text.push_str(&remarks(run));
    }
    text.push_str(
        "\n| server | load | operations/s | p50 ms | p99 | p99.9 | max | failed | unserved |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for run in &runs {
        for load in soak.loads.iter().chain(soak.follow_ups.iter().map(|after| &after.load)) {
            if run.whole.contains_key(&format!("{} rate", load.name)) {
                write_load_row(&mut text, run, &load.name);
            }
        }
    }
    text.push_str(
        "\n| server | us/op, first tenth | last tenth | memory MiB, first | last | rows walked \
         per row returned, first | last |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for run in &runs {
        let _ = write!(text, "| {} |", run.server);
        for name in [SERVER_US, MEMORY, ROWS_WALKED] {
            match run.series.get(name) {
                Some(series) => {
                    let (first, last) = end_medians(series);
                    let _ = write!(text, " {} | {} |", short(first), short(last));
                }
                None => text.push_str(" | |"),
            }
        }
        text.push('\n');
    }
    text.push_str(&costs(&runs));
    for (file, title, _) in charts(soak, all).unwrap_or_default() {
        let _ = write!(text, "\n![{title}]({charts_in}{file})\n");
    }
    text
}

/// Returns a table of what an operation wrote to the disk, of the space that the data takes, and of
/// what each load that followed cost the server. Empty: nothing followed.
fn costs(runs: &[&SoakRun]) -> String {
    let has = |name: &&str| runs.iter().any(|run| run.whole.contains_key(*name));
    let names: BTreeSet<&str> = runs
        .iter()
        .flat_map(|run| run.whole.keys())
        .filter(|name| name.ends_with(&format!(" {SERVER_US}")))
        .map(String::as_str)
        .collect();
    if names.is_empty() {
        return String::new();
    }
    let columns: Vec<&str> = COSTS.into_iter().filter(has).chain(names).collect();
    let mut text = format!("\n| server | {} |\n|---|", columns.join(" | "));
    text.push_str(&"--:|".repeat(columns.len()));
    for run in runs {
        let _ = write!(text, "\n| {} |", run.server);
        for name in &columns {
            let value = run.whole.get(*name).map_or_else(String::new, |value| short(*value));
            let _ = write!(text, " {value} |");
        }
    }
    text.push('\n');
    text
}

fn write_load_row(text: &mut String, run: &SoakRun, load: &str) {
    let figure = |name: &str| run.whole.get(&format!("{load} {name}")).copied().unwrap_or_default();
    let _ = write!(text, "| {} | {load} | {:.0} |", run.server, figure("rate"));
    for name in ["p50", "p99", "p99.9", "max"] {
        let _ = write!(text, " {:.2} |", figure(name));
    }
    let _ = writeln!(text, " {} | {} |", figure("failed"), figure("unserved"));
}

/// Returns remarks on a run's circumstances: a quick run, a busy machine, another machine.
fn remarks(run: &SoakRun) -> String {
    let mut remarks = Vec::new();
    if run.quick {
        remarks.push("a short look".to_string());
    }
    if run.load_average > BUSY_LOAD_AVERAGE {
        remarks.push(format!("a busy machine (load average {:.1} before)", run.load_average));
    }
    if let Some(machine) = &run.elsewhere {
        remarks.push(format!("another machine: {machine}"));
    }
    match remarks.is_empty() {
        true => String::new(),
        false => format!("- {}: {}\n", run.server, remarks.join("; ")),
    }
}

/// Returns the charts of a soak: file name, caption, SVG.
pub fn charts(soak: &Soak, all: &[SoakRun]) -> Result<Vec<(String, String, String)>, String> {
    let runs: Vec<_> = all.iter().filter(|run| run.soak == soak.name).collect();
    let mut rendered = Vec::new();
    let mut add = |kind: &str, title: String, y: Axis, series: Vec<Line>| {
        if series.iter().all(|line| line.points.is_empty()) {
            return Ok(());
        }
        let x = Axis::new("seconds", Scale::Linear);
        let chart = Chart { title: format!("{}: {title}", soak.name), x, y, series };
        let svg = chart.lines()?;
        rendered.push((
            format!("{}.svg", file_label(&format!("{} {kind}", soak.name))),
            chart.title,
            svg,
        ));
        Ok::<(), String>(())
    };
    let lines = |figures: &[String], scale: &Scale| {
        let series = runs.iter().enumerate().flat_map(|(colour, run)| {
            figures.iter().zip(LineWeight::ALL).filter_map(move |(figure, weight)| {
                let mut points = run.series.get(figure)?.clone();
                // A logarithmic axis has no zero.
                points.retain(|(_, y)| *scale != Scale::Logarithmic || *y > 0.0);
                let line = Line::new(format!("{} {figure}", run.server), points);
                Some(line.with_style(colour, weight))
            })
        });
        series.collect::<Vec<_>>()
    };
    for load in &soak.loads {
        let figure_name = |figure: &str| format!("{} {figure}", load.name);
        let percentiles: &[&str] =
            if load.is_probe { &["p50", "p99", "max"] } else { &["p50", "p99"] };
        let figures: Vec<_> = percentiles.iter().map(|figure| figure_name(figure)).collect();
        let axis = Axis::new("milliseconds", Scale::Logarithmic);
        add(
            &figure_name("latency"),
            format!("latency of {}", load.name),
            axis,
            lines(&figures, &Scale::Logarithmic),
        )?;
        if !load.is_probe {
            let axis = Axis::new("operations/s", Scale::Linear);
            let rates = lines(&[figure_name("rate")], &Scale::Linear);
            add(&figure_name("rate"), format!("rate of {}", load.name), axis, rates)?;
        }
    }
    for (figure, unit, scale) in PLOTS {
        let series = lines(&[figure.to_string()], &scale);
        add(figure, figure.to_string(), Axis::new(unit, scale), series)?;
    }
    Ok(rendered)
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
