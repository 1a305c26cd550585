//! The table and its documentation name the same commands.

use super::table::{self, Command};
use std::collections::BTreeSet;

/// Every command that clients may know of, those under others too.
fn commands() -> Vec<&'static Command> {
    let shown = table::all().filter(|command| !command.is_hidden());
    shown.flat_map(|command| [command].into_iter().chain(command.under)).collect()
}

#[test]
fn every_command_is_documented_and_nothing_else_is() {
    let documented: BTreeSet<&str> = table::documented().collect();
    let served: BTreeSet<&str> = commands().iter().map(|command| command.full_name).collect();
    assert_eq!(documented, served);
    for command in commands() {
        let docs = command.docs();
        let name = command.full_name;
        assert!(docs.summary.ends_with('.') && !docs.since.is_empty(), "{name}: {docs:?}");
        let takes_more = command.arity.unsigned_abs() as usize > name.split('|').count();
        let is_tree = !command.under.is_empty();
        assert!(is_tree || !takes_more || !docs.syntax.is_empty(), "{name} takes words: which?");
    }
}

#[test]
fn every_command_is_found_in_any_case_and_no_other() {
    for command in commands() {
        let mut parts = command.full_name.split('|');
        let name = parts.next().unwrap_or_default();
        let upper = name.to_ascii_uppercase();
        let found = table::find(upper.as_bytes()).expect("it is in the table");
        assert_eq!(found.full_name, name);
        if let Some(child) = parts.next() {
            let child = child.to_ascii_uppercase();
            let under = found.under(child.as_bytes()).expect("it is under it");
            assert_eq!(under.full_name, command.full_name);
        }
        for other in [format!("{name}x"), name[1..].to_string(), format!(" {name}")] {
            let found = table::find(other.as_bytes());
            assert!(found.is_none_or(|found| found.full_name == other), "{other}");
        }
    }
    assert!(table::find(b"").is_none());
}
