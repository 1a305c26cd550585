//! Commands on the bucket as a whole and on the node.

use super::{CommandContext, MultiStep, RespPlan, RespShape, TranslateResult, update};
use crate::resp::errors;
use crate::resp::frame::Args;
use base::{DirectoryCall, Key, Read, Update};

/// Section of `INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoSection {
    /// Program, process, port and uptime.
    Server,
    /// Connections.
    Clients,
    /// Memory of the store and of the process.
    Memory,
    /// Log and store.
    Persistence,
    /// Counts of connections and commands.
    Stats,
    /// Processor time.
    Cpu,
    /// Role of this node in the bucket's group.
    Replication,
    /// Redis Cluster, which is never enabled.
    Cluster,
    /// Number of keys.
    Keyspace,
    /// Figures of Credenza alone: groups, sync times, alarms.
    Credenza,
}

/// All sections, in the order in which they are shown.
pub const SECTIONS: [(&str, InfoSection); 10] = [
    ("server", InfoSection::Server),
    ("clients", InfoSection::Clients),
    ("memory", InfoSection::Memory),
    ("persistence", InfoSection::Persistence),
    ("stats", InfoSection::Stats),
    ("cpu", InfoSection::Cpu),
    ("replication", InfoSection::Replication),
    ("cluster", InfoSection::Cluster),
    ("keyspace", InfoSection::Keyspace),
    ("credenza", InfoSection::Credenza),
];

pub fn info(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let is_named = |name: &str| (1..args.len()).any(|at| args.is(at, name));
    let is_unfiltered =
        args.len() == 1 || ["all", "default", "everything"].iter().any(|name| is_named(name));
    let selected = SECTIONS.iter().filter(|(name, _)| is_unfiltered || is_named(name));
    Ok(RespPlan::MultiStep(MultiStep::Info(selected.map(|(_, section)| *section).collect())))
}

pub fn dbsize(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.read(Read::KeyCount, RespShape::Number)
}

/// Empties the connection's bucket: one metadata operation, whatever its size. In a transaction the
/// keys are deleted one by one, because this must be atomic with the other steps.
pub fn flush(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if args.len() > 2 || (args.len() == 2 && !args.is(1, "ASYNC") && !args.is(1, "SYNC")) {
        return Err(errors::SYNTAX);
    }
    if ctx.is_step {
        return update(Update::DeletePrefix { prefix: Key::new() }, RespShape::Ok);
    }
    Ok(RespPlan::Directory(ctx.client.bucket.clone(), DirectoryCall::ClearBucket, RespShape::Ok))
}

pub fn time(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let now = ctx.clock.unix_time();
    ctx.out.array(2);
    ctx.out.text(now.as_secs().to_string());
    ctx.out.text(now.subsec_micros().to_string());
    Ok(RespPlan::Answered)
}

/// Answers `SAVE`: acknowledged writes are on disk already. In a bucket with sync=interval they may
/// not be, and the answer is an error.
fn sync_status(ctx: &CommandContext<'_>, text: &'static str) -> TranslateResult {
    let bucket = ctx.client.bucket.clone();
    Ok(RespPlan::Directory(bucket, DirectoryCall::DescribeBucket, RespShape::SyncStatus(text)))
}

pub fn save(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    sync_status(ctx, "OK")
}

pub fn bgsave(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if args.len() > 2 || (args.len() == 2 && !args.is(1, "SCHEDULE")) {
        return Err(errors::SYNTAX);
    }
    sync_status(ctx, "All acknowledged writes are on disk")
}

pub fn lastsave(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.out.count(ctx.clock.unix_time().as_secs());
    Ok(RespPlan::Answered)
}

pub fn role(_args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    Ok(RespPlan::MultiStep(MultiStep::Role))
}

/// Answers `WAIT`, the number of replicas that confirmed the connection's writes, with 0 at once.
pub fn wait(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    args.integer(1)?;
    let timeout = base::codec::decimal(args.get(2));
    match timeout
        .ok_or(errors::RespRefusal::new("ERR timeout is not an integer or out of range"))?
    {
        ..0 => Err(errors::RespRefusal::new("ERR timeout is negative")),
        _ => {
            ctx.out.integer(0);
            Ok(RespPlan::Answered)
        }
    }
}
