//! Words that the shipped code of crates must not use, each with its reason.

/// A forbidden word: the word, the reason, the replacement, and the files that may use it.
pub struct ForbiddenWord {
    pub pattern: &'static str,
    pub reason: &'static str,
    pub except: &'static [&'static str],
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

pub const PURE: &[ForbiddenWord] = &[
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

pub const ORDERED: &[ForbiddenWord] = &[
    forbid("HashMap", "its order differs from run to run: use a BTreeMap"),
    forbid("HashSet", "its order differs from run to run: use a BTreeSet"),
];

/// Words of hash tables. What clients choose is found by order, or by a hash whose key no client
/// knows: else they choose keys that share a place.
pub const KEYED: &[ForbiddenWord] = &[
    forbid("HashMap", "clients may choose keys that share a place: use a BTreeMap"),
    forbid("HashSet", "clients may choose keys that share a place: use a BTreeSet"),
    forbid("DefaultHasher", "its key is known to everybody: `checksum` with `world::salt`"),
    // Their keys are hashed with a salt of the process.
    forbid_except(
        "HashTable",
        "clients may choose keys that share a place: hash them with `world::salt`, and add the \
         file to those that do",
        &["pending_entry.rs", "unapplied_rows.rs", "trees/memtable.rs"],
    ),
    // Its hashes have a key of the process.
    forbid_except(
        "quick_cache",
        "clients may choose keys that share a place: add the file, if the cache has the hasher of \
         `DefaultHashBuilder`",
        &["trees/cache.rs"],
    ),
];

pub const QUIET: &[ForbiddenWord] = &[
    forbid("println!", "only `app` prints: return the text, or log it with `tracing`"),
    forbid("eprintln!", "only `app` prints: return the text, or log it with `tracing`"),
    forbid("print!", "only `app` prints: return the text, or log it with `tracing`"),
    forbid("eprint!", "only `app` prints: return the text, or log it with `tracing`"),
];

pub const STORE: &[ForbiddenWord] = &[
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

pub const NODE: &[ForbiddenWord] = &[
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
pub const PARENTS: &[ForbiddenWord] = &[
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

pub const SERVER: &[ForbiddenWord] = &[
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

pub const CLI: &[ForbiddenWord] = &[
    // The thread of the process' log: it outlives the node, and a full queue drops lines, which the
    // log counts. The other two belong to commands of clients.
    forbid_except(
        "thread::Builder",
        "a loop of a serving node has a watch: begin it by `Node::watch_loop`",
        &["writer.rs", "commands/import/batches.rs"],
    ),
    forbid_except(
        "tokio::spawn",
        "a loop of a serving node has a watch: begin it by `Node::watch_loop`",
        &["lib.rs"],
    ),
];

/// Words of the crate of TLS.
pub const TLS: &[ForbiddenWord] = &[
    forbid("std::env", "settings are passed in, never reached for"),
    forbid("std::thread", "this crate starts no thread: its callers' tasks wait"),
    forbid("tokio::spawn", "a handshake belongs to the task of its connection"),
];
/// Words of the crate of the audit log.
pub const AUDIT_LOG: &[ForbiddenWord] = &[
    forbid("std::env", "settings are passed in, never reached for"),
    forbid("SystemTime", "the time is asked in one place, so that it can be simulated"),
    forbid("Instant", "the time is asked in one place, so that it can be simulated"),
    forbid("rand", "the dice are rolled in one place, so that one seed tells one history"),
];
