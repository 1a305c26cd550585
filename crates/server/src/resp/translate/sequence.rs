//! `CREDENZA.SEQUENCE`: commands that take effect together or not at all.
//!
//! Each step is the number of its arguments, then the arguments: `2 DEL a 3 SET b 1`. A step may be
//! a sequence itself.

use super::{CommandContext, RespShape, TranslateResult, step, update};
use crate::resp::errors::RespRefusal;
use crate::resp::frame::Args;
use base::Update;
use base::limits::{SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX};
use base::request::SequenceMode;

pub fn sequence(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if ctx.depth >= SEQUENCE_DEPTH_MAX {
        let text = format!("ERR sequences nest at most {SEQUENCE_DEPTH_MAX} deep");
        return Err(RespRefusal::from_text(text));
    }
    let (mut steps, mut shapes) = (Vec::new(), Vec::new());
    let mut position = 1;
    while position < args.len() {
        let count = args.natural(position)?;
        let left = (args.len() - position - 1) as u64;
        if count == 0 || count > left {
            return Err(RespRefusal::from_text(format!(
                "ERR argument {position} announces a step of {count} words, but {left} follow"
            )));
        }
        if steps.len() == SEQUENCE_STEPS_MAX {
            let text = format!("ERR a sequence has at most {SEQUENCE_STEPS_MAX} steps");
            return Err(RespRefusal::from_text(text));
        }
        let end = position + 1 + count as usize;
        ctx.depth += 1;
        let translated = step(&args.subrange(position + 1, end), ctx);
        ctx.depth -= 1;
        let (update, shape) = translated?;
        steps.push(update);
        shapes.push(shape);
        position = end;
    }
    let shape = RespShape::Steps(shapes.into());
    update(Update::Sequence { steps, mode: SequenceMode::AllOrNothing }, shape)
}
