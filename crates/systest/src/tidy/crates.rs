//! Rules of crates: the imports that each may have, and the words it must not use.

use super::source::{CRATE_FOLDERS, SourceFile, line_of, word_offsets};
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

/// A forbidden word: the word, the reason, the replacement, and the files that may use it.
pub struct ForbiddenWord {
    pattern: &'static str,
    reason: &'static str,
    except: &'static [&'static str],
}

const fn forbid(pattern: &'static str, reason: &'static str) -> ForbiddenWord {
    ForbiddenWord { pattern, reason, except: &[] }
}

const fn forbid_except(
    pattern: &'static str,
    reason: &'static str,
    except: &'static [&'static str],
) -> ForbiddenWord {
    ForbiddenWord { pattern, reason, except }
}

const PURE: &[ForbiddenWord] = &[
    forbid("std::fs", "this crate touches no file: hand the bytes in, or move the code to `store`"),
    forbid("std::net", "this crate touches no socket: let `transport` send"),
    forbid("std::thread", "this crate starts no thread: return an effect"),
    forbid("std::process", "this crate touches no process"),
    forbid("std::env", "settings are passed in, never reached for"),
    forbid("Instant", "time comes in as an argument, or one seed tells two histories"),
    forbid("SystemTime", "time comes in as an argument, or one seed tells two histories"),
    forbid("tokio", "this crate never waits: return an effect, let a crate above wait"),
    forbid("rand", "chance comes in as an argument, or one seed tells two histories"),
    forbid("async fn", "this crate never waits: return an effect, let a crate above wait"),
    forbid(".await", "this crate never waits: return an effect, let a crate above wait"),
];

const ORDERED: &[ForbiddenWord] = &[
    forbid("HashMap", "its order differs from run to run: use a BTreeMap"),
    forbid("HashSet", "its order differs from run to run: use a BTreeSet"),
];

const QUIET: &[ForbiddenWord] = &[
    forbid("println!", "only `app` prints: return the text, or log it with `tracing`"),
    forbid("eprintln!", "only `app` prints: return the text, or log it with `tracing`"),
    forbid("print!", "only `app` prints: return the text, or log it with `tracing`"),
    forbid("eprint!", "only `app` prints: return the text, or log it with `tracing`"),
];

const STORE: &[ForbiddenWord] = &[
    forbid_except(
        "std::fs",
        "the log reaches files through the trait Disk, so that a test can crash it at any step",
        &["disk.rs", "disk/", "datadir.rs", "datadir/", "trees/", "check.rs", "check/"],
    ),
    forbid("std::net", "the store opens no socket"),
    forbid_except("std::env", "settings are passed in, never reached for", &[]),
    forbid("tokio", "the store is never async: the keeper's thread calls it"),
    forbid("async fn", "the store is never async: the keeper's thread calls it"),
    forbid(".await", "the store is never async: the keeper's thread calls it"),
    forbid("SystemTime", "the store reads no clock: let `node` pass the time in"),
    forbid("rand", "the store rolls no dice: let `node` pass the number in"),
];

const NODE: &[ForbiddenWord] = &[
    forbid_except("std::fs", "a file is the store's business", &["process.rs"]),
    forbid("std::env", "settings are passed in, never reached for"),
    forbid("SystemTime", "no decision may hang on a wall clock: use the group's time"),
    forbid_except(
        "Instant",
        "the time is asked in one place, so that it can be simulated",
        &["world.rs"],
    ),
    forbid_except(
        "rand",
        "the dice are rolled in one place, so that one seed tells one history",
        &["world.rs"],
    ),
    forbid("unbounded_channel", "a queue without a bound hides overload: name a limit"),
    forbid("mpsc::channel()", "a queue without a bound hides overload: use `sync_channel`"),
];

