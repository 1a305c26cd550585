//! Replays recorded conversations: bytes that clients send, and the answers they get.
//!
//! A line is a command, sent as an array of bulk strings. `raw "..."` sends bytes as they are, `raw
//! replies=2 "..."` waits for two answers, `raw closed "..."` for the end of the connection. A
//! prefix names the connection (`b: GET k`). `[numbers]` shows digits as `#`. `$cursor` is the
//! cursor in the last answer to `SCAN`, `$kept` the last answer tagged `[keep]`, `$seen` the
//! context in the last answer tagged `[seen]`, `$older` that in the last tagged `[older]`. Contexts
//! are not shown, and the values behind one are sorted.
//!
//! With `REDIS_ADDRESS` set, the files `redis_*.txt` are replayed against that Redis instead.

use super::test_client::{Guest, TestServer, shown};
use crate::resp::translate::table;
use goldenscript::{Argument, Command, Context, Runner};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::SocketAddr;

struct Player {
    server: Option<TestServer>,
    address: SocketAddr,
    guests: BTreeMap<String, Guest>,
    cursor: String,
    kept: String,
    /// Contexts by their tag.
    contexts: BTreeMap<&'static str, Vec<u8>>,
}

/// Tags under which a context is kept for later lines.
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
fn sorted(answer: &str) -> String {
    let Some((head, values)) = answer.split_once("|*") else { return answer.into() };
    let (count, values) = values.split_once('|').unwrap_or((values, ""));
    let mut lines = values.split_inclusive('|');
    let mut all = Vec::new();
    while let Some(line) = lines.next() {
        let behind = if line.starts_with("$-1") || line == "_|" { None } else { lines.next() };
        all.push(format!("{line}{}", behind.unwrap_or_default()));
    }
    all.sort();
    format!("{head}|*{count}|{}", all.concat())
}

/// Formats a context as a line shows it.
fn shown_context(context: &[u8]) -> String {
    let length = context.len().to_string();
    shown(&[b"$", length.as_bytes(), b"\r\n", context, b"\r\n"].concat())
}

