//! Tests of logins and of the operators' local socket, in every protocol.

use super::test_server::{ARAKOON_EXISTS, ARAKOON_HELLO, TestServer};
use crate::ServerSettings;
use base::AccessCall;
use base::access::ApiToken;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Password of the user `ada`, who may read everything and change nothing.
const PASSWORD: &str = "correct horse: battery";

fn server() -> TestServer {
    let server = TestServer::build();
    server.turn_access_on("ada", PASSWORD, "read,list,watch:cluster");
    server
}

fn basic(password: &str) -> String {
    format!("authorization: Basic {}\r\n", STANDARD.encode(format!("ada:{password}")))
}

fn http(server: &TestServer, line: &str, headers: &str) -> String {
    let request = format!("{line} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    server.exchange(server.address, request.as_bytes())
}

#[test]
fn resp_client_is_served_only_what_its_login_allows() {
    let server = server();
    let ask = |commands: &str| server.exchange(server.address, commands.as_bytes());
    for command in ["PING", "GET k", "ACL WHOAMI", "CLIENT LIST", "MULTI", "HELLO 3", "INFO"] {
        let answer = ask(&format!("{command}\r\n"));
        assert!(answer.starts_with("-NOAUTH "), "{command}: {answer}");
    }
    let auth = format!("*3\r\n$4\r\nAUTH\r\n$3\r\nada\r\n${}\r\n{PASSWORD}\r\n", PASSWORD.len());
    assert_eq!(ask(&format!("{auth}ACL WHOAMI\r\nGET k\r\n")), "+OK\r\n$3\r\nada\r\n$-1\r\n");
    for command in ["SET k v", "GETDEL k", "CLIENT KILL TYPE normal", "CONFIG RESETSTAT"] {
        let answer = ask(&format!("{auth}{command}\r\n"));
        assert!(answer.starts_with("+OK\r\n-NOPERM user `ada` lacks "), "{command}: {answer}");
    }
    let transaction = ask(&format!("{auth}MULTI\r\nGET k\r\nSET k v\r\nEXEC\r\n"));
    assert!(transaction.contains("-NOPERM ") && !transaction.contains("*2"), "{transaction}");
    let listed = ask(&format!("{auth}CLIENT LIST\r\n"));
    assert!(listed.contains(" user=ada "), "{listed}");
    let reset = ask(&format!("{auth}RESET\r\nGET k\r\n"));
    assert!(reset.ends_with("+RESET\r\n-NOAUTH Authentication required.\r\n"), "{reset}");
    let hello = format!("*5\r\n$5\r\nHELLO\r\n$1\r\n2\r\n{}", &auth["*3\r\n".len()..]);
    let hello = ask(&hello);
    assert!(hello.starts_with('*') && hello.contains("redis"), "{hello}");
}

#[test]
fn cursor_of_a_scan_is_of_no_use_to_another_user_and_stays_open() {
    let server = TestServer::build();
    server.turn_access_on("ada", PASSWORD, "read,write,list:cluster");
    server.add_user("eve", PASSWORD, "tried");
    let ask = |user: &str, commands: &str| {
        let word = |word: &str| format!("${}\r\n{word}\r\n", word.len());
        let login = ["AUTH", user, PASSWORD].map(word).concat();
        server.exchange(server.address, format!("*3\r\n{login}{commands}").as_bytes())
    };
    let begun = ask("ada", "MSET a 1 b 2 c 3\r\nSCAN 0 COUNT 1\r\n");
    let cursor = begun.split("\r\n").nth(4).expect("a cursor");
    assert!(cursor.parse::<u64>().is_ok_and(|cursor| cursor > 0), "{begun}");
    let next = format!("SCAN {cursor} COUNT 1\r\n");
    let refused = ask("eve", &next);
    assert!(refused.starts_with("+OK\r\n-ERR invalid cursor: "), "{refused}");
    // Another connection of its user continues where it ended.
    let continued = ask("ada", &next);
    assert!(continued.ends_with("*1\r\n$1\r\nb\r\n"), "{continued}");
}

#[test]
fn cursor_that_is_opened_while_access_is_off_is_nobodys_whoever_logged_in_before() {
    let server = TestServer::build();
    server.turn_access_on("ada", PASSWORD, "read,write,list:cluster");
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    let mut ask = |commands: &str, end: &str| {
        stream.write_all(commands.as_bytes()).expect("sent");
        let (mut text, mut bytes) = (String::new(), [0; 256]);
        while !text.ends_with(end) {
            let length = stream.read(&mut bytes).expect("answered");
            assert!(length > 0, "it ended: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
        text
    };
    let login = format!("*3\r\n$4\r\nAUTH\r\n$3\r\nada\r\n${}\r\n{PASSWORD}\r\n", PASSWORD.len());
    ask(&format!("{login}MSET a 1 b 2\r\n"), "+OK\r\n+OK\r\n");
    server.change_access(AccessCall::Switch { on: false });
    let begun = ask("SCAN 0 COUNT 1\r\n", "*1\r\n$1\r\na\r\n");
    let cursor = begun.split("\r\n").nth(2).expect("a cursor");
    let other = server.exchange(server.address, format!("SCAN {cursor}\r\n").as_bytes());
    assert!(other.ends_with("*1\r\n$1\r\nb\r\n"), "{begun} {other}");
}

#[test]
fn resp_client_may_send_only_small_requests_before_its_login() {
    let server = server();
    let ask = |commands: &str| server.exchange(server.address, commands.as_bytes());
    let refused = ask("*2\r\n$3\r\nGET\r\n$16385\r\n");
    assert_eq!(refused, "-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(ask("*11\r\n$3\r\nGET\r\n"), "-ERR Protocol error: invalid multibulk length\r\n");
    let largest = format!("*2\r\n$3\r\nGET\r\n$16000\r\n{}\r\n", "k".repeat(16_000));
    assert!(ask(&largest).starts_with("-NOAUTH "));
}

#[test]
fn unknown_user_costs_a_verification_as_a_wrong_password_does() {
    let server = server();
    let attempt = |user: &str, password: &str| {
        let before = server.verifications();
        let command = format!("AUTH {user} {password}\r\n");
        let answer = server.exchange(server.address, command.as_bytes());
        (answer, server.verifications() - before)
    };
    let wrong = attempt("ada", "wrong");
    assert!(wrong.0.starts_with("-WRONGPASS "), "{wrong:?}");
    assert_eq!(wrong.1, 1);
    assert_eq!(attempt("nobody", "wrong"), wrong);
    assert_eq!(attempt("no-name-of-a-user!", "wrong"), wrong);
    // A right one is remembered, also by another protocol.
    let before = server.verifications();
    for _ in 0..3 {
        let answer = http(&server, "GET /v1/buckets", &basic(PASSWORD));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!(server.verifications() - before, 1);
    // Ten failures a minute, of which one was before. Others at this address log in as before.
    for _ in 0..9 {
        assert!(attempt("ada", "wrong").0.starts_with("-WRONGPASS "));
    }
    let refused = attempt("ada", "wrong");
    assert!(refused.0.starts_with("-TOOMANY ") && refused.1 == 0, "{refused:?}");
    assert!(attempt("eve", "wrong").0.starts_with("-WRONGPASS "));
}

#[test]
fn http_request_is_served_only_what_its_credentials_allow() {
    let server = server();
    let key = "/v1/buckets/default/default/keys/k";
    for line in ["GET /status", "GET /metrics", "GET /v1/buckets", &format!("GET {key}")] {
        for headers in ["", &basic("wrong"), "authorization: Bearer x\r\n"] {
            let answer = http(&server, line, headers);
            assert!(answer.starts_with("HTTP/1.1 401 "), "{line} {headers}: {answer}");
            assert!(answer.to_lowercase().contains("\r\nwww-authenticate: basic "), "{answer}");
        }
    }
    for line in ["GET /live", "GET /openapi.json"] {
        assert!(http(&server, line, "").starts_with("HTTP/1.1 200 "), "{line}");
    }
    let token = ApiToken::from_secret([7; 20]);
    server.add_api_token("ada", &token);
    for headers in [basic(PASSWORD), format!("authorization: Bearer {}\r\n", token.text())] {
        let ask = |line: &str, more: &str| http(&server, line, &format!("{headers}{more}"));
        assert!(ask("GET /status", "").starts_with("HTTP/1.1 200 "));
        assert!(ask(&format!("GET {key}"), "").starts_with("HTTP/1.1 404 "));
        let put = ask(&format!("PUT {key}"), "content-length: 0\r\n");
        assert!(put.starts_with("HTTP/1.1 403 ") && put.contains("user `ada` lacks "), "{put}");
        let shown = ask("GET /v1/access", "");
        assert!(shown.starts_with("HTTP/1.1 403 "), "{shown}");
    }
    server.revoke_api_token("ada");
    let headers = format!("authorization: Bearer {}\r\n", token.text());
    assert!(http(&server, "GET /status", &headers).starts_with("HTTP/1.1 401 "));
}

#[test]
fn riak_request_is_served_only_what_its_credentials_allow() {
    let server = server();
    let key = "/buckets/b/keys/k";
    assert!(http(&server, "GET /ping", "").starts_with("HTTP/1.1 200 "));
    for headers in ["", &basic("wrong")] {
        assert!(http(&server, &format!("GET {key}"), headers).starts_with("HTTP/1.1 401 "));
    }
    let read = http(&server, &format!("GET {key}"), &basic(PASSWORD));
    assert!(read.starts_with("HTTP/1.1 404 "), "{read}");
    let headers = format!("{}content-type: text/plain\r\ncontent-length: 0\r\n", basic(PASSWORD));
    let written = http(&server, &format!("PUT {key}"), &headers);
    assert!(written.starts_with("HTTP/1.1 403 "), "{written}");
}

#[test]
fn body_of_a_client_without_rights_is_not_parsed() {
    let server = server();
    let lines = [
        "PUT /v1/access",
        "POST /v1/access/check",
        "PUT /v1/access/users/eve",
        "PATCH /v1/access/users/ada",
        "PUT /v1/access/roles/web",
        "POST /v1/cluster/tokens",
        "POST /v1/cluster/level",
        "POST /v1/cluster/groups",
        "PUT /v1/cluster/groups/1",
        "POST /v1/cluster/ring/plan",
        "POST /v1/admin/checkpoint",
        "PUT /v1/admin/log-levels",
        "PUT /v1/types/eve",
        "PUT /v1/buckets/default/eve",
        "PATCH /v1/buckets/default/default",
        "POST /v1/buckets/default/default/move",
        "POST /v1/buckets/default/default/delete_prefix",
        "PUT /buckets/b/props",
        "PUT /types/available/props",
    ];
    let malformed = "content-type: application/json\r\ncontent-length: 1\r\n";
    for line in lines {
        for (login, status) in [(String::new(), "401"), (basic(PASSWORD), "403")] {
            let request = format!("{line} HTTP/1.1\r\nhost: localhost\r\n{login}{malformed}\r\n{{");
            let answer = server.exchange(server.address, request.as_bytes());
            assert_eq!(answer.split(' ').nth(1), Some(status), "{line}: {answer}");
        }
    }
    // Whoever may read may send an update that only reads: what it needs stands in its body.
    let line = "POST /v1/buckets/default/default/update";
    let request =
        format!("{line} HTTP/1.1\r\nhost: localhost\r\n{}{malformed}\r\n{{", basic(PASSWORD));
    let answer = server.exchange(server.address, request.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[test]
fn arakoon_client_has_the_rights_of_the_listeners_user() {
    let server = TestServer::with_arakoon_user();
    let (prologue, exists) = (ARAKOON_HELLO, ARAKOON_EXISTS);
    let set = b"\x09\x00\xff\xb1\x01\x00\x00\x00k\x01\x00\x00\x00v";
    let ask = |address, command: &[u8]| server.exchange(address, &[prologue, command].concat());
    let (shared, own) = (server.address, server.addresses[1]);
    assert_eq!(ask(own, exists), "\0\0\0\0\0", "it makes the bucket, while access is off");
    server.turn_access_on("ada", PASSWORD, "read:cluster");
    assert_eq!(ask(own, exists), "\0\0\0\0\0");
    let refused = ask(own, set);
    assert!(refused.contains("forbidden: user `ada` lacks "), "{refused}");
    // The protocol has no login: elsewhere nobody is served.
    assert!(!ask(shared, exists).starts_with("\0\0\0\0"));
}

#[test]
fn open_arakoon_connection_learns_nothing_of_the_cluster_once_its_rights_end() {
    let server = TestServer::with_arakoon_user();
    let connect = || {
        let stream = TcpStream::connect(server.addresses[1]).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        stream
    };
    let who_master = |stream: &mut TcpStream, prologue: &[u8]| {
        stream.write_all(&[prologue, b"\x02\x00\xff\xb1"].concat()).expect("sent");
        let mut answer = [0; 256];
        let length = stream.read(&mut answer).unwrap_or(0);
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    let (named, refused) = ("\0\0\0\0\x01", "forbidden");
    let mut before = connect();
    assert!(who_master(&mut before, ARAKOON_HELLO).starts_with(named));
    server.turn_access_on("ada", PASSWORD, "read:cluster");
    assert!(who_master(&mut before, b"").contains(refused), "it is open since before access is on");
    let mut of_ada = connect();
    assert!(who_master(&mut of_ada, ARAKOON_HELLO).starts_with(named));
    let (name, roles) = ("ada".into(), Some(Vec::new()));
    let (enabled, certificates) = (None, None);
    server.change_access(AccessCall::ChangeUser { name, roles, enabled, certificates });
    assert!(who_master(&mut of_ada, b"").contains(refused), "ada has no right any more");
}

/// Sends a request to a local socket. Returns the answer.
fn local(path: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(path).expect("it listens");
    let request = format!("{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn local_socket_always_has_all_rights_and_makes_the_first_administrator() {
    let name = format!("credenza-{}-admin.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let settings = ServerSettings { admin_socket: Some(path.clone()), ..ServerSettings::default() };
    let server = TestServer::with_settings(settings);
    let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let made = local(&path, "POST /v1/access/init");
    assert!(made.starts_with("HTTP/1.1 201 "), "{made}");
    let body = made.split("\r\n\r\n").nth(1).expect("a body");
    let made: api::Administrator = serde_json::from_str(body).expect("an administrator");
    let auth = format!("AUTH {} {}\r\nSET k v\r\n", made.user, made.password.text());
    assert_eq!(server.exchange(server.address, auth.as_bytes()), "+OK\r\n+OK\r\n");
    assert!(local(&path, "POST /v1/access/init").starts_with("HTTP/1.1 409 "));
    let read = local(&path, "GET /v1/buckets/default/default/keys/k");
    assert!(read.starts_with("HTTP/1.1 200 ") && read.ends_with("\r\n\r\nv"), "{read}");
    let shown = local(&path, "GET /v1/access");
    assert!(shown.contains("\"admin\"") && !shown.contains("argon2"), "{shown}");
    // What a former run left is replaced.
    drop(server);
    let settings = ServerSettings { admin_socket: Some(path.clone()), ..ServerSettings::default() };
    let server = TestServer::with_settings(settings);
    assert!(local(&path, "GET /status").starts_with("HTTP/1.1 200 "));
    drop(server);
    let _ = std::fs::remove_file(&path);
}
