//! Results that others published of the same work, beside those measured here.
//!
//! They are times: the seconds in which each client does a number of operations.

use super::measure::Measure;
use super::results::{Point, Results, Run};
use load_generator::config::{Item, Items};
use program::units::show_count;
use std::collections::BTreeMap;

/// Name of the figure: seconds in which each client does the published number of operations.
pub const SECONDS: &str = "seconds";
/// Name of the figure: operations that each client did here.
pub const EACH: &str = "operations of each client";

/// Published results of one measure.
pub struct Published {
    /// Number of operations of each client that the times are of.
    per_client: u64,
    /// Results in the order of the file.
    rows: Vec<PublishedRow>,
}

/// Times of one product.
struct PublishedRow {
    name: String,
    /// Seconds by the number of clients.
    seconds: BTreeMap<usize, f64>,
}

impl Published {
    /// Reads `{ per_client = 1000000, rows = [{ name = "Arakoon 1.6.0", seconds = { 8 = 1150 } }]
    /// }`.
    pub fn read(item: &Item) -> Result<Published, String> {
        let mut items: Items = item.table()?;
        let rows = |item: &Item| item.list()?.iter().map(PublishedRow::read).collect();
        let published = Published {
            per_client: items
                .need("published results", "per_client", |item| item.integer(1, 1_000_000_000))?,
            rows: items.need("published results", "rows", rows)?,
        };
        items.finish()?;
        Ok(published)
    }

    /// Adds the figures of a run with this many clients that did `operations` in all.
    pub fn add_figures(&self, run: &mut Run, clients: usize, operations: u64) {
        let all = self.per_client as f64 * clients as f64;
        run.figures.insert(SECONDS.into(), all / run.throughput.max(1e-9));
        run.figures.insert(EACH.into(), operations as f64 / clients.max(1) as f64);
    }

    /// Returns the table of times: one column for each number of clients, one row for each product,
    /// and one for each ratio of a published time to the first server's.
    pub fn table(&self, measure: &Measure, results: &Results) -> String {
        let of_each = show_count(self.per_client);
        let mut text = format!("| seconds for {of_each} operations of each client |");
        measure.clients.iter().for_each(|clients| text.push_str(&format!(" {clients} |")));
        text.push_str("\n|---|");
        text.push_str(&"--:|".repeat(measure.clients.len()));
        let mut row = |name: &str, cell: &dyn Fn(usize) -> Option<String>| {
            let cells: Vec<_> = measure.clients.iter().map(|clients| cell(*clients)).collect();
            if cells.iter().all(Option::is_none) {
                return;
            }
            text.push_str(&format!("\n| {name} |"));
            for cell in cells {
                text.push_str(&format!(" {} |", cell.unwrap_or_default()));
            }
        };
        for published in &self.rows {
            row(&format!("{}, published", published.name), &|clients| {
                published.seconds.get(&clients).map(|seconds| show_count(*seconds as u64))
            });
        }
        for server in &measure.servers {
            let version = results.versions.get(server).unwrap_or(server);
            row(&format!("{server} ({version})"), &|clients| {
                self.cell(results.point(&measure.name, server, clients)?)
            });
        }
        if let Some(first) = measure.servers.first() {
            for published in &self.rows {
                row(&format!("{}, times ours", published.name), &|clients| {
                    let own = results.point(&measure.name, first, clients)?.figure(SECONDS)?;
                    Some(format!("{:.2}", published.seconds.get(&clients)? / own))
                });
            }
        }
        text.push('\n');
        text
    }

    /// Formats a measured time; one of fewer operations says so.
    fn cell(&self, point: &Point) -> Option<String> {
        let seconds = show_count(point.figure(SECONDS)?.round() as u64);
        let each = point.figure(EACH)?;
        match each + 0.5 < self.per_client as f64 {
            true => Some(format!("{seconds} (scaled from {} each)", show_count(each as u64))),
            false => Some(seconds),
        }
    }
}

impl PublishedRow {
    fn read(item: &Item) -> Result<PublishedRow, String> {
        let mut items = item.table()?;
        let row = PublishedRow {
            name: items.need("a published result", "name", |i| i.text().map(String::from))?,
            seconds: items.need("a published result", "seconds", seconds_of)?,
        };
        items.finish()?;
        Ok(row)
    }
}

/// Reads `{ 1 = 294, 8 = 2180 }`: seconds by the number of clients.
fn seconds_of(item: &Item) -> Result<BTreeMap<usize, f64>, String> {
    let entries = item.table()?.rest().into_iter().map(|(clients, item)| {
        let clients = clients.parse().map_err(|_| item.error("wants a number of clients"))?;
        Ok((clients, item.positive()?))
    });
    entries.collect()
}
