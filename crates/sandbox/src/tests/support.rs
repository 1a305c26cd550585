//! A host in memory, and calls with short arguments.

use crate::{
    CallFailure, CallLimits, CallMode, CodeKind, Engines, FunctionCall, FunctionCode,
    FunctionError, FunctionHost, FunctionOutput, HostError, IndexSpan, PageRow, RequestName,
    RowPage, RowSpan,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;

/// Error of the host of tests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HostRefusal;

impl fmt::Display for HostRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

impl std::error::Error for HostRefusal {}

/// Host with rows in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MapHost {
    pub rows: BTreeMap<Bytes, Bytes>,
    pub lines: Vec<String>,
    /// Calls that it has answered.
    pub calls: u32,
    /// Bytes of keys and values that it was given and has given.
    pub bytes: usize,
    pub request: Option<RequestName>,
}

impl MapHost {
    pub fn with(rows: &[(&str, &str)]) -> MapHost {
        let own = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let rows = rows.iter().map(|(key, value)| (own(key), own(value))).collect();
        MapHost { rows, ..MapHost::default() }
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        let value = self.rows.get(key.as_bytes())?;
        Some(std::str::from_utf8(value).expect("text"))
    }

    fn count(&mut self, bytes: usize) {
        self.calls += 1;
        self.bytes += bytes;
    }
}

impl FunctionHost for MapHost {
    fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, HostError> {
        let value = self.rows.get(key).cloned();
        self.count(key.len() + value.as_ref().map_or(0, Bytes::len));
        Ok(value)
    }

    fn exists(&mut self, key: &[u8]) -> Result<bool, HostError> {
        self.count(key.len());
        Ok(self.rows.contains_key(key))
    }

