//! Functions in WebAssembly.

use super::support::*;
use crate::{CallLimits, CallMode, FunctionCall, FunctionError};
use bytes::Bytes;

#[test]
fn module_reads_input_and_writes_rows_and_output() {
    let code = module(
        r#"(func (export "run") (result i32)
            (local $n i32)
            (local.set $n (call $input))
            (call $take (i32.const 100))
            (call $set (i32.const 0) (i32.const 1) (i32.const 100) (local.get $n))
            (local.set $n (call $get (i32.const 0) (i32.const 1)))
            (call $take (i32.const 200))
            (call $output (i32.const 200) (local.get $n))
            (i32.const 0))"#,
    );
    let mut host = MapHost::default();
    assert_eq!(output_on(&code, &mut host), "input");
    assert_eq!(host.text("a"), Some("input"));
}

#[test]
fn absent_value_has_the_length_minus_one() {
    let code = module(
        r#"(func (export "run") (result i32)
            (if (i32.ne (call $get (i32.const 0) (i32.const 1)) (i32.const -1))
                (then (return (i32.const 1))))
            (i32.const 0))"#,
    );
    let output = call(&code, CallLimits::default()).map_err(|failure| failure.error);
    assert_eq!(output.expect("it succeeds").bytes, None);
}

#[test]
fn cursor_yields_all_rows_of_a_range_over_several_pages() {
    let code = module(
        r#"(func (export "run") (result i32)
            (local $c i32) (local $n i32) (local $at i32)
            (local.set $c (call $range (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                (i32.const 8) (i32.const -1)))
            (local.set $at (i32.const 1000))
            (block $end
                (loop $rows
                    (br_if $end (i32.eqz (call $next (local.get $c))))
                    (local.set $n (call $key (local.get $c)))
                    (call $take (local.get $at))
                    (local.set $at (i32.add (local.get $at) (local.get $n)))
                    (br $rows)))
            (call $output (i32.const 1000) (i32.sub (local.get $at) (i32.const 1000)))
            (i32.const 0))"#,
    );
    let mut host = MapHost::default();
    let keys: Vec<String> = (100..300).map(|n| n.to_string()).collect();
    for key in &keys {
        host.rows.insert(key.clone().into(), Bytes::from_static(b"value"));
    }
    assert_eq!(output_on(&code, &mut host), keys.concat());
    assert_eq!(host.calls, 4, "200 rows in pages of 64");
}

#[test]
fn status_above_zero_is_the_authors_error_with_the_output_as_text() {
    let code = module(
        r#"(func (export "run") (result i32)
            (call $output (i32.const 0) (i32.const 8)) (i32.const 7))"#,
    );
    let error = error(&code);
    assert_eq!(error.reason(), Some("function_failed"));
    assert_eq!(error.to_string(), "the function failed with code 7: abcdefgh");
}

#[test]
fn status_below_zero_and_traps_are_errors_of_the_engine() {
    for body in [
        "(i32.const -1)",
        "unreachable",
        "(i32.div_s (i32.const 1) (i32.const 0))",
        "(i32.load (i32.const 70000))",
        "(call $output (i32.const 65535) (i32.const 2)) (i32.const 0)",
        "(call $output (i32.const -1) (i32.const -1)) (i32.const 0)",
        "(drop (call $input)) (call $take (i32.const 65534)) (i32.const 0)",
        "(call $next (i32.const 0))",
    ] {
        let code = module(&format!(r#"(func (export "run") (result i32) {body})"#));
        let error = error(&code);
        assert!(matches!(error, FunctionError::Trapped { .. }), "{body}: {error}");
    }
}

#[test]
fn unknown_entry_is_no_such_function() {
    let code = module(r#"(func (export "other") (result i32) (i32.const 0))"#);
    assert_eq!(error(&code).reason(), Some("no_such_function"));
    let code = module(r#"(func (export "run") (param i32) (result i32) (i32.const 0))"#);
    assert_eq!(error(&code).reason(), Some("no_such_function"));
}

#[test]
fn error_of_the_host_ends_the_call_and_keeps_its_type() {
    let code = module(
        r#"(func (export "run") (result i32)
            (call $set (i32.const 9) (i32.const 7) (i32.const 0) (i32.const 1))
            (call $set (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1))
            (i32.const 0))"#,
    );
    let mut host = MapHost::default();
    let failure = call_on(&code, &mut host, CallLimits::default()).expect_err("it is refused");
    let FunctionError::Host(error) = failure.error else { panic!("{}", failure.error) };
    assert_eq!(error.downcast::<HostRefusal>().ok(), Some(HostRefusal));
    assert_eq!(host.rows.len(), 0);
}

#[test]
fn verb_that_writes_ends_a_call_that_only_reads() {
    let code = module(
        r#"(func (export "run") (result i32)
            (call $set (i32.const 0) (i32.const 1) (i32.const 0) (i32.const 1)) (i32.const 0))"#,
    );
    let mut host = MapHost::default();
    let limits = CallLimits::default();
    let call =
        FunctionCall { code: &code, entry: "run", input: None, mode: CallMode::Read, limits };
    let failure = engines().call(&call, &mut host).expect_err("it may not write");
    assert!(failure.error.to_string().contains("`set`"), "{}", failure.error);
    assert_eq!(host, MapHost::default());
}

#[test]
fn calls_share_no_memory() {
    let code = module(
        r#"(func (export "run") (result i32)
            (local $old i32)
            (local.set $old (i32.load8_u (i32.const 500)))
            (i32.store8 (i32.const 500) (i32.const 1))
            (local.get $old))"#,
    );
    let engines = engines();
    for _ in 0..3 {
        let (mode, limits) = (CallMode::Write, CallLimits::default());
        let call = FunctionCall { code: &code, entry: "run", input: None, mode, limits };
        assert!(engines.call(&call, &mut MapHost::default()).is_ok());
    }
    assert!(engines.cached_bytes() > 0, "the module is compiled once");
}

#[test]
fn nan_has_one_form() {
    let code = module(
        r#"(func (export "run") (result i32)
            (f64.store (i32.const 0) (f64.div (f64.const 0) (f64.const 0)))
            (f64.store (i32.const 8)
                (f64.add (f64.const nan:0x7ffff00000001) (f64.const 1)))
            (f64.store (i32.const 16) (f64.sqrt (f64.const -1)))
            (call $output (i32.const 0) (i32.const 24)) (i32.const 0))"#,
    );
    let output = call(&code, CallLimits::default()).map_err(|failure| failure.error);
    let bytes = output.expect("it succeeds").bytes.expect("an output");
    let canonical = 0x7ff8_0000_0000_0000_u64.to_le_bytes();
    for chunk in bytes.chunks(8) {
        assert_eq!(chunk, canonical);
    }
}