impl Player {
    fn new() -> Player {
        let (server, address) = match std::env::var("REDIS_ADDRESS") {
            Ok(address) => {
                let address = address.parse().expect("an address");
                Guest::new(address).ask(&["FLUSHALL"]);
                (None, address)
            }
            Err(_) => {
                let server = TestServer::build();
                let address = server.address;
                (Some(server), address)
            }
        };
        let (cursor, kept) = (String::new(), String::new());
        let (guests, contexts) = (BTreeMap::new(), BTreeMap::new());
        Player { server, address, guests, cursor, kept, contexts }
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

fn masked(text: &str) -> String {
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

impl Runner for Player {
    type Command = Command;

    fn run(&mut self, command: &Command, context: &Context) -> Result<String, Box<dyn Error>> {
        let address = self.address;
        let name = context.prefix.clone().unwrap_or_default();
        let mut arguments = command.consume_args();
        let mut replies = 1;
        let mut ends = false;
        let sent = if command.name == "raw" {
            replies = arguments.take_key("replies").map_or(Ok(1), str::parse)?;
            let mut text = arguments.next_pos().unwrap_or_default();
            if text == "closed" {
                ends = true;
                text = arguments.next_pos().unwrap_or_default();
            }
            bytes_of(text)
        } else {
            let words = command.args.iter().map(|argument| match argument {
                Argument::KeyValue(key, value) => format!("{key}={value}"),
                Argument::Positional(word) if word == "$cursor" => self.cursor.clone(),
                Argument::Positional(word) if word == "$kept" => self.kept.clone(),
                Argument::Positional(word) => word.clone(),
                other => other.to_string(),
            });
            let words = std::iter::once(command.name.clone()).chain(words);
            let words: Vec<Vec<u8>> = words.map(|word| self.bytes_said(&word)).collect();
            super::frames::request(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        let mut lines = format!("> {}\n", self.without_chance(&shown(&sent)));
        let guest = self.guests.entry(name).or_insert_with(|| Guest::new(address));
        guest.send(&sent);
        for _ in 0..replies {
            if ends {
                lines.push_str(&format!("< {}\n< (closed)\n", shown(&guest.rest())));
                break;
            }
            let Some(answer) = guest.answer() else {
                lines.push_str("< (closed)\n");
                break;
            };
            let gives_context = ["FETCH", "STORE", "REMOVE"]
                .iter()
                .any(|word| command.name.strip_prefix("CREDENZA.") == Some(*word));
            let given = context_of(&answer).filter(|_| gives_context).map(<[u8]>::to_vec);
            let mut answer = shown(&answer);
            if let Some(given) = given {
                answer = sorted(&answer.replacen(&shown_context(&given), "CONTEXT|", 1));
                for tag in CONTEXTS.into_iter().filter(|tag| context.tags.contains(*tag)) {
                    self.contexts.insert(tag, given.clone());
                }
            }
            if context.tags.contains("keep") {
                self.kept = answer.split('|').nth(1).unwrap_or_default().into();
            }
            if command.name.eq_ignore_ascii_case("scan") {
                let cursor = first_bulk(&answer);
                if cursor.len() > 1 {
                    answer = answer.replace(&cursor, "CURSOR");
                }
                self.cursor = cursor;
            }
            if context.tags.contains("numbers") {
                answer = masked(&answer);
            }
            lines.push_str(&format!("< {answer}\n"));
        }
        Ok(lines)
    }
}

impl Player {
    /// Returns the bytes of a word; `$seen` and `$older` are the contexts of that tag.
    fn bytes_said(&self, word: &str) -> Vec<u8> {
        let context = word.strip_prefix('$').and_then(|tag| self.contexts.get(tag));
        context.cloned().unwrap_or_else(|| bytes_of(word))
    }

    /// Replaces a cursor, a kept number or a context in a line with its name.
    fn without_chance(&self, line: &str) -> String {
        let mut line = line.to_string();
        for (tag, context) in &self.contexts {
            line = line.replace(&shown_context(context), &format!("{}|", tag.to_uppercase()));
        }
        for (chance, name) in [(&self.cursor, "CURSOR"), (&self.kept, "KEPT")] {
            if chance.len() > 1 {
                line = line.replace(&format!("${}|{chance}|", chance.len()), &format!("{name}|"));
            }
        }
        line
    }
}

#[test]
fn conversations_are_played_as_they_were_recorded() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/resp/conversations");
    let only_redis = std::env::var("REDIS_ADDRESS").is_ok();
    let mut played = 0;
    let files = std::fs::read_dir(folder).expect("the folder of conversations");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        if only_redis && !name.starts_with("redis_") {
            continue;
        }
        let mut player = Player::new();
        goldenscript::run(&mut player, &path).expect(&name);
        drop(player.server.take());
        played += 1;
    }
    assert!(played > 0);
}

/// Returns the names of all commands and subcommands that conversations use, in lower case.
fn said() -> BTreeSet<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/resp/conversations");
    let files = std::fs::read_dir(folder).expect("the folder of conversations");
    let texts = files.map(|file| std::fs::read_to_string(file.expect("a file").path()));
    let text: String = texts.map(|text| text.expect("text")).collect();
    let mut said = BTreeSet::new();
    // Requests are recorded as `> *2|$3|GET|$1|k|`.
    for line in text.lines().filter_map(|line| line.split_once("> *")) {
        let mut words = line.1.split('|').skip(2).step_by(2).map(str::to_lowercase);
        let name = words.next().unwrap_or_default();
        said.insert(format!("{name}|{}", words.next().unwrap_or_default()));
        said.insert(name);
    }
    said
}

#[test]
fn every_command_stands_in_a_conversation() {
    let said = said();
    let unsaid = |name: &&str| !said.contains(*name);
    let missing: Vec<_> = table::all()
        .filter(|command| !command.is_hidden())
        .flat_map(|command| command.under.iter().chain([command]))
        .map(|command| command.full_name)
        .filter(unsaid)
        .collect();
    assert!(missing.is_empty(), "no conversation says {missing:?}");
}
