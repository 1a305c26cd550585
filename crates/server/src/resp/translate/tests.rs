//! Tests that the table and its documentation name the same commands.

use super::table::{self, Command};
use super::{RecentCommand, command_docs};
use crate::resp::errors;
use base::{Kind, Reason};
use std::collections::BTreeSet;

/// Returns the names of all commands that clients may use, including subcommands.
fn commands() -> Vec<&'static Command> {
    let shown = table::all().filter(|command| !command.is_hidden());
    shown.flat_map(|command| [command].into_iter().chain(command.subcommands)).collect()
}

#[test]
fn documented_commands_equal_served_commands() {
    let documented: BTreeSet<&str> = command_docs::documented().collect();
    let served: BTreeSet<&str> = commands().iter().map(|command| command.full_name).collect();
    assert_eq!(documented, served);
    for command in commands() {
        let docs = command.docs();
        let name = command.full_name;
        assert!(docs.summary.ends_with('.') && !docs.since.is_empty(), "{name}: {docs:?}");
        let takes_arguments = command.arity.unsigned_abs() as usize > name.split('|').count();
        let is_container = !command.subcommands.is_empty();
        assert!(
            is_container || !takes_arguments || !docs.syntax.is_empty(),
            "{name} takes words: which?"
        );
    }
}

#[test]
fn command_lookup_is_exact_and_case_insensitive() {
    let mut recent = RecentCommand::default();
    for command in commands() {
        let mut parts = command.full_name.split('|');
        let name = parts.next().unwrap_or_default();
        let upper = name.to_ascii_uppercase();
        let found = table::find(upper.as_bytes()).expect("it is in the table");
        assert_eq!(found.full_name, name);
        for word in [name, &upper, &upper, name] {
            let cached = recent.find(word.as_bytes());
            assert!(cached.is_some_and(|cached| std::ptr::eq(cached, found)), "{word}");
        }
        assert!(
            recent
                .find(command.full_name.as_bytes())
                .is_none_or(|entry| entry.full_name == command.full_name)
        );
        if let Some(child) = parts.next() {
            let child = child.to_ascii_uppercase();
            let subcommand = found.find_subcommand(child.as_bytes()).expect("it is under it");
            assert_eq!(subcommand.full_name, command.full_name);
        }
        for other in [format!("{name}x"), name[1..].to_string(), format!(" {name}")] {
            let found = table::find(other.as_bytes());
            assert!(found.is_none_or(|found| found.full_name == other), "{other}");
            let cached = recent.find(other.as_bytes());
            assert_eq!(
                cached.map(|entry| entry.full_name),
                found.map(|entry| entry.full_name),
                "{other}"
            );
        }
    }
    assert!(table::find(b"").is_none());
}

/// Returns the table of commands in `docs/use/resp.md`.
fn table_of_commands() -> String {
    let mut text = String::from("\n| command | since | what it does |\n|---|---|---|\n");
    // Some with subcommands do something without one, too.
    let is_called_alone =
        |command: &&Command| command.subcommands.is_empty() || command.arity == -1;
    for command in commands().into_iter().filter(is_called_alone) {
        let docs = command.docs();
        let name = command.full_name.replace('|', " ").to_ascii_uppercase();
        let syntax = docs.syntax.replace('|', "\\|");
        let shown = [name.as_str(), &syntax].join(" ");
        let (shown, since, does) = (shown.trim_end(), docs.since, docs.summary);
        text.push_str(&format!("| `{shown}` | {since} | {does} |\n"));
    }
    text
}

/// Returns the table of errors in `docs/use/resp.md`.
fn table_of_errors() -> String {
    let advice = |kind: Kind| match kind {
        Kind::Invalid => "mend the request",
        Kind::Denied => "bring other credentials",
        Kind::Conflict => "read again, decide again",
        Kind::Unavailable => "nothing happened: wait, then send it again",
        Kind::Unknown => "it may have happened: read before you send it again",
        Kind::Corrupt => "look after the node: its log says what is broken",
    };
    let mut text = String::from("\n| word | reason | what to do |\n|---|---|---|\n");
    for reason in Reason::ALL {
        let (code, word) = (errors::code(reason), reason.name());
        let advice = match reason {
            Reason::Quota => {
                "nothing happened: wait, then send it again; if it is of sessions, close one, or \
                 wait until one expires"
            }
            _ => advice(reason.kind()),
        };
        text.push_str(&format!("| `{code}` | {word} | {advice} |\n"));
    }
    text
}

#[test]
fn not_master_error_names_the_master_and_states_no_effect() {
    let error_text = |master: &str| errors::text(&base::Error::new(Reason::NotMaster, master));
    for (master, named) in [("None", false), ("n2", true)] {
        let text = error_text(master);
        assert!(text.starts_with("READONLY ") && text.contains("nothing happened"), "{text}");
        assert_eq!(text.contains(master), named, "{text}");
    }
}

#[test]
fn documented_tables_match_served_commands_and_errors() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/use/resp.md");
    let mut page = std::fs::read_to_string(path).expect("the page is there");
    let committed = page.clone();
    for (mark, table) in
        [("<!-- errors:", table_of_errors()), ("<!-- commands:", table_of_commands())]
    {
        let begin = page.find(mark).expect("a mark");
        let begin = begin + page[begin..].find("-->\n").expect("the end of the mark") + 4;
        let end = begin + page[begin..].find("<!-- end -->").expect("the end of the table");
        page.replace_range(begin..end, &(table + "\n"));
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).expect("the docs can be written");
        return;
    }
    assert!(
        committed == page,
        "docs/use/resp.md is stale: UPDATE_DOCS=1 cargo test -p server documented"
    );
}
