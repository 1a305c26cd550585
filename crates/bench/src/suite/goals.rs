//! Goals of a measure: verdicts on its ratios and bounds, for each number of clients; and the goals
//! of a suite, on its own page.

use super::bounds::{BoundVerdict, FigureBound};
use super::file::Suite;
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

impl GoalVerdict {
    /// Formats the value that was found; that of a quick run says so.
    fn found(&self) -> String {
        format!("{}{}", self.verdict.value_text(), if self.quick { ", quick" } else { "" })
    }
}

/// Formats the goals of a suite's measures: first what falls short with its reason, then all of
/// them with their verdicts. Empty: none was judged.
pub fn section(suite: &Suite, results: &Results) -> String {
    let (mut missed, mut all) = (String::new(), String::new());
    let folders = suite.document.iter().flat_map(|path| path.components()).count();
    for measure in &suite.measures {
        for goal in verdicts(measure, results) {
            let BoundVerdict { description, bound, is_met, .. } = &goal.verdict;
            let (found, reached) = (goal.found(), if *is_met { "yes" } else { "**no**" });
            all.push_str(&format!("| {description} | {found} | {bound} | {reached} |\n"));
            if !is_met {
                let reason = links_from(folders.saturating_sub(1), &reason_of(&measure.limited_by));
                missed.push_str(&format!("| {description} | {found} | {bound} | {reason} |\n"));
            }
        }
    }
    if all.is_empty() {
        return all;
    }
    let missed = match missed.as_str() {
        "" => "Nothing: every goal below is reached.\n".to_string(),
        rows => format!("| work | found | wanted | what bounds it |\n|---|--:|--:|---|\n{rows}"),
    };
    format!(
        "\n## Missed goals\n\n{missed}\n## Goals\n\n| work | found | wanted | reached |\n\
         |---|--:|--:|---|\n{all}"
    )
}

/// Returns a text whose links are relative to the folder of documents, for a page so many folders
/// below it.
fn links_from(depth: usize, text: &str) -> String {
    let up = "../".repeat(depth);
    text.replace("](", &format!("]({up}")).replace(&format!("]({up}http"), "](http")
}

/// Formats the reason of a miss, for a cell of a table; an empty one is not known yet.
pub fn reason_of(limited_by: &str) -> String {
    match limited_by.trim() {
        "" => "not looked into yet".into(),
        text => text.replace('\n', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_link_from_the_folder_of_their_page() {
        let text = "a full core ([profile](inside/speed.md#put), [paper](https://a.example))";
        assert_eq!(links_from(0, text), text);
        let below = "a full core ([profile](../inside/speed.md#put), [paper](https://a.example))";
        assert_eq!(links_from(1, text), below);
        assert_eq!(reason_of(" \n"), "not looked into yet");
        assert_eq!(reason_of("one\ncore"), "one core");
    }
}
