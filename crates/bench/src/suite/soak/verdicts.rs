//! Verdicts on a soak's bounds: the figures of its first server against numbers, its beginning, or
//! another server.

use super::{Series, Soak, SoakRun};
use crate::median::median;
use crate::suite::bounds::{BoundVerdict, Divisor, FigureBound};

/// Number of parts that a soak is cut into, to compare the last with the first.
const PARTS: usize = 10;

/// Returns the verdicts on a soak's bounds; empty if its first server was not run.
pub fn verdicts(soak: &Soak, all: &[SoakRun]) -> Vec<BoundVerdict> {
    let runs: Vec<_> = all.iter().filter(|run| run.soak == soak.name).collect();
    let own = soak.servers.first().and_then(|first| runs.iter().find(|run| run.server == *first));
    let Some(own) = own else { return Vec::new() };
    soak.bounds.iter().filter_map(|bound| verdict(bound, own, &runs)).collect()
}

fn verdict(bound: &FigureBound, own: &SoakRun, runs: &[&SoakRun]) -> Option<BoundVerdict> {
    let (description, value) = match &bound.divisor {
        Divisor::Nothing => (bound.figure.clone(), overall_value(own, &bound.figure)),
        Divisor::Start => {
            let value = own.series.get(&bound.figure).map_or(f64::NAN, growth);
            (format!("{}, last tenth to first", bound.figure), value)
        }
        Divisor::Peer(peer) => {
            // Without the peer there is no verdict.
            let peer_run = runs.iter().find(|run| run.server == *peer)?;
            let value = overall_value(own, &bound.figure) / overall_value(peer_run, &bound.figure);
            (format!("{}, times that of {peer}", bound.figure), value)
        }
    };
    Some(bound.verdict(description, value))
}

fn overall_value(run: &SoakRun, figure: &str) -> f64 {
    run.whole.get(figure).copied().unwrap_or(f64::NAN)
}

/// Returns the medians of the first and of the last tenth of a series' time. NaN: no sample.
pub fn end_medians(series: &Series) -> (f64, f64) {
    let last = series.last().map_or(0.0, |(at, _)| *at);
    let part = last / PARTS as f64;
    let median_between = |low: f64, high: f64| {
        let samples: Vec<_> =
            series.iter().filter(|(at, _)| (low..=high).contains(at)).map(|(_, y)| *y).collect();
        if samples.is_empty() { f64::NAN } else { median(samples.into_iter()) }
    };
    (median_between(0.0, part), median_between(last - part, last))
}

fn growth(series: &Series) -> f64 {
    let (first, last) = end_medians(series);
    last / first
}