/// Words that begin a task without a parent. A loop begins in a scope alone, which asks for the
/// watch over it (`runtime::Watch`), so that the watchdog knows every loop.
const PARENTS: &[ForbiddenWord] = &[
    // The tasks of these sets are single requests, or handshakes with a time limit, which their
    // owner awaits.
    forbid_except(
        "tokio::task::JoinSet",
        "a loop has a watch: begin it in a `runtime::TaskScope`",
        &["accept.rs", "compare.rs", "cluster/report.rs", "cluster/secret.rs"],
    ),
    // Here a task of a scope is spawned (`TaskScope::track`).
    forbid_except(
        "Handle::current",
        "a loop has a watch: begin it in a `runtime::TaskScope`",
        &["tcp.rs"],
    ),
    forbid_except(
        "tokio::spawn",
        "a task has a parent that awaits it: begin it in a `runtime::TaskScope`",
        &["world.rs"],
    ),
    // Except for the first, these files run work that the caller awaits at once: the start, the
    // stop, and the owner of a `FileTask`.
    forbid_except(
        "spawn_blocking",
        "work that blocks counts while it runs: use `TaskScope::run_blocking`",
        &["world.rs", "startup.rs", "cluster/recover.rs", "shutdown.rs", "snapshot/receive.rs"],
    ),
    forbid_except(
        "thread::Builder",
        "a thread has a parent that awaits it: use `TaskScope::start_thread`",
        &["tasks.rs", "log_writer.rs"],
    ),
    forbid("thread::spawn", "a thread has a parent that awaits it: use `TaskScope::start_thread`"),
];

const SERVER: &[ForbiddenWord] = &[
    forbid("std::fs", "a front-end touches no file: ask the node"),
    forbid("std::env", "settings are passed in, never reached for"),
    forbid("std::thread", "a connection is a task: spawn it on the runtime"),
    // The loops of listeners, begun by one function; and the connections of operators.
    forbid_except(
        "tokio::spawn",
        "a loop has a watch: begin it by `Node::watch_loop`",
        &["listener/mod.rs", "native/local.rs"],
    ),
    // Connections of clients, which end with their clients or by time limits.
    forbid_except(
        "tokio::task::JoinSet",
        "a loop has a watch: begin it by `Node::watch_loop`",
        &["listener/accept.rs", "listener/bound_ports.rs"],
    ),
    // Old clients send wall-clock times (EXPIREAT, TIME, statistics): one file handles them for all
    // front-ends.
    forbid_except(
        "SystemTime",
        "no answer may hang on a wall clock: use the group's time",
        &["clock.rs"],
    ),
    forbid("unbounded_channel", "a queue without a bound hides overload: name a limit"),
];

const CLI: &[ForbiddenWord] = &[
    // The thread of the process' log: it outlives the node, and a full queue drops lines, which the
    // log counts. The other two belong to commands of clients.
    forbid_except(
        "thread::Builder",
        "a loop of a serving node has a watch: begin it by `Node::watch_loop`",
        &["logging/writer.rs", "commands/import/batches.rs"],
    ),
    forbid_except(
        "tokio::spawn",
        "a loop of a serving node has a watch: begin it by `Node::watch_loop`",
        &["client/mod.rs"],
    ),
];

/// Crates that the paths of requests, consistent and available, may import.
const PATH: &[&str] = &["base", "logic", "store", "runtime", "transport"];
/// Words of the crate of TLS.
const TLS: &[ForbiddenWord] = &[
    forbid("std::env", "settings are passed in, never reached for"),
    forbid("std::thread", "this crate starts no thread: its callers' tasks wait"),
    forbid("tokio::spawn", "a handshake belongs to the task of its connection"),
];
/// Words of the crate of the audit log.
const AUDIT_LOG: &[ForbiddenWord] = &[
    forbid("std::env", "settings are passed in, never reached for"),
    forbid("SystemTime", "the time is asked in one place, so that it can be simulated"),
    forbid("Instant", "the time is asked in one place, so that it can be simulated"),
    forbid("rand", "the dice are rolled in one place, so that one seed tells one history"),
];
/// Crates that a node consists of. The node re-exports what its callers need of them, so that no
/// crate above it imports them.
const NODE_IMPORTS: &[&str] = &[
    "base",
    "logic",
    "store",
    "runtime",
    "tls",
    "transport",
    "replication",
    "dynamo",
    "metadata",
    "audit_log",
];

