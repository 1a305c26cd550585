//! `MULTI` to `EXEC`: queued commands run as one sequence, with nothing in between.
//!
//! As in Redis, a command that fails changes only its own answer, and a watched key that changed
//! discards the whole transaction. As in Redis, a command's name and arity are checked when it
//! is queued, and its arguments are parsed when it runs.

use super::{
    Command, CommandContext, Flags, RespPlan, RespShape, TransactionShape, TransactionSlot,
    TranslateResult, find, not_a_step, step, update,
};
use crate::resp::client::{Transaction, WatchedKey};
use crate::resp::errors::RespRefusal;
use crate::resp::frame::{Args, OwnedArgs};
use crate::resp::output::Output;
use base::limits::{FRAME_BYTES_MAX, SEQUENCE_STEPS_MAX};
use base::request::{ReadLevel, SequenceMode};
use base::{Call, FeatureLevel, Key, KeyVersion, Read, Row, Update};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

pub fn multi(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if ctx.client.transaction.is_some() {
        return Err(RespRefusal::new("ERR MULTI calls can not be nested"));
    }
    ctx.client.transaction = Some(Transaction::default());
    ctx.client.info.queued.store(0, Relaxed);
    ctx.out.ok();
    Ok(RespPlan::Answered)
}

/// Queues a command for `EXEC`.
pub fn queue(command: &Command, args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if command.flags.has(Flags::NO_MULTI) {
        return Err(RespRefusal::new("ERR Command not allowed inside a transaction"));
    }
    let transaction = ctx.client.transaction.get_or_insert_default();
    let detached = args.to_owned_args();
    let bytes = transaction.bytes + size_of::<OwnedArgs>() + detached.memory_bytes();
    if bytes > FRAME_BYTES_MAX || transaction.queue.len() >= SEQUENCE_STEPS_MAX {
        return Err(RespRefusal::from_text(format!(
            "ERR a transaction has at most {SEQUENCE_STEPS_MAX} commands and {FRAME_BYTES_MAX} \
             bytes"
        )));
    }
    if !transaction.failed {
        if !transaction.queue_budget.try_reserve(bytes, ctx.shared) {
            // Free the memory of the queue for others.
            *transaction = Transaction { failed: true, ..Transaction::default() };
            return Err(RespRefusal::new(
                "OVERLOADED too many large transactions are queued (buffer_bytes_max): the \
                 transaction is discarded; queue less, or try again later",
            ));
        }
        transaction.bytes = bytes;
        transaction.queue.push(detached);
        ctx.client.info.queued.store(transaction.queue.len() as i64, Relaxed);
    }
    ctx.out.simple("QUEUED");
    Ok(RespPlan::Answered)
}

fn end_transaction(ctx: &mut CommandContext<'_>) -> (Option<Transaction>, Vec<WatchedKey>) {
    ctx.client.info.queued.store(-1, Relaxed);
    ctx.client.info.watched.store(0, Relaxed);
    ctx.client.watch_budget.release();
    (ctx.client.transaction.take(), std::mem::take(&mut ctx.client.watched))
}

pub fn discard(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if ctx.client.transaction.is_none() {
        return Err(RespRefusal::new("ERR DISCARD without MULTI"));
    }
    end_transaction(ctx);
    ctx.out.ok();
    Ok(RespPlan::Answered)
}

