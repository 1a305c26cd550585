//! Verbs of the database as native functions.
//!
//! Keys and values are of type Uint8Array, or strings, which are passed in UTF-8; answers are
//! Uint8Arrays. Integers beyond 2^53 are BigInts.

use super::meter::TickMeter;
use crate::cursor::CursorRange;
use crate::session::{self, CallEnd, VerbResult, Verbs};
use bytes::Bytes;
use rquickjs::function::This;
use rquickjs::{BigInt, Ctx, Exception, Function, IntoJs, Object, Result, TypedArray, Value};
use std::rc::Rc;

/// Largest integer up to which each integer is a number of JavaScript.
const SAFE_INTEGER_MAX: i64 = (1 << 53) - 1;

type Meter = Rc<TickMeter>;

/// Runs a verb on the session of the call, with the realm's count of fuel.
pub(crate) fn run<R>(
    ctx: &Ctx<'_>,
    meter: &TickMeter,
    verb: impl FnOnce(&mut dyn Verbs) -> VerbResult<R>,
) -> Result<R> {
    let result = session::with(|session| {
        session.set_fuel(meter.fuel());
        let result = verb(session);
        meter.set_fuel(session.fuel());
        result
    });
    result.map_err(|CallEnd| {
        // The script may catch this, but gets no further than to its next tick or verb.
        meter.stop();
        Exception::throw_internal(ctx, "the call has ended")
    })
}

/// Returns the bytes of a Uint8Array or a string. `None`: the value is neither.
///
/// The bytes of an array can be read in place by unsafe code alone. The array writes them as
/// hexadecimal digits by a built-in function, which no script can change.
pub(crate) fn bytes_of<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<Option<Vec<u8>>> {
    if let Some(text) = value.as_string() {
        return Ok(Some(text.to_string()?.into_bytes()));
    }
    if !value.as_object().is_some_and(Object::is_typed_array::<u8>) {
        return Ok(None);
    }
    let class: Object<'js> = ctx.globals().get("Uint8Array")?;
    let prototype: Object<'js> = class.get("prototype")?;
    let to_hex: Function<'js> = prototype.get("toHex")?;
    let digits: String = to_hex.call((This(value.clone()),))?;
    let nibble = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8;
    let pairs = digits.as_bytes().chunks_exact(2);
    Ok(Some(pairs.map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect()))
}

fn argument<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Result<Vec<u8>> {
    bytes_of(ctx, value)?.ok_or_else(|| {
        let text = format!("a verb wants a Uint8Array or a string, not {}", value.type_name());
        Exception::throw_type(ctx, &text)
    })
}

fn integer_argument(ctx: &Ctx<'_>, value: &Value<'_>) -> Result<i64> {
    let number = value
        .as_number()
        .filter(|number| number.fract() == 0.0 && number.abs() <= SAFE_INTEGER_MAX as f64);
    match (number, value.clone().into_big_int()) {
        (Some(number), _) => Ok(number as i64),
        (None, Some(big)) => big.to_i64(),
        (None, None) => Err(Exception::throw_type(ctx, "a verb wants an integer")),
    }
}

fn array<'js>(ctx: &Ctx<'js>, bytes: Option<Bytes>) -> Result<Value<'js>> {
    match bytes {
        None => Ok(Value::new_undefined(ctx.clone())),
        Some(bytes) => TypedArray::<u8>::new_copy(ctx.clone(), bytes).map(TypedArray::into_value),
    }
}

fn integer<'js>(ctx: &Ctx<'js>, number: i64) -> Result<Value<'js>> {
    match number.unsigned_abs() <= SAFE_INTEGER_MAX as u64 {
        true => (number as f64).into_js(ctx),
        false => BigInt::from_i64(ctx.clone(), number)?.into_js(ctx),
    }
}

/// Returns an object with all native verbs.
pub(crate) fn natives<'js>(ctx: &Ctx<'js>, meter: &Meter) -> Result<Object<'js>> {
    let natives = Object::new(ctx.clone())?;
    add_rows(ctx, meter, &natives)?;
    add_writes(ctx, meter, &natives)?;
    add_cursors(ctx, meter, &natives)?;
    add_call(ctx, meter, &natives)?;
    Ok(natives)
}

fn add_rows<'js>(ctx: &Ctx<'js>, meter: &Meter, natives: &Object<'js>) -> Result<()> {
    let m = meter.clone();
    let get = move |ctx: Ctx<'js>, key: Value<'js>| -> Result<Value<'js>> {
        let key = argument(&ctx, &key)?;
        let value = run(&ctx, &m, |session| session.get(&key))?;
        array(&ctx, value)
    };
    natives.set("get", Function::new(ctx.clone(), get)?)?;
    let m = meter.clone();
    let exists = move |ctx: Ctx<'js>, key: Value<'js>| -> Result<bool> {
        let key = argument(&ctx, &key)?;
        run(&ctx, &m, |session| session.exists(&key))
    };
    natives.set("exists", Function::new(ctx.clone(), exists)?)
}

