//! Functions in JavaScript.

use super::support::*;
use crate::{CallLimits, FunctionError, RequestName};
use bytes::Bytes;

#[test]
fn entry_reads_input_and_writes_rows_and_output() {
    let code = script(
        "export function run(input, db) {
            db.set('a', input);
            db.set_for(db.bytes('b'), new Uint8Array([49, 255]), 1000);
            db.append('a', '!');
            if (db.get('x') !== undefined || db.exists('x') || !db.exists('a')) throw 'absent';
            if (db.add('n', 5) !== 5 || db.add('n', -7n) !== -2 || !db.delete('n')) throw 'sum';
            if (db.get('b')[1] !== 255) throw 'bytes';
            return db.get('a');
        }",
    );
    let mut host = MapHost::default();
    assert_eq!(output_on(&code, &mut host), "input!");
    assert_eq!(host.text("a"), Some("input!"));
    assert_eq!(host.rows[&b"b"[..]], &b"1\xff"[..]);
}

#[test]
fn ranges_are_iterable_in_both_orders() {
    let code = script(
        "export function run(input, db) {
            const keys = (...range) => {
                let all = '';
                for (const { key, value } of db.range(...range)) {
                    all += db.text(key) + db.text(value);
                }
                return all;
            };
            return [
                keys(),
                keys('b', 'c'),
                keys('b', 'c', db.LOW_EXCLUSIVE | db.HIGH_INCLUSIVE),
                keys('', undefined, db.REVERSE, 2),
                keys('', undefined, db.KEYS),
            ].join(' ');
        }",
    );
    let mut host = MapHost::with(&[("a", "1"), ("b", "2"), ("c", "3")]);
    assert_eq!(output_on(&code, &mut host), "a1b2c3 b2 c3 c3b2 abc");
}

#[test]
fn index_time_request_and_log_are_those_of_the_host() {
    let code = script(
        "export function run(input, db) {
            const [entry] = [...db.index('colour', 'blue', 'red')];
            db.log('seen');
            const name = db.request();
            return [db.text(entry.value), db.group_time(), name.length, name[name.length - 1]]
                .join(' ');
        }",
    );
    let request = Some(RequestName { session: Bytes::from_static(b"s1"), number: 9 });
    let mut host = MapHost { request, ..MapHost::default() };
    assert_eq!(output_on(&code, &mut host), "colour 1700000000123 10 9");
    assert_eq!(host.lines, ["seen"]);
}

#[test]
fn integers_beyond_doubles_are_big() {
    assert_eq!(evaluate("return typeof db.add('n', 9007199254740991n)"), "number");
    assert_eq!(evaluate("return String(db.add('n', 9007199254740993n))"), "9007199254740993");
    let error = script_error("db.add('n', 1.5)");
    assert!(error.to_string().contains("wants an integer"), "{error}");
}

#[test]
fn failure_is_the_authors_error() {
    let error = script_error("throw new Failure(42, 'the queue is empty')");
    assert_eq!(error.to_string(), "the function failed with code 42: the queue is empty");
    let error = script_error("throw new Failure('no number', 'x'.repeat(5000))");
    let FunctionError::Failed { code, text } = error else { panic!("{error}") };
    assert_eq!((code, text.len()), (1, 1_024));
}

#[test]
fn other_exceptions_are_traps_with_their_text() {
    for (body, text) in [
        ("nothing.here", "ReferenceError: nothing is not defined"),
        ("throw 5", "a int was thrown"),
        ("return 5", "type int"),
        ("return (async () => 5)()", "type "),
        ("db.get(5)", "TypeError: a verb wants"),
        ("db.set('a')", "TypeError"),
    ] {
        let error = script_error(body);
        assert!(matches!(error, FunctionError::Trapped { .. }), "{body}: {error}");
        assert!(error.to_string().contains(text), "{body}: {error}");
    }
    for source in [
        "export function run( {",
        "import 'other'; export function run() { }",
        "await new Promise(() => {}); export function run() { }",
        "\0",
    ] {
        let error = error(&script(source));
        assert!(matches!(error, FunctionError::Trapped { .. }), "{source}: {error}");
    }
    let absent = error(&script("export const run = 5"));
    assert_eq!(absent.reason(), Some("no_such_function"));
}

#[test]
fn calls_share_no_state() {
    let code = script(
        "let calls = 0;
        export function run() { calls += 1; return String(calls); }",
    );
    for _ in 0..3 {
        assert_eq!(output_on(&code, &mut MapHost::default()), "1");
    }
}

#[test]
fn error_of_the_host_keeps_its_type() {
    let code = script("export function run(input, db) { db.set('refused', 'x'); }");
    let failure = call(&code, CallLimits::default()).expect_err("it is refused");
    let FunctionError::Host(error) = failure.error else { panic!("{}", failure.error) };
    assert_eq!(error.downcast::<HostRefusal>().ok(), Some(HostRefusal));
}
