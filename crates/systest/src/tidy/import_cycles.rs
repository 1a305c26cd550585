//! Checks of imports between the modules of a crate: cycles, and imports between the subjects of
//! `logic`.
//!
//! A cycle is a strongly connected component of the graph of a crate's top-level modules. An edge
//! is a path that begins with `crate`, `super` or `self` and leads into another module; a name that
//! the crate's root re-exports counts as its module's. Items that the root itself defines belong to
//! no module.

use super::source::{SourceFile, line_of, word_offsets};
use super::{Complaint, Workspace};
use std::collections::{BTreeMap, BTreeSet};

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Reports each cycle of modules.
pub fn import_cycles(workspace: &Workspace) -> Vec<Complaint> {
    let crates: BTreeSet<_> =
        workspace.sources.iter().map(|source| source.crate_folder()).collect();
    let mut complaints = Vec::new();
    for folder in crates.into_iter().filter(|folder| !folder.is_empty()) {
        for cycle in find_cycles(&module_graph(workspace, folder)) {
            let cycle = cycle.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let fix =
                format!("the modules {cycle} import each other: move what both need below them");
            complaints.push(Complaint::new("circles", &format!("{folder}/src"), 1, fix));
        }
    }
    complaints
}

/// Returns the module that a file of the crate in this folder belongs to, as a path. `None`: the
/// file is not shipped.
fn module_of(source: &SourceFile, folder: &str) -> Option<Vec<String>> {
    let relative_path = source.path.strip_prefix(folder)?.strip_prefix("/src/")?;
    if relative_path.contains("tests/") || relative_path.ends_with("tests.rs") {
        return None;
    }
    let mut path: Vec<_> =
        relative_path.trim_end_matches(".rs").split('/').map(String::from).collect();
    if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        path.pop();
    }
    Some(path)
}

fn module_graph(workspace: &Workspace, folder: &str) -> Graph {
    let files = workspace.sources.iter().filter(|source| source.crate_folder() == folder);
    let files: Vec<_> = files
        .filter_map(|source| Some((module_of(source, folder)?, shipped_code(source))))
        .collect();
    let modules: BTreeSet<_> = files.iter().filter_map(|(path, _)| path.first().cloned()).collect();
    let root_files = files.iter().filter(|(path, _)| path.is_empty());
    let mut exported = BTreeMap::new();
    for path in root_files.flat_map(|(path, code)| crate_paths(path, code)) {
        if let [module, .., item] = &path[..]
            && modules.contains(module)
        {
            exported.insert(item.clone(), module.clone());
        }
    }
    let mut graph = Graph::new();
    for (own_path, code) in files.iter().filter(|(path, _)| !path.is_empty()) {
        let imports = graph.entry(own_path[0].clone()).or_default();
        for first in
            crate_paths(own_path, code).into_iter().filter_map(|path| path.into_iter().next())
        {
            let module = if modules.contains(&first) { Some(&first) } else { exported.get(&first) };
            imports.extend(module.filter(|module| **module != own_path[0]).cloned());
        }
    }
    graph
}

/// Returns the shipped code, without test modules.
fn shipped_code(source: &SourceFile) -> String {
    source.shipped().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

/// Returns all paths in the code that lead into this crate, from its root on.
fn crate_paths(own_path: &[String], code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for keyword in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(keyword) {
            let previous = code[..at].chars().next_back();
            if previous.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue; // part of a longer path
            }
            for path in expand(&code[at..]) {
                paths.extend(absolute(own_path, &path));
            }
        }
    }
    // `use module::Item` in the root needs no `crate::`.
    if own_path.is_empty() {
        for (at, _) in code.match_indices("use ") {
            paths.extend(expand(&code[at + 4..]));
        }
    }
    paths
}

/// Returns the path at the beginning of this code, once for each leaf of its braces.
fn expand(code: &str) -> Vec<Vec<String>> {
    let mut segments = Vec::new();
    let mut rest = code;
    loop {
        let segment: String =
            rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        rest = &rest[segment.len()..];
        if !segment.is_empty() {
            segments.push(segment);
        }
        let Some(after_colons) = rest.strip_prefix("::") else { break };
        rest = after_colons;
        if let Some(braces) = rest.strip_prefix('{') {
            let leaves =
                split_at_commas(braces).into_iter().flat_map(|part| expand(part.trim_start()));
            return leaves.map(|leaf| [segments.clone(), leaf].concat()).collect();
        }
    }
    vec![segments]
}

/// Splits at commas, up to the closing brace.
fn split_at_commas(braces: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut part_start) = (Vec::new(), 0, 0);
    for (at, c) in braces.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&braces[part_start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&braces[part_start..at]);
                part_start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

/// Resolves a path from the crate's root on. `None`: it leads out of the crate.
fn absolute(own_path: &[String], path: &[String]) -> Option<Vec<String>> {
    let super_count = path.iter().take_while(|segment| *segment == "super").count();
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (&own_path[..0], &path[1..]),
        "self" => (own_path, &path[1..]),
        "super" => (&own_path[..own_path.len().checked_sub(super_count)?], &path[super_count..]),
        _ => return None,
    };
    Some([base, rest].concat())
}

/// Returns the sets of two or more modules that reach each other.
fn find_cycles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reachable: BTreeMap<_, _> =
        graph.keys().map(|module| (module.clone(), reachable_modules(graph, module))).collect();
    let mut cycles: Vec<BTreeSet<String>> = Vec::new();
    for (module, reachable_from_module) in &reachable {
        if !reachable_from_module.contains(module)
            || cycles.iter().any(|cycle| cycle.contains(module))
        {
            continue;
        }
        let reaches_back =
            |other: &&String| reachable.get(*other).is_some_and(|from| from.contains(module));
        cycles.push(reachable_from_module.iter().filter(reaches_back).cloned().collect());
    }
    cycles
}

/// Returns all modules that imports lead to from this one.
fn reachable_modules(graph: &Graph, from: &str) -> BTreeSet<String> {
    let (mut seen, mut pending) = (BTreeSet::new(), vec![from.to_string()]);
    while let Some(module) = pending.pop() {
        for next in graph.get(&module).into_iter().flatten() {
            if seen.insert(next.clone()) {
                pending.push(next.clone());
            }
        }
    }
    seen
}

/// Subjects of `logic` that stand above others: who plans a query of all partitions asks the ring
/// for their owners, and its tests compare the plan with a read of one key.
const SUBJECTS_ABOVE: [(&str, &str); 2] = [("coverage", "ring"), ("coverage", "quorum")];

/// Rule 3: subjects in `logic` import only `base`, but for [`SUBJECTS_ABOVE`].
pub fn subjects(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let subject = |path: &str| {
        let relative_path = path.strip_prefix("crates/logic/src/")?;
        let first = relative_path.split('/').next()?;
        (first != "lib.rs").then(|| first.trim_end_matches(".rs").to_string())
    };
    let all: std::collections::BTreeSet<_> =
        workspace.sources.iter().filter_map(|source| subject(&source.path)).collect();
    for source in &workspace.sources {
        let Some(own) = subject(&source.path) else { continue };
        let is_below = |other: &str| SUBJECTS_ABOVE.contains(&(own.as_str(), other));
        for other in all.iter().filter(|other| **other != own && !is_below(other)) {
            for at in word_offsets(&source.code, &format!("crate::{other}")) {
                let fix = format!(
                    "subject `{own}` imports subject `{other}`: let `node` carry the value from \
                     one to the other, or put the word both speak into `base`"
                );
                complaints.push(source.complaint("subjects", line_of(&source.code, at), fix));
            }
        }
    }
    complaints
}
