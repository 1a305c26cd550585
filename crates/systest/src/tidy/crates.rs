//! Rules of crates: the imports that each may have, and the words it must not use.

use super::source::{CRATE_FOLDERS, SourceFile, line_of, word_offsets};
use super::words::{
    AUDIT_LOG, CLI, ForbiddenWord, KEYED, NODE, ORDERED, PARENTS, PURE, QUIET, SERVER, STORE, TLS,
};
use super::{Complaint, Workspace};

/// Rule of one crate.
pub struct CrateRule {
    /// Name of its folder and of the crate.
    pub name: &'static str,
    /// The crates it may import.
    pub imports: &'static [&'static str],
    /// Words that its shipped code must not use.
    pub never: &'static [&'static [ForbiddenWord]],
}

/// Crates that the state of replicas on the consistent path may import.
const PATH: &[&str] = &["base", "change_feed", "indexes", "logic", "store", "runtime", "transport"];
/// Crates that the consistent path may import.
const REPLICATION_IMPORTS: &[&str] =
    &["base", "change_feed", "logic", "indexes", "store", "runtime", "transport", "replica_state"];
/// Crates that the available path may import.
const DYNAMO_IMPORTS: &[&str] = &[
    "base",
    "change_feed",
    "feed_watch",
    "indexes",
    "logic",
    "store",
    "runtime",
    "transport",
    "vnode_rows",
];
/// Crates whose replicas a node hosts, and what these are made of.
const REPLICA_HOST_IMPORTS: &[&str] = &[
    "base",
    "change_feed",
    "logic",
    "store",
    "runtime",
    "transport",
    "replica_state",
    "replication",
    "vnode_rows",
    "dynamo",
    "metadata",
];
/// Crates that moves of buckets between groups read and write by.
const BUCKET_MOVES_IMPORTS: &[&str] = &[
    "base",
    "change_feed",
    "store",
    "runtime",
    "transport",
    "replica_state",
    "replication",
    "metadata",
    "replica_host",
];
/// Crates that a node consists of. The node re-exports what its callers need of them, so that no
/// crate above it imports them.
const NODE_IMPORTS: &[&str] = &[
    "base",
    "change_feed",
    "feed_watch",
    "indexes",
    "logic",
    "store",
    "runtime",
    "tls",
    "transport",
    "replica_state",
    "replication",
    "vnode_rows",
    "dynamo",
    "metadata",
    "replica_host",
    "usage",
    "bucket_moves",
    "audit_log",
];

/// Engine of simulation, which tests alone import.
const SIMULATOR: &str = "sim";
/// Crates that the binary may import.
const CLI_IMPORTS: &[&str] = &[
    "api",
    "audit_log",
    "base",
    "store",
    "tls",
    "node",
    "server",
    "program",
    "logging",
    "settings",
    "client",
    "feed_client",
    "record_files",
];
/// Crates whose settings the settings file has.
const SETTINGS_IMPORTS: &[&str] = &["base", "tls", "node", "server", "program", "logging"];

/// Crates that read bytes of others, and what their fuzz targets run on.
const FUZZ_IMPORTS: &[&str] = &[
    "base",
    "change_feed",
    "indexes",
    "logic",
    "store",
    "runtime",
    "transport",
    "replica_state",
    "replication",
    "dynamo",
    "metadata",
    "node",
    "server",
    "record_files",
    "riak_pbc",
    SIMULATOR,
];

