//! Commands of available buckets: reads of all values of a key with their context, and writes with
//! a context. Options set how many replicas must answer or take part; their defaults are the
//! bucket's properties.

use super::{CommandContext, RespPlan, RespShape, TranslateResult};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use crate::resp::output::Output;
use base::limits::CONTEXT_BYTES_MAX;
use base::{
    AvailableCall, Call, Content, Context, FetchOptions, Quorum, ReadLevel, Siblings, Store,
    StoreOptions,
};

pub fn fetch(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let key = args.key(1)?;
    let mut options = FetchOptions::default();
    for at in options_from(args, 2)? {
        match args.upper(at).as_str() {
            "R" => set_once(&mut options.r, quorum(args, at)?)?,
            "PR" => set_once(&mut options.pr, quorum(args, at)?)?,
            "NODE_CONFIRMS" => set_once(&mut options.node_confirms, node_count(args, at)?)?,
            "BASIC_QUORUM" => set_once(&mut options.basic_quorum, yes_or_no(args, at)?)?,
            "NOTFOUND_OK" => set_once(&mut options.notfound_ok, yes_or_no(args, at)?)?,
            "TIMEOUT" => set_once(&mut options.timeout_ms, args.natural(at + 1)?)?,
            _ => return Err(errors::SYNTAX),
        }
    }
    match ctx.client.read_level {
        ReadLevel::Consistent => {}
        ReadLevel::Dirty => options.r = options.r.or(Some(Quorum::One)),
        ReadLevel::AtLeast(_) => {
            return Err(RespRefusal::new(
                "ERR an available bucket has no log index to wait for: send CREDENZA.CONSISTENCY \
                 CONSISTENT or DIRTY first",
            ));
        }
    }
    plan(AvailableCall::Fetch { key, options }, RespShape::Siblings)
}

pub fn store(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (key, content) = (args.key(1)?, Content::plain(args.value(2)?));
    let (context, options) = context_and_options(args, 3)?;
    let store = Store { key, content, context, options, condition: None };
    plan(AvailableCall::Store(Box::new(store)), RespShape::Context)
}

pub fn remove(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let key = args.key(1)?;
    let (context, options) = context_and_options(args, 2)?;
    plan(AvailableCall::Remove { key, context, options }, RespShape::RemovedContext)
}

fn plan(call: AvailableCall, shape: RespShape) -> TranslateResult {
    Ok(RespPlan::Call(Call::Available(call), shape))
}

/// Returns the positions of the options from argument `from` on. Each must be followed by a value.
fn options_from(
    args: &Args<'_>,
    from: usize,
) -> Result<impl Iterator<Item = usize> + use<>, RespRefusal> {
    match (args.len() - from).is_multiple_of(2) {
        true => Ok((from..args.len()).step_by(2)),
        false => Err(errors::SYNTAX),
    }
}

/// Parses the context of a write, and its quorums.
fn context_and_options(
    args: &Args<'_>,
    from: usize,
) -> Result<(Option<Context>, StoreOptions), RespRefusal> {
    let (mut write_context, mut options) = (None, StoreOptions::default());
    for at in options_from(args, from)? {
        match args.upper(at).as_str() {
            "CONTEXT" => set_once(&mut write_context, context(args, at)?)?,
            "W" => set_once(&mut options.w, quorum(args, at)?)?,
            "DW" => set_once(&mut options.dw, quorum(args, at)?)?,
            "PW" => set_once(&mut options.pw, quorum(args, at)?)?,
            "NODE_CONFIRMS" => set_once(&mut options.node_confirms, node_count(args, at)?)?,
            "TIMEOUT" => set_once(&mut options.timeout_ms, args.natural(at + 1)?)?,
            _ => return Err(errors::SYNTAX),
        }
    }
    Ok((write_context, options))
}

/// Sets an option. Refuses a repeated option, because either value could be meant.
pub fn set_once<T>(option: &mut Option<T>, value: T) -> Result<(), RespRefusal> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(errors::SYNTAX),
    }
}

fn context(args: &Args<'_>, at: usize) -> Result<Context, RespRefusal> {
    let context = args.get_bytes(at + 1);
    match context.len() {
        0 => Err(RespRefusal::new("ERR the context is empty: leave CONTEXT out if you have none")),
        1..=CONTEXT_BYTES_MAX => Ok(Context(context)),
        _ => Err(RespRefusal::from_text(format!(
            "ERR a context has at most {CONTEXT_BYTES_MAX} bytes: send one unchanged, as it was \
             returned for this key"
        ))),
    }
}

/// Parses the quorum behind the option at this position.
pub fn quorum(args: &Args<'_>, at: usize) -> Result<Quorum, RespRefusal> {
    let text = args.text(at + 1)?.to_ascii_lowercase();
    Quorum::parse(&text).ok_or_else(|| {
        let name = args.upper(at);
        RespRefusal::from_text(format!(
            "ERR {} must be ONE, QUORUM, ALL or a number",
            name.as_str()
        ))
    })
}

fn node_count(args: &Args<'_>, at: usize) -> Result<u8, RespRefusal> {
    let refusal = RespRefusal::new("ERR NODE_CONFIRMS must be a number from 0 to 255");
    args.natural(at + 1).ok().and_then(|number| number.try_into().ok()).ok_or(refusal)
}

fn yes_or_no(args: &Args<'_>, at: usize) -> Result<bool, RespRefusal> {
    match args.upper(at + 1).as_str() {
        "YES" => Ok(true),
        "NO" => Ok(false),
        _ => Err(RespRefusal::from_text(format!(
            "ERR {} must be YES or NO",
            args.upper(at).as_str()
        ))),
    }
}

/// Writes the context, then the values, the newest first; null stands for a delete. Counts a hit,
/// or a miss if there is no value.
pub fn write_siblings(siblings: &Siblings, ctx: &mut CommandContext<'_>) {
    match siblings.without_tombstones().next() {
        Some(_) => ctx.client.counts.hits += 1,
        None => ctx.client.counts.misses += 1,
    }
    write_values(siblings, ctx.out);
}

/// Writes the context, then the values, as [`write_siblings`] does. Counts nothing.
pub fn write_values(siblings: &Siblings, out: &mut Output) {
    out.array(2);
    out.value(&siblings.context.0);
    out.array(siblings.values.len());
    for sibling in &siblings.values {
        match sibling.tombstone {
            true => out.null(),
            false => out.value(&sibling.content.value),
        }
    }
}
