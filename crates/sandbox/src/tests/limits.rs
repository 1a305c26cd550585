//! One function for each limit.

use super::support::*;
use crate::limits::{
    CURSORS_MAX, FUEL_DEFAULT, FUEL_MAX, FunctionLimit, INPUT_BYTES_MAX, LOG_LINES_MAX,
    OUTPUT_BYTES_DEFAULT,
};
use crate::{CallFailure, CallLimits, CallMode, FunctionCall, FunctionCode};

fn small(change: impl FnOnce(&mut CallLimits)) -> CallLimits {
    let mut limits = CallLimits { fuel: 5_000_000, ..CallLimits::default() };
    change(&mut limits);
    limits
}

#[track_caller]
fn assert_ends(code: &FunctionCode, limits: CallLimits, limit: FunctionLimit) -> CallFailure {
    let failure = call(code, limits).expect_err("the limit ends it");
    assert_limit(&failure.error, limit);
    failure
}

#[test]
fn fuel_ends_an_endless_loop() {
    let code = module(r#"(func (export "run") (result i32) (loop $l (br $l)) (i32.const 0))"#);
    let failure = assert_ends(&code, small(|_| ()), FunctionLimit::Fuel);
    assert_eq!(failure.usage.fuel, 5_000_000);
    let code = script("export function run() { for (;;); }");
    let failure = assert_ends(&code, small(|_| ()), FunctionLimit::Fuel);
    assert_eq!(failure.usage.fuel, 5_000_000);
}

#[test]
fn memory_ends_growth() {
    let limits = small(|limits| limits.memory_bytes = 1 << 20);
    let grow = r#"(func (export "run") (result i32)
        (memory.grow (i32.const 20)) drop (i32.const 0))"#;
    assert_ends(&module(grow), limits, FunctionLimit::Memory);
    let begin = r#"(module (memory (export "memory") 20)
        (func (export "run") (result i32) (i32.const 0)))"#;
    assert_ends(&wat(begin), limits, FunctionLimit::Memory);
    let table = r#"(module (memory (export "memory") 1) (table 70000 funcref)
        (func (export "run") (result i32) (i32.const 0)))"#;
    assert_ends(&wat(table), limits, FunctionLimit::Memory);
    let code = script("export function run() { let a = []; for (;;) a = [a, a]; }");
    assert_ends(&code, limits, FunctionLimit::Memory);
}

#[test]
fn stack_ends_recursion() {
    let code = module(r#"(func $run (export "run") (result i32) (call $run))"#);
    assert_ends(&code, small(|_| ()), FunctionLimit::Stack);
    let code = script("export function run() { return run(); }");
    assert_ends(&code, small(|_| ()), FunctionLimit::Stack);
}

#[test]
fn output_ends_what_is_too_long() {
    let limits = small(|limits| limits.output_bytes = 4);
    let output = |length: u32| {
        module(&format!(
            r#"(func (export "run") (result i32)
                (call $output (i32.const 0) (i32.const {length})) (i32.const 0))"#
        ))
    };
    assert!(call(&output(4), limits).is_ok());
    assert_ends(&output(5), limits, FunctionLimit::Output);
    assert!(call(&script("export function run() { return 'four'; }"), limits).is_ok());
    let code = script("export function run() { return new Uint8Array(5); }");
    assert_ends(&code, limits, FunctionLimit::Output);
}

#[test]
fn host_calls_end_at_their_number() {
    let limits = small(|limits| limits.host_calls = 10);
    let code = |count: u32| {
        module(&format!(
            r#"(func (export "run") (result i32)
                (local $i i32)
                (loop $l
                    (drop (call $get (i32.const 0) (i32.const 1)))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $l (i32.lt_u (local.get $i) (i32.const {count}))))
                (i32.const 0))"#
        ))
    };
    assert!(call(&code(10), limits).is_ok());
    let failure = assert_ends(&code(11), limits, FunctionLimit::HostCalls);
    assert_eq!(failure.usage.host_calls, 10);
    let code = script("export function run(i, db) { for (let i = 0; i < 11; i++) db.get('a'); }");
    assert_ends(&code, limits, FunctionLimit::HostCalls);
}

#[test]
fn script_gets_no_further_than_to_a_limit_that_it_catches() {
    let limits = small(|limits| limits.host_calls = 1);
    let code = script(
        "export function run(input, db) {
            for (;;) try { db.get('a'); } catch (e) { }
        }",
    );
    assert_ends(&code, limits, FunctionLimit::HostCalls);
    let code = script(
        "export function run(input, db) {
            try { db.set('refused', ''); } catch (e) { }
            return 'done';
        }",
    );
    assert_eq!(error(&code).to_string(), "refused");
}

#[test]
fn cursors_end_at_their_number() {
    let code = |count: usize| {
        script(&format!(
            "export function run(i, db) {{
                const open = [];
                for (let i = 0; i < {count}; i++) open.push(db.range());
            }}"
        ))
    };
    assert!(call(&code(CURSORS_MAX), CallLimits::default()).is_ok());
    assert_ends(&code(CURSORS_MAX + 1), CallLimits::default(), FunctionLimit::Cursors);
    let code = script(
        "export function run(i, db) {
            for (let i = 0; i < 99; i++) for (const row of db.range()) break;
        }",
    );
    let mut host = MapHost::with(&[("a", "1")]);
    assert!(call_on(&code, &mut host, CallLimits::default()).is_ok(), "`break` closes a cursor");
}

#[test]
fn input_that_is_too_long_is_refused() {
    let code = script("export function run() { }");
    let input = Some(vec![0; INPUT_BYTES_MAX + 1].into());
    let (mode, limits) = (CallMode::Write, CallLimits::default());
    let call = FunctionCall { code: &code, entry: "run", input, mode, limits };
    let failure = engines().call(&call, &mut MapHost::default()).expect_err("it is too long");
    assert_limit(&failure.error, FunctionLimit::Input);
}

#[test]
fn log_ends_silently_at_its_number_of_lines() {
    let code = script(
        "export function run(i, db) { for (let i = 0; i < 1000; i++) db.log('x'.repeat(5000)); }",
    );
    let mut host = MapHost::default();
    assert!(call_on(&code, &mut host, CallLimits::default()).is_ok());
    assert_eq!(host.lines.len(), LOG_LINES_MAX as usize);
    assert!(host.lines.iter().all(|line| line.len() == 1_024));
}

#[test]
fn limits_are_capped_and_reads_get_more_fuel() {
    let most = CallLimits { fuel: u64::MAX, memory_bytes: usize::MAX, ..CallLimits::default() };
    assert_eq!(most.capped().fuel, FUEL_MAX);
    assert_eq!(most.capped().memory_bytes, 64 << 20);
    assert_eq!(CallLimits::default().capped(), CallLimits::default());
    assert_eq!(CallLimits::default().for_read().fuel, 100 * FUEL_DEFAULT);
    assert_eq!(CallLimits::default().output_bytes, OUTPUT_BYTES_DEFAULT);
}
