//! Bounds of a soak: limits on figures, and their verdicts.

use super::{Series, Soak, SoakRun};
use crate::config::{Item, Items};
use crate::median::median;

/// Number of parts that a soak is cut into, to compare the last with the first.
const PARTS: usize = 10;

/// A bound on one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureBound {
    /// The figure's name, such as `lone p99.9`.
    figure: String,
    against: Against,
    at_most: Option<f64>,
    at_least: Option<f64>,
}

/// Divisor of a figure.
#[derive(Clone, Debug, PartialEq)]
enum Against {
    /// The figure of this other server.
    Peer(String),
    /// Its own median in the first tenth of the soak; what counts is that of the last tenth.
    Start,
    /// No divisor: the figure itself, over the whole soak.
    Nothing,
}

/// Verdict on a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundVerdict {
    /// Description of the figure.
    pub what: String,
    /// The figure; NaN, which violates every bound, if there was nothing to measure.
    pub found: f64,
    /// Description of the bound.
    pub wanted: String,
    /// True if the bound was kept.
    pub is_kept: bool,
}

impl FigureBound {
    /// Reads `{ figure = "lone p99.9", beside = "redis", at_most = 3.0 }`. `since_start = true` in
    /// place of `beside` compares with the beginning; without both the figure itself is bounded.
    pub(super) fn read(item: &Item) -> Result<FigureBound, String> {
        let mut items: Items = item.table()?;
        let number = |item: &Item| item.positive().map(Some);
        let figure = items.need("a bound", "figure", |item| item.text().map(String::from))?;
        let peer = items.read("beside", None, |item| item.text().map(|name| Some(name.into())))?;
        let since_start = items.read("since_start", false, Item::boolean)?;
        let at_most = items.read("at_most", None, number)?;
        let at_least = items.read("at_least", None, number)?;
        items.end()?;
        if at_most.is_none() && at_least.is_none() {
            return Err(item.error("wants `at_most` or `at_least`"));
        }
        let against = match (peer, since_start) {
            (Some(peer), _) => Against::Peer(peer),
            (None, true) => Against::Start,
            (None, false) => Against::Nothing,
        };
        Ok(FigureBound { figure, against, at_most, at_least })
    }

    /// Returns the server whose figure is the divisor. `None`: another divisor.
    pub(super) fn peer(&self) -> Option<&String> {
        match &self.against {
            Against::Peer(peer) => Some(peer),
            _ => None,
        }
    }

    fn verdict(&self, own: &SoakRun, runs: &[&SoakRun]) -> Option<BoundVerdict> {
        let (what, found) = match &self.against {
            Against::Nothing => (self.figure.clone(), whole(own, &self.figure)),
            Against::Start => {
                let found = own.series.get(&self.figure).map_or(f64::NAN, growth);
                (format!("{}, last tenth to first", self.figure), found)
            }
            Against::Peer(peer) => {
                // Without the peer there is no verdict.
                let peer_run = runs.iter().find(|run| run.server == *peer)?;
                let found = whole(own, &self.figure) / whole(peer_run, &self.figure);
                (format!("{}, times that of {peer}", self.figure), found)
            }
        };
        let most = self.at_most.map(|most| format!("at most {most}"));
        let least = self.at_least.map(|least| format!("at least {least}"));
        let is_kept = self.at_most.is_none_or(|most| found <= most)
            && self.at_least.is_none_or(|least| found >= least);
        let wanted = most.into_iter().chain(least).collect::<Vec<_>>().join(", ");
        Some(BoundVerdict { what, found, wanted, is_kept })
    }
}

impl BoundVerdict {
    /// Formats the verdict as one line.
    pub fn line(&self) -> String {
        let word = if self.is_kept { "kept" } else { "MISSED" };
        format!("{word}: {}: {:.2} ({})", self.what, self.found, self.wanted)
    }
}

/// Returns the verdicts on a soak's bounds; empty if its first server was not run.
pub fn verdicts(soak: &Soak, all: &[SoakRun]) -> Vec<BoundVerdict> {
    let runs: Vec<_> = all.iter().filter(|run| run.soak == soak.name).collect();
    let own = soak.servers.first().and_then(|first| runs.iter().find(|run| run.server == *first));
    let Some(own) = own else { return Vec::new() };
    soak.bounds.iter().filter_map(|bound| bound.verdict(own, &runs)).collect()
}

fn whole(run: &SoakRun, figure: &str) -> f64 {
    run.whole.get(figure).copied().unwrap_or(f64::NAN)
}

/// Returns the medians of the first and of the last tenth of a series' time. NaN: no sample.
pub fn ends(series: &Series) -> (f64, f64) {
    let last = series.last().map_or(0.0, |(at, _)| *at);
    let part = last / PARTS as f64;
    let within = |low: f64, high: f64| {
        let samples: Vec<_> =
            series.iter().filter(|(at, _)| (low..=high).contains(at)).map(|(_, y)| *y).collect();
        if samples.is_empty() { f64::NAN } else { median(samples.into_iter()) }
    };
    (within(0.0, part), within(last - part, last))
}

fn growth(series: &Series) -> f64 {
    let (first, last) = ends(series);
    last / first
}
