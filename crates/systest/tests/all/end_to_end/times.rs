//! Times to live on the command line: their units, and when a row expires.

use super::{fails, fresh, tool};
use serde_json::Value;
use systest::rigs::text;

#[test]
fn a_time_to_live_has_a_unit_and_is_shown() {
    let (scratch, server) = fresh("ttl-units");
    let said = fails(&server, &["put", "a", "1", "--ttl", "30"], 2);
    assert!(said.contains("30s is 30 seconds") && said.contains("30ms"), "{said}");
    let said = fails(&server, &["put", "a", "1", "--ttl", "-1"], 2);
    assert!(said.contains("not negative") && !said.contains("-- -1"), "{said}");
    fails(&server, &["get", "a"], 1);
    let expires = |key: &str| {
        let row = tool(&server, &["get", key, "--json"]);
        let row: Value = serde_json::from_str(&row).expect("JSON");
        row.get("expires_in_ms").map(|ms| ms.as_u64().expect("a number"))
    };
    tool(&server, &["put", "day", "1", "--ttl", "1d"]);
    assert!(expires("day").is_some_and(|ms| (86_000_000..=86_400_000).contains(&ms)));
    tool(&server, &["put", "forever", "1"]);
    assert_eq!(expires("forever"), None);
    let file = scratch.join("rows.tsv");
    std::fs::write(&file, "loaded\t1\n").expect("ours");
    fails(&server, &["import", text(&file), "--ttl", "90"], 2);
    tool(&server, &["import", text(&file), "--ttl", "1h30m"]);
    assert!(expires("loaded").is_some_and(|ms| (5_000_000..=5_400_000).contains(&ms)));
    let said = fails(&server, &["get", "day", "--timeout", "5"], 2);
    assert!(said.contains("5s is 5 seconds"), "{said}");
}