fn add_writes<'js>(ctx: &Ctx<'js>, meter: &Meter, natives: &Object<'js>) -> Result<()> {
    let m = meter.clone();
    let set = move |ctx: Ctx<'js>, key: Value<'js>, value: Value<'js>| -> Result<()> {
        let (key, value) = (argument(&ctx, &key)?, argument(&ctx, &value)?);
        run(&ctx, &m, |session| session.set(&key, &value, None))
    };
    natives.set("set", Function::new(ctx.clone(), set)?)?;
    let m = meter.clone();
    let set_for =
        move |ctx: Ctx<'js>, key: Value<'js>, value: Value<'js>, ms: Value<'js>| -> Result<()> {
            let (key, value) = (argument(&ctx, &key)?, argument(&ctx, &value)?);
            let ms = u64::try_from(integer_argument(&ctx, &ms)?)
                .map_err(|_| Exception::throw_range(&ctx, "a time to live is below 0"))?;
            run(&ctx, &m, |session| session.set(&key, &value, Some(ms)))
        };
    natives.set("set_for", Function::new(ctx.clone(), set_for)?)?;
    let m = meter.clone();
    let delete = move |ctx: Ctx<'js>, key: Value<'js>| -> Result<bool> {
        let key = argument(&ctx, &key)?;
        run(&ctx, &m, |session| session.delete(&key))
    };
    natives.set("delete", Function::new(ctx.clone(), delete)?)?;
    let m = meter.clone();
    let add = move |ctx: Ctx<'js>, key: Value<'js>, delta: Value<'js>| -> Result<Value<'js>> {
        let (key, delta) = (argument(&ctx, &key)?, integer_argument(&ctx, &delta)?);
        let sum = run(&ctx, &m, |session| session.add(&key, delta))?;
        integer(&ctx, sum)
    };
    natives.set("add", Function::new(ctx.clone(), add)?)?;
    let m = meter.clone();
    let append = move |ctx: Ctx<'js>, key: Value<'js>, suffix: Value<'js>| -> Result<f64> {
        let (key, suffix) = (argument(&ctx, &key)?, argument(&ctx, &suffix)?);
        run(&ctx, &m, |session| session.append(&key, &suffix)).map(|length| length as f64)
    };
    natives.set("append", Function::new(ctx.clone(), append)?)
}

fn add_cursors<'js>(ctx: &Ctx<'js>, meter: &Meter, natives: &Object<'js>) -> Result<()> {
    let m = meter.clone();
    let range = move |ctx: Ctx<'js>,
                      low: Value<'js>,
                      high: Value<'js>,
                      flags: u32,
                      rows_max: u32|
          -> Result<u32> {
        let (low, high) = (&argument(&ctx, &low)?[..], &argument(&ctx, &high)?[..]);
        let range = CursorRange { index: None, low, high, flags, rows_max };
        run(&ctx, &m, |session| session.open(&range))
    };
    natives.set("range", Function::new(ctx.clone(), range)?)?;
    let m = meter.clone();
    let index = move |ctx: Ctx<'js>,
                      name: String,
                      low: Value<'js>,
                      high: Value<'js>,
                      flags: u32,
                      rows_max: u32|
          -> Result<u32> {
        let (low, high) = (&argument(&ctx, &low)?[..], &argument(&ctx, &high)?[..]);
        let range = CursorRange { index: Some(&name), low, high, flags, rows_max };
        run(&ctx, &m, |session| session.open(&range))
    };
    natives.set("index", Function::new(ctx.clone(), index)?)?;
    let m = meter.clone();
    let next = move |ctx: Ctx<'js>, cursor: u32| -> Result<Value<'js>> {
        let row = run(&ctx, &m, |session| {
            if !session.next(cursor)? {
                return Ok(None);
            }
            Ok(Some((session.key(cursor)?, session.value(cursor)?)))
        })?;
        let Some((key, value)) = row else { return Ok(Value::new_undefined(ctx)) };
        let row = Object::new(ctx.clone())?;
        row.set("key", array(&ctx, Some(key))?)?;
        row.set("value", array(&ctx, Some(value))?)?;
        Ok(row.into_value())
    };
    natives.set("next", Function::new(ctx.clone(), next)?)?;
    let m = meter.clone();
    let close = move |ctx: Ctx<'js>, cursor: u32| -> Result<()> {
        run(&ctx, &m, |session| session.close(cursor))
    };
    natives.set("close", Function::new(ctx.clone(), close)?)
}

fn add_call<'js>(ctx: &Ctx<'js>, meter: &Meter, natives: &Object<'js>) -> Result<()> {
    let m = meter.clone();
    let group_time = move |ctx: Ctx<'js>| -> Result<f64> {
        run(&ctx, &m, |session| session.group_time_ms()).map(|time| time as f64)
    };
    natives.set("group_time", Function::new(ctx.clone(), group_time)?)?;
    let m = meter.clone();
    let request = move |ctx: Ctx<'js>| -> Result<Value<'js>> {
        let name = run(&ctx, &m, |session| session.request())?;
        array(&ctx, name)
    };
    natives.set("request", Function::new(ctx.clone(), request)?)?;
    let m = meter.clone();
    let log = move |ctx: Ctx<'js>, line: Value<'js>| -> Result<()> {
        let line = argument(&ctx, &line)?;
        run(&ctx, &m, |session| session.log(&line))
    };
    natives.set("log", Function::new(ctx.clone(), log)?)?;
    let m = meter.clone();
    let bytes = move |ctx: Ctx<'js>, text: String| -> Result<Value<'js>> {
        run(&ctx, &m, |session| session.charge(text.len()))?;
        array(&ctx, Some(text.into()))
    };
    natives.set("bytes", Function::new(ctx.clone(), bytes)?)?;
    let m = meter.clone();
    let text = move |ctx: Ctx<'js>, bytes: Value<'js>| -> Result<String> {
        let bytes = argument(&ctx, &bytes)?;
        run(&ctx, &m, |session| session.charge(bytes.len()))?;
        String::from_utf8(bytes).map_err(|_| Exception::throw_type(&ctx, "bytes are not UTF-8"))
    };
    natives.set("text", Function::new(ctx.clone(), text)?)
}
