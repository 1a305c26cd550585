//! Flame graphs of what falls short: each load that missed a goal is run once more, while its
//! server's processor time is recorded.

use super::SuiteOptions;
use super::file::Suite;
use super::output::write_pages;
use super::overview::{Verdict, measured_suites, verdicts};
use super::point::{PointRun, SuitePaths};
use super::work::Work;
use super::{create_directory, soak};
use load_generator::machine::allow_many_files;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Draws a flame graph for each load that missed a goal, according to the results in the folder of
/// documents, and links them in the documents. `only`: names of suites; empty: all.
pub fn draw_flame_graphs(
    options: &SuiteOptions,
    print_line: &mut dyn FnMut(&str),
) -> Result<(), String> {
    allow_many_files();
    let documents = options.documents.clone().unwrap_or_else(|| "docs".into());
    let mut drawn = BTreeSet::new();
    let mut failures = Vec::new();
    for (suite, results) in measured_suites(&documents)? {
        let is_selected = options.only.is_empty() || options.only.contains(&suite.name);
        let missed = verdicts(&suite, &results).into_iter().filter(|goal| !goal.bound.is_met);
        for verdict in missed.filter(|goal| is_selected && has_graph(&suite, goal)) {
            let file = documents.join(verdict.flame_graph());
            if !drawn.insert(file.clone()) {
                continue;
            }
            let name = format!("{}, {}", suite.name, verdict.bound.description);
            let result = draw(&suite, &verdict, options, &file);
            let line = result.as_ref().map_or_else(Clone::clone, |()| file.display().to_string());
            print_line(&format!("{name}: {line}\n"));
            failures.extend(result.err());
        }
    }
    write_pages(&documents)?;
    match failures.as_slice() {
        [] => Ok(()),
        [first, ..] => Err(format!("{} graphs failed; the first: {first}", failures.len())),
    }
}

/// Returns false for work that starts its server again: a recording ends with the first processes.
fn has_graph(suite: &Suite, verdict: &Verdict) -> bool {
    let measure = suite.measures.iter().find(|measure| measure.name == verdict.work);
    measure.is_none_or(|measure| !matches!(measure.work, Work::Coupons(_)))
}

fn draw(
    suite: &Suite,
    verdict: &Verdict,
    options: &SuiteOptions,
    file: &Path,
) -> Result<(), String> {
    let folder = file.parent().map(PathBuf::from).unwrap_or_default();
    create_directory(&folder)?;
    let data = options.data.clone().unwrap_or_else(|| options.results.join("flames"));
    create_directory(&data)?;
    let data = data.canonicalize().map_err(|error| error.to_string())?;
    let program = options.program.clone();
    let paths = SuitePaths {
        program: program.unwrap_or_else(|| program::sibling_program("credenza")),
        peers: options.peers.canonicalize().unwrap_or_else(|_| options.peers.clone()),
        logs: data.clone(),
        data,
    };
    // The samples lie beside the graph while it is drawn.
    let file = folder
        .canonicalize()
        .map_err(|error| error.to_string())?
        .join(file.file_name().unwrap_or_default());
    if let Some(clients) = verdict.clients {
        let measure = suite.measures.iter().find(|measure| measure.name == verdict.work);
        let measure = measure.ok_or("the suite has no such measure any more")?;
        let server = verdict.server.as_ref().or(measure.servers.first());
        let server = server.ok_or("the measure has no server")?;
        let point = PointRun { suite, measure, server, clients };
        return point.run(&paths, Some(&file)).map(drop);
    }
    let soak = suite.soaks.iter().find(|soak| soak.name == verdict.work);
    let soak = soak.ok_or("the suite has no such soak any more")?;
    let server = soak.servers.first().ok_or("the soak has no server")?;
    soak::run(suite, soak, server, &paths, Some(&file)).map(drop)
}
