//! Bounds: limits on figures of a measure or of a soak, and verdicts on them.

use load_generator::charts::short;
use load_generator::config::{Item, Items};

/// A bound on one figure.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureBound {
    /// The figure's name, such as `p99 ms` of a measure or `lone p99.9` of a soak.
    pub figure: String,
    /// Divisor of the figure.
    pub divisor: Divisor,
    /// Numbers of clients of the measure that it holds for; empty: all.
    pub clients: Vec<usize>,
    /// Servers of the measure that it holds for; empty: the first.
    pub servers: Vec<String>,
    at_most: Option<f64>,
    at_least: Option<f64>,
}

/// Divisor of a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Divisor {
    /// The figure of this other server.
    Peer(String),
    /// The figure's median in the first tenth of a soak; the dividend is that of the last tenth.
    Start,
    /// No divisor: the figure itself.
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
    /// Reads `{ figure = "p99 ms", clients = [1000], beside = "etcd", at_most = 0.5 }`.
    /// `since_start = true` in place of `beside` compares a soak with its beginning; without both
    /// the figure itself is bounded. `servers = ["a", "b"]` bounds those instead of the first.
    pub fn read(item: &Item) -> Result<FigureBound, String> {
        let mut items: Items = item.table()?;
        let number = |item: &Item| item.positive().map(Some);
        let clients = |item: &Item| {
            let list = item.list()?.iter();
            list.map(|item| item.integer(1, 10_000).map(|number| number as usize)).collect()
        };
        let figure = items.need("a bound", "figure", |item| item.text().map(String::from))?;
        let peer = items.read("beside", None, |item| item.text().map(|name| Some(name.into())))?;
        let since_start = items.read("since_start", false, Item::boolean)?;
        let clients = items.read("clients", Vec::new(), clients)?;
        let servers = items.read("servers", Vec::new(), Item::texts)?;
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
        Ok(FigureBound { figure, divisor, clients, servers, at_most, at_least })
    }

    /// Returns the bound of a ratio to a peer's figure.
    pub fn at_least_beside(figure: &str, peer: &str, ratio: f64) -> FigureBound {
        FigureBound {
            figure: figure.into(),
            divisor: Divisor::Peer(peer.into()),
            clients: Vec::new(),
            servers: Vec::new(),
            at_most: None,
            at_least: Some(ratio),
        }
    }

    /// Returns the server whose figure is the divisor. `None`: another divisor.
    pub fn peer(&self) -> Option<&String> {
        match &self.divisor {
            Divisor::Peer(peer) => Some(peer),
            _ => None,
        }
    }

    /// Returns the verdict on a value.
    pub fn verdict(&self, description: String, value: f64) -> BoundVerdict {
        let most = self.at_most.map(|most| format!("at most {}", plain(most)));
        let least = self.at_least.map(|least| format!("at least {}", plain(least)));
        let is_met = self.at_most.is_none_or(|most| value <= most)
            && self.at_least.is_none_or(|least| value >= least);
        let bound = most.into_iter().chain(least).collect::<Vec<_>>().join(", ");
        BoundVerdict { description, value, bound, is_met }
    }
}

fn plain(number: f64) -> String {
    if number >= 10_000.0 { short(number) } else { number.to_string() }
}

impl BoundVerdict {
    /// Formats the value; a figure that was not measured is `none`.
    pub fn value_text(&self) -> String {
        match self.value {
            value if value.is_nan() => "none".into(),
            value if value >= 10_000.0 => short(value),
            value => format!("{value:.2}"),
        }
    }

    /// Formats the verdict as one line.
    pub fn line(&self) -> String {
        let word = if self.is_met { "kept" } else { "MISSED" };
        format!("{word}: {}: {} ({})", self.description, self.value_text(), self.bound)
    }
}
