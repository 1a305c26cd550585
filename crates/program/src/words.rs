//! Errors of command lines that can't be parsed: clap's message as one line, with its suggestion
//! and the `--help` to consult.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Returns true if the command line asks for JSON, even if not all of it can be parsed.
pub fn asks_for_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// Returns true if clap's answer is a help page or the version, not an error.
pub fn is_help(error: &clap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// Returns advice for a word that the command accepted in the past. `None`: it never did.
pub type FormerWords = fn(&clap::Error, &clap::Command) -> Option<String>;

/// Returns the error of this command line as one line.
pub fn complaint(
    error: &clap::Error,
    words: &[OsString],
    command: clap::Command,
    former: FormerWords,
) -> String {
    let mut root = command.clone();
    root.build();
    let mut meant = named(words, command);
    let name = meant.get_bin_name().unwrap_or(meant.get_name()).to_string();
    if let Some(complaint) = former(error, &meant) {
        return format!("{complaint} (see `{name} --help`)");
    }
    let complaint = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "what is to be done is missing".into()
        }
        _ => one_line(&error.render().to_string()),
    };
    if error.kind() == ErrorKind::MissingRequiredArgument {
        let usage = meant.render_usage().to_string();
        let usage: Vec<_> = usage.split_whitespace().skip(1).collect();
        return format!("{complaint}; usage: {}", usage.join(" "));
    }
    let elsewhere = match error.kind() {
        ErrorKind::InvalidSubcommand => elsewhere(error, &root),
        _ => Vec::new(),
    };
    let there = match elsewhere.is_empty() {
        true => String::new(),
        false => format!("; there is `{}`", elsewhere.join("`, `")),
    };
    format!("{complaint}{there} (see `{name} --help`)")
}

/// Returns the commands of this name under other parents: `leave` belongs to `credenza cluster
/// ring`.
fn elsewhere(error: &clap::Error, root: &clap::Command) -> Vec<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(command) = open.pop() {
        for inner in command.get_subcommands().filter(|it| it.get_name() != "help") {
            let is_it = inner.get_name() == word || inner.get_all_aliases().any(|it| it == word);
            found.extend(is_it.then(|| inner.get_bin_name().unwrap_or_default().to_string()));
            open.push(inner);
        }
    }
    found.sort();
    found
}

/// Returns the command that the words lead to, as far as they name one.
fn named(words: &[OsString], mut command: clap::Command) -> clap::Command {
    command.build();
    for word in words.iter().skip(1) {
        if let Some(inner) = command.find_subcommand(word) {
            command = inner.clone();
        }
    }
    command
}

/// Joins the lines before the usage into one: a list follows the line that ends with a colon,
/// suggestions follow after semicolons.
fn one_line(complaint: &str) -> String {
    let mut text = String::new();
    let mut lists = false;
    for line in complaint.lines() {
        let (indented, line) = (line.starts_with("  "), line.trim());
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        let suggestion = line.strip_prefix("tip: ");
        let line = suggestion.or(line.strip_prefix("error: ")).unwrap_or(line);
        let line = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let item = indented && suggestion.is_none();
        text.push_str(match (text.is_empty(), item && text.ends_with(':'), item && lists) {
            (true, ..) => "",
            (_, true, _) => " ",
            (_, _, true) => ", ",
            _ => "; ",
        });
        lists = item && (lists || text.ends_with(": "));
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_missing_arguments_and_possible_values_are_lists() {
        let rendered = "error: the following required arguments were not provided:\n  <KEY>\n  \
                        <VALUE>\n\nUsage: credenza put <KEY> <VALUE>\n\nFor more information, try \
                        '--help'.\n";
        let said = "the following required arguments were not provided: <KEY>, <VALUE>";
        assert_eq!(one_line(rendered), said);
        let rendered = "error: invalid value 'x' for '--format <F>'\n  [possible values: tsv, \
                        raw]\n\n  tip: a similar value exists: 'tsv'\n\nFor more information, \
                        try '--help'.";
        let said = "invalid value 'x' for '--format <F>'; possible values: tsv, raw; a similar \
                    value exists: 'tsv'";
        assert_eq!(one_line(rendered), said);
    }

    #[test]
    fn json_is_asked_for_before_the_double_dash() {
        let asks =
            |line: &str| asks_for_json(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asks("credenza nothing --json") && asks("credenza --json put"));
        assert!(!asks("credenza put k -- --json") && !asks("credenza put json"));
    }
}
