//! Times that others published of the experiment of coupons, as texts: some are spans of several
//! runs.

use super::coupons::{FIRST_QUERY, LOAD, QUERY};
use load_generator::config::Item;
use std::collections::BTreeMap;

/// Published times, in the order of the file.
#[derive(Default)]
pub struct PublishedExperiments(Vec<PublishedExperiment>);

/// Published times of one product.
struct PublishedExperiment {
    name: String,
    /// Texts by the names of figures.
    figures: BTreeMap<String, String>,
}

impl PublishedExperiments {
    /// Reads `[{ name = "CouchDB", figures = { "load s" = "495" } }]`.
    pub fn read(item: &Item) -> Result<PublishedExperiments, String> {
        let experiments = item.list()?.iter().map(PublishedExperiment::read);
        experiments.collect::<Result<_, _>>().map(PublishedExperiments)
    }

    /// Returns rows of a table with these columns, of which `server` has the product's name.
    pub fn rows(&self, columns: &[&str]) -> String {
        let row = |published: &PublishedExperiment| {
            let cells = columns.iter().map(|column| match *column {
                "server" => format!(" {}, published |", published.name),
                column => {
                    let text = published.figures.get(column).map_or("", String::as_str);
                    format!(" {text} |")
                }
            });
            format!("|{}\n", cells.collect::<String>())
        };
        self.0.iter().map(row).collect()
    }

    /// Returns a table of published times alone; empty if there are none.
    pub fn table(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let columns = ["server", LOAD, FIRST_QUERY, QUERY];
        let names = columns.iter().map(|name| format!(" {name} |"));
        let head = format!("|{}\n|---|--:|--:|--:|\n", names.collect::<String>());
        head + &self.rows(&columns)
    }
}

impl PublishedExperiment {
    fn read(item: &Item) -> Result<PublishedExperiment, String> {
        let mut items = item.table()?;
        let text = |item: &Item| item.text().map(String::from);
        let figures = |item: &Item| {
            let figures = item.table()?.rest().into_iter();
            figures.map(|(name, item)| Ok((name, item.text()?.to_string()))).collect()
        };
        let published = PublishedExperiment {
            name: items.need("a published result", "name", text)?,
            figures: items.need("a published result", "figures", figures)?,
        };
        items.finish()?;
        Ok(published)
    }
}
