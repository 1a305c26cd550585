//! Settings that only this machine may set: no interface accepts one while the node serves.

use super::{http, resp, start_server};
use serde_json::Value;
use systest::server::{Server, tool};

/// A path, an address, a switch and a level: texts that one of the settings would take.
const TEXTS: [&str; 4] = ["/tmp/elsewhere", "127.0.0.1:1", "off", "info"];

/// Returns the settings that the program marks as local.
fn local_settings() -> Vec<String> {
    let listed = tool(&["settings", "--json"]).output().expect("it runs");
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let listed = listed.as_object().expect("settings by name");
    let local = listed.iter().filter(|(_, setting)| setting["local"] == true);
    local.map(|(name, _)| name.clone()).collect()
}

/// Sends a request with a JSON body, on a connection of its own: a refused body ends it.
fn must_be_refused(server: &Server, (method, path): (&str, &str), body: &Value) {
    let headers = [("content-type", "application/json")];
    let body = body.to_string();
    let answer = http(server).request_with_headers(method, path, &headers, body.as_bytes());
    let answer = answer.expect("it answers");
    assert_eq!(answer.status, 400, "{method} {path} {body}: {}", answer.text());
}

#[test]
fn setting_of_this_machine_alone_is_accepted_by_no_interface_at_run_time() {
    let (_scratch, server) = start_server("local-settings");
    let names = local_settings();
    for name in ["data_dir", "listen", "tls_key_file", "access_bootstrap_file", "insecure"] {
        assert!(names.iter().any(|local| local == name), "{name}: {names:?}");
    }
    let mut redis = resp(&server);
    for name in &names {
        for text in TEXTS {
            let change = serde_json::json!({ name.as_str(): text });
            for route in [
                ("PUT", "/v1/buckets/default/other"),
                ("PATCH", "/v1/buckets/default/default"),
                ("PUT", "/v1/types/other"),
                ("PATCH", "/v1/types/default"),
                ("PUT", "/v1/admin/log-levels"),
                ("POST", "/v1/admin/reload"),
                ("POST", "/v1/admin/checkpoint"),
            ] {
                must_be_refused(&server, route, &change);
            }
            let properties = serde_json::json!({ "props": change });
            must_be_refused(&server, ("PUT", "/types/available/buckets/b/props"), &properties);
            let answer = redis.call(&[b"CONFIG", b"SET", name.as_bytes(), text.as_bytes()]);
            let answer = answer.expect("it answers");
            assert!(answer.error().is_some(), "CONFIG SET {name} {text}: {answer:?}");
        }
    }
}
