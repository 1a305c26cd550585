//! Times to live on the command line: their units, and when a row expires.

use super::{must_fail, start_server, tool};
use serde_json::Value;
use systest::environment::path_str;

#[test]
fn ttl_option_requires_a_unit_and_is_reported() {
    let (scratch, server) = start_server("ttl-units");
    let stderr = must_fail(&server, &["put", "a", "1", "--ttl", "30"], 2);
    assert!(stderr.contains("30s is 30 seconds") && stderr.contains("30ms"), "{stderr}");
    let stderr = must_fail(&server, &["put", "a", "1", "--ttl", "-1"], 2);
    assert!(stderr.contains("not negative") && !stderr.contains("-- -1"), "{stderr}");
    must_fail(&server, &["get", "a"], 1);
    let expires_in_ms = |key: &str| {
        let row = tool(&server, &["get", key, "--json"]);
        let row: Value = serde_json::from_str(&row).expect("JSON");
        row.get("expires_in_ms").map(|ms| ms.as_u64().expect("a number"))
    };
    tool(&server, &["put", "day", "1", "--ttl", "1d"]);
    assert!(expires_in_ms("day").is_some_and(|ms| (86_000_000..=86_400_000).contains(&ms)));
    tool(&server, &["put", "forever", "1"]);
    assert_eq!(expires_in_ms("forever"), None);
    let file = scratch.join("rows.tsv");
    std::fs::write(&file, "loaded\t1\n").expect("ours");
    must_fail(&server, &["import", path_str(&file), "--ttl", "90"], 2);
    tool(&server, &["import", path_str(&file), "--ttl", "1h30m"]);
    assert!(expires_in_ms("loaded").is_some_and(|ms| (5_000_000..=5_400_000).contains(&ms)));
    let stderr = must_fail(&server, &["get", "day", "--timeout", "5"], 2);
    assert!(stderr.contains("5s is 5 seconds"), "{stderr}");
}
