//! Hostile functions: each ends with an error, and the next call is clean.

use super::support::*;
use crate::limits::FunctionLimit;
use crate::{CallLimits, FunctionError};

#[test]
fn globals_that_make_code_or_see_time_and_chance_are_absent() {
    for name in [
        "Date",
        "eval",
        "Function",
        "performance",
        "Atomics",
        "SharedArrayBuffer",
        "WeakRef",
        "FinalizationRegistry",
        "queueMicrotask",
        "DOMException",
        "console",
        "require",
        "process",
        "navigator",
        "std",
        "os",
        "print",
        "gc",
    ] {
        assert_eq!(evaluate(&format!("return typeof {name}")), "undefined", "{name}");
    }
    assert_eq!(evaluate("return typeof Math.random"), "undefined");
    assert_eq!(evaluate("return typeof Math.sqrt"), "function");
}

#[test]
fn no_way_leads_to_a_constructor_of_code() {
    for body in [
        "return (() => 1).constructor.constructor('return this')()",
        "return [].constructor.constructor('return 1')()",
        "return Object.getPrototypeOf(async function () {}).constructor('return 1')()",
        "return Object.getPrototypeOf(function* () {}).constructor('return 1')().next().value",
        "return Object.getPrototypeOf(async function* () {}).constructor('return 1')()",
        "return db.get.constructor('return 1')()",
        "return Reflect.construct(Object.getPrototypeOf(class {}).constructor, ['return 1'])()",
        "return (0, eval)('1')",
        "return globalThis['ev' + 'al']('1')",
        "return new (class extends (function () {}).constructor {})('return 1')()",
    ] {
        let error = script_error(body);
        assert!(matches!(error, FunctionError::Trapped { .. }), "{body}: {error}");
    }
}

#[test]
fn intrinsics_can_not_be_changed() {
    for body in [
        "Object.prototype.x = 1",
        "Array.prototype.push = () => 1",
        "Array.prototype.__proto__ = null",
        "Object.defineProperty(Object.prototype, 'then', { get() { return 1; } })",
        "Object.defineProperty(globalThis, 'JSON', { get() { return 1; } })",
        "globalThis.x = 1",
        "Math.sqrt = () => 1",
        "Uint8Array.prototype.toHex = () => 'ff'",
        "db.get = () => 1",
        "Failure.prototype.code = 1",
        "Object.getPrototypeOf(function* () {}).prototype.next = 1",
        "Object.getPrototypeOf([][Symbol.iterator]()).next = 1",
        "Object.getPrototypeOf(Int8Array).from = 1",
        "Error.prepareStackTrace = () => { for (;;); }",
        "RegExp.prototype.exec = () => null",
        "Promise.prototype.then = () => null",
    ] {
        let error = script_error(body);
        assert!(error.to_string().contains("TypeError"), "{body}: {error}");
    }
    assert_eq!(evaluate("({}).__proto__.polluted; return typeof ({}).polluted"), "undefined");
}

#[test]
fn endless_work_ends_with_the_limit_of_fuel() {
    for body in [
        "while (1);",
        "for (;;) try { for (;;); } catch (e) { }",
        "for (;;) try { for (;;); } finally { continue; }",
        "return /(a+)+$/.test('a'.repeat(40) + 'b') ? '1' : '2'",
        "return /^(([a-z])+.)+[A-Z]([a-z])+$/.test('a'.repeat(60)) ? '1' : '2'",
        "[1, 2].sort(() => { for (;;); })",
        "JSON.stringify({ toJSON() { for (;;); } })",
        "throw { get message() { for (;;); } }",
        "throw { get name() { for (;;); } }",
        "throw new Proxy({}, { getPrototypeOf() { for (;;); } })",
        "for (const x of { [Symbol.iterator]: () => ({ next: () => ({ done: false }) }) });",
        "return `${{ toString() { for (;;); } }}`",
        "db.get({ get length() { for (;;); } }); for (;;);",
        "const f = () => g(), g = () => { for (;;) f; }; g()",
        "return { then() { for (;;); } }, (function* () { for (;;) yield; })().toArray()",
    ] {
        let error = script_error(body);
        let is_ended = matches!(
            error,
            FunctionError::Limit { limit: FunctionLimit::Fuel | FunctionLimit::Memory, .. }
        );
        // A verb that is given another type ends the script earlier.
        assert!(is_ended || body.starts_with("db.get"), "{body}: {error}");
    }
}

