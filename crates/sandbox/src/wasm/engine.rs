//! The interpreter of WebAssembly and its settings.

use super::guest::Guest;
use super::imports;
use crate::error::FunctionError;
use crate::limits::{CallLimits, FunctionLimit, WASM_RECURSION_MAX, WASM_STACK_BYTES_MAX};
use crate::session::{self, Session, Verbs};
use wasmi::errors::{ErrorKind, InstantiationError};
use wasmi::{CompilationMode, Config, EnforcedLimits, Engine, Error, Linker, Module, Store};
use wasmi::{ExternType, TrapCode};

/// Interpreter with the verbs that modules import.
#[derive(Debug)]
pub(crate) struct WasmEngine {
    engine: Engine,
    linker: Linker<Guest>,
}

impl WasmEngine {
    pub fn new() -> Result<WasmEngine, Error> {
        let engine = Engine::new(&config());
        let mut linker = Linker::new(&engine);
        imports::define(&mut linker)?;
        Ok(WasmEngine { engine, linker })
    }

    /// Validates and compiles a module.
    pub fn compile(&self, code: &[u8]) -> Result<Module, FunctionError> {
        let module = Module::new(&self.engine, code);
        module.map_err(|error| FunctionError::trapped(format!("the module is refused: {error}")))
    }

    /// Checks that the types of all imports are those of the verbs, and that a memory is exported.
    pub fn check_links(&self, module: &Module) -> Result<(), FunctionError> {
        let mut store = Store::new(&self.engine, Guest::new(&CallLimits::default()));
        store.limiter(|guest| &mut guest.growth);
        let refuse =
            |text: String| FunctionError::trapped(format!("the module is refused: {text}"));
        // Without a start function an instance runs nothing.
        let instance = self.linker.instantiate_and_start(&mut store, module);
        let instance = instance.map_err(|error| refuse(error.to_string()))?;
        match instance.get_memory(&store, "memory") {
            Some(_) => Ok(()),
            None => Err(refuse("it exports no memory called \"memory\"".into())),
        }
    }

    /// Runs an entry, and returns its status.
    pub fn run(
        &self,
        module: &Module,
        entry: &str,
        limits: &CallLimits,
        session: &mut Session<'_>,
    ) -> Result<i32, FunctionError> {
        let mut store = Store::new(&self.engine, Guest::new(limits));
        store.limiter(|guest| &mut guest.growth);
        let result = store.set_fuel(session.fuel());
        let result = result.and_then(|()| self.run_in(&mut store, module, entry, session));
        session.set_fuel(store.get_fuel().unwrap_or(0));
        // What the session noted is more precise than the trap that followed.
        if let Some(error) = session.take_ended() {
            return Err(error);
        }
        result.map_err(|error| {
            let limit = exceeded_limit(&error);
            if limit == Some(FunctionLimit::Fuel) {
                session.set_fuel(0);
            }
            match limit {
                Some(limit) => FunctionError::exceeded(limit, limits),
                None => FunctionError::trapped(error.to_string()),
            }
        })
    }

    fn run_in(
        &self,
        store: &mut Store<Guest>,
        module: &Module,
        entry: &str,
        session: &mut Session<'_>,
    ) -> Result<i32, Error> {
        let instance = self.linker.instantiate_and_start(&mut *store, module)?;
        store.data_mut().memory = instance.get_memory(&*store, "memory");
        let Ok(function) = instance.get_typed_func::<(), i32>(&*store, entry) else {
            let error = FunctionError::NoSuchFunction { entry: entry.into() };
            return Err(Error::host(session.end(error)));
        };
        session::lend(session, || function.call(store, ()))
    }
}

/// Returns the limit that an error of the interpreter means.
fn exceeded_limit(error: &Error) -> Option<FunctionLimit> {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => Some(FunctionLimit::Fuel),
        Some(TrapCode::StackOverflow) => Some(FunctionLimit::Stack),
        Some(TrapCode::GrowthOperationLimited | TrapCode::OutOfSystemMemory) => {
            Some(FunctionLimit::Memory)
        }
        Some(_) => None,
        // The memory or the table that a module begins with is too large.
        None => match error.kind() {
            ErrorKind::Memory(_)
            | ErrorKind::Table(_)
            | ErrorKind::Instantiation(
                InstantiationError::FailedToInstantiateMemory(_)
                | InstantiationError::FailedToInstantiateTable(_)
                | InstantiationError::TooManyTables,
            ) => Some(FunctionLimit::Memory),
            _ => None,
        },
    }
}

/// Returns the names of a module's entries: exported functions without parameters that return a
/// status.
pub(crate) fn entries(module: &Module) -> Vec<String> {
    let is_entry = |ty: &ExternType| {
        let function = ty.func();
        function.is_some_and(|ty| ty.params().is_empty() && ty.results() == [wasmi::ValType::I32])
    };
    let exports = module.exports().filter(|export| is_entry(export.ty()));
    exports.map(|export| export.name().to_string()).collect()
}

fn config() -> Config {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        // Compiled as a whole at once: else the first call of a function would pay for it.
        .compilation_mode(CompilationMode::Eager)
        .ignore_custom_sections(true)
        // An instance does nothing before its entry is called.
        .allow_start_fn(false)
        .wasm_multi_memory(false)
        .enforced_limits(EnforcedLimits::strict())
        .set_max_recursion_depth(WASM_RECURSION_MAX)
        .set_max_stack_height(WASM_STACK_BYTES_MAX)
        .set_max_cached_stacks(2);
    config
}