pub fn exec(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if ctx.client.transaction.is_none() {
        return Err(RespRefusal::new("ERR EXEC without MULTI"));
    }
    let (transaction, watched) = end_transaction(ctx);
    let transaction = transaction.unwrap_or_default();
    if transaction.failed {
        return Err(RespRefusal::new(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    let mut steps: Vec<Update> = watched.into_iter().map(|watched| watched.unchanged).collect();
    let mut shape = TransactionShape { watched: steps.len(), ..TransactionShape::default() };
    for queued in &transaction.queue {
        let slot = slot(queued, &mut steps, ctx);
        if let TransactionSlot::Answer(answer) = &slot {
            shape.answer_bytes += answer.len();
        }
        shape.slots.push(slot);
        // Before all are written: commands of a few bytes may have answers of many.
        if shape.answer_bytes > FRAME_BYTES_MAX
            || !shape.budget.try_reserve(shape.answer_bytes, ctx.shared)
        {
            return Err(RespRefusal::new(
                "OVERLOADED the answers of the transaction's commands are too large \
                 (buffer_bytes_max): the transaction is discarded; queue less, or try again later",
            ));
        }
    }
    if steps.is_empty() {
        shape.encode(&mut std::iter::empty(), ctx);
        return Ok(RespPlan::Answered);
    }
    let update_steps = Update::Sequence { steps, mode: SequenceMode::EachAlone };
    update(update_steps, RespShape::Exec(Arc::new(shape)))
}

/// Translates a queued command: into a step and the form of its answer, or into an answer without a
/// step.
fn slot(
    queued: &OwnedArgs,
    steps: &mut Vec<Update>,
    ctx: &mut CommandContext<'_>,
) -> TransactionSlot {
    let args = queued.args();
    let outer = std::mem::replace(ctx.out, Output::new(ctx.out.protocol));
    let shape = find(&args).and_then(|command| {
        if command.is_data() {
            let (update, shape) = step(&args, ctx)?;
            steps.push(update);
            return Ok(Some(shape));
        }
        // Any other command that may be queued is answered at once.
        match (command.run)(&args, ctx)? {
            RespPlan::Answered => Ok(None),
            _ => Err(not_a_step(command)),
        }
    });
    let shape = shape.unwrap_or_else(|refusal| {
        ctx.refuse(&refusal);
        None
    });
    let answer = std::mem::replace(ctx.out, outer);
    shape.map_or_else(|| TransactionSlot::Answer(answer.to_bytes().into()), TransactionSlot::Step)
}

pub fn watch(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if ctx.client.transaction.is_some() {
        return Err(RespRefusal::new("ERR WATCH inside MULTI is not allowed"));
    }
    // Copy the keys: they are retained for long and must not pin the buffer they arrived in.
    let keys: Vec<_> = args.keys(1, 1)?.iter().map(|key| Key::copy_from_slice(key)).collect();
    if ctx.client.watched.len() + keys.len() > WATCHED_MAX {
        return Err(RespRefusal::from_text(format!(
            "ERR a connection watches at most {WATCHED_MAX} keys"
        )));
    }
    let bytes = keys.iter().map(|key| size_of::<WatchedKey>() + key.len()).sum::<usize>();
    if !ctx.client.watch_budget.try_reserve(ctx.client.watched_bytes() + bytes, ctx.shared) {
        return Err(RespRefusal::new(
            "OVERLOADED too many long keys are watched (buffer_bytes_max): watch less, or try \
             again later",
        ));
    }
    let read = match ctx.shared.node.feature_level() >= FeatureLevel::WITH_KEY_VERSIONS {
        true => Read::KeyVersions(keys.clone()),
        // A master of an earlier program does not know them.
        false => Read::MultiGet(keys.clone()),
    };
    Ok(RespPlan::Call(Call::Read(read, ReadLevel::Consistent), RespShape::Watch(keys.into())))
}

/// Most keys a connection watches.
const WATCHED_MAX: usize = 1_024;

/// Watches keys that had these versions.
pub fn watch_versions(keys: &[Key], versions: &[KeyVersion], ctx: &mut CommandContext<'_>) {
    let unchanged = |(key, version): (&Key, &KeyVersion)| {
        let key = key.clone();
        match *version {
            KeyVersion::Present(version) => Update::AssertVersion { key, version: Some(version) },
            KeyVersion::Absent(absence) => Update::AssertAbsentSince { key, absence },
        }
    };
    let assertions = keys.iter().zip(versions).map(unchanged);
    add_watched(keys, assertions, ctx);
}

/// Watches keys that had these rows. Of an absent key only a row is noticed that is there when
/// `EXEC` runs.
pub fn watch_rows(keys: &[Key], rows: &[Option<Row>], ctx: &mut CommandContext<'_>) {
    let unchanged = |(key, row): (&Key, &Option<Row>)| {
        let version = row.as_ref().map(|row| row.version);
        Update::AssertVersion { key: key.clone(), version }
    };
    let assertions = keys.iter().zip(rows).map(unchanged);
    add_watched(keys, assertions, ctx);
}

fn add_watched(
    keys: &[Key],
    assertions: impl Iterator<Item = Update>,
    ctx: &mut CommandContext<'_>,
) {
    let watched = ctx.client.watched.iter().map(|watched| watched.key.clone());
    let mut known: BTreeSet<Key> = watched.collect();
    for (key, unchanged) in keys.iter().zip(assertions) {
        // A key that is watched twice keeps its first version.
        if known.insert(key.clone()) {
            ctx.client.watched.push(WatchedKey { key: key.clone(), unchanged });
        }
    }
    ctx.client.info.watched.store(ctx.client.watched.len() as u64, Relaxed);
    ctx.out.ok();
}

pub fn unwatch(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.client.watched = Vec::new();
    ctx.client.watch_budget.release();
    ctx.client.info.watched.store(0, Relaxed);
    ctx.out.ok();
    Ok(RespPlan::Answered)
}
