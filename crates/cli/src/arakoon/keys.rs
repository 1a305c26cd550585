//! Table of all keys of an Arakoon configuration, with the effect of each.

/// Effect of a key.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// The key is translated into a setting.
    Taken,
    /// The key is translated into a setting if the file has several nodes. Otherwise it has no
    /// effect, for this reason.
    AmongSeveral(&'static str),
    /// The key has no effect, for this reason.
    Nothing(&'static str),
    /// Only these values are supported, and the reason why no other is.
    Only(&'static [&'static str], &'static str),
}

use Fate::{AmongSeveral, Nothing, Only, Taken};

/// Key of an Arakoon configuration.
pub struct KeyRow {
    /// The key's name and its other spellings.
    pub names: &'static [&'static str],
    /// The key's effect.
    pub fate: Fate,
}

const fn row(names: &'static [&'static str], fate: Fate) -> KeyRow {
    KeyRow { names, fate }
}

const NO: &[&str] = &["false"];
const PEERS: Fate = AmongSeveral("means nothing to a node that is alone");
const LOG: Fate = Nothing("means nothing here: the log is cut, compressed and collapsed by itself");
const DISK: Fate = Nothing("means nothing here: log and store lie together under `home`");
const STORE: Fate = Nothing("means nothing here: the setting `memory_bytes_max` bounds the memory");
const OUTPUT: Fate = Nothing("means nothing here: the log goes to standard error");
const KEEPALIVE: Fate = Nothing("means nothing here: keep-alive is on as the system has it");
const TLS: Fate = Nothing("means nothing here: there is no encryption yet");
const THROTTLE: Fate = Nothing("means nothing here: the background work throttles itself");
const LIMIT: Fate = Nothing("means nothing here: the limits are in docs/run/limits.md");

/// Keys of the section `[global]`.
pub const GLOBAL: &[KeyRow] = &[
    row(&["cluster", "cluster_id"], Taken),
    row(&["master", "preferred_master", "preferred_masters", "lease_period", "quorum"], PEERS),
    row(&["readonly"], Only(NO, "a node that only reads can't be had")),
    row(&["plugins"], Only(&[""], "there are no user functions and no hooks")),
    row(&["tls_service", "tls_service_validate_peer"], Only(NO, "there is no encryption yet")),
    row(&["tls_ca_cert", "tls_version", "tls_cipher_list"], TLS),
    row(&["tlog_max_entries", "tlog_max_size", "__tainted_tlog_entries_per_file"], LOG),
    row(
        &["__tainted_max_value_size", "__tainted_max_buffer_size", "client_buffer_capacity"],
        LIMIT,
    ),
    row(&["lcnum", "ncnum"], STORE),
    row(
        &[
            "enable_tcp_keepalive",
            "tcp_keepalive_time",
            "tcp_keepalive_intvl",
            "tcp_keepalive_probes",
        ],
        KEEPALIVE,
    ),
];

/// Keys of a node's section.
pub const NODE: &[KeyRow] = &[
    row(&["ip", "client_port", "home", "log_level"], Taken),
    row(&["messaging_port"], PEERS),
    row(&["tlog_dir", "tlx_dir", "tlf_dir", "head_dir"], DISK),
    row(&["log_dir", "log_sinks", "crash_log_sinks"], OUTPUT),
    row(&["log_config"], Nothing("means nothing here: `log_level` takes sections, too")),
    row(&["batched_transaction_config"], Nothing("means nothing here: batches make themselves")),
    row(&["learner", "witness"], Taken),
    row(&["laggy"], Only(NO, "messages are not dropped on purpose")),
    row(&["disable_tlog_compression", "tlog_compression"], LOG),
    row(
        &["fsync", "fsync_interval", "fsync_entries", "__tainted_fsync_tlog_dir"],
        Nothing(
            "means nothing here: every update is synced, unless its bucket has `sync interval`",
        ),
    ),
    row(&["reporting"], Nothing("means nothing here: statistics are not cleared")),
    row(&["tls_cert", "tls_key"], TLS),
    row(&["collapse_slowdown", "head_copy_throttling", "optimize_db_slowdown"], THROTTLE),
];