#[test]
fn growth_ends_with_the_limit_of_memory() {
    for body in [
        "return 'x'.repeat(1 << 29)",
        "return 'x'.padStart(1 << 29)",
        "return new Uint8Array(1 << 30)",
        "let a = [1]; for (;;) a = a.concat(a);",
        "let a = 'x'; for (;;) a = a.replace(/x/g, 'xxxxxxxxxxxxxxxxxxxxxxxx');",
        "const m = new Map(); for (let i = 0; ; i++) m.set(i, [i]);",
        "return JSON.stringify(Array(1 << 24).fill('xxxxxxxxxxxxxxxx'))",
        "const a = []; a.length = 4294967295; a.fill('x')",
    ] {
        let error = script_error(body);
        let is_ended = matches!(
            error,
            FunctionError::Limit { limit: FunctionLimit::Fuel | FunctionLimit::Memory, .. }
        );
        assert!(is_ended || error.to_string().contains("RangeError"), "{body}: {error}");
    }
}

#[test]
fn recursion_ends_with_the_limit_of_the_stack() {
    for body in [
        "const f = () => f(); return f()",
        "const o = { toString() { return `${o}`; } }; return `${o}`",
        "const o = { get x() { return o.x; } }; return o.x",
        "const p = new Proxy({}, { get: (t, k, r) => r[k] }); return p.x",
        "let a = []; for (let i = 0; i < 100000; i++) a = [a]; return JSON.stringify(a)",
        "return JSON.parse('['.repeat(100000))",
        "return new RegExp('('.repeat(100000)).source",
    ] {
        let error = script_error(body);
        let is_ended = matches!(error, FunctionError::Limit { limit: FunctionLimit::Stack, .. });
        assert!(is_ended || error.to_string().contains("Error: "), "{body}: {error}");
    }
}

#[test]
fn dynamic_imports_and_promises_do_nothing() {
    for body in [
        "import('std'); return 'end'",
        "import('/etc/passwd').then(() => { for (;;); }); return 'end'",
        "Promise.resolve().then(() => { for (;;); }); return 'end'",
        "(async () => { await null; for (;;); })(); return 'end'",
        "[1].values().map((x) => x).next(); return 'end'",
    ] {
        assert_eq!(evaluate(body), "end", "{body}");
    }
}

#[test]
fn hostile_modules_end_with_an_error() {
    for (body, limit) in [
        (
            "(loop $l (drop (memory.grow (i32.const 1))) (br $l)) (i32.const 0)",
            FunctionLimit::Memory,
        ),
        (
            "(loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536)) (br $l))
                (i32.const 0)",
            FunctionLimit::Fuel,
        ),
        (
            "(loop $l (call $output (i32.const 0) (i32.const 65536)) (br $l)) (i32.const 0)",
            FunctionLimit::Fuel,
        ),
        (
            "(loop $l (drop (call $get (i32.const 0) (i32.const 1))) (br $l)) (i32.const 0)",
            FunctionLimit::HostCalls,
        ),
        (
            "(loop $l (call $log (i32.const 0) (i32.const 65536)) (br $l)) (i32.const 0)",
            FunctionLimit::Fuel,
        ),
    ] {
        let code = module(&format!(r#"(func (export "run") (result i32) {body})"#));
        assert_limit(&error(&code), limit);
    }
}

#[test]
fn fuel_is_equal_on_every_run() {
    let codes = [
        module(
            r#"(func (export "run") (result i32)
                (local $i i32)
                (loop $l
                    (drop (call $add (i32.const 0) (i32.const 1) (i64.const 3)))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $l (i32.lt_u (local.get $i) (i32.const 100))))
                (i32.const 0))"#,
        ),
        script(
            "export function run(input, db) {
                let x = {};
                for (let i = 0; i < 200000; i++) x['k' + i % 100] = (x['k' + i % 7] ?? 0) + i;
                for (let i = 0; i < 100; i++) db.add('n', 3);
                return JSON.stringify(x);
            }",
        ),
    ];
    for code in &codes {
        let run = || call(code, CallLimits::default()).map_err(|failure| failure.error);
        let first = run().expect("it succeeds");
        assert!(first.usage.fuel > 100 * 200, "{:?}", first.usage);
        for _ in 0..5 {
            assert_eq!(run().expect("it succeeds"), first);
        }
    }
}
