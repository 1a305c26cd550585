//! State of an instance beside its session: its memory, and the bounds on what it grows.

use crate::error::FunctionError;
use crate::limits::{CallLimits, WASM_TABLE_ELEMENTS_MAX};
use crate::session::{self, CallEnd, VerbResult, Verbs};
use wasmi::errors::HostError;
use wasmi::{Caller, Error, Memory, StoreLimits, StoreLimitsBuilder};

impl HostError for CallEnd {}

/// State of an instance.
#[derive(Debug)]
pub(crate) struct Guest {
    /// Its exported memory, once it is instantiated.
    pub memory: Option<Memory>,
    /// Bounds on memory and tables. Growth beyond them ends the call: a module that gets -1 from
    /// `memory.grow` mostly ends with a trap that names no limit.
    pub growth: StoreLimits,
}

impl Guest {
    pub fn new(limits: &CallLimits) -> Guest {
        let growth = StoreLimitsBuilder::new()
            .memory_size(limits.memory_bytes)
            .table_elements(WASM_TABLE_ELEMENTS_MAX)
            .tables(1)
            .trap_on_grow_failure(true)
            .build();
        Guest { memory: None, growth }
    }
}

/// Part of a guest's memory that a verb names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuestSlice {
    pub at: i32,
    pub length: i32,
}

impl GuestSlice {
    /// Returns the bytes, or ends the call if they are not in memory.
    pub fn read<'m>(self, memory: &'m [u8], session: &mut dyn Verbs) -> VerbResult<&'m [u8]> {
        // Addresses and lengths are unsigned.
        let (at, length) = (self.at as u32 as usize, self.length as u32 as usize);
        let bytes = at.checked_add(length).and_then(|end| memory.get(at..end));
        bytes.ok_or_else(|| {
            let text = format!("a verb was given {length} bytes at {at}, outside of the memory");
            session.end(FunctionError::trapped(text))
        })
    }
}

/// Runs a verb on the guest's memory and the session, with the engine's count of fuel.
pub(crate) fn run_verb<R>(
    caller: &mut Caller<'_, Guest>,
    verb: impl FnOnce(&mut [u8], &mut dyn Verbs) -> VerbResult<R>,
) -> Result<R, Error> {
    let fuel = caller.get_fuel()?;
    // Start functions are refused, so an instance that runs has its memory.
    let memory = caller.data().memory.ok_or_else(|| Error::host(CallEnd))?;
    let bytes = memory.data_mut(&mut *caller);
    let (result, left) = session::with(|session| {
        session.set_fuel(fuel);
        let result = verb(bytes, session);
        (result, session.fuel())
    });
    caller.set_fuel(left)?;
    result.map_err(Error::host)
}
