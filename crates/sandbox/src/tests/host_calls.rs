//! Laws of the accounts: each verb that reaches the host is counted and charged.

use super::support::*;
use crate::CallLimits;
use crate::limits::{BYTES_PER_FUEL, REALM_FUEL, SOURCE_BYTE_FUEL, VERB_FUEL};
use proptest::prelude::*;

/// Returns a call of a verb of the database in JavaScript.
fn verb() -> impl Strategy<Value = String> {
    let key = "[a-c]{1,40}";
    prop_oneof![
        key.prop_map(|key| format!("db.get('{key}')")),
        key.prop_map(|key| format!("db.exists('{key}')")),
        (key, 0..3000_usize).prop_map(|(key, n)| format!("db.set('{key}', 'x'.repeat({n}))")),
        key.prop_map(|key| format!("db.delete('{key}')")),
        (key, 0..300_usize).prop_map(|(key, n)| format!("db.append('{key}', 'x'.repeat({n}))")),
        Just("db.add('number', 1)".to_string()),
        Just("db.group_time()".to_string()),
        Just("db.request()".to_string()),
        Just("for (const row of db.range()) row.key".to_string()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn calls_of_the_host_are_counted_and_charged(verbs in prop::collection::vec(verb(), 0..30)) {
        let source = format!("export function run(input, db) {{ {} }}", verbs.join(";\n"));
        let code = script(&source);
        let mut host = MapHost::default();
        let output = call_on(&code, &mut host, CallLimits::default());
        let output = output.map_err(|failure| failure.error).expect("it succeeds");
        prop_assert_eq!(output.usage.host_calls, host.calls);
        let base = REALM_FUEL + SOURCE_BYTE_FUEL * source.len() as u64;
        let spent = output.usage.fuel - base;
        // Each call is charged apart, so up to 16 bytes of arguments and answers are free.
        let calls = u64::from(host.calls);
        let least = calls * VERB_FUEL + host.bytes as u64 / BYTES_PER_FUEL;
        let least = least.saturating_sub(2 * calls);
        prop_assert!(spent >= least, "{} of at least {}", spent, least);
    }
}
