//! `CREDENZA.SEQUENCE`: commands that take effect together or not at all.
//!
//! Each step is the number of its words, then its words: `2 DEL a 3 SET b 1`. A step may be a
//! sequence itself.

use super::{CommandContext, RespShape, Translated, step, update};
use crate::resp::errors::RespRefusal;
use crate::resp::frame::Words;
use base::Update;
use base::limits::{SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX};
use base::request::Steps;

pub fn sequence(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if talk.depth >= SEQUENCE_DEPTH_MAX {
        let text = format!("ERR sequences nest at most {SEQUENCE_DEPTH_MAX} deep");
        return Err(RespRefusal::made(text));
    }
    let (mut steps, mut shapes) = (Vec::new(), Vec::new());
    let mut at = 1;
    while at < words.len() {
        let count = words.natural(at)?;
        let left = (words.len() - at - 1) as u64;
        if count == 0 || count > left {
            return Err(RespRefusal::made(format!(
                "ERR word {at} says that a step of {count} words follows, but there are {left}"
            )));
        }
        if steps.len() == SEQUENCE_STEPS_MAX {
            let text = format!("ERR a sequence has at most {SEQUENCE_STEPS_MAX} steps");
            return Err(RespRefusal::made(text));
        }
        let end = at + 1 + count as usize;
        talk.depth += 1;
        let translated = step(&words.part(at + 1, end), talk);
        talk.depth -= 1;
        let (update, shape) = translated?;
        steps.push(update);
        shapes.push(shape);
        at = end;
    }
    let shape = RespShape::Steps(shapes.into());
    update(Update::Sequence { steps, mode: Steps::AllOrNothing }, shape)
}
