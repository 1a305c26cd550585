//! Code of functions, and the compiled form that is kept of it.

use crate::limits::CACHE_BYTES_MAX;
use bytes::Bytes;
use std::collections::BTreeMap;
use wasmi::Module;

/// Language of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodeKind {
    /// A module of WebAssembly, binary.
    Wasm,
    /// A module of JavaScript, in UTF-8.
    JavaScript,
}

/// Code of functions, known by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCode {
    kind: CodeKind,
    bytes: Bytes,
    hash: CodeHash,
}

/// Hash of code: blake3.
pub type CodeHash = [u8; 32];

impl FunctionCode {
    /// Returns the code with its hash.
    pub fn new(kind: CodeKind, bytes: Bytes) -> FunctionCode {
        let hash = *blake3::hash(&bytes).as_bytes();
        FunctionCode { kind, bytes, hash }
    }

    /// Returns its language.
    pub fn kind(&self) -> CodeKind {
        self.kind
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns its hash.
    pub fn hash(&self) -> &CodeHash {
        &self.hash
    }
}

/// Estimate of the bytes of a compiled module for each byte of its code.
const COMPILED_BYTES_PER_CODE_BYTE: usize = 8;
/// Estimate of the bytes of an empty compiled module.
const COMPILED_BYTES_MIN: usize = 4 << 10;

/// Compiled module in the cache.
#[derive(Debug)]
struct CachedModule {
    module: Module,
    bytes: usize,
    /// Number of the use that was the last one.
    last_use: u64,
}

/// Compiled modules by the hash of their code. Those that were not used for longest leave first.
///
/// The engine does not tell how large a compiled module is: its size is estimated from its code.
#[derive(Debug)]
pub(crate) struct CodeCache {
    modules: BTreeMap<CodeHash, CachedModule>,
    bytes: usize,
    bytes_max: usize,
    uses: u64,
}

impl CodeCache {
    pub fn new() -> CodeCache {
        CodeCache { modules: BTreeMap::new(), bytes: 0, bytes_max: CACHE_BYTES_MAX, uses: 0 }
    }

    pub fn get(&mut self, hash: &CodeHash) -> Option<Module> {
        self.uses += 1;
        let cached = self.modules.get_mut(hash)?;
        cached.last_use = self.uses;
        Some(cached.module.clone())
    }

    pub fn insert(&mut self, code: &FunctionCode, module: Module) {
        let bytes = COMPILED_BYTES_MIN + code.bytes.len() * COMPILED_BYTES_PER_CODE_BYTE;
        if bytes > self.bytes_max || self.modules.contains_key(&code.hash) {
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            let oldest = self.modules.iter().min_by_key(|(_, cached)| cached.last_use);
            let Some(hash) = oldest.map(|(hash, _)| *hash) else { break };
            self.bytes -= self.modules.remove(&hash).map_or(0, |cached| cached.bytes);
        }
        self.bytes += bytes;
        let last_use = self.uses;
        self.modules.insert(code.hash, CachedModule { module, bytes, last_use });
    }

    /// Returns the estimated bytes of all modules.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
