//! Scripts: one anonymous function, evaluated many times with JSON arguments.

use super::realm::{Realm, confine};
use super::script_error::{ScriptError, describe};
use crate::error::FunctionError;
use crate::limits::{
    CHUNK_FUEL_MAX, CHUNK_MEMORY_BYTES_MAX, CHUNK_RESULT_BYTES_MAX, FunctionLimit, JSON_BYTE_FUEL,
    REALM_FUEL, SOURCE_BYTE_FUEL, SOURCE_BYTES_MAX,
};
use rquickjs::context::EvalOptions;
use rquickjs::function::Args;
use rquickjs::{Ctx, Function, Persistent};

/// Limits of a chunk: all evaluations of one script together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptLimits {
    /// Fuel.
    pub fuel: u64,
    /// Memory in bytes.
    pub memory_bytes: usize,
    /// Bytes of all results.
    pub result_bytes: usize,
}

impl Default for ScriptLimits {
    fn default() -> ScriptLimits {
        ScriptLimits {
            fuel: CHUNK_FUEL_MAX,
            memory_bytes: CHUNK_MEMORY_BYTES_MAX,
            result_bytes: CHUNK_RESULT_BYTES_MAX,
        }
    }
}

impl ScriptLimits {
    /// Returns these limits, each at most what a chunk may be given.
    pub fn capped(self) -> ScriptLimits {
        let most = ScriptLimits::default();
        ScriptLimits {
            fuel: self.fuel.min(most.fuel),
            memory_bytes: self.memory_bytes.min(most.memory_bytes),
            result_bytes: self.result_bytes.min(most.result_bytes),
        }
    }

    fn exceeded(&self, limit: FunctionLimit) -> FunctionError {
        let most = match limit {
            FunctionLimit::Fuel => self.fuel,
            FunctionLimit::Memory => self.memory_bytes as u64,
            FunctionLimit::Output => self.result_bytes as u64,
            FunctionLimit::Stack => crate::limits::SCRIPT_STACK_BYTES_MAX as u64,
            FunctionLimit::Input | FunctionLimit::HostCalls | FunctionLimit::Cursors => 0,
        };
        FunctionError::Limit { limit, most }
    }
}

/// Script of a chunk, in a realm of its own without a database.
///
/// Its evaluations share the realm: variables that a function did not declare stay. After an error
/// of a limit each further evaluation has that error, too.
pub struct Script {
    // Dropped before the realm that it belongs to.
    function: Persistent<Function<'static>>,
    realm: Realm,
    limits: ScriptLimits,
    result_bytes: usize,
}

impl Script {
    /// Compiles the source of a function, such as `function(value, keyData, arg) { ... }`.
    pub fn compile(source: &str, limits: ScriptLimits) -> Result<Script, FunctionError> {
        if source.len() > SOURCE_BYTES_MAX {
            let text = format!("the script is longer than {SOURCE_BYTES_MAX} bytes: shorten it");
            return Err(FunctionError::trapped(text));
        }
        let realm = Realm::new(limits.memory_bytes, limits.fuel);
        let realm = realm.map_err(|_| limits.exceeded(FunctionLimit::Memory))?;
        if !realm.meter().burn(REALM_FUEL + SOURCE_BYTE_FUEL * source.len() as u64) {
            return Err(limits.exceeded(FunctionLimit::Fuel));
        }
        let function = realm.enter(|ctx| compile_function(&ctx, source));
        match function {
            Ok(function) => Ok(Script { function, realm, limits, result_bytes: 0 }),
            Err(thrown) => Err(realm.error(thrown, |limit| limits.exceeded(limit))),
        }
    }

    /// Evaluates the function with arguments in JSON, and returns its result in JSON. `None`: the
    /// result is undefined, or nothing that JSON has.
    pub fn evaluate(&mut self, arguments: &[&str]) -> Result<Option<String>, FunctionError> {
        let bytes: usize = arguments.iter().map(|argument| argument.len()).sum();
        self.realm.meter().burn(JSON_BYTE_FUEL * bytes as u64);
        if self.realm.meter().is_empty() {
            return Err(self.limits.exceeded(FunctionLimit::Fuel));
        }
        let function = self.function.clone();
        let result = self.realm.enter(|ctx| {
            let result = evaluate_function(&ctx, function, arguments);
            result.map_err(|error| describe(&ctx, &error, None))
        });
        let result = result
            .map_err(|thrown| self.realm.error(thrown, |limit| self.limits.exceeded(limit)))?;
        self.result_bytes += result.as_ref().map_or(0, String::len);
        if self.result_bytes > self.limits.result_bytes {
            return Err(self.limits.exceeded(FunctionLimit::Output));
        }
        Ok(result)
    }

    /// Returns the fuel that was used.
    pub fn fuel(&self) -> u64 {
        self.limits.fuel - self.realm.meter().fuel()
    }
}

fn compile_function(
    ctx: &Ctx<'_>,
    source: &str,
) -> Result<Persistent<Function<'static>>, ScriptError> {
    confine(ctx, None)?;
    if source.contains('\0') {
        return Err(FunctionError::trapped("the script has NUL in it").into());
    }
    let mut options = EvalOptions::default();
    // Old scripts use variables that they do not declare.
    options.strict = false;
    let function: rquickjs::Result<Function<'_>> =
        ctx.eval_with_options(format!("({source}\n)"), options);
    match function {
        Ok(function) => Ok(Persistent::save(ctx, function)),
        Err(error) => Err(describe(ctx, &error, None)),
    }
}

fn evaluate_function<'js>(
    ctx: &Ctx<'js>,
    function: Persistent<Function<'static>>,
    arguments: &[&str],
) -> rquickjs::Result<Option<String>> {
    let function = function.restore(ctx)?;
    let mut values = Args::new(ctx.clone(), arguments.len());
    for argument in arguments {
        values.push_arg(ctx.json_parse(*argument)?)?;
    }
    let result: rquickjs::Value<'js> = function.call_arg(values)?;
    let json = ctx.json_stringify(result)?;
    json.map(|json| json.to_string()).transpose()
}
