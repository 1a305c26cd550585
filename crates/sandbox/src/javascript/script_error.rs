//! Errors of scripts: values that they threw, and limits of the engine.

use crate::error::FunctionError;
use crate::limits::FunctionLimit;
use rquickjs::{Ctx, Error, Object, Value};

/// Reason for which a script ended.
#[derive(Debug)]
pub(crate) enum ScriptError {
    /// An error that says all.
    Error(FunctionError),
    /// A limit of the engine.
    Limit(FunctionLimit),
}

impl From<FunctionError> for ScriptError {
    fn from(error: FunctionError) -> ScriptError {
        ScriptError::Error(error)
    }
}

/// Returns what an error of the engine means. Properties of what was thrown may be getters: they
/// run within the limits of the script.
pub(crate) fn describe<'js>(
    ctx: &Ctx<'js>,
    error: &Error,
    failure: Option<&Value<'js>>,
) -> ScriptError {
    if matches!(error, Error::Allocation) {
        return ScriptError::Limit(FunctionLimit::Memory);
    }
    if !error.is_exception() {
        return FunctionError::trapped(error.to_string()).into();
    }
    let thrown = ctx.catch();
    // The engine throws null where it has no memory for an error.
    if thrown.is_null() {
        return ScriptError::Limit(FunctionLimit::Memory);
    }
    let Some(object) = thrown.as_object() else {
        return FunctionError::trapped(format!("a {} was thrown", thrown.type_name())).into();
    };
    let message = text(ctx, object, "message");
    if failure.is_some_and(|failure| object.is_instance_of(failure)) {
        let code = object.get::<_, i32>("code");
        forget(ctx);
        return FunctionError::failed(code.unwrap_or(1), message).into();
    }
    match (text(ctx, object, "name").as_str(), message.as_str()) {
        ("InternalError", "out of memory" | "out of memory in regexp execution") => {
            ScriptError::Limit(FunctionLimit::Memory)
        }
        ("RangeError", "Maximum call stack size exceeded") => {
            ScriptError::Limit(FunctionLimit::Stack)
        }
        (name, message) => FunctionError::trapped(format!("{name}: {message}")).into(),
    }
}

/// Returns a property as text; empty if it is none.
fn text<'js>(ctx: &Ctx<'js>, object: &Object<'js>, name: &str) -> String {
    let text = object.get::<_, String>(name);
    forget(ctx);
    text.unwrap_or_default()
}

/// Drops an exception of a getter.
fn forget(ctx: &Ctx<'_>) {
    if ctx.has_exception() {
        ctx.catch();
    }
}
