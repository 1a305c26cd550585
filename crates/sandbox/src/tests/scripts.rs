//! Scripts of map and reduce phases.

use super::support::assert_limit;
use crate::limits::FunctionLimit;
use crate::{FunctionError, Script, ScriptLimits};

fn limits() -> ScriptLimits {
    ScriptLimits { fuel: 10_000_000, memory_bytes: 4 << 20, result_bytes: 1_000 }
}

fn compile(source: &str) -> Script {
    Script::compile(source, limits()).map_err(|error| error.to_string()).expect("it compiles")
}

#[test]
fn function_is_evaluated_many_times_with_json() {
    let mut script = compile(
        "function(value, keyData, arg) {
            var data = JSON.parse(value.values[0].data);
            return data.n > arg ? [[value.key, keyData, data.n]] : [];
        }",
    );
    for n in 0..5 {
        let value = format!(r#"{{"key":"k","values":[{{"data":"{{\"n\":{n}}}"}}]}}"#);
        let result = script.evaluate(&[&value, "null", "2"]).expect("it succeeds");
        let wanted = if n > 2 { format!(r#"[["k",null,{n}]]"#) } else { "[]".to_string() };
        assert_eq!(result, Some(wanted));
    }
}

#[test]
fn undeclared_variables_and_arrows_are_taken_as_old_engines_did() {
    let mut script =
        compile("function(v) { for (i = 0; i < 3; i++) { sum = (i + v); } return sum; }");
    assert_eq!(script.evaluate(&["40"]).expect("it succeeds"), Some("42".into()));
    let mut script = compile("(v) => undefined");
    assert_eq!(script.evaluate(&["40"]).expect("it succeeds"), None);
}

#[test]
fn error_of_a_value_leaves_the_script_usable() {
    let mut script = compile("function(v) { return v.a.b; }");
    let error = script.evaluate(&["{}"]).expect_err("it has no member");
    assert!(matches!(error, FunctionError::Trapped { .. }), "{error}");
    let error = script.evaluate(&["{"]).expect_err("this is no JSON");
    assert!(matches!(error, FunctionError::Trapped { .. }), "{error}");
    assert_eq!(script.evaluate(&[r#"{"a":{"b":1}}"#]).expect("it succeeds"), Some("1".into()));
}

#[test]
fn sources_that_are_no_function_are_refused() {
    for source in ["", "5", "function( {", "while (1);", "function() {}) ; (5", "x", "\0"] {
        let error = Script::compile(source, limits()).err().expect("it is refused");
        assert!(matches!(error, FunctionError::Trapped { .. }), "{source}: {error}");
    }
}

#[test]
fn chunk_ends_at_its_fuel_and_stays_ended() {
    let mut script = compile("function(v) { while (v) { } return 1; }");
    assert_eq!(script.evaluate(&["0"]).expect("it succeeds"), Some("1".into()));
    assert_limit(&script.evaluate(&["1"]).expect_err("endless"), FunctionLimit::Fuel);
    assert_limit(&script.evaluate(&["0"]).expect_err("ended"), FunctionLimit::Fuel);
    assert_eq!(script.fuel(), limits().fuel);
}

#[test]
fn chunk_ends_at_its_memory_its_stack_and_its_results() {
    let mut script = compile("function(v) { all = []; for (;;) all.push([v]); }");
    assert_limit(&script.evaluate(&["1"]).expect_err("growth"), FunctionLimit::Memory);
    let mut script = compile("function f(v) { return f(v); }");
    assert_limit(&script.evaluate(&["1"]).expect_err("recursion"), FunctionLimit::Stack);
    let mut script = compile("function(v) { return 'x'.repeat(v); }");
    assert_eq!(script.evaluate(&["500"]).expect("it fits").map(|json| json.len()), Some(502));
    assert_limit(&script.evaluate(&["500"]).expect_err("too much"), FunctionLimit::Output);
}

#[test]
fn fuel_is_equal_on_every_run() {
    let fuel = || {
        let mut script =
            compile("function(v) { var s = 0; for (var i = 0; i < v; i++) s += i; return s; }");
        for n in 0..20 {
            script.evaluate(&[&(n * 1_000).to_string()]).expect("it succeeds");
        }
        script.fuel()
    };
    let first = fuel();
    assert!(first > 500_000);
    assert_eq!(fuel(), first);
}

#[test]
fn script_can_not_reach_code_from_text_or_time() {
    let mut script = compile(
        "function() {
            return [typeof Date, typeof eval, typeof Function, typeof Math.random,
                (function() {}).constructor === Object];
        }",
    );
    let wanted = r#"["undefined","undefined","undefined","undefined",true]"#;
    assert_eq!(script.evaluate(&[]).expect("it succeeds"), Some(wanted.into()));
}
