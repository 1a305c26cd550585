//! Checks of uploads, and the cache of compiled code.

use super::support::*;
use crate::code::CodeCache;
use crate::limits::{CACHE_BYTES_MAX, CODE_BYTES_MAX, SOURCE_BYTES_MAX};
use crate::{CallMode, CodeKind, FunctionCode, FunctionPack};

fn check(code: &FunctionCode) -> Result<FunctionPack, String> {
    FunctionPack::check(&engines(), code).map_err(|error| error.to_string())
}

#[track_caller]
fn assert_refused(code: &FunctionCode, why: &str) {
    let error = check(code).expect_err("it is refused");
    assert!(error.contains(why), "{error}");
}

#[test]
fn module_lists_entries_and_its_mode() {
    let code = module(
        r#"(func (export "push") (result i32) (i32.const 0))
        (func (export "ack") (result i32) (i32.const 0))
        (func (export "helper") (param i32) (result i32) (i32.const 0))"#,
    );
    let pack = check(&code).expect("it is valid");
    assert_eq!(pack.entries, ["ack", "push"]);
    assert_eq!((pack.kind, pack.mode, &pack.hash), (CodeKind::Wasm, CallMode::Write, code.hash()));
    let reader = wat(r#"(module (import "credenza1" "input" (func (result i32)))
            (memory (export "memory") 1)
            (func (export "read") (result i32) (i32.const 0)))"#);
    assert_eq!(check(&reader).expect("it is valid").mode, CallMode::Read);
}

#[test]
fn script_lists_exported_functions_alone() {
    let code = script(
        "export function push(input, db) { } export const pop = () => 1; export const x = 5;
        export default function () { } function hidden() { }",
    );
    let pack = check(&code).expect("it is valid");
    assert_eq!(pack.entries, ["default", "pop", "push"]);
    assert_eq!(pack.mode, CallMode::Write);
}

#[test]
fn modules_that_do_not_fit_the_abi_are_refused() {
    let entry = r#"(memory (export "memory") 1) (func (export "run") (result i32) (i32.const 0))"#;
    for (text, why) in [
        (r#"(import "wasi_snapshot_preview1" "fd_write" (func))"#, "no such verb"),
        (r#"(import "credenza1" "open" (func))"#, "no such verb"),
        (r#"(import "credenza1" "get" (func))"#, "refused"),
        (r#"(import "credenza1" "memory" (memory 1))"#, "refused"),
        (r#"(func $s) (start $s)"#, "refused"),
        (r#"(memory 1)"#, "refused"),
    ] {
        assert_refused(&wat(&format!("(module {text} {entry})")), why);
    }
    let text = r#"(module (func (export "run") (result i32) (i32.const 0)))"#;
    assert_refused(&wat(text), "exports no memory");
    assert_refused(&wat(r#"(module (memory (export "memory") 1))"#), "no entry");
    let simd = r#"(module (memory (export "memory") 1) (func (export "run") (result i32)
        (i8x16.extract_lane_s 0 (v128.const i64x2 0 0))))"#;
    assert_refused(&wat(simd), "refused");
    let wide = r#"(module (memory (export "memory") i64 1)
        (func (export "run") (result i32) (i32.const 0)))"#;
    assert_refused(&wat(wide), "refused");
    let named = r#"(module (memory (export "memory") 1)
        (func (export "a.b") (result i32) (i32.const 0)))"#;
    assert_refused(&wat(named), "letters");
}

#[test]
fn bytes_that_are_no_code_are_refused() {
    for bytes in [&b""[..], b"\0asm", b"\0asm\x01\0\0\0\xff", b"#!/bin/sh"] {
        let code = FunctionCode::new(CodeKind::Wasm, bytes.to_vec().into());
        assert!(check(&code).is_err());
    }
    assert_refused(&script("export function run( {"), "SyntaxError");
    assert_refused(&script("for (;;);"), "fuel");
    assert_refused(&script(""), "no entry");
    let long = vec![b' '; SOURCE_BYTES_MAX + 1];
    assert_refused(&FunctionCode::new(CodeKind::JavaScript, long.into()), "of at most 262144");
    let long = vec![0; CODE_BYTES_MAX + 1];
    assert_refused(&FunctionCode::new(CodeKind::Wasm, long.into()), "of at most 4194304");
}

#[test]
fn cache_forgets_what_was_not_used_for_longest() {
    let engines = engines();
    let compiled = engines.wasm().compile(module("").bytes()).expect("it is valid");
    let mut cache = CodeCache::new();
    // Each takes an eighth of the cache, and a little more.
    let code = |n: u8| FunctionCode::new(CodeKind::Wasm, vec![n; 1 << 20].into());
    let codes: Vec<_> = (0..8).map(code).collect();
    for code in &codes {
        cache.insert(code, compiled.clone());
        cache.get(codes[0].hash());
        assert!(cache.bytes() <= CACHE_BYTES_MAX);
    }
    let is_kept: Vec<_> = codes.iter().map(|code| cache.get(code.hash()).is_some()).collect();
    assert_eq!(is_kept, [true, false, true, true, true, true, true, true]);
}
