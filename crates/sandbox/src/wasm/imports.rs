//! The ABI `credenza1`: verbs that a module imports.
//!
//! Pointers and lengths are unsigned 32-bit numbers. A verb that yields bytes returns their
//! length, or -1 for none, and `take` copies them to a pointer. An error ends the call.

use super::guest::{Guest, GuestSlice, run_verb};
use crate::cursor::{CursorRange, RANGE_UNBOUNDED};
use crate::error::FunctionError;
use crate::session::{VerbResult, Verbs};
use bytes::Bytes;
use wasmi::{Caller, Error, Linker};

/// Name of the module that the verbs are imported from.
pub(crate) const ABI_NAME: &str = "credenza1";
/// Verbs that change nothing.
pub(crate) const READING_VERBS: [&str; 14] = [
    "input",
    "get",
    "exists",
    "range",
    "index",
    "next",
    "key",
    "value",
    "close",
    "group_time",
    "request",
    "output",
    "log",
    "take",
];
/// Verbs that write.
pub(crate) const WRITING_VERBS: [&str; 5] = ["set", "set_for", "delete", "add", "append"];

type GuestCaller<'a> = Caller<'a, Guest>;

fn slice(at: i32, length: i32) -> GuestSlice {
    GuestSlice { at, length }
}

/// Keeps bytes for `take`, and returns their length.
fn offer(session: &mut dyn Verbs, bytes: Option<Bytes>) -> VerbResult<i32> {
    let Some(bytes) = bytes else { return Ok(-1) };
    let Ok(length) = i32::try_from(bytes.len()) else {
        return Err(session.end(FunctionError::trapped("a value is too long for the module")));
    };
    session.offer(bytes);
    Ok(length)
}

/// Adds all verbs to a linker.
pub(crate) fn define(linker: &mut Linker<Guest>) -> Result<(), Error> {
    define_rows(linker)?;
    define_writes(linker)?;
    define_cursors(linker)?;
    define_call(linker)
}

fn define_rows(linker: &mut Linker<Guest>) -> Result<(), Error> {
    linker.func_wrap(ABI_NAME, "get", |mut caller: GuestCaller<'_>, at: i32, length: i32| {
        run_verb(&mut caller, |memory, session| {
            let key = slice(at, length).read(memory, session)?;
            let value = session.get(key)?;
            offer(session, value)
        })
    })?;
    linker.func_wrap(ABI_NAME, "exists", |mut caller: GuestCaller<'_>, at: i32, length: i32| {
        run_verb(&mut caller, |memory, session| {
            let key = slice(at, length).read(memory, session)?;
            session.exists(key).map(i32::from)
        })
    })?;
    Ok(())
}

fn define_writes(linker: &mut Linker<Guest>) -> Result<(), Error> {
    linker.func_wrap(
        ABI_NAME,
        "set",
        |mut caller: GuestCaller<'_>, at: i32, length: i32, value: i32, value_length: i32| {
            run_verb(&mut caller, |memory, session| {
                let key = slice(at, length).read(memory, session)?;
                let value = slice(value, value_length).read(memory, session)?;
                session.set(key, value, None)
            })
        },
    )?;
    linker.func_wrap(
        ABI_NAME,
        "set_for",
        |mut caller: GuestCaller<'_>,
         at: i32,
         length: i32,
         value: i32,
         value_length: i32,
         ms: i64| {
            run_verb(&mut caller, |memory, session| {
                let key = slice(at, length).read(memory, session)?;
                let value = slice(value, value_length).read(memory, session)?;
                session.set(key, value, Some(ms as u64))
            })
        },
    )?;
    linker.func_wrap(ABI_NAME, "delete", |mut caller: GuestCaller<'_>, at: i32, length: i32| {
        run_verb(&mut caller, |memory, session| {
            let key = slice(at, length).read(memory, session)?;
            session.delete(key).map(i32::from)
        })
    })?;
    linker.func_wrap(
        ABI_NAME,
        "add",
        |mut caller: GuestCaller<'_>, at: i32, length: i32, delta: i64| {
            run_verb(&mut caller, |memory, session| {
                let key = slice(at, length).read(memory, session)?;
                session.add(key, delta)
            })
        },
    )?;
    linker.func_wrap(
        ABI_NAME,
        "append",
        |mut caller: GuestCaller<'_>, at: i32, length: i32, suffix: i32, suffix_length: i32| {
            run_verb(&mut caller, |memory, session| {
                let key = slice(at, length).read(memory, session)?;
                let suffix = slice(suffix, suffix_length).read(memory, session)?;
                session.append(key, suffix).map(|length| length as i64)
            })
        },
    )?;
    Ok(())
}

/// Bounds of a range as a module passes them.
struct RangeArguments {
    low: GuestSlice,
    high: GuestSlice,
    flags: i32,
    rows_max: i32,
}

