//! Replays recorded conversations: bytes that Arakoon's clients send, and their answers.
//!
//! A line is a command and its arguments as text (see `encoding.rs`). `raw "..."` sends bytes as
//! they are, `raw layout=s "..."` gives the layout of the answer, `closed` waits for the end of the
//! connection. A prefix names the connection (`b: GET dirty k`), `hello NAME` opens one with the
//! prologue of another cluster. `[sizes]` shows only an answer's return code.
//!
//! Lines that act on the server: `few N` starts a new one with a limit of N connections, `drop`
//! drops the cluster's bucket. `stop COMMAND` closes the front-ends while the client repeats this
//! command, and shows the first answer that is not `ok`.

use super::client::{TestClient, prologue, server};
use super::encoding::{self, COMMANDS};
use crate::ServerSettings;
use crate::tests::test_server::TestServer;
use base::codec::printable;
use base::{BucketName, Call, DirectoryCall, Request};
use goldenscript::{Argument, Command, Context, Runner};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

struct ConversationRunner {
    server: TestServer,
    clients: BTreeMap<String, TestClient>,
}

/// Starts a test server with this limit on connections.
fn server_with_limit(connections_max: usize) -> TestServer {
    let arakoon_clusters = vec!["ricky".into()];
    let settings = ServerSettings { connections_max, arakoon_clusters, ..Default::default() };
    TestServer::with_name("arakoon_0", settings)
}

impl ConversationRunner {
    /// Drops the bucket of the cluster `ricky`.
    fn drop_bucket(&self) {
        let bucket = BucketName::new("arakoon", "ricky").expect("a name");
        let call = Call::Directory(DirectoryCall::DropBucket);
        self.server.call(Request { bucket, call, retry: None }).expect("dropped");
    }

    /// Closes the server while a client repeats a command. Returns the client's last answer.
    fn stop(&mut self, client: &mut TestClient, command: &str) -> String {
        let (sent, layout) = encoding::request(command, &[]).expect("a command without words");
        let server = &mut self.server;
        let last = std::thread::scope(|threads| {
            let shutdown = threads.spawn(move || server.close_front_ends());
            let last = loop {
                let answer = client.request(&sent, layout);
                if answer[..4] != [0; 4] {
                    break answer;
                }
            };
            shutdown.join().expect("they close");
            last
        });
        format!("> {}\n< {}\n", printable(&sent), printable(&last))
    }
}

impl Runner for ConversationRunner {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Box<dyn Error>> {
        let address = self.server.address;
        let name = context.prefix.clone().unwrap_or_default();
        let words: Vec<String> = command
            .args
            .iter()
            .filter_map(|argument| match argument {
                Argument::Positional(word) => Some(word.clone()),
                _ => None,
            })
            .collect();
        if command.name == "hello" {
            let mut client = TestClient::connect(address);
            let cluster = words.first().map(String::as_str).unwrap_or_default();
            client.send(&prologue(cluster.as_bytes()));
            self.clients.insert(name, client);
            return Ok(String::new());
        }
        match (command.name.as_str(), words.first()) {
            ("few", Some(connections)) => {
                self.clients.clear();
                self.server = server_with_limit(connections.parse()?);
                return Ok(String::new());
            }
            ("drop", None) => {
                self.drop_bucket();
                return Ok(String::new());
            }
            ("stop", Some(repeated)) => {
                let mut client = self.clients.remove(&name).ok_or("it says something before")?;
                let lines = self.stop(&mut client, repeated);
                self.clients.insert(name, client);
                return Ok(lines);
            }
            _ => {}
        }
        let client =
            self.clients.entry(name).or_insert_with(|| TestClient::open(address, b"ricky"));
        if command.name == "closed" {
            return Ok(format!("< {}(closed)\n", printable(&client.read_to_end())));
        }
        let (sent, layout) = if command.name == "raw" {
            let mut arguments = command.consume_args();
            let layout = arguments.take_key("layout").unwrap_or_default().to_string();
            let text = arguments.next_pos().unwrap_or_default();
            (text.chars().map(|character| character as u8).collect(), layout)
        } else {
            let (sent, layout) = encoding::request(&command.name, &words)
                .ok_or_else(|| format!("what is `{} {words:?}`?", command.name))?;
            (sent, layout.to_string())
        };
        client.send(&sent);
        let mut lines = format!("> {}\n", printable(&sent));
        match client.answer(&layout) {
            Some(answer) if context.tags.contains("sizes") => {
                lines.push_str(&format!("< {}...\n", printable(&answer[..4])));
            }
            Some(answer) => lines.push_str(&format!("< {}\n", printable(&answer))),
            None => lines.push_str("< (closed)\n"),
        }
        Ok(lines)
    }
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/arakoon/conversations");

#[test]
fn recorded_conversations_replay_identically() {
    let files = std::fs::read_dir(FOLDER).expect("the folder of conversations");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let mut runner = ConversationRunner { server: server(), clients: BTreeMap::new() };
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        goldenscript::run(&mut runner, &path).expect(&name);
    }
}

#[test]
fn every_command_appears_in_a_conversation_and_in_the_docs() {
    let files = std::fs::read_dir(FOLDER).expect("the folder of conversations");
    let texts = files.map(|file| std::fs::read_to_string(file.expect("a file").path()));
    let text: String = texts.map(|text| text.expect("text")).collect();
    let words = text.lines().filter(|line| !line.starts_with(['>', '<', '#']));
    let used_words: BTreeSet<&str> = words.flat_map(str::split_whitespace).collect();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/use/arakoon.md");
    let page = std::fs::read_to_string(page).expect("the docs");
    for ((name, code, ..), command) in COMMANDS.iter().zip(&crate::arakoon::commands::COMMANDS) {
        assert_eq!((*name, *code), (command.protocol_name, command.code), "the tables differ");
        assert!(used_words.contains(name), "no conversation says {name}");
        assert!(page.contains(&format!("| `{name}` |")), "docs/use/arakoon.md lacks {name}");
    }
}
