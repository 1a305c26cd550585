//! Memory of transactions, of watched keys, and of commands with answers much larger than they.

use super::frames::request;
use super::test_client::{TestClient, TestServer, show};
use crate::ServerSettings;

/// Returns a server with little memory for buffers.
fn start_small() -> TestServer {
    let settings = ServerSettings { buffer_bytes_max: 4 << 20, ..ServerSettings::default() };
    TestServer::with_settings(settings)
}

/// Queues a command this many times.
fn queue(client: &mut TestClient, count: usize, args: &[&[u8]]) {
    client.send(&request(args).repeat(count));
    for _ in 0..count {
        assert_eq!(show(&client.answer().expect("an answer")), "+QUEUED|");
    }
}

#[test]
fn descriptions_of_more_than_256_commands_are_refused() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    for subcommand in [&b"DOCS"[..], b"INFO"] {
        for (count, accepted) in [(256, true), (257, false)] {
            let mut args = vec![&b"COMMAND"[..], subcommand];
            args.resize(2 + count, b"client");
            client.send(&request(&args));
            let answer = show(&client.answer().expect("an answer"));
            assert_eq!(answer.starts_with('*'), accepted, "{count}");
            assert!(accepted || answer == "-ERR at most 256 commands at a time|", "{answer}");
        }
    }
}

#[test]
fn answers_of_queued_commands_count_against_shared_memory() {
    let server = start_small();
    let mut client = TestClient::new(server.address);
    for (count, accepted) in [(10, true), (400, false), (10, true)] {
        assert_eq!(client.call(&["DEL", "k"]).len(), 3);
        assert_eq!(client.call(&["MULTI"]), "+OK|");
        queue(&mut client, 1, &[b"SET", b"k", b"v"]);
        queue(&mut client, count, &[b"COMMAND", b"DOCS"]);
        let answer = client.call(&["EXEC"]);
        let begin = if accepted { format!("*{}|+OK|*", count + 1) } else { "-OVERLOADED ".into() };
        assert!(answer.starts_with(&begin), "{count}: {}", &answer[..answer.len().min(100)]);
        assert_eq!(client.call(&["EXISTS", "k"]), format!(":{}|", u8::from(accepted)));
    }
    // The same without any step.
    assert_eq!(client.call(&["MULTI"]), "+OK|");
    queue(&mut client, 400, &[b"COMMAND", b"DOCS"]);
    assert!(client.call(&["EXEC"]).starts_with("-OVERLOADED "));
    assert_eq!(client.call(&["PING"]), "+PONG|");
}

#[test]
fn command_of_several_requests_is_refused_in_a_transaction() {
    let server = TestServer::build();
    let mut client = TestClient::new(server.address);
    assert_eq!(client.call(&["MULTI"]), "+OK|");
    let refused = "-ERR Command not allowed inside a transaction|";
    assert_eq!(client.call(&["CONFIG", "GET", "save"]), refused);
    assert!(client.call(&["EXEC"]).starts_with("-EXECABORT"));
}

#[test]
fn watched_keys_count_against_shared_memory() {
    let server = start_small();
    let watch = |client: &mut TestClient| {
        let answers = (0..200).map(|number| {
            let key = format!("{number:0>32000}");
            client.call(&["WATCH", &key])
        });
        let answers: Vec<String> = answers.take_while(|answer| answer == "+OK|").collect();
        answers.len()
    };
    let mut client = TestClient::new(server.address);
    let most = watch(&mut client);
    assert!((100..=131).contains(&most), "{most} keys of 32000 bytes are watched");
    let answer = client.call(&["WATCH", &"x".repeat(32_000)]);
    assert!(answer.starts_with("-OVERLOADED "), "{answer}");
    let mut other = TestClient::new(server.address);
    assert_eq!(watch(&mut other), 2, "the first bytes of a connection are free");
    // Each way in which keys are watched no more gives their memory back.
    for ending in [&["UNWATCH"][..], &["MULTI", "EXEC"], &["MULTI", "DISCARD"], &["RESET"]] {
        for command in ending {
            assert!(!client.call(&[*command]).starts_with('-'), "{command}");
        }
        assert!(watch(&mut client) > 100, "after {ending:?}");
    }
}