/// Rules of all crates.
pub const CRATES: [CrateRule; 37] = [
    CrateRule { name: "base", imports: &[], never: &[PURE, ORDERED, QUIET, KEYED] },
    CrateRule { name: "logic", imports: &["base"], never: &[PURE, ORDERED, QUIET, KEYED] },
    CrateRule { name: "indexes", imports: &["base"], never: &[PURE, ORDERED, QUIET, KEYED] },
    CrateRule { name: "change_feed", imports: &["base"], never: &[PURE, ORDERED, QUIET, KEYED] },
    CrateRule { name: "sandbox", imports: &[], never: &[PURE, ORDERED, QUIET, KEYED] },
    CrateRule { name: "store", imports: &["base"], never: &[STORE, QUIET, KEYED] },
    CrateRule {
        name: "runtime",
        imports: &["base", "store"],
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule {
        name: "feed_watch",
        imports: &["base", "change_feed", "runtime"],
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule { name: "tls", imports: &["base"], never: &[TLS, ORDERED, QUIET, KEYED] },
    CrateRule {
        name: "transport",
        imports: &["base", "runtime", "tls"],
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule {
        name: "replica_state",
        imports: PATH,
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule {
        name: "vnode_rows",
        imports: &["base", "change_feed", "indexes", "logic", "store", "runtime"],
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    // The two paths do not import each other.
    CrateRule {
        name: "replication",
        imports: REPLICATION_IMPORTS,
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule {
        name: "dynamo",
        imports: DYNAMO_IMPORTS,
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule {
        name: "metadata",
        imports: &["base", "indexes", "logic", "runtime", "replica_state", "replication", "dynamo"],
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule {
        name: "audit_log",
        imports: &["base", "runtime"],
        never: &[AUDIT_LOG, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule {
        name: "replica_host",
        imports: REPLICA_HOST_IMPORTS,
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule {
        name: "usage",
        imports: &["base", "runtime", "replication", "metadata"],
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule {
        name: "bucket_moves",
        imports: BUCKET_MOVES_IMPORTS,
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule {
        name: "node",
        imports: NODE_IMPORTS,
        never: &[NODE, PARENTS, ORDERED, QUIET, KEYED],
    },
    CrateRule { name: "api", imports: &["base"], never: &[PURE, ORDERED, QUIET, KEYED] },
    CrateRule { name: "http_message", imports: &["base"], never: &[PURE, ORDERED, QUIET, KEYED] },
    CrateRule { name: "riak_pbc", imports: &["base"], never: &[PURE, ORDERED, QUIET, KEYED] },
    CrateRule {
        name: "server",
        imports: &["api", "base", "http_message", "node", "riak_pbc", "tls"],
        never: &[SERVER, QUIET, KEYED],
    },
    // Every crate's tests may use it, and nothing that is shipped.
    CrateRule { name: SIMULATOR, imports: &["base", "runtime"], never: &[ORDERED] },
    CrateRule { name: "program", imports: &["base"], never: &[] },
    CrateRule { name: "logging", imports: &["base"], never: &[CLI, ORDERED] },
    CrateRule { name: "settings", imports: SETTINGS_IMPORTS, never: &[CLI, QUIET, KEYED] },
    CrateRule {
        name: "client",
        imports: &["api", "base", "program", "tls"],
        never: &[CLI, ORDERED, QUIET, KEYED],
    },
    CrateRule {
        name: "feed_client",
        imports: &["api", "base", "client", "program"],
        never: &[CLI, ORDERED, QUIET, KEYED],
    },
    CrateRule { name: "record_files", imports: &["base"], never: &[QUIET, KEYED] },
    CrateRule { name: "cli", imports: CLI_IMPORTS, never: &[CLI] },
    CrateRule { name: "load_generator", imports: &["base", "node", "program"], never: &[] },
    CrateRule { name: "bench", imports: &["base", "load_generator", "program"], never: &[] },
    // Fuzz targets: no crate imports them.
    CrateRule { name: "fuzz", imports: FUZZ_IMPORTS, never: &[] },
    // Research: no crate imports it.
    CrateRule {
        name: "dvv",
        imports: &["base", "logic", "program", "load_generator", "bench"],
        never: &[],
    },
    CrateRule {
        name: "systest",
        imports: &["base", "logic", "store", "node", "riak_pbc", "server", "tls", "cli", "bench"],
        never: &[],
    },
];

/// Rule 1: crates import only the crates that the table allows, and none re-exports another.
pub fn imports(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in &workspace.texts {
        let parts: Vec<_> = path.split('/').collect();
        if let [folder, name, "Cargo.toml"] = parts[..]
            && CRATE_FOLDERS.contains(&folder)
        {
            complaints.extend(check_manifest(name, path, text));
        }
    }
    for source in &workspace.sources {
        complaints.extend(check_imports(source));
    }
    complaints
}

fn check_manifest(crate_name: &str, path: &str, text: &str) -> Vec<Complaint> {
    let Some(rule) = CRATES.iter().find(|rule| rule.name == crate_name) else {
        let mend = "a new crate is a new permission: write a decision record, then add it to \
                    `CRATES` in crates/systest/src/tidy/crates.rs";
        return vec![Complaint::new(
            "crates",
            path,
            1,
            format!("unknown crate `{crate_name}`: {mend}"),
        )];
    };
    let (mut complaints, mut section) = (Vec::new(), "");
    for (at, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or("").trim_matches('"');
        let is_crate = CRATES.iter().any(|other| other.name == name);
        let is_allowed =
            rule.imports.contains(&name) || name == SIMULATOR && section == "[dev-dependencies]";
        if is_crate && name != crate_name && !is_allowed && line.contains('=') {
            complaints.push(Complaint::new(
                "crates",
                path,
                at + 1,
                forbidden_import_message(rule, name),
            ));
        }
    }
    if !text.contains("[lints]\nworkspace = true") {
        let mend = "add `[lints]` with `workspace = true`, or unsafe code is not forbidden here";
        complaints.push(Complaint::new("crates", path, 1, mend.into()));
    }
    complaints
}

fn forbidden_import_message(rule: &CrateRule, other: &str) -> String {
    let may = if rule.imports.is_empty() { "no crate".into() } else { rule.imports.join(", ") };
    format!(
        "`{}` may import {may}, not `{other}`: move the code to a crate that may, or let the lower \
         crate return a value",
        rule.name
    )
}

fn check_imports(source: &SourceFile) -> Vec<Complaint> {
    let Some(rule) = CRATES.iter().find(|rule| rule.name == source.crate_name()) else {
        return Vec::new();
    };
    let mut complaints = Vec::new();
    for other in CRATES.iter().filter(|other| other.name != rule.name) {
        for at in word_offsets(&source.code, &format!("{}::", other.name)) {
            let code_before = source.code[..at].trim_end();
            let line = line_of(&source.code, at);
            let is_longer_path =
                source.code[..at].ends_with("::") || source.code[..at].ends_with('$');
            if is_longer_path && !code_before.ends_with("use ::")
                || has_local_module(source, other.name)
            {
                continue;
            }
            let line_text = source.code.lines().nth(line - 1).unwrap_or("");
            let is_allowed = rule.imports.contains(&other.name)
                || other.name == SIMULATOR && source.tests[line - 1];
            if !is_allowed {
                complaints.push(source.complaint(
                    "crates",
                    line,
                    forbidden_import_message(rule, other.name),
                ));
            } else if line_text.trim_start().starts_with("pub use ") && !may_re_export(rule, other)
            {
                let fix =
                    format!("no crate re-exports another: let callers import `{}`", other.name);
                complaints.push(source.complaint("crates", line, fix));
            }
        }
    }
    complaints
}

/// Crates of which the node re-exports what its callers need.
const NODE_PARTS: &[&str] = &[
    "runtime",
    "transport",
    "replica_state",
    "replication",
    "dynamo",
    "replica_host",
    "usage",
    "bucket_moves",
];

/// Returns true for crates that may re-export others: tests, and the node for its parts.
fn may_re_export(rule: &CrateRule, other: &CrateRule) -> bool {
    rule.name == "systest" || (rule.name == "node" && NODE_PARTS.contains(&other.name))
}

/// Returns true if the crate has a module of this name (`mod bench;`): then the word means the
/// module.
fn has_local_module(source: &SourceFile, name: &str) -> bool {
    source.code.lines().any(|line| {
        let line = line.trim().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        line == format!("mod {name};") || line.starts_with(&format!("use super::{name}"))
    })
}

/// Rule 2: no crate uses a word that is forbidden to it.
pub fn forbidden_words(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in &workspace.sources {
        let rule = CRATES.iter().find(|rule| rule.name == source.crate_name());
        for word in rule.iter().flat_map(|rule| rule.never).flat_map(|list| list.iter()) {
            let relative_path = source.path.split("/src/").nth(1).unwrap_or("");
            if word.except.iter().any(|allowed| relative_path.starts_with(allowed)) {
                continue;
            }
            for (line, text) in source.shipped() {
                if !word_offsets(text, word.pattern).is_empty()
                    && !is_local_name(text, word.pattern)
                {
                    let message = format!("`{}`: {}", word.pattern, word.reason);
                    complaints.push(source.complaint("words", line, message));
                }
            }
        }
    }
    complaints
}

/// Returns true if the word means a crate (`rand`), not a local name or the end of a longer path.
fn is_local_name(line: &str, says: &str) -> bool {
    let is_crate_path = |(at, _): (usize, &str)| !line[..at].ends_with("::");
    let is_crate = ["rand", "tokio"].contains(&says);
    is_crate && !line.match_indices(&format!("{says}::")).any(is_crate_path)
}
