//! Commands of available buckets: reads of all values of a key with their context, and writes with
//! a context. Options set how many replicas must answer or take part; their defaults are the
//! bucket's properties.

use super::{CommandContext, RespPlan, RespShape, Translated};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Words;
use base::limits::CONTEXT_BYTES_MAX;
use base::{
    AvailableCall, Call, Content, Context, FetchOptions, Quorum, ReadLevel, Siblings, Store,
    StoreOptions,
};

pub fn fetch(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let key = words.key(1)?;
    let mut options = FetchOptions::default();
    for at in options_from(words, 2)? {
        match words.upper(at).as_str() {
            "R" => once(&mut options.r, quorum(words, at)?)?,
            "PR" => once(&mut options.pr, quorum(words, at)?)?,
            "NODE_CONFIRMS" => once(&mut options.node_confirms, nodes(words, at)?)?,
            "BASIC_QUORUM" => once(&mut options.basic_quorum, truth(words, at)?)?,
            "NOTFOUND_OK" => once(&mut options.notfound_ok, truth(words, at)?)?,
            "TIMEOUT" => once(&mut options.timeout_ms, words.natural(at + 1)?)?,
            _ => return Err(errors::SYNTAX),
        }
    }
    match talk.client.read_level {
        ReadLevel::Consistent => {}
        ReadLevel::Dirty => options.r = options.r.or(Some(Quorum::One)),
        ReadLevel::AtLeast(_) => {
            return Err(RespRefusal::new(
                "ERR in an available bucket there is no log to wait for: CREDENZA.CONSISTENCY \
                 CONSISTENT or DIRTY comes first",
            ));
        }
    }
    ask(AvailableCall::Fetch { key, options }, RespShape::Siblings)
}

pub fn store(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let (key, content) = (words.key(1)?, Content::plain(words.value(2)?));
    let (context, options) = seen_and_options(words, 3)?;
    let store = Store { key, content, context, options, condition: None };
    ask(AvailableCall::Store(Box::new(store)), RespShape::Context)
}

pub fn remove(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let key = words.key(1)?;
    let (context, options) = seen_and_options(words, 2)?;
    ask(AvailableCall::Remove { key, context, options }, RespShape::Removed)
}

fn ask(call: AvailableCall, shape: RespShape) -> Translated {
    Ok(RespPlan::Ask(Call::Available(call), shape))
}

/// Returns the positions of the options from word `from` on. Each must have a word behind it.
fn options_from(
    words: &Words<'_>,
    from: usize,
) -> Result<impl Iterator<Item = usize> + use<>, RespRefusal> {
    match (words.len() - from).is_multiple_of(2) {
        true => Ok((from..words.len()).step_by(2)),
        false => Err(errors::SYNTAX),
    }
}

/// Parses the context of a write, and its quorums.
fn seen_and_options(
    words: &Words<'_>,
    from: usize,
) -> Result<(Option<Context>, StoreOptions), RespRefusal> {
    let (mut seen, mut options) = (None, StoreOptions::default());
    for at in options_from(words, from)? {
        match words.upper(at).as_str() {
            "CONTEXT" => once(&mut seen, context(words, at)?)?,
            "W" => once(&mut options.w, quorum(words, at)?)?,
            "DW" => once(&mut options.dw, quorum(words, at)?)?,
            "PW" => once(&mut options.pw, quorum(words, at)?)?,
            "NODE_CONFIRMS" => once(&mut options.node_confirms, nodes(words, at)?)?,
            "TIMEOUT" => once(&mut options.timeout_ms, words.natural(at + 1)?)?,
            _ => return Err(errors::SYNTAX),
        }
    }
    Ok((seen, options))
}

/// Sets an option. Refuses one that is given twice, because either could be meant.
fn once<T>(place: &mut Option<T>, said: T) -> Result<(), RespRefusal> {
    match place.replace(said) {
        None => Ok(()),
        Some(_) => Err(errors::SYNTAX),
    }
}

fn context(words: &Words<'_>, at: usize) -> Result<Context, RespRefusal> {
    let context = words.keep(at + 1);
    match context.len() {
        0 => Err(RespRefusal::new(
            "ERR an empty context has seen nothing: leave CONTEXT out to say that",
        )),
        1..=CONTEXT_BYTES_MAX => Ok(Context(context)),
        _ => Err(RespRefusal::made(format!(
            "ERR a context has at most {CONTEXT_BYTES_MAX} bytes: send one as it was given for \
             this very key"
        ))),
    }
}

fn quorum(words: &Words<'_>, at: usize) -> Result<Quorum, RespRefusal> {
    let text = words.text(at + 1)?.to_ascii_lowercase();
    Quorum::parse(&text).ok_or_else(|| {
        let name = words.upper(at);
        RespRefusal::made(format!("ERR {} is ONE, QUORUM, ALL or a number", name.as_str()))
    })
}

fn nodes(words: &Words<'_>, at: usize) -> Result<u8, RespRefusal> {
    let refused = RespRefusal::new("ERR NODE_CONFIRMS is a number from 0 to 255");
    words.natural(at + 1).ok().and_then(|number| number.try_into().ok()).ok_or(refused)
}

fn truth(words: &Words<'_>, at: usize) -> Result<bool, RespRefusal> {
    match words.upper(at + 1).as_str() {
        "YES" => Ok(true),
        "NO" => Ok(false),
        _ => Err(RespRefusal::made(format!("ERR {} is YES or NO", words.upper(at).as_str()))),
    }
}

/// Writes the context, then the values, the newest first; null stands for a delete.
pub fn speak(siblings: &Siblings, talk: &mut CommandContext<'_>) {
    match siblings.living().next() {
        Some(_) => talk.client.tally.hits += 1,
        None => talk.client.tally.misses += 1,
    }
    talk.out.array(2);
    talk.out.value(&siblings.context.0);
    talk.out.array(siblings.values.len());
    for sibling in &siblings.values {
        match sibling.tombstone {
            true => talk.out.null(),
            false => talk.out.value(&sibling.content.value),
        }
    }
}
