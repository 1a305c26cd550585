//! Goals of a measure: verdicts on its ratios and bounds, for each number of clients.

use super::bounds::{BoundVerdict, FigureBound};
use super::measure::Measure;
use super::results::Results;

/// Verdict on one goal of a measure, with the server and the number of clients.
pub struct GoalVerdict {
    /// Name of the server whose figure it is.
    pub server: String,
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
            let servers = match bound.servers.is_empty() {
                true => measure.servers.get(..1).unwrap_or_default(),
                false => &bound.servers,
            };
            let verdict = |server| verdict(measure, results, (server, *clients), &bound);
            verdicts.extend(servers.iter().filter_map(verdict));
        }
    }
    verdicts
}

fn verdict(
    measure: &Measure,
    results: &Results,
    (server, clients): (&String, usize),
    bound: &FigureBound,
) -> Option<GoalVerdict> {
    let own = results.point(&measure.name, server, clients)?;
    let own_value = own.figure(&bound.figure).unwrap_or(f64::NAN);
    let mut name = measure.name.clone();
    if !bound.servers.is_empty() {
        name.push_str(&format!(", {server}"));
    }
    if measure.clients.len() > 1 {
        name.push_str(&format!(", {clients} clients"));
    }
    let (description, value) = match bound.peer() {
        None => (format!("{name}: {}", bound.figure), own_value),
        Some(peer) => {
            let peer_point = results.point(&measure.name, peer, clients)?;
            let value = own_value / peer_point.figure(&bound.figure).unwrap_or(f64::NAN);
            (format!("{name}: {}, times that of {peer}", bound.figure), value)
        }
    };
    let (server, verdict) = (server.clone(), bound.verdict(description, value));
    Some(GoalVerdict { server, clients, verdict, quick: own.quick })
}
