//! Engines: calls of functions in both languages.

use crate::code::{CodeCache, CodeKind, FunctionCode};
use crate::error::{CallFailure, CallUsage, FunctionError};
use crate::host::{CallMode, FunctionHost};
use crate::javascript;
use crate::limits::{BYTES_PER_FUEL, CallLimits, FunctionLimit, INPUT_BYTES_MAX};
use crate::session::Session;
use crate::wasm::WasmEngine;
use bytes::Bytes;
use std::sync::{Mutex, PoisonError};
use wasmi::Module;

/// One call of a function.
#[derive(Clone, Debug)]
pub struct FunctionCall<'a> {
    /// Its code.
    pub code: &'a FunctionCode,
    /// Name of the entry.
    pub entry: &'a str,
    /// Input, if the caller gave one.
    pub input: Option<Bytes>,
    /// Permission.
    pub mode: CallMode,
    /// Limits.
    pub limits: CallLimits,
}

/// Answer of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionOutput {
    /// The output, if the function gave one.
    pub bytes: Option<Bytes>,
    /// Usage of the call.
    pub usage: CallUsage,
}

/// Both engines, and the compiled modules of the process.
#[derive(Debug)]
pub struct Engines {
    wasm: WasmEngine,
    cache: Mutex<CodeCache>,
}

impl Engines {
    /// Starts the engines. They have no thread and no state but the cache.
    pub fn new() -> Result<Engines, FunctionError> {
        let wasm = WasmEngine::new();
        let wasm = wasm.map_err(|error| FunctionError::trapped(error.to_string()))?;
        Ok(Engines { wasm, cache: Mutex::new(CodeCache::new()) })
    }

    /// Calls a function once, to its end. If it fails, the caller undoes what `host` was told.
    pub fn call(
        &self,
        call: &FunctionCall<'_>,
        host: &mut dyn FunctionHost,
    ) -> Result<FunctionOutput, CallFailure> {
        let mut session = Session::new(host, call.input.clone(), call.mode, call.limits);
        let result = self.run(call, &mut session);
        let usage = session.usage();
        match result.and_then(|status| conclude(status, &mut session)) {
            Ok(bytes) => Ok(FunctionOutput { bytes, usage }),
            Err(error) => Err(CallFailure { error, usage }),
        }
    }

    /// Returns the estimated bytes of compiled code that is kept.
    pub fn cached_bytes(&self) -> usize {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).bytes()
    }

    /// Returns the interpreter, for the checks of uploads.
    pub(crate) fn wasm(&self) -> &WasmEngine {
        &self.wasm
    }

    fn run(
        &self,
        call: &FunctionCall<'_>,
        session: &mut Session<'_>,
    ) -> Result<i32, FunctionError> {
        if call.input.as_ref().map_or(0, Bytes::len) > INPUT_BYTES_MAX {
            return Err(FunctionError::exceeded(FunctionLimit::Input, &call.limits));
        }
        match call.code.kind() {
            CodeKind::Wasm => {
                let module = self.module(call.code)?;
                // An instance begins as a copy of the module's data.
                session.start(call.code.bytes().len() as u64 / BYTES_PER_FUEL)?;
                self.wasm.run(&module, call.entry, &call.limits, session)
            }
            CodeKind::JavaScript => {
                javascript::run(call.code.bytes(), call.entry, &call.limits, session)
            }
        }
    }

    fn module(&self, code: &FunctionCode) -> Result<Module, FunctionError> {
        let lock = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = lock().get(code.hash());
        if let Some(module) = cached {
            return Ok(module);
        }
        // Compiled without the lock: calls of other modules go on meanwhile.
        let module = self.wasm.compile(code.bytes())?;
        lock().insert(code, module.clone());
        Ok(module)
    }
}

/// Returns the output of a function by its status.
fn conclude(status: i32, session: &mut Session<'_>) -> Result<Option<Bytes>, FunctionError> {
    if let Some(error) = session.take_ended() {
        return Err(error);
    }
    let output = session.take_output();
    match status {
        0 => Ok(output.map(Bytes::from)),
        1.. => {
            let text = output.unwrap_or_default();
            Err(FunctionError::failed(status, String::from_utf8_lossy(&text)))
        }
        _ => {
            let text = format!("its status {status} is below 0: return 0, or a code above");
            Err(FunctionError::trapped(text))
        }
    }
}
