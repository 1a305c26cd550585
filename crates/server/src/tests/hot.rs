//! Tests of the list of hot keys over HTTP.

use super::test_server::TestServer;
use crate::ServerSettings;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const PASSWORD: &str = "a password of some length";

fn list(headers: &str) -> Vec<u8> {
    format!("GET /v1/admin/hot-keys HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n").into_bytes()
}

/// Reads one key more often than all others together, and writes another one.
fn use_keys(server: &TestServer) {
    for round in 0..64 {
        let mut requests = "SET written v\r\n".repeat(32);
        for number in 0..32 {
            let other = round * 32 + number;
            let command = |words: &[&str]| {
                let mut text = format!("*{}\r\n", words.len());
                for word in words {
                    text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
                }
                text
            };
            requests.push_str(&command(&["GET", "popular"]).repeat(3));
            requests.push_str(&command(&["GET", format!("k{other}").as_str()]));
        }
        server.exchange(server.address, requests.as_bytes());
    }
}

#[test]
fn most_read_and_most_written_keys_are_listed() {
    let server = TestServer::with_settings(ServerSettings::default());
    let before = server.exchange(server.address, &list(""));
    assert!(before.contains("{\"keys\":[]}"), "{before}");
    use_keys(&server);
    let listed = server.exchange(server.address, &list(""));
    for part in [
        "\"bucket\":\"default/default\",\"access\":\"reads\",\"key\":\"popular\"",
        "\"bucket\":\"default/default\",\"access\":\"writes\",\"key\":\"written\"",
        "\"key_bytes\":7,\"share_permille\":1000,",
    ] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
}

#[test]
fn hot_key_is_hidden_from_a_user_who_may_not_read_it() {
    let login = format!("authorization: Basic {}\r\n", STANDARD.encode(format!("ada:{PASSWORD}")));
    for (grant, is_shown) in
        [("watch:cluster", false), ("watch,read:cluster", true), ("read:cluster", false)]
    {
        let server = TestServer::with_settings(ServerSettings::default());
        use_keys(&server);
        server.turn_access_on("ada", PASSWORD, grant);
        let listed = server.exchange(server.address, &list(&login));
        let is_listed = grant.contains("watch");
        assert_eq!(listed.starts_with("HTTP/1.1 200"), is_listed, "{grant}: {listed}");
        assert_eq!(listed.contains("popular"), is_shown, "{grant}: {listed}");
        assert_eq!(listed.contains("\"key\":null,\"key_digest\":\""), is_listed && !is_shown);
        let refused = server.exchange(server.address, &list(""));
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    }
}
