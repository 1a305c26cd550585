//! Counted buckets, as a user of the command line and of the clients meets them.

use super::{http, resp, start_server, tool};
use serde_json::Value;
use systest::client::RespReply;
use systest::cluster::wait_until;

#[test]
fn counted_bucket_is_counted_by_the_tool_and_after_a_crash() {
    let (_scratch, mut server) = start_server("counted");
    tool(&server, &["bucket", "create", "plain"]);
    tool(&server, &["bucket", "create", "tally"]);
    for (key, value) in [("a", "1"), ("bb", "22"), ("c", "")] {
        tool(&server, &["put", "-b", "tally", key, value]);
    }
    assert_eq!(tool(&server, &["bucket", "count", "tally"]).trim(), "3");
    let table = tool(&server, &["bucket", "list"]);
    assert!(!table.lines().next().unwrap_or_default().contains("keys"), "{table}");
    tool(&server, &["bucket", "alter", "tally", "counted=true"]);
    let count = |server: &systest::server::Server| -> Value {
        let answer = tool(server, &["bucket", "count", "tally", "--json"]);
        serde_json::from_str(&answer).expect("JSON")
    };
    wait_until("a count", || match count(&server)["bytes"].as_u64() {
        Some(7) => Ok(()),
        bytes => Err(format!("{bytes:?}")),
    });
    tool(&server, &["put", "-b", "tally", "d", "4444"]);
    server.kill();
    let server = systest::server::Server::must_start(&server.setup);
    assert_eq!(count(&server), serde_json::json!({ "count": 4, "bytes": 12 }));
    let table = tool(&server, &["bucket", "list"]);
    let cells = |name: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().map(String::from).collect()
    };
    assert_eq!(cells("bucket ")[5..], ["keys", "bytes"], "{table}");
    assert_eq!(cells("default/tally ")[5..], ["4", "12"], "{table}");
    assert_eq!(cells("default/plain ")[5..], ["-", "-"], "{table}");
    let listed: Value =
        serde_json::from_str(&tool(&server, &["bucket", "list", "--json"])).expect("JSON");
    let tally = listed.as_array().into_iter().flatten().find(|it| it["name"] == "default/tally");
    assert_eq!(tally.map(|it| (&it["keys"], &it["bytes"])), Some((&4.into(), &12.into())));
    let found = http(&server).request("GET", "/v1/buckets/default/tally/count", b"");
    assert_eq!(found.expect("answers").json()["bytes"], 12);
    let mut redis = resp(&server);
    redis.call_line("CREDENZA.BUCKET tally").expect("an answer");
    assert_eq!(redis.call_line("DBSIZE").expect("an answer"), RespReply::Number(4));
    tool(&server, &["bucket", "alter", "tally", "counted=false"]);
    assert!(count(&server)["bytes"].is_null());
}
