//! `MULTI` to `EXEC`: queued commands run as one sequence, with nothing in between.
//!
//! As in Redis, a command that fails changes only its own answer, and a watched key that changed
//! discards the whole transaction. As in Redis, a command's name and number of words are checked
//! when it is queued, and its words are read when it runs.

use super::{
    Command, CommandContext, Flags, RespPlan, RespShape, TransactionSlot, Translated, find, step,
    update,
};
use crate::resp::client::{Transaction, Watched};
use crate::resp::errors::RespRefusal;
use crate::resp::frame::{Detached, Words};
use crate::resp::output::Output;
use base::limits::{FRAME_BYTES_MAX, SEQUENCE_STEPS_MAX};
use base::request::{ReadLevel, Steps};
use base::{Call, Read, Update};
use std::sync::atomic::Ordering::Relaxed;

pub fn multi(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if talk.client.transaction.is_some() {
        return Err(RespRefusal::new("ERR MULTI calls can not be nested"));
    }
    talk.client.transaction = Some(Transaction::default());
    talk.client.card.queued.store(0, Relaxed);
    talk.out.ok();
    Ok(RespPlan::Said)
}

/// Queues a command for `EXEC`.
pub fn queue(command: &Command, words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if command.flags.has(Flags::NO_MULTI) {
        return Err(RespRefusal::new("ERR Command not allowed inside a transaction"));
    }
    let transaction = talk.client.transaction.get_or_insert_default();
    let detached = words.detach();
    let bytes = transaction.bytes + size_of::<Detached>() + detached.memory_bytes();
    if bytes > FRAME_BYTES_MAX || transaction.queue.len() >= SEQUENCE_STEPS_MAX {
        return Err(RespRefusal::made(format!(
            "ERR a transaction has at most {SEQUENCE_STEPS_MAX} commands and {FRAME_BYTES_MAX} \
             bytes"
        )));
    }
    if !transaction.failed {
        if !transaction.room.holds(bytes, talk.shared) {
            // Free the memory of the queue for others.
            *transaction = Transaction { failed: true, ..Transaction::default() };
            return Err(RespRefusal::new(
                "OVERLOADED too many large transactions are queued (buffer_bytes_max): the \
                 transaction is given up; queue less, or try again later",
            ));
        }
        transaction.bytes = bytes;
        transaction.queue.push(detached);
        talk.client.card.queued.store(transaction.queue.len() as i64, Relaxed);
    }
    talk.out.simple("QUEUED");
    Ok(RespPlan::Said)
}

fn end(talk: &mut CommandContext<'_>) -> (Option<Transaction>, Vec<Watched>) {
    talk.client.card.queued.store(-1, Relaxed);
    talk.client.card.watched.store(0, Relaxed);
    (talk.client.transaction.take(), std::mem::take(&mut talk.client.watched))
}

pub fn discard(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if talk.client.transaction.is_none() {
        return Err(RespRefusal::new("ERR DISCARD without MULTI"));
    }
    end(talk);
    talk.out.ok();
    Ok(RespPlan::Said)
}

pub fn exec(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if talk.client.transaction.is_none() {
        return Err(RespRefusal::new("ERR EXEC without MULTI"));
    }
    let (transaction, watched) = end(talk);
    let transaction = transaction.unwrap_or_default();
    if transaction.failed {
        return Err(RespRefusal::new(
            "EXECABORT Transaction discarded because of previous errors.",
        ));
    }
    let unchanged = |Watched { key, version }| Update::AssertVersion { key, version };
    let mut steps: Vec<Update> = watched.into_iter().map(unchanged).collect();
    let watched = steps.len();
    let slots: Vec<TransactionSlot> =
        transaction.queue.iter().map(|queued| slot(queued, &mut steps, talk)).collect();
    let shape = RespShape::Exec { watched, slots: slots.into() };
    if steps.is_empty() {
        shape.speak_alone(talk);
        return Ok(RespPlan::Said);
    }
    update(Update::Sequence { steps, mode: Steps::EachAlone }, shape)
}

/// Translates a queued command: into a step and the form of its answer, or into an answer without a
/// step.
fn slot(
    queued: &Detached,
    steps: &mut Vec<Update>,
    talk: &mut CommandContext<'_>,
) -> TransactionSlot {
    let words = queued.words();
    let outer = std::mem::replace(talk.out, Output::new(talk.out.protocol));
    let shape = find(&words).and_then(|command| {
        if command.is_data() {
            let (update, shape) = step(&words, talk)?;
            steps.push(update);
            return Ok(Some(shape));
        }
        // Any other command that may be queued is answered at once.
        (command.run)(&words, talk).map(|_| None)
    });
    let shape = shape.unwrap_or_else(|refusal| {
        talk.refuse(&refusal);
        None
    });
    let said = std::mem::replace(talk.out, outer);
    shape.map_or_else(|| TransactionSlot::Answer(said.to_bytes().into()), TransactionSlot::Step)
}

pub fn watch(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if talk.client.transaction.is_some() {
        return Err(RespRefusal::new("ERR WATCH inside MULTI is not allowed"));
    }
    // Copy the keys: they are kept for long and must not hold the buffer they arrived in.
    let keys: Vec<_> =
        words.keys(1, 1)?.iter().map(|key| base::Key::copy_from_slice(key)).collect();
    if talk.client.watched.len() + keys.len() > WATCHED_MAX {
        return Err(RespRefusal::made(format!(
            "ERR a connection watches at most {WATCHED_MAX} keys"
        )));
    }
    let read = Read::MultiGet(keys.clone());
    Ok(RespPlan::Ask(Call::Read(read, ReadLevel::Consistent), RespShape::Watch(keys.into())))
}

/// Most keys a connection watches.
const WATCHED_MAX: usize = 1_024;

pub fn unwatch(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.client.watched.clear();
    talk.client.card.watched.store(0, Relaxed);
    talk.out.ok();
    Ok(RespPlan::Said)
}
