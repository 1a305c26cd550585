//! Goals of a measure: verdicts on its ratios and bounds, for each number of clients.

use super::bounds::{BoundVerdict, FigureBound};
use super::measure::Measure;
use super::results::Results;

/// Verdict on one goal of a measure, with the number of clients.
pub struct GoalVerdict {
    /// Number of clients.
    pub clients: usize,
    /// The verdict.
    pub verdict: BoundVerdict,
    /// True if the point is of a quick run.
    pub quick: bool,
}

/// Returns the verdicts on a measure's goals; none for points that were not run, and none beside a
/// server that was not.
pub fn verdicts(measure: &Measure, results: &Results) -> Vec<GoalVerdict> {
    let mut verdicts = Vec::new();
    for clients in &measure.clients {
        let goals = measure.goal.get(clients).into_iter().flat_map(|goal| {
            let peers = measure.servers.iter().skip(1);
            peers.map(move |peer| FigureBound::at_least_beside("rate", peer, *goal))
        });
        let applies =
            |bound: &&FigureBound| bound.clients.is_empty() || bound.clients.contains(clients);
        for bound in goals.chain(measure.bounds.iter().filter(applies).cloned()) {
            verdicts.extend(verdict(measure, results, *clients, &bound));
        }
    }
    verdicts
}

fn verdict(
    measure: &Measure,
    results: &Results,
    clients: usize,
    bound: &FigureBound,
) -> Option<GoalVerdict> {
    let own = results.point(&measure.name, measure.servers.first()?, clients)?;
    let own_value = own.figure(&bound.figure).unwrap_or(f64::NAN);
    let with_clients = match measure.clients.len() {
        1 => String::new(),
        _ => format!(", {clients} clients"),
    };
    let (description, value) = match bound.peer() {
        None => (format!("{}{with_clients}: {}", measure.name, bound.figure), own_value),
        Some(peer) => {
            let peer_point = results.point(&measure.name, peer, clients)?;
            let value = own_value / peer_point.figure(&bound.figure).unwrap_or(f64::NAN);
            let name = &measure.name;
            (format!("{name}{with_clients}: {}, times that of {peer}", bound.figure), value)
        }
    };
    Some(GoalVerdict { clients, verdict: bound.verdict(description, value), quick: own.quick })
}
