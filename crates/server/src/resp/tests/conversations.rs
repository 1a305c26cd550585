//! Replays recorded conversations: bytes that clients send, and the answers they get.
//!
//! A line is a command, sent as an array of bulk strings. `raw "..."` sends bytes as they are,
//! `raw replies=2 "..."` waits for two answers, `raw closed "..."` for the end of the connection.
//! A prefix names the connection (`b: GET k`). `[numbers]` shows digits as `#`. `$cursor` is the
//! cursor in the last answer to `SCAN`, `$token` the token in the last page of a feed, `$kept` the
//! last answer tagged `[keep]`, `$seen` the context in the last answer tagged `[seen]`, `$older`
//! that in the last tagged `[older]`. Contexts are not shown, and the values behind one are
//! sorted.
//!
//! With `REDIS_ADDRESS` set, the files `redis_*.txt` are replayed against that Redis instead.

use super::test_client::{TestClient, TestServer, show};
use crate::resp::translate::table;
use goldenscript::{Argument, Command, Context, Runner};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::SocketAddr;

struct Replay {
    server: Option<TestServer>,
    address: SocketAddr,
    clients: BTreeMap<String, TestClient>,
    cursor: String,
    feed_token: String,
    stored_number: String,
    /// Contexts by their tag.
    contexts: BTreeMap<&'static str, Vec<u8>>,
}

/// Tags under which a context is stored for later lines.
const CONTEXTS: [&str; 2] = ["seen", "older"];

/// Returns the context in the answer to a command that returns one: its first bulk string.
fn context_of(answer: &[u8]) -> Option<&[u8]> {
    let rest = answer.strip_prefix(b"*2\r\n").unwrap_or(answer).strip_prefix(b"$")?;
    let end = rest.iter().position(|&byte| byte == b'\r')?;
    let length: usize = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    rest.get(end + 2..end + 2 + length)
}

/// Sorts the values behind a context by their bytes: two values written in one millisecond may come
/// in either order.
fn sort_values(answer: &str) -> String {
    let Some((head, values)) = answer.split_once("|*") else { return answer.into() };
    let (count, values) = values.split_once('|').unwrap_or((values, ""));
    let mut lines = values.split_inclusive('|');
    let mut all = Vec::new();
    while let Some(line) = lines.next() {
        let value_line = if line.starts_with("$-1") || line == "_|" { None } else { lines.next() };
        all.push(format!("{line}{}", value_line.unwrap_or_default()));
    }
    all.sort();
    format!("{head}|*{count}|{}", all.concat())
}

/// Formats a context as a line shows it.
fn show_context(context: &[u8]) -> String {
    let length = context.len().to_string();
    show(&[b"$", length.as_bytes(), b"\r\n", context, b"\r\n"].concat())
}

impl Replay {
    fn new() -> Replay {
        let (server, address) = match std::env::var("REDIS_ADDRESS") {
            Ok(address) => {
                let address = address.parse().expect("an address");
                TestClient::new(address).call(&["FLUSHALL"]);
                (None, address)
            }
            Err(_) => {
                let server = TestServer::build();
                let address = server.address;
                (Some(server), address)
            }
        };
        let (cursor, feed_token, stored_number) = Default::default();
        let (clients, contexts) = (BTreeMap::new(), BTreeMap::new());
        Replay { server, address, clients, cursor, feed_token, stored_number, contexts }
    }
}

/// Returns the bytes of a text; `\u{80}` to `\u{ff}` stand for the bytes of the same value.
fn bytes_of(text: &str) -> Vec<u8> {
    text.chars().map(|character| character as u8).collect()
}

/// Returns the first bulk string in an answer: a cursor.
fn first_bulk(answer: &str) -> String {
    answer.split('|').nth(2).unwrap_or_default().to_string()
}

/// Returns the token in a page of a feed: the id of its last entry.
fn token_of(answer: &str) -> Option<String> {
    let (page, _) = answer.rsplit_once("|*2|$5|event|")?;
    page.rsplit('|').next().map(str::to_string)
}

/// Waits until a read of a feed is not refused because the feed is being built: the node begins
/// one soon after its bucket is told to have it.
fn wait_for_feed(client: &mut TestClient, read: &[u8]) {
    for _ in 0..1_000 {
        client.send(read);
        if !client.answer().is_some_and(|answer| answer.starts_with(b"-FEEDBUILDING")) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the feed is not ready");
}

fn mask_digits(text: &str) -> String {
    let mut masked = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' if masked.ends_with('#') => {}
            '0'..='9' => masked.push('#'),
            other => masked.push(other),
        }
    }
    masked
}

