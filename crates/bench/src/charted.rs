//! Charts in `docs/` that are drawn from tables in `docs/`: they show what the tables say.
//!
//! `UPDATE_DOCS=1 cargo test -p bench charted` draws them again.

use load_generator::charts::{Axis, Chart, Scale, Series};
use std::path::Path;

/// Returns the rows of a page's first table that consist of numbers only.
fn table(page: &str) -> Vec<Vec<f64>> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(str::trim));
    let numbers = cells.map(|cells| cells.map_while(|cell| cell.parse().ok()).collect::<Vec<_>>());
    numbers.filter(|row| !row.is_empty()).collect()
}

#[test]
fn group_charts_in_docs_match_their_table() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance");
    let page = std::fs::read_to_string(docs.join("groups.md")).expect("it is kept");
    let rows = table(&page);
    assert_eq!(rows.len(), 8, "one and three nodes with 1, 10, 100 and 500 groups");
    let charts = [
        (2, "groups-writes.svg", "Synced writes of 64 clients", "writes a second"),
        (3, "groups-cost.svg", "What a write costs", "microseconds of processor time"),
        (4, "groups-idle.svg", "What groups cost that nobody uses", "% of one core"),
    ];
    for (column, file, title, unit) in charts {
        let points_of = |nodes: f64| {
            let rows = rows.iter().filter(|row| row[0] == nodes);
            rows.map(|row| (row[1], row[column])).collect::<Vec<_>>()
        };
        let series = |name: &str, nodes| Series::new(name, points_of(nodes));
        let chart = Chart {
            title: title.into(),
            x: Axis::new("groups in one process", Scale::Logarithmic),
            y: Axis::new(unit, Scale::Linear),
            series: vec![series("one node", 1.0), series("three nodes", 3.0)],
        };
        let svg = chart.lines().expect("it can be drawn");
        let path = docs.join(file);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &svg).expect("docs can be written");
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == svg, "{file} is stale: UPDATE_DOCS=1 cargo test -p bench charted");
    }
}
