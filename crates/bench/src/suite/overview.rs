//! Overview of all suites: what falls short, said first, and every goal with what was found.
//!
//! It stands at the head of the document of the suite `performance`, and is made of the results of
//! all suites, whenever one of them was run.

use super::bounds::BoundVerdict;
use super::file::{LoadOverrides, Suite};
use super::output::folder_of;
use super::results::Results;
use super::{SUITES, goals, soak};
use load_generator::config::Items;
use load_generator::report::file_label;
use std::path::{Path, PathBuf};

/// Folder of the flame graphs of what falls short, within a folder of documents.
const FLAMES: &str = "performance/flames";

/// Verdict on one goal, with what a reader needs to judge it.
pub struct Verdict {
    /// Name of the suite.
    pub suite: String,
    /// Name of the measure or the soak.
    pub work: String,
    /// Number of clients. `None`: a soak.
    pub clients: Option<usize>,
    /// Server that it is about. `None`: the first one of the measure or the soak.
    pub server: Option<String>,
    /// The verdict itself.
    pub bound: BoundVerdict,
    /// Reason of a miss, in words: what bounds the server; may be empty.
    pub limited_by: String,
    /// Commit that was measured. Empty: unknown.
    commit: String,
    /// True if it is of a quick run.
    quick: bool,
    /// Path of the suite's document within the folder of documents.
    document: PathBuf,
}

impl Verdict {
    /// Formats the value that was found; that of a quick run says so.
    fn found(&self) -> String {
        format!("{}{}", self.bound.value_text(), if self.quick { ", quick" } else { "" })
    }

    /// Returns the path of the flame graph within a folder of documents.
    pub fn flame_graph(&self) -> PathBuf {
        let clients = self.clients.map_or(String::new(), |clients| format!(" {clients}"));
        let server = self.server.as_ref().map_or(String::new(), |server| format!(" {server}"));
        let label = file_label(&format!("{} {}{clients}{server}", self.suite, self.work));
        Path::new(FLAMES).join(format!("{label}.svg"))
    }
}

/// Returns all suites that every binary contains.
pub fn bundled_suites() -> Result<Vec<Suite>, String> {
    let suites = SUITES.iter();
    suites
        .map(|(name, text)| Suite::read(Items::parse(name, text)?, &LoadOverrides::default()))
        .collect()
}

/// Returns the results that a folder of documents has of a suite. `None`: none.
pub fn results_of(suite: &Suite, documents: &Path) -> Option<Results> {
    let results = Results::read(&folder_of(suite, documents)?);
    results.filter(|results| results.name == suite.name)
}

/// Returns all bundled suites that a folder of documents has results of.
pub fn measured_suites(documents: &Path) -> Result<Vec<(Suite, Results)>, String> {
    let suites = bundled_suites()?.into_iter();
    let measured = |suite: Suite| results_of(&suite, documents).map(|results| (suite, results));
    Ok(suites.filter_map(measured).collect())
}

/// Returns the verdicts on all goals of a suite, in the order of its file.
pub fn verdicts(suite: &Suite, results: &Results) -> Vec<Verdict> {
    let new = |work: &str, bound: BoundVerdict, limited_by: &str| Verdict {
        suite: suite.name.clone(),
        work: work.into(),
        clients: None,
        server: None,
        bound,
        limited_by: limited_by.trim().into(),
        commit: String::new(),
        quick: false,
        document: suite.document.clone().unwrap_or_default(),
    };
    let measures = suite.measures.iter().flat_map(|measure| {
        goals::verdicts(measure, results).into_iter().map(move |goal| {
            let point = results.point(&measure.name, &goal.server, goal.clients);
            let is_first = measure.servers.first() == Some(&goal.server);
            Verdict {
                clients: Some(goal.clients),
                server: Some(goal.server.clone()).filter(|_| !is_first),
                commit: point.map_or(String::new(), |point| point.commit.clone()),
                quick: goal.quick,
                ..new(&measure.name, goal.verdict, &measure.limited_by)
            }
        })
    });
    let soaks = suite.soaks.iter().flat_map(|soak| {
        let run = results
            .soaks
            .iter()
            .find(|run| run.soak == soak.name && Some(&run.server) == soak.servers.first());
        soak::verdicts(soak, &results.soaks).into_iter().map(move |verdict| {
            let bound = BoundVerdict {
                description: format!("{}: {}", soak.name, verdict.description),
                ..verdict
            };
            Verdict {
                commit: run.map_or(String::new(), |run| run.commit.clone()),
                quick: run.is_some_and(|run| run.quick),
                ..new(&soak.name, bound, &soak.limited_by)
            }
        })
    });
    measures.chain(soaks).collect()
}

/// Returns the overview's sections as Markdown. `documents`: the folder of documents, in which the
/// text will stand. Empty: nothing was measured.
pub fn sections(documents: &Path) -> Result<String, String> {
    let all: Vec<Verdict> = measured_suites(documents)?
        .iter()
        .flat_map(|(suite, results)| verdicts(suite, results))
        .collect();
    if all.is_empty() {
        return Ok(String::new());
    }
    let misses: Vec<_> = all.iter().filter(|verdict| !verdict.bound.is_met).collect();
    let mut text = "\n## Missed goals\n\n".to_string();
    if misses.is_empty() {
        text.push_str("Nothing: every goal below is reached.\n");
    } else {
        text.push_str("| work | found | wanted | what bounds it |\n|---|--:|--:|---|\n");
        misses.iter().for_each(|verdict| text.push_str(&miss_row(verdict, documents)));
        text.push_str("\nFlame graphs: `make bench-flames`, after the suites were run.\n");
    }
    text.push_str(
        "\n## Goals\n\n| work | found | wanted | reached | page |\n|---|--:|--:|---|---|\n",
    );
    all.iter().for_each(|verdict| text.push_str(&goal_row(verdict)));
    let commits: std::collections::BTreeSet<_> =
        all.iter().map(|verdict| verdict.commit.as_str()).collect();
    if commits.len() > 1 {
        let commits: Vec<_> =
            commits.into_iter().map(|c| if c.is_empty() { "unknown" } else { c }).collect();
        text.push_str(&format!(
            "\nThese rows are of several commits ({}): `make bench` measures all anew.\n",
            commits.join(", ")
        ));
    }
    Ok(text)
}

fn miss_row(verdict: &Verdict, documents: &Path) -> String {
    let bound = &verdict.bound;
    let graph = verdict.flame_graph();
    let reason = goals::reason_of(&verdict.limited_by);
    let link = match documents.join(&graph).is_file() {
        true => format!(" ([flame graph]({}))", graph.display()),
        false => String::new(),
    };
    let (found, wanted) = (verdict.found(), &bound.bound);
    format!("| {} | {found} | {wanted} | {reason}{link} |\n", bound.description)
}

fn goal_row(verdict: &Verdict) -> String {
    let bound = &verdict.bound;
    let reached = if bound.is_met { "yes" } else { "**no**" };
    let (found, wanted) = (verdict.found(), &bound.bound);
    let page = format!("[{}]({})", verdict.suite, verdict.document.display());
    format!("| {} | {found} | {wanted} | {reached} | {page} |\n", bound.description)
}
