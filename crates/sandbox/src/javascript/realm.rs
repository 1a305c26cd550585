//! Realms: a heap, its limits, and confined globals.

use super::meter::TickMeter;
use super::script_error::{ScriptError, describe};
use crate::error::FunctionError;
use crate::limits::{FunctionLimit, SCRIPT_STACK_BYTES_MAX};
use rquickjs::context::intrinsic::{
    Eval, Json, MapSet, Promise, Proxy, RegExp, RegExpCompiler, TypedArrays,
};
use rquickjs::{Context, Ctx, Function, Object, Runtime, Value};
use std::rc::Rc;

/// Intrinsics beside those of the language: no dates, no performance, no weak references, by
/// which scripts would see the collector. `Eval` is what compiles modules; its global goes.
type Intrinsics = (Eval, RegExpCompiler, RegExp, Json, Proxy, MapSet, TypedArrays, Promise);

/// Source that confines a realm.
const PRELUDE: &str = include_str!("prelude.js");

/// Realm of one call, or of one chunk of a script.
pub(crate) struct Realm {
    context: Context,
    meter: Rc<TickMeter>,
}

/// Globals of a confined realm that its user needs.
pub(crate) struct RealmParts<'js> {
    /// The database; undefined if no verbs were passed.
    pub db: Value<'js>,
    /// The class of authors' errors.
    pub failure: Value<'js>,
}

impl Realm {
    /// Makes a realm with so much memory and fuel.
    pub fn new(memory_bytes: usize, fuel: u64) -> Result<Realm, ScriptError> {
        let no_memory = |_| ScriptError::Limit(FunctionLimit::Memory);
        let runtime = Runtime::new().map_err(no_memory)?;
        runtime.set_memory_limit(memory_bytes.max(1));
        runtime.set_max_stack_size(SCRIPT_STACK_BYTES_MAX);
        let meter = Rc::new(TickMeter::new(fuel));
        let ticks = meter.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || ticks.tick())));
        let context = Context::custom::<Intrinsics>(&runtime).map_err(no_memory)?;
        Ok(Realm { context, meter })
    }

    pub fn meter(&self) -> &Rc<TickMeter> {
        &self.meter
    }

    pub fn enter<R>(&self, run: impl FnOnce(Ctx<'_>) -> R) -> R {
        self.context.with(run)
    }

    /// Returns the error of a script that ended.
    pub fn error(
        &self,
        thrown: ScriptError,
        exceeded: impl Fn(FunctionLimit) -> FunctionError,
    ) -> FunctionError {
        match thrown {
            _ if self.meter.is_empty() => exceeded(FunctionLimit::Fuel),
            ScriptError::Limit(limit) => exceeded(limit),
            ScriptError::Error(error) => error,
        }
    }
}

/// Confines the globals of a new realm. With native verbs it gets a database.
pub(crate) fn confine<'js>(
    ctx: &Ctx<'js>,
    verbs: Option<Object<'js>>,
) -> Result<RealmParts<'js>, ScriptError> {
    let confined = || -> rquickjs::Result<RealmParts<'js>> {
        let prelude: Function<'js> = ctx.eval(PRELUDE)?;
        let parts: Object<'js> = prelude.call((verbs,))?;
        Ok(RealmParts { db: parts.get("db")?, failure: parts.get("Failure")? })
    };
    confined().map_err(|error| describe(ctx, &error, None))
}
