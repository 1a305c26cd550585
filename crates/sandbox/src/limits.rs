//! Limits of functions and scripts.
//!
//! A limit named `_MAX` is the largest that is still accepted; one named `_DEFAULT` is in force
//! where nobody chose another.

/// Fuel of a call: about 10 ms of a busy processor. A call that needs more ends.
pub const FUEL_DEFAULT: u64 = 20_000_000;
/// Most fuel that a call which writes may be given.
pub const FUEL_MAX: u64 = 200_000_000;
/// Factor of the fuel of a call that only reads: it holds no lock.
pub const READ_FUEL_FACTOR: u64 = 100;
/// Memory of a call in bytes.
pub const MEMORY_BYTES_DEFAULT: usize = 16 << 20;
/// Most memory that a call may be given.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;
/// Output of a call in bytes; a call with a longer one ends.
pub const OUTPUT_BYTES_DEFAULT: usize = 1 << 20;
/// Longest output that a call may be allowed.
pub const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// Calls of the database by one call of a function; a function that makes one more ends.
pub const HOST_CALLS_DEFAULT: u32 = 16_384;
/// Fuel of a verb, beside that of its bytes.
pub const VERB_FUEL: u64 = 200;
/// Bytes of keys and values that cost one unit of fuel.
pub const BYTES_PER_FUEL: u64 = 16;

/// Longest code of a pack in WebAssembly; a longer one is refused.
pub const CODE_BYTES_MAX: usize = 4 << 20;
/// Longest source of JavaScript; a longer one is refused. It is compiled for each call.
pub const SOURCE_BYTES_MAX: usize = 256 << 10;
/// Most entries of a pack; a pack with more is refused.
pub const ENTRIES_MAX: usize = 256;
/// Longest name of an entry; a pack with a longer one is refused.
pub const ENTRY_NAME_BYTES_MAX: usize = 128;
/// Longest input of a call; a longer one is refused.
pub const INPUT_BYTES_MAX: usize = 8 << 20;
/// Open cursors of a call; a function that opens one more ends.
pub const CURSORS_MAX: usize = 16;
/// Most rows that a cursor asks the host for at once.
pub const CURSOR_PAGE_ROWS: usize = 64;
/// Most bytes of keys and values that a cursor asks the host for at once. One row may be longer.
pub const CURSOR_PAGE_BYTES: usize = 64 << 10;
/// Longest text of an error; the rest is cut.
pub const ERROR_TEXT_BYTES_MAX: usize = 1_024;
/// Longest line of the log of a function; the rest is cut.
pub const LOG_LINE_BYTES_MAX: usize = 1_024;
/// Most lines that a call writes into the log; more are dropped.
pub const LOG_LINES_MAX: u32 = 64;
/// Bytes of compiled code that are kept for later calls.
pub const CACHE_BYTES_MAX: usize = 64 << 20;

/// Deepest recursion of WebAssembly; a deeper one ends the call.
pub const WASM_RECURSION_MAX: usize = 1_000;
/// Stack of values of WebAssembly in bytes; a call that needs more ends.
pub const WASM_STACK_BYTES_MAX: usize = 1 << 20;
/// Elements of all tables of a module; a module with more ends with the limit
/// of memory.
pub const WASM_TABLE_ELEMENTS_MAX: usize = 65_536;
/// Native stack of JavaScript in bytes; a script that needs more gets a `RangeError`. The thread
/// of the caller needs four times as much.
pub const SCRIPT_STACK_BYTES_MAX: usize = 256 << 10;
/// Fuel of a tick of JavaScript: 10,000 loop rounds and calls, or steps of an expression's search.
pub const TICK_FUEL: u64 = 200_000;
/// Fuel of a realm: its objects are made for each call.
pub const REALM_FUEL: u64 = 500_000;
/// Fuel of a byte of source.
pub const SOURCE_BYTE_FUEL: u64 = 64;

/// Fuel of a byte of JSON that goes into a script or out of it.
pub const JSON_BYTE_FUEL: u64 = 20;

/// Fuel of a chunk of evaluations of a script: about 2 s.
pub const CHUNK_FUEL_MAX: u64 = 4_000_000_000;
/// Memory of a chunk in bytes.
pub const CHUNK_MEMORY_BYTES_MAX: usize = 64 << 20;
/// Results of a chunk in bytes; a chunk with more ends.
pub const CHUNK_RESULT_BYTES_MAX: usize = 64 << 20;

/// Limits of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Fuel.
    pub fuel: u64,
    /// Memory in bytes.
    pub memory_bytes: usize,
    /// Longest output in bytes.
    pub output_bytes: usize,
    /// Calls of the database.
    pub host_calls: u32,
}

impl Default for CallLimits {
    fn default() -> CallLimits {
        CallLimits {
            fuel: FUEL_DEFAULT,
            memory_bytes: MEMORY_BYTES_DEFAULT,
            output_bytes: OUTPUT_BYTES_DEFAULT,
            host_calls: HOST_CALLS_DEFAULT,
        }
    }
}

impl CallLimits {
    /// Returns these limits, each at most what may be given to a call that writes.
    pub fn capped(self) -> CallLimits {
        CallLimits {
            fuel: self.fuel.min(FUEL_MAX),
            memory_bytes: self.memory_bytes.min(MEMORY_BYTES_MAX),
            output_bytes: self.output_bytes.min(OUTPUT_BYTES_MAX),
            host_calls: self.host_calls.min(HOST_CALLS_DEFAULT),
        }
    }

    /// Returns the limits of a call that only reads, from those of one that writes.
    pub fn for_read(self) -> CallLimits {
        CallLimits { fuel: self.fuel.saturating_mul(READ_FUEL_FACTOR), ..self }
    }

    /// Returns the value of a limit.
    pub fn most(&self, limit: FunctionLimit) -> u64 {
        match limit {
            FunctionLimit::Fuel => self.fuel,
            FunctionLimit::Memory => self.memory_bytes as u64,
            FunctionLimit::Output => self.output_bytes as u64,
            FunctionLimit::HostCalls => u64::from(self.host_calls),
            FunctionLimit::Stack => WASM_STACK_BYTES_MAX as u64,
            FunctionLimit::Cursors => CURSORS_MAX as u64,
            FunctionLimit::Input => INPUT_BYTES_MAX as u64,
        }
    }
}

/// Limit that a call has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FunctionLimit {
    /// Steps of the engine, verbs and their bytes.
    Fuel,
    /// Memory of the engine, and its tables.
    Memory,
    /// Depth of recursion.
    Stack,
    /// Bytes of the input.
    Input,
    /// Bytes of the output.
    Output,
    /// Calls of the database.
    HostCalls,
    /// Open cursors.
    Cursors,
}

impl FunctionLimit {
    /// All limits.
    pub const ALL: [FunctionLimit; 7] = [
        FunctionLimit::Fuel,
        FunctionLimit::Memory,
        FunctionLimit::Stack,
        FunctionLimit::Input,
        FunctionLimit::Output,
        FunctionLimit::HostCalls,
        FunctionLimit::Cursors,
    ];

    /// Returns its name, as errors and metrics show it.
    pub fn name(self) -> &'static str {
        match self {
            FunctionLimit::Fuel => "fuel",
            FunctionLimit::Memory => "memory",
            FunctionLimit::Stack => "stack",
            FunctionLimit::Input => "input",
            FunctionLimit::Output => "output",
            FunctionLimit::HostCalls => "host_calls",
            FunctionLimit::Cursors => "cursors",
        }
    }
}
