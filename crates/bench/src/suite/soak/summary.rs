//! Summary of soaks of several sizes: a table with a row for each size and server, and a chart over
//! the sizes for each figure.

use super::{Soak, SoakRun};
use load_generator::charts::{Axis, Chart, Scale, Series as Line, short};
use load_generator::config::{Item, Items};
use load_generator::report::file_label;

/// Figures of a summary.
pub struct SizeSummary {
    columns: Vec<SummaryColumn>,
}

/// One figure of a summary.
struct SummaryColumn {
    /// Name of the figure.
    figure: String,
    /// Heading of the column, with the unit.
    title: String,
    /// Divisor of the figure, such as the bytes of a row.
    divide_by: f64,
}

impl SizeSummary {
    /// Reads `columns = [{ figure = "writers rate", title = "rows a second" }]`; `divide_by` is
    /// optional.
    pub fn read(item: &Item) -> Result<SizeSummary, String> {
        let mut items: Items = item.table()?;
        let columns = |item: &Item| item.list()?.iter().map(SummaryColumn::read).collect();
        let summary = SizeSummary { columns: items.need("a summary", "columns", columns)? };
        items.finish()?;
        Ok(summary)
    }

    /// Returns the section with the table; `charts_in` is the charts' folder relative to the text.
    /// Empty: no soak with a size was run.
    pub fn section(&self, soaks: &[Soak], runs: &[SoakRun], charts_in: &str) -> String {
        let rows: Vec<_> = sized_runs(soaks, runs).collect();
        if rows.is_empty() {
            return String::new();
        }
        let mut text = "\n## By size\n\n| million rows | server |".to_string();
        self.columns.iter().for_each(|column| text.push_str(&format!(" {} |", column.title)));
        text.push_str("\n|--:|---|");
        text.push_str(&"--:|".repeat(self.columns.len()));
        for (size, run) in rows {
            text.push_str(&format!("\n| {size} | {} |", run.server));
            for column in &self.columns {
                let value = column.value(run).map_or_else(String::new, short);
                text.push_str(&format!(" {value} |"));
            }
        }
        text.push('\n');
        for (file, title, _) in self.charts(soaks, runs).unwrap_or_default() {
            text.push_str(&format!("\n![{title}]({charts_in}{file})\n"));
        }
        text
    }

    /// Returns the charts: file name, caption, SVG. None for a figure that was measured at one size
    /// alone.
    pub fn charts(
        &self,
        soaks: &[Soak],
        runs: &[SoakRun],
    ) -> Result<Vec<(String, String, String)>, String> {
        let rows: Vec<_> = sized_runs(soaks, runs).collect();
        let mut servers: Vec<&String> = rows.iter().map(|(_, run)| &run.server).collect();
        servers.sort_unstable();
        servers.dedup();
        let mut charts = Vec::new();
        for column in &self.columns {
            let line = |server: &String| {
                let of_server = rows.iter().filter(|(_, run)| run.server == *server);
                let points =
                    of_server.filter_map(|(size, run)| Some((*size as f64, column.value(run)?)));
                Line::new(server.as_str(), points.collect())
            };
            let series: Vec<_> = servers.iter().map(|server| line(server)).collect();
            if series.iter().all(|line| line.points.len() < 2) {
                continue;
            }
            let chart = Chart {
                title: format!("{}, by millions of rows", column.title),
                x: Axis::new("million rows", Scale::Logarithmic),
                y: Axis::new(&column.title, Scale::Linear),
                series,
            };
            let file = format!("by-size-{}.svg", file_label(&column.figure));
            let svg = chart.lines()?;
            charts.push((file, chart.title, svg));
        }
        Ok(charts)
    }
}

impl SummaryColumn {
    fn read(item: &Item) -> Result<SummaryColumn, String> {
        let mut items = item.table()?;
        let text = |item: &Item| item.text().map(String::from);
        let column = SummaryColumn {
            figure: items.need("a column", "figure", text)?,
            title: items.need("a column", "title", text)?,
            divide_by: items.read("divide_by", 1.0, Item::positive)?,
        };
        items.finish()?;
        Ok(column)
    }

    fn value(&self, run: &SoakRun) -> Option<f64> {
        run.whole.get(&self.figure).map(|value| value / self.divide_by)
    }
}

/// Returns the runs of soaks with a size, in the order of the soaks and of their servers.
fn sized_runs<'a>(
    soaks: &'a [Soak],
    runs: &'a [SoakRun],
) -> impl Iterator<Item = (u64, &'a SoakRun)> {
    soaks.iter().filter_map(|soak| Some((soak.size?, soak))).flat_map(move |(size, soak)| {
        let of_server = move |server: &'a String| {
            runs.iter().find(|run| run.soak == soak.name && run.server == *server)
        };
        soak.servers.iter().filter_map(of_server).map(move |run| (size, run))
    })
}
