//! Packs: what an upload of code offers.

use crate::code::{CodeHash, CodeKind, FunctionCode};
use crate::engines::Engines;
use crate::error::FunctionError;
use crate::host::CallMode;
use crate::javascript::exported_functions;
use crate::limits::{
    CODE_BYTES_MAX, CallLimits, ENTRIES_MAX, ENTRY_NAME_BYTES_MAX, SOURCE_BYTES_MAX,
};
use crate::wasm::{ABI_NAME, READING_VERBS, WRITING_VERBS, entries};
use std::fmt;
use wasmi::Module;

/// Description of code that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionPack {
    /// Language.
    pub kind: CodeKind,
    /// Hash of the code.
    pub hash: CodeHash,
    /// Names of its entries, in their order.
    pub entries: Vec<String>,
    /// Permission that its entries need. JavaScript does not tell, so it needs to write.
    pub mode: CallMode,
}

/// Reason for which code is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackError {
    text: String,
}

impl PackError {
    fn new(text: impl Into<String>) -> PackError {
        PackError { text: text.into() }
    }
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for PackError {}

impl From<FunctionError> for PackError {
    fn from(error: FunctionError) -> PackError {
        PackError::new(error.to_string())
    }
}

impl FunctionPack {
    /// Checks size, syntax, imports and exports of code. No entry runs.
    pub fn check(engines: &Engines, code: &FunctionCode) -> Result<FunctionPack, PackError> {
        let most = match code.kind() {
            CodeKind::Wasm => CODE_BYTES_MAX,
            CodeKind::JavaScript => SOURCE_BYTES_MAX,
        };
        if code.bytes().len() > most {
            let length = code.bytes().len();
            return Err(PackError::new(format!("the code has {length} bytes, of at most {most}")));
        }
        let (mut entries, mode) = match code.kind() {
            CodeKind::Wasm => check_module(engines, code.bytes())?,
            CodeKind::JavaScript => {
                let names = exported_functions(code.bytes(), &CallLimits::default())?;
                (names, CallMode::Write)
            }
        };
        entries.sort();
        check_names(&entries)?;
        Ok(FunctionPack { kind: code.kind(), hash: *code.hash(), entries, mode })
    }
}

fn check_names(entries: &[String]) -> Result<(), PackError> {
    if entries.is_empty() {
        let text = "the code has no entry: export a function";
        return Err(PackError::new(text));
    }
    if entries.len() > ENTRIES_MAX {
        let count = entries.len();
        return Err(PackError::new(format!("{count} entries, of at most {ENTRIES_MAX}")));
    }
    let is_valid = |name: &String| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && name.len() <= ENTRY_NAME_BYTES_MAX && name.chars().all(is_letter)
    };
    match entries.iter().find(|name| !is_valid(name)) {
        None => Ok(()),
        Some(name) => Err(PackError::new(format!(
            "an entry is called {name:?}: use up to {ENTRY_NAME_BYTES_MAX} letters, digits and _"
        ))),
    }
}

fn check_module(engines: &Engines, code: &[u8]) -> Result<(Vec<String>, CallMode), PackError> {
    let module = engines.wasm().compile(code)?;
    let mode = check_imports(&module)?;
    engines.wasm().check_links(&module)?;
    Ok((entries(&module), mode))
}

fn check_imports(module: &Module) -> Result<CallMode, PackError> {
    let mut mode = CallMode::Read;
    for import in module.imports() {
        let (from, name) = (import.module(), import.name());
        let is_writing = WRITING_VERBS.contains(&name);
        if from != ABI_NAME || !(is_writing || READING_VERBS.contains(&name)) {
            let text = format!("the module imports {from:?} {name:?}: no such verb is offered");
            return Err(PackError::new(text));
        }
        if is_writing {
            mode = CallMode::Write;
        }
    }
    Ok(mode)
}
