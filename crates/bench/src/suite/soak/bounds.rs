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
    divisor: Divisor,
    at_most: Option<f64>,
    at_least: Option<f64>,
}

/// Divisor of a figure.
#[derive(Clone, Debug, PartialEq)]
enum Divisor {
    /// The figure of this other server.
    Peer(String),
    /// The figure's median in the first tenth of the soak; the dividend is that of the last tenth.
    Start,
    /// No divisor: the figure itself, over the whole soak.
    Nothing,
}

/// Verdict on a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundVerdict {
    /// Description of the figure.
    pub description: String,
    /// The figure; NaN, which violates every bound, if it was not measured.
    pub value: f64,
    /// Description of the bound.
    pub bound: String,
    /// True if the value is within the bound.
    pub is_met: bool,
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
        items.finish()?;
        if at_most.is_none() && at_least.is_none() {
            return Err(item.error("wants `at_most` or `at_least`"));
        }
        let divisor = match (peer, since_start) {
            (Some(peer), _) => Divisor::Peer(peer),
            (None, true) => Divisor::Start,
            (None, false) => Divisor::Nothing,
        };
        Ok(FigureBound { figure, divisor, at_most, at_least })
    }

    /// Returns the server whose figure is the divisor. `None`: another divisor.
    pub(super) fn peer(&self) -> Option<&String> {
        match &self.divisor {
            Divisor::Peer(peer) => Some(peer),
            _ => None,
        }
    }

    fn verdict(&self, own: &SoakRun, runs: &[&SoakRun]) -> Option<BoundVerdict> {
        let (description, value) = match &self.divisor {
            Divisor::Nothing => (self.figure.clone(), overall_value(own, &self.figure)),
            Divisor::Start => {
                let value = own.series.get(&self.figure).map_or(f64::NAN, growth);
                (format!("{}, last tenth to first", self.figure), value)
            }
            Divisor::Peer(peer) => {
                // Without the peer there is no verdict.
                let peer_run = runs.iter().find(|run| run.server == *peer)?;
                let value =
                    overall_value(own, &self.figure) / overall_value(peer_run, &self.figure);
                (format!("{}, times that of {peer}", self.figure), value)
            }
        };
        let most = self.at_most.map(|most| format!("at most {most}"));
        let least = self.at_least.map(|least| format!("at least {least}"));
        let is_met = self.at_most.is_none_or(|most| value <= most)
            && self.at_least.is_none_or(|least| value >= least);
        let bound = most.into_iter().chain(least).collect::<Vec<_>>().join(", ");
        Some(BoundVerdict { description, value, bound, is_met })
    }
}

impl BoundVerdict {
    /// Formats the verdict as one line.
    pub fn line(&self) -> String {
        let word = if self.is_met { "kept" } else { "MISSED" };
        format!("{word}: {}: {:.2} ({})", self.description, self.value, self.bound)
    }
}

/// Returns the verdicts on a soak's bounds; empty if its first server was not run.
pub fn verdicts(soak: &Soak, all: &[SoakRun]) -> Vec<BoundVerdict> {
    let runs: Vec<_> = all.iter().filter(|run| run.soak == soak.name).collect();
    let own = soak.servers.first().and_then(|first| runs.iter().find(|run| run.server == *first));
    let Some(own) = own else { return Vec::new() };
    soak.bounds.iter().filter_map(|bound| bound.verdict(own, &runs)).collect()
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
