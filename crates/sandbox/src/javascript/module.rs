//! Calls of functions that a module exports.

use super::realm::{Realm, confine};
use super::script_error::{ScriptError, describe};
use super::verbs;
use crate::error::FunctionError;
use crate::limits::{
    CallLimits, FunctionLimit, REALM_FUEL, SCRIPT_STACK_BYTES_MAX, SOURCE_BYTE_FUEL,
    SOURCE_BYTES_MAX,
};
use crate::session::{self, Session, Verbs};
use rquickjs::module::Evaluated;
use rquickjs::object::Filter;
use rquickjs::{Ctx, Function, Module, TypedArray, Value};

/// Runs an entry of a module, and returns its status, which is 0.
pub(crate) fn run(
    source: &[u8],
    entry: &str,
    limits: &CallLimits,
    session: &mut Session<'_>,
) -> Result<i32, FunctionError> {
    let exceeded = |limit| exceeded(limit, limits);
    session.start(REALM_FUEL + SOURCE_BYTE_FUEL * source.len() as u64)?;
    let realm = match Realm::new(limits.memory_bytes, session.fuel()) {
        Ok(realm) => realm,
        Err(_) => return Err(exceeded(FunctionLimit::Memory)),
    };
    let result =
        session::lend(session, || realm.enter(|ctx| call_entry(&ctx, source, entry, &realm)));
    session.set_fuel(realm.meter().fuel());
    // What the session noted is more precise than the exception that followed.
    if let Some(error) = session.take_ended() {
        return Err(error);
    }
    result.map_err(|thrown| realm.error(thrown, exceeded))?;
    Ok(0)
}

/// Returns the names of the functions that a module exports. Its top level runs, without a
/// database: the engine knows exports no sooner.
pub(crate) fn exported_functions(
    source: &[u8],
    limits: &CallLimits,
) -> Result<Vec<String>, FunctionError> {
    let exceeded = |limit| exceeded(limit, limits);
    let realm = Realm::new(limits.memory_bytes, limits.fuel);
    let realm = realm.map_err(|_| exceeded(FunctionLimit::Memory))?;
    let names = realm.enter(|ctx| -> Result<Vec<String>, ScriptError> {
        let parts = confine(&ctx, None)?;
        let module = evaluate(&ctx, source, &parts.failure)?;
        let listed = || -> rquickjs::Result<Vec<String>> {
            let exports = module.namespace()?;
            let mut names = Vec::new();
            for name in exports.own_keys::<String>(Filter::new().string()) {
                let name = name?;
                if exports.get::<_, Value<'_>>(name.as_str())?.is_function() {
                    names.push(name);
                }
            }
            Ok(names)
        };
        listed().map_err(|error| describe(&ctx, &error, None))
    });
    names.map_err(|thrown| realm.error(thrown, exceeded))
}

/// Returns the error of a limit. The stack is the engine's own.
fn exceeded(limit: FunctionLimit, limits: &CallLimits) -> FunctionError {
    match limit {
        FunctionLimit::Stack => FunctionError::Limit { limit, most: SCRIPT_STACK_BYTES_MAX as u64 },
        _ => FunctionError::exceeded(limit, limits),
    }
}

/// Compiles a module and runs its top level.
fn evaluate<'js>(
    ctx: &Ctx<'js>,
    source: &[u8],
    failure: &Value<'js>,
) -> Result<Module<'js, Evaluated>, ScriptError> {
    if source.len() > SOURCE_BYTES_MAX {
        let text = format!("its source is longer than {SOURCE_BYTES_MAX} bytes: use WebAssembly");
        return Err(FunctionError::trapped(text).into());
    }
    if std::str::from_utf8(source).is_err() || source.contains(&0) {
        return Err(FunctionError::trapped("its source is not UTF-8, or has NUL in it").into());
    }
    let fail = |error: rquickjs::Error| describe(ctx, &error, Some(failure));
    let module = Module::declare(ctx.clone(), "function", source).map_err(fail)?;
    let (module, promise) = module.eval().map_err(fail)?;
    match promise.result::<Value<'js>>() {
        Some(result) => result.map(|_| module).map_err(fail),
        None => Err(FunctionError::trapped("its top level waits for a promise").into()),
    }
}

fn call_entry(ctx: &Ctx<'_>, source: &[u8], entry: &str, realm: &Realm) -> Result<(), ScriptError> {
    let natives = verbs::natives(ctx, realm.meter());
    let natives = natives.map_err(|error| describe(ctx, &error, None))?;
    let parts = confine(ctx, Some(natives))?;
    let fail = |error: rquickjs::Error| describe(ctx, &error, Some(&parts.failure));
    let module = evaluate(ctx, source, &parts.failure)?;
    let exports = module.namespace().map_err(fail)?;
    let function: Value<'_> = exports.get(entry).map_err(fail)?;
    let Some(function) = function.into_function() else {
        return Err(FunctionError::NoSuchFunction { entry: entry.into() }.into());
    };
    let run = || -> rquickjs::Result<Value<'_>> {
        let input = verbs::run(ctx, realm.meter(), |session| session.input())?;
        let input = input.map(|bytes| TypedArray::<u8>::new_copy(ctx.clone(), bytes));
        Function::call(&function, (input.transpose()?, parts.db.clone()))
    };
    let output = run().map_err(fail)?;
    if output.is_undefined() || output.is_null() {
        return Ok(());
    }
    let Some(bytes) = verbs::bytes_of(ctx, &output).map_err(fail)? else {
        let text = format!(
            "an entry returned a value of type {}: return a Uint8Array, a string or nothing",
            output.type_name()
        );
        return Err(FunctionError::trapped(text).into());
    };
    let given = verbs::run(ctx, realm.meter(), |session| session.output(&bytes));
    given.map_err(fail)
}
