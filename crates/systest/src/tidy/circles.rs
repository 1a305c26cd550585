//! Check of import circles: the strongly connected components of each crate's graph of top-level
//! modules.
//!
//! An edge is a path that begins with `crate`, `super` or `self` and leads into another module; a
//! name that the crate's root re-exports counts as its module's. Items that the root itself defines
//! belong to no module.

use super::source::SourceFile;
use super::{Complaint, Workspace};
use std::collections::{BTreeMap, BTreeSet};

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Reports each circle of modules.
pub fn circles(workspace: &Workspace) -> Vec<Complaint> {
    let crates: BTreeSet<_> =
        workspace.sources.iter().map(|source| source.crate_folder()).collect();
    let mut complaints = Vec::new();
    for folder in crates.into_iter().filter(|folder| !folder.is_empty()) {
        for knot in knots(&graph(workspace, folder)) {
            let knot = knot.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let mend =
                format!("the modules {knot} import each other: move what both need below them");
            complaints.push(Complaint::new("circles", &format!("{folder}/src"), 1, mend));
        }
    }
    complaints
}

/// Returns the module that a file of the crate in this folder belongs to, as a path. `None`: the
/// file is not shipped.
fn module_of(source: &SourceFile, folder: &str) -> Option<Vec<String>> {
    let inside = source.path.strip_prefix(folder)?.strip_prefix("/src/")?;
    if inside.contains("tests/") || inside.ends_with("tests.rs") {
        return None;
    }
    let mut path: Vec<_> = inside.trim_end_matches(".rs").split('/').map(String::from).collect();
    if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        path.pop();
    }
    Some(path)
}

fn graph(workspace: &Workspace, folder: &str) -> Graph {
    let files = workspace.sources.iter().filter(|source| source.crate_folder() == folder);
    let files: Vec<_> =
        files.filter_map(|source| Some((module_of(source, folder)?, shipped(source)))).collect();
    let modules: BTreeSet<_> = files.iter().filter_map(|(path, _)| path.first().cloned()).collect();
    let root = files.iter().filter(|(path, _)| path.is_empty());
    let mut exported = BTreeMap::new();
    for path in root.flat_map(|(path, code)| paths(path, code)) {
        if let [module, .., item] = &path[..]
            && modules.contains(module)
        {
            exported.insert(item.clone(), module.clone());
        }
    }
    let mut graph = Graph::new();
    for (own, code) in files.iter().filter(|(path, _)| !path.is_empty()) {
        let edges = graph.entry(own[0].clone()).or_default();
        for first in paths(own, code).into_iter().filter_map(|path| path.into_iter().next()) {
            let module = if modules.contains(&first) { Some(&first) } else { exported.get(&first) };
            edges.extend(module.filter(|module| **module != own[0]).cloned());
        }
    }
    graph
}

/// Returns the shipped code, without test modules.
fn shipped(source: &SourceFile) -> String {
    source.shipped().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

/// Returns all paths in the code that lead into this crate, from its root on.
fn paths(own: &[String], code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for front in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(front) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue; // part of a longer path
            }
            for path in expand(&code[at..]) {
                found.extend(absolute(own, &path));
            }
        }
    }
    // `use module::Item` in the root needs no `crate::`.
    if own.is_empty() {
        for (at, _) in code.match_indices("use ") {
            found.extend(expand(&code[at + 4..]));
        }
    }
    found
}

/// Returns the path at the beginning of this code, once for each leaf of its braces.
fn expand(code: &str) -> Vec<Vec<String>> {
    let mut segments = Vec::new();
    let mut rest = code;
    loop {
        let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        rest = &rest[word.len()..];
        if !word.is_empty() {
            segments.push(word);
        }
        let Some(behind) = rest.strip_prefix("::") else { break };
        rest = behind;
        if let Some(inside) = rest.strip_prefix('{') {
            let leaves = parts(inside).into_iter().flat_map(|part| expand(part.trim_start()));
            return leaves.map(|leaf| [segments.clone(), leaf].concat()).collect();
        }
    }
    vec![segments]
}

/// Splits at commas, up to the closing brace.
fn parts(inside: &str) -> Vec<&str> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(&inside[begin..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&inside[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// Resolves a path from the crate's root on. `None`: it leads out of the crate.
fn absolute(own: &[String], path: &[String]) -> Option<Vec<String>> {
    let ups = path.iter().take_while(|segment| *segment == "super").count();
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (&own[..0], &path[1..]),
        "self" => (own, &path[1..]),
        "super" => (&own[..own.len().checked_sub(ups)?], &path[ups..]),
        _ => return None,
    };
    Some([base, rest].concat())
}

/// Returns the sets of two or more modules that reach each other.
fn knots(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<_, _> =
        graph.keys().map(|module| (module.clone(), reached(graph, module))).collect();
    let mut knots: Vec<BTreeSet<String>> = Vec::new();
    for (module, others) in &reach {
        if !others.contains(module) || knots.iter().any(|knot| knot.contains(module)) {
            continue;
        }
        let back = |other: &&String| reach.get(*other).is_some_and(|from| from.contains(module));
        knots.push(others.iter().filter(back).cloned().collect());
    }
    knots
}

/// Returns all modules that imports lead to from this one.
fn reached(graph: &Graph, from: &str) -> BTreeSet<String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_string()]);
    while let Some(module) = open.pop() {
        for next in graph.get(&module).into_iter().flatten() {
            if seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    seen
}