fn open(
    mut caller: GuestCaller<'_>,
    index: Option<GuestSlice>,
    range: &RangeArguments,
) -> Result<i32, Error> {
    run_verb(&mut caller, |memory, session| {
        let index = match index {
            None => None,
            Some(name) => match std::str::from_utf8(name.read(memory, session)?) {
                Ok(name) => Some(name),
                Err(_) => {
                    let error = FunctionError::trapped("the name of an index is not UTF-8");
                    return Err(session.end(error));
                }
            },
        };
        let low = range.low.read(memory, session)?;
        // Without an upper bound its address means nothing.
        let is_bounded = range.flags as u32 & RANGE_UNBOUNDED == 0;
        let high = if is_bounded { range.high.read(memory, session)? } else { &[] };
        let (flags, rows_max) = (range.flags as u32, range.rows_max as u32);
        let cursor = session.open(&CursorRange { index, low, high, flags, rows_max })?;
        Ok(cursor as i32)
    })
}

fn define_cursors(linker: &mut Linker<Guest>) -> Result<(), Error> {
    linker.func_wrap(
        ABI_NAME,
        "range",
        |caller: GuestCaller<'_>,
         low: i32,
         low_length: i32,
         high: i32,
         high_length: i32,
         flags: i32,
         rows_max: i32| {
            let (low, high) = (slice(low, low_length), slice(high, high_length));
            open(caller, None, &RangeArguments { low, high, flags, rows_max })
        },
    )?;
    linker.func_wrap(
        ABI_NAME,
        "index",
        |caller: GuestCaller<'_>,
         name: i32,
         name_length: i32,
         low: i32,
         low_length: i32,
         high: i32,
         high_length: i32,
         flags: i32,
         rows_max: i32| {
            let (low, high) = (slice(low, low_length), slice(high, high_length));
            let range = RangeArguments { low, high, flags, rows_max };
            open(caller, Some(slice(name, name_length)), &range)
        },
    )?;
    linker.func_wrap(ABI_NAME, "next", |mut caller: GuestCaller<'_>, cursor: i32| {
        run_verb(&mut caller, |_, session| session.next(cursor as u32).map(i32::from))
    })?;
    linker.func_wrap(ABI_NAME, "key", |mut caller: GuestCaller<'_>, cursor: i32| {
        run_verb(&mut caller, |_, session| {
            let key = session.key(cursor as u32)?;
            offer(session, Some(key))
        })
    })?;
    linker.func_wrap(ABI_NAME, "value", |mut caller: GuestCaller<'_>, cursor: i32| {
        run_verb(&mut caller, |_, session| {
            let value = session.value(cursor as u32)?;
            offer(session, Some(value))
        })
    })?;
    linker.func_wrap(ABI_NAME, "close", |mut caller: GuestCaller<'_>, cursor: i32| {
        run_verb(&mut caller, |_, session| session.close(cursor as u32))
    })?;
    Ok(())
}

fn define_call(linker: &mut Linker<Guest>) -> Result<(), Error> {
    linker.func_wrap(ABI_NAME, "input", |mut caller: GuestCaller<'_>| {
        run_verb(&mut caller, |_, session| {
            let input = session.input()?;
            offer(session, input)
        })
    })?;
    linker.func_wrap(ABI_NAME, "group_time", |mut caller: GuestCaller<'_>| {
        run_verb(&mut caller, |_, session| session.group_time_ms().map(|time| time as i64))
    })?;
    linker.func_wrap(ABI_NAME, "request", |mut caller: GuestCaller<'_>| {
        run_verb(&mut caller, |_, session| {
            let name = session.request()?;
            offer(session, name)
        })
    })?;
    linker.func_wrap(ABI_NAME, "output", |mut caller: GuestCaller<'_>, at: i32, length: i32| {
        run_verb(&mut caller, |memory, session| {
            let output = slice(at, length).read(memory, session)?;
            session.output(output)
        })
    })?;
    linker.func_wrap(ABI_NAME, "log", |mut caller: GuestCaller<'_>, at: i32, length: i32| {
        run_verb(&mut caller, |memory, session| {
            let line = slice(at, length).read(memory, session)?;
            session.log(line)
        })
    })?;
    linker.func_wrap(ABI_NAME, "take", |mut caller: GuestCaller<'_>, at: i32| {
        run_verb(&mut caller, |memory, session| {
            session.charge(0)?;
            let bytes = session.take();
            // Checked as a slice that is read, so both have one message.
            slice(at, bytes.len() as i32).read(memory, session)?;
            let at = at as u32 as usize;
            memory[at..at + bytes.len()].copy_from_slice(&bytes);
            Ok(())
        })
    })?;
    Ok(())
}
