//! The two figures: how clocks grow with the clients in theory, and with time as measured.

use super::growth;
use super::outcome::{LoadOutcome, Study};
use load_generator::charts::{Axis, Chart, Scale, Series};

/// Number of clients of the first figure.
const CLIENTS: u32 = 500;
/// File names of the figures.
pub const FILES: [&str; 2] = ["dvv-theory.svg", "dvv-measured.svg"];

/// Returns the figures with their file names.
pub fn charts(study: &Study) -> Result<Vec<(&'static str, String)>, String> {
    Ok(vec![(FILES[0], theory().lines()?), (FILES[1], measured(study).lines()?)])
}

fn bytes() -> Axis {
    Axis::new("bytes of a clock, as Erlang terms", Scale::Logarithmic)
}

fn theory() -> Chart {
    let series = growth::curves(CLIENTS).into_iter().map(|(name, sizes)| {
        let points = (1..).zip(sizes);
        let points = points.map(|(clients, [terms, _])| (f64::from(clients), terms as f64));
        Series::new(name, points.collect())
    });
    Chart {
        title: "One key, written by one client after the other".into(),
        x: Axis::new("clients that wrote it", Scale::Linear),
        y: bytes(),
        series: series.collect(),
    }
}

fn measured(study: &Study) -> Chart {
    let first = study.outcomes.first();
    let same = |one: &&LoadOutcome| {
        first.is_some_and(|first| (&one.mix, one.value_bytes) == (&first.mix, first.value_bytes))
    };
    let series = study.outcomes.iter().filter(same).map(|one| {
        let points = (1..).zip(&one.growth);
        let points = points.map(|(second, [terms, _])| (f64::from(second), *terms));
        Series::new(one.kind.clone(), points.collect())
    });
    Chart {
        title: format!("Mean clock of returned objects, {}", first.map_or("", |one| &one.mix)),
        x: Axis::new("seconds", Scale::Linear),
        y: bytes(),
        series: series.collect(),
    }
}
