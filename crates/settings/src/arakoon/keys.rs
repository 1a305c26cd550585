//! Table of all keys of an Arakoon configuration, with the effect of each.

/// Effect of a key.
#[derive(Clone, Copy, Debug)]
pub enum KeyEffect {
    /// The key is translated into a setting.
    Translated,
    /// The key is translated into a setting if the file has several nodes. Otherwise it has no
    /// effect, for this reason.
    InCluster(&'static str),
    /// The key has no effect, for this reason.
    NoEffect(&'static str),
    /// Only these values are supported; the text is the reason.
    OnlyValues(&'static [&'static str], &'static str),
}

use KeyEffect::{InCluster, NoEffect, OnlyValues, Translated};

/// Key of an Arakoon configuration.
pub struct KeyRow {
    /// The key's name and its other spellings.
    pub names: &'static [&'static str],
    /// The key's effect.
    pub effect: KeyEffect,
}

const fn row(names: &'static [&'static str], effect: KeyEffect) -> KeyRow {
    KeyRow { names, effect }
}

const FALSE_ONLY: &[&str] = &["false"];
const PEERS: KeyEffect = InCluster("means nothing to a node that is alone");
const LOG: KeyEffect =
    NoEffect("means nothing here: the log is cut, compressed and collapsed by itself");
const DISK: KeyEffect = NoEffect("means nothing here: log and store lie together under `home`");
const STORE: KeyEffect =
    NoEffect("means nothing here: the setting `memory_bytes_max` bounds the memory");
const OUTPUT: KeyEffect = NoEffect("means nothing here: the log goes to standard error");
const KEEPALIVE: KeyEffect = NoEffect("means nothing here: keep-alive is on as the system has it");
const TLS: KeyEffect = NoEffect("means nothing here: there is no encryption yet");
const THROTTLE: KeyEffect = NoEffect("means nothing here: the background work throttles itself");
const LIMIT: KeyEffect = NoEffect("means nothing here: the limits are in docs/run/limits.md");

/// Keys of the section `[global]`.
pub const GLOBAL: &[KeyRow] = &[
    row(&["cluster", "cluster_id"], Translated),
    row(&["master", "preferred_master", "preferred_masters", "lease_period", "quorum"], PEERS),
    row(&["readonly"], OnlyValues(FALSE_ONLY, "a node that only reads can't be had")),
    row(&["plugins"], OnlyValues(&[""], "there are no user functions and no hooks")),
    row(
        &["tls_service", "tls_service_validate_peer"],
        OnlyValues(FALSE_ONLY, "there is no encryption yet"),
    ),
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
    row(&["ip", "client_port", "home", "log_level"], Translated),
    row(&["messaging_port"], PEERS),
    row(&["tlog_dir", "tlx_dir", "tlf_dir", "head_dir"], DISK),
    row(&["log_dir", "log_sinks", "crash_log_sinks"], OUTPUT),
    row(&["log_config"], NoEffect("means nothing here: `log_level` takes sections, too")),
    row(&["batched_transaction_config"], NoEffect("means nothing here: batches make themselves")),
    row(&["learner", "witness"], Translated),
    row(&["laggy"], OnlyValues(FALSE_ONLY, "messages are not dropped on purpose")),
    row(&["disable_tlog_compression", "tlog_compression"], LOG),
    row(
        &["fsync", "fsync_interval", "fsync_entries", "__tainted_fsync_tlog_dir"],
        NoEffect(
            "means nothing here: every update is synced, unless its bucket has `sync interval`",
        ),
    ),
    row(&["reporting"], NoEffect("means nothing here: statistics are not cleared")),
    row(&["tls_cert", "tls_key"], TLS),
    row(&["collapse_slowdown", "head_copy_throttling", "optimize_db_slowdown"], THROTTLE),
];