/// Engine of simulation, which tests alone import.
const SIMULATOR: &str = "sim";
/// Crates that the binary may import.
const CLI_IMPORTS: &[&str] =
    &["api", "audit_log", "base", "store", "tls", "node", "server", "program", "record_files"];

/// Crates that read bytes of others, and what their fuzz targets run on.
const FUZZ_IMPORTS: &[&str] = &[
    "base",
    "logic",
    "store",
    "runtime",
    "transport",
    "replication",
    "dynamo",
    "metadata",
    "node",
    "server",
    "record_files",
    SIMULATOR,
];

/// Rules of all crates.
pub const CRATES: [CrateRule; 21] = [
    CrateRule { name: "base", imports: &[], never: &[PURE, ORDERED, QUIET] },
    CrateRule { name: "logic", imports: &["base"], never: &[PURE, ORDERED, QUIET] },
    CrateRule { name: "store", imports: &["base"], never: &[STORE, QUIET] },
    CrateRule {
        name: "runtime",
        imports: &["base", "store"],
        never: &[NODE, PARENTS, ORDERED, QUIET],
    },
    CrateRule { name: "tls", imports: &["base"], never: &[TLS, ORDERED, QUIET] },
    CrateRule {
        name: "transport",
        imports: &["base", "runtime", "tls"],
        never: &[NODE, PARENTS, ORDERED, QUIET],
    },
    // The two paths do not import each other.
    CrateRule { name: "replication", imports: PATH, never: &[NODE, PARENTS, ORDERED, QUIET] },
    CrateRule { name: "dynamo", imports: PATH, never: &[NODE, PARENTS, ORDERED, QUIET] },
    CrateRule {
        name: "metadata",
        imports: &["base", "logic", "runtime", "replication", "dynamo"],
        never: &[NODE, PARENTS, ORDERED, QUIET],
    },
    CrateRule {
        name: "audit_log",
        imports: &["base", "runtime"],
        never: &[AUDIT_LOG, PARENTS, ORDERED, QUIET],
    },
    CrateRule { name: "node", imports: NODE_IMPORTS, never: &[NODE, PARENTS, ORDERED, QUIET] },
    CrateRule { name: "api", imports: &["base"], never: &[PURE, ORDERED, QUIET] },
    CrateRule { name: "server", imports: &["api", "base", "node", "tls"], never: &[SERVER, QUIET] },
    // Every crate's tests may use it, and nothing that is shipped.
    CrateRule { name: SIMULATOR, imports: &["base", "runtime"], never: &[ORDERED] },
    CrateRule { name: "program", imports: &["base"], never: &[] },
    CrateRule { name: "record_files", imports: &["base"], never: &[QUIET] },
    CrateRule { name: "cli", imports: CLI_IMPORTS, never: &[CLI] },
    CrateRule { name: "bench", imports: &["base", "node", "program"], never: &[] },
    // Fuzz targets: no crate imports them.
    CrateRule { name: "fuzz", imports: FUZZ_IMPORTS, never: &[] },
    // Research: no crate imports it.
    CrateRule { name: "dvv", imports: &["base", "logic", "program", "bench"], never: &[] },
    CrateRule {
        name: "systest",
        imports: &["base", "logic", "store", "node", "server", "tls", "cli", "bench"],
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
            if is_longer_path && !code_before.ends_with("use ::") {
                continue;
            }
            let line_text = source.code.lines().nth(line - 1).unwrap_or("");
            let is_allowed = rule.imports.contains(&other.name)
                || other.name == SIMULATOR && source.tests[line - 1];
            if !is_allowed && !has_local_module(source, other.name) {
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

/// Returns true for crates that may re-export others: tests, and the node for its parts.
fn may_re_export(rule: &CrateRule, other: &CrateRule) -> bool {
    let parts = ["runtime", "transport", "replication", "dynamo"];
    rule.name == "systest" || (rule.name == "node" && parts.contains(&other.name))
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