impl Runner for Replay {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Box<dyn Error>> {
        let address = self.address;
        let name = context.prefix.clone().unwrap_or_default();
        let mut arguments = command.consume_args();
        let mut replies = 1;
        let mut expects_close = false;
        let sent = if command.name == "raw" {
            replies = arguments.take_key("replies").map_or(Ok(1), str::parse)?;
            let mut text = arguments.next_pos().unwrap_or_default();
            if text == "closed" {
                expects_close = true;
                text = arguments.next_pos().unwrap_or_default();
            }
            bytes_of(text)
        } else {
            self.resolve_command(command)
        };
        let mut lines = format!("> {}\n", self.mask_variables(&show(&sent)));
        let client = self.clients.entry(name).or_insert_with(|| TestClient::new(address));
        if command.name.eq_ignore_ascii_case("credenza.feed") {
            wait_for_feed(client, &sent);
        }
        client.send(&sent);
        for _ in 0..replies {
            if expects_close {
                lines.push_str(&format!("< {}\n< (closed)\n", show(&client.read_to_end())));
                break;
            }
            let Some(answer) = client.answer() else {
                lines.push_str("< (closed)\n");
                break;
            };
            let returns_context = ["FETCH", "STORE", "REMOVE"]
                .iter()
                .any(|word| command.name.strip_prefix("CREDENZA.") == Some(*word));
            let received_context =
                context_of(&answer).filter(|_| returns_context).map(<[u8]>::to_vec);
            let mut answer = show(&answer);
            if let Some(received_context) = received_context {
                answer =
                    sort_values(&answer.replacen(&show_context(&received_context), "CONTEXT|", 1));
                for tag in CONTEXTS.into_iter().filter(|tag| context.tags.contains(*tag)) {
                    self.contexts.insert(tag, received_context.clone());
                }
            }
            if context.tags.contains("keep") {
                self.stored_number = answer.split('|').nth(1).unwrap_or_default().into();
            }
            if command.name.eq_ignore_ascii_case("scan") {
                let cursor = first_bulk(&answer);
                if cursor.len() > 1 {
                    answer = answer.replace(&cursor, "CURSOR");
                }
                self.cursor = cursor;
            }
            if command.name.eq_ignore_ascii_case("credenza.feed")
                && let Some(token) = token_of(&answer)
            {
                answer = answer.replace(&format!("${}|{token}|", token.len()), "TOKEN|");
                self.feed_token = token;
            }
            if context.tags.contains("numbers") {
                answer = mask_digits(&answer);
            }
            lines.push_str(&format!("< {answer}\n"));
        }
        Ok(lines)
    }
}

impl Replay {
    /// Returns the array of a command's words, its variables replaced.
    fn resolve_command(&self, command: &Command) -> Vec<u8> {
        let args = command.args.iter().map(|argument| match argument {
            Argument::KeyValue(key, value) => format!("{key}={value}"),
            Argument::Positional(word) if word == "$cursor" => self.cursor.clone(),
            Argument::Positional(word) if word == "$token" => self.feed_token.clone(),
            Argument::Positional(word) if word == "$kept" => self.stored_number.clone(),
            Argument::Positional(word) => word.clone(),
            other => other.to_string(),
        });
        let args = std::iter::once(command.name.clone()).chain(args);
        let args: Vec<Vec<u8>> = args.map(|word| self.resolve_arg(&word)).collect();
        super::frames::request(&args.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// Returns the bytes of an argument; `$seen` and `$older` are the contexts of that tag.
    fn resolve_arg(&self, word: &str) -> Vec<u8> {
        let context = word.strip_prefix('$').and_then(|tag| self.contexts.get(tag));
        context.cloned().unwrap_or_else(|| bytes_of(word))
    }

    /// Replaces a cursor, a stored number or a context in a line with its name.
    fn mask_variables(&self, line: &str) -> String {
        let mut line = line.to_string();
        for (tag, context) in &self.contexts {
            line = line.replace(&show_context(context), &format!("{}|", tag.to_uppercase()));
        }
        let variables =
            [(&self.cursor, "CURSOR"), (&self.feed_token, "TOKEN"), (&self.stored_number, "KEPT")];
        for (variable, name) in variables {
            if variable.len() > 1 {
                let shown = format!("${}|{variable}|", variable.len());
                line = line.replace(&shown, &format!("{name}|"));
            }
        }
        line
    }
}

#[test]
fn recorded_conversations_replay_identically() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/resp/conversations");
    let against_redis = std::env::var("REDIS_ADDRESS").is_ok();
    let mut replayed = 0;
    let files = std::fs::read_dir(folder).expect("the folder of conversations");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        if against_redis && !name.starts_with("redis_") {
            continue;
        }
        let mut replay = Replay::new();
        goldenscript::run(&mut replay, &path).expect(&name);
        drop(replay.server.take());
        replayed += 1;
    }
    assert!(replayed > 0);
}

/// Returns the names of all commands and subcommands that conversations use, in lower case.
fn recorded_commands() -> BTreeSet<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/resp/conversations");
    let files = std::fs::read_dir(folder).expect("the folder of conversations");
    let texts = files.map(|file| std::fs::read_to_string(file.expect("a file").path()));
    let text: String = texts.map(|text| text.expect("text")).collect();
    let mut commands = BTreeSet::new();
    // Requests are recorded as `> *2|$3|GET|$1|k|`.
    for line in text.lines().filter_map(|line| line.split_once("> *")) {
        let mut args = line.1.split('|').skip(2).step_by(2).map(str::to_lowercase);
        let name = args.next().unwrap_or_default();
        commands.insert(format!("{name}|{}", args.next().unwrap_or_default()));
        commands.insert(name);
    }
    commands
}

#[test]
fn every_command_appears_in_a_conversation() {
    let recorded = recorded_commands();
    let is_unrecorded = |name: &&str| !recorded.contains(*name);
    let missing: Vec<_> = table::all()
        .filter(|command| !command.is_hidden())
        .flat_map(|command| command.subcommands.iter().chain([command]))
        .map(|command| command.full_name)
        .filter(is_unrecorded)
        .collect();
    assert!(missing.is_empty(), "no conversation says {missing:?}");
}
