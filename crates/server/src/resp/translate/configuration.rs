//! `CONFIG`: parameters that Redis' tools read. Commands can't change settings.

use super::keys::pattern;
use super::{CommandContext, MultiStep, RespPlan, TranslateResult};
use crate::resp::errors::RespRefusal;
use crate::resp::frame::Args;
use base::SyncPolicy;
use base::limits::{self, PATTERNS_MAX};

/// Returns the parameters that Redis' tools read, for a bucket with this sync policy, and with
/// connections closed after this many idle milliseconds (`None`: never).
pub fn parameters(sync: SyncPolicy, idle_ms_max: Option<u64>) -> [(&'static str, String); 14] {
    let appendfsync = match sync {
        // Every acknowledged write is in the log, which is synced before the answer.
        SyncPolicy::Sync => "always",
        SyncPolicy::Interval => "everysec",
    };
    [
        ("appendonly", "yes".into()),
        ("appendfsync", appendfsync.into()),
        // No points in time exist at which data is saved: acknowledged writes are saved already.
        ("save", String::new()),
        ("databases", "1".into()),
        ("maxmemory", "0".into()),
        ("maxmemory-policy", "noeviction".into()),
        ("maxmemory-clients", "0".into()),
        ("proto-max-bulk-len", limits::VALUE_BYTES_MAX.to_string()),
        ("client-query-buffer-limit", limits::FRAME_BYTES_MAX.to_string()),
        ("timeout", idle_ms_max.map_or(0, |ms| ms.div_ceil(1_000)).to_string()),
        ("tcp-keepalive", "0".into()),
        ("cluster-enabled", "no".into()),
        ("notify-keyspace-events", String::new()),
        ("requirepass", String::new()),
    ]
}

pub fn get(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let lower = |at| args.get(at).to_ascii_lowercase();
    if args.len() - 2 > PATTERNS_MAX {
        return Err(RespRefusal::from_text(format!(
            "ERR at most {PATTERNS_MAX} patterns at a time"
        )));
    }
    let globs: Result<_, RespRefusal> = (2..args.len()).map(|at| pattern(&lower(at))).collect();
    Ok(RespPlan::MultiStep(MultiStep::Configuration(globs?)))
}

pub fn set(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let name = base::codec::printable(args.get(2));
    let known = parameters(SyncPolicy::Sync, None)
        .iter()
        .any(|(known, _)| name.eq_ignore_ascii_case(known));
    Err(RespRefusal::from_text(match known {
        true => format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable \
             config"
        ),
        false => format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"),
    }))
}

pub fn resetstat(_args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    Ok(RespPlan::MultiStep(MultiStep::ResetCounts))
}

pub fn rewrite(_args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    Err(RespRefusal::new("ERR The server is running without a config file"))
}

pub fn help(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.help(&[
        "CONFIG <subcommand> [<arg> ...]. Subcommands are:",
        "GET <pattern> ...: values of the parameters that Redis' tools need.",
        "SET <parameter> <value>: refused: parameters are read-only.",
        "RESETSTAT: resets the counters.",
    ])
}