    fn set(&mut self, key: &[u8], value: &[u8], _: Option<u64>) -> Result<(), HostError> {
        if key == b"refused" {
            return Err(HostError::new(HostRefusal));
        }
        self.count(key.len() + value.len());
        self.rows.insert(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, HostError> {
        self.count(key.len());
        Ok(self.rows.remove(key).is_some())
    }

    fn add(&mut self, key: &[u8], delta: i64) -> Result<i64, HostError> {
        self.count(key.len() + 8);
        let old = self.rows.get(key).map_or("0", |value| std::str::from_utf8(value).expect("text"));
        let sum = old.parse::<i64>().expect("a number") + delta;
        self.rows.insert(Bytes::copy_from_slice(key), sum.to_string().into());
        Ok(sum)
    }

    fn append(&mut self, key: &[u8], suffix: &[u8]) -> Result<u64, HostError> {
        let mut value = self.rows.get(key).map_or(Vec::new(), |value| value.to_vec());
        value.extend_from_slice(suffix);
        let length = value.len();
        self.count(key.len() + suffix.len() + length);
        self.rows.insert(Bytes::copy_from_slice(key), value.into());
        Ok(length as u64)
    }

    fn range(&mut self, span: &RowSpan<'_>) -> Result<RowPage, HostError> {
        let is_inside = |key: &[u8]| {
            let is_above = if span.includes_low { key >= span.low } else { key > span.low };
            let is_below = span
                .high
                .is_none_or(|high| if span.includes_high { key <= high } else { key < high });
            let is_behind = span.after.is_none_or(|after| {
                if span.is_reverse { key < &after.key[..] } else { key > &after.key[..] }
            });
            is_above && is_below && is_behind
        };
        let mut rows: Vec<_> = self.rows.iter().filter(|(key, _)| is_inside(key)).collect();
        if span.is_reverse {
            rows.reverse();
        }
        let has_more = rows.len() > span.rows_max;
        rows.truncate(span.rows_max);
        let value = |value: &Bytes| if span.wants_values { value.clone() } else { Bytes::new() };
        let rows: Vec<_> = rows
            .into_iter()
            .map(|(key, bytes)| PageRow { key: key.clone(), value: value(bytes) })
            .collect();
        self.count(rows.iter().map(|row| row.key.len() + row.value.len()).sum());
        Ok(RowPage { rows, has_more })
    }

    fn index(&mut self, query: &IndexSpan<'_>) -> Result<RowPage, HostError> {
        let row = PageRow { key: Bytes::from_static(b"k"), value: query.index.to_string().into() };
        self.count(0);
        Ok(RowPage { rows: vec![row], has_more: false })
    }

    fn group_time_ms(&mut self) -> Result<u64, HostError> {
        self.count(0);
        Ok(1_700_000_000_123)
    }

    fn request(&mut self) -> Result<Option<RequestName>, HostError> {
        self.count(0);
        Ok(self.request.clone())
    }

    fn log(&mut self, line: &str) {
        self.lines.push(line.into());
    }
}

pub(super) fn engines() -> Engines {
    Engines::new().expect("the engines start")
}

pub(super) fn wat(text: &str) -> FunctionCode {
    let bytes = wat::parse_str(text).expect("valid text");
    FunctionCode::new(CodeKind::Wasm, bytes.into())
}

/// Returns a module with the body of the entry `run`, one page of memory and some verbs.
pub(super) fn module(body: &str) -> FunctionCode {
    wat(&format!(
        r#"(module
            (import "credenza1" "input" (func $input (result i32)))
            (import "credenza1" "take" (func $take (param i32)))
            (import "credenza1" "get" (func $get (param i32 i32) (result i32)))
            (import "credenza1" "set" (func $set (param i32 i32 i32 i32)))
            (import "credenza1" "add" (func $add (param i32 i32 i64) (result i64)))
            (import "credenza1" "range"
                (func $range (param i32 i32 i32 i32 i32 i32) (result i32)))
            (import "credenza1" "next" (func $next (param i32) (result i32)))
            (import "credenza1" "key" (func $key (param i32) (result i32)))
            (import "credenza1" "output" (func $output (param i32 i32)))
            (import "credenza1" "log" (func $log (param i32 i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "abcdefgh refused")
            {body})"#
    ))
}

pub(super) fn script(text: &str) -> FunctionCode {
    FunctionCode::new(CodeKind::JavaScript, text.to_string().into())
}

pub(super) fn call(code: &FunctionCode, limits: CallLimits) -> Result<FunctionOutput, CallFailure> {
    call_on(code, &mut MapHost::default(), limits)
}

pub(super) fn call_on(
    code: &FunctionCode,
    host: &mut MapHost,
    limits: CallLimits,
) -> Result<FunctionOutput, CallFailure> {
    let input = Some(Bytes::from_static(b"input"));
    let call = FunctionCall { code, entry: "run", input, mode: CallMode::Write, limits };
    engines().call(&call, host)
}

/// Returns the output of the entry `run` as text.
pub(super) fn output_on(code: &FunctionCode, host: &mut MapHost) -> String {
    let output = call_on(code, host, CallLimits::default()).map_err(|failure| failure.error);
    let bytes = output.expect("the function succeeds").bytes.expect("an output");
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Returns the output of a JavaScript entry with this body as text.
pub(super) fn evaluate(body: &str) -> String {
    let code = script(&format!("export function run(input, db) {{ {body} }}"));
    output_on(&code, &mut MapHost::default())
}

pub(super) fn error(code: &FunctionCode) -> FunctionError {
    call(code, CallLimits::default()).expect_err("the function fails").error
}

pub(super) fn script_error(body: &str) -> FunctionError {
    error(&script(&format!("export function run(input, db) {{ {body} }}")))
}

/// Asserts that an error names this limit.
#[track_caller]
pub(super) fn assert_limit(error: &FunctionError, limit: crate::limits::FunctionLimit) {
    assert_eq!(error.reason(), Some("function_limit"), "{error}");
    let is_named = matches!(error, FunctionError::Limit { limit: named, .. } if *named == limit);
    assert!(is_named, "{error}");
}
