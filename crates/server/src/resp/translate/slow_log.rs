//! `SLOWLOG`: slow requests of the node, in Redis' form. Arguments are never shown: a name of the
//! bucket and a digest of the key stand for them.

use super::{CommandContext, RespPlan, TranslateResult};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use base::rights::Operate;
use node::{RecordedAct, SlowEntry, SlowRequest, SlowStages};
use std::cmp::Reverse;
use std::time::Duration;

/// Number of entries that are shown by default.
const SHOWN: i64 = 10;
const COUNT_ERROR: RespRefusal =
    RespRefusal::new("ERR count should be greater than or equal to -1");

/// Decides about an act of operators. Refuses it to a client that may not do it.
fn authorize(ctx: &CommandContext<'_>, act: Operate) -> Result<RecordedAct, RespRefusal> {
    let decided = ctx.shared.node.authorize(&ctx.client.principal, act);
    decided.map_err(|error| RespRefusal::from_text(errors::text(&error)))
}

pub fn get(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    authorize(ctx, Operate::ShowSlowRequests)?.done();
    let count = match args.len() {
        2 => SHOWN,
        3 => base::codec::decimal(args.get(2)).ok_or(COUNT_ERROR)?,
        _ => return Err(errors::SYNTAX),
    };
    let count = match count {
        -1 => usize::MAX,
        count => usize::try_from(count).map_err(|_| COUNT_ERROR)?,
    };
    let mut entries = ctx.shared.node.slow_requests();
    entries.sort_by_key(|entry| Reverse(entry.id));
    entries.truncate(count);
    ctx.out.array(entries.len());
    entries.iter().for_each(|entry| write_entry(entry, ctx));
    Ok(RespPlan::Answered)
}

fn write_entry(entry: &SlowEntry, ctx: &mut CommandContext<'_>) {
    let SlowRequest { protocol, command, bucket, key_digest, requests, took, stages, client } =
        &entry.request;
    let key = key_digest.map_or_else(String::new, |digest| format!("{digest:016x}"));
    let words = [
        command.to_string(),
        bucket.clone(),
        format!("key={key}"),
        format!("requests={requests}"),
        format!("protocol={protocol}"),
        format!("stages={}", stages_text(stages)),
    ];
    let out = &mut *ctx.out;
    out.array(6);
    out.count(entry.id);
    out.count(entry.at_ms / 1_000);
    out.count(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    out.array(words.len());
    words.iter().for_each(|word| out.text(word));
    out.text(client.map_or_else(String::new, |client| client.to_string()));
    out.text("");
}

/// Returns the stages that took a millisecond at least, in milliseconds.
fn stages_text(stages: &SlowStages) -> String {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let SlowStages { evaluate, decide, entry, reply, send } = stages;
    let entry = entry.unwrap_or_default();
    let all = [
        ("evaluate", milliseconds(*evaluate)),
        ("decide", milliseconds(*decide)),
        ("batch", entry.batch_ms),
        ("log", entry.log_ms),
        ("replicas", entry.replicas_ms),
        ("apply", entry.apply_ms),
        ("reply", milliseconds(*reply)),
        ("send", milliseconds(*send)),
    ];
    let long = all.into_iter().filter(|(_, ms)| *ms > 0);
    long.map(|(stage, ms)| format!("{stage}:{ms}ms")).collect::<Vec<_>>().join(",")
}

pub fn len(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    authorize(ctx, Operate::ShowSlowRequests)?.done();
    ctx.out.count(ctx.shared.node.slow_requests_count() as u64);
    Ok(RespPlan::Answered)
}

pub fn reset(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let act = authorize(ctx, Operate::ClearSlowRequests)?;
    ctx.shared.node.clear_slow_requests();
    act.done();
    ctx.out.ok();
    Ok(RespPlan::Answered)
}

pub fn help(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.help(&[
        "SLOWLOG <subcommand> [<arg> ...]. Subcommands are:",
        "GET [<count>]: the newest slow requests (10 by default, -1: all).",
        "LEN: their number.",
        "RESET: removes them.",
    ])
}
