//! Errors of command lines that can't be parsed: clap's message as one line, with its suggestion
//! and the `--help` to consult.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Returns true if the command line has the flag `--json`, even if not all of it can be parsed.
pub fn has_json_flag(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json")
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

/// Returns advice for an argument that the command accepted in the past. `None`: it never did.
pub type RemovedArgumentHint = fn(&clap::Error, &clap::Command) -> Option<String>;

/// Returns the error of this command line as one line.
pub fn format_usage_error(
    error: &clap::Error,
    args: &[OsString],
    command: clap::Command,
    removed_hint: RemovedArgumentHint,
) -> String {
    let mut root = command.clone();
    root.build();
    let mut target = resolve_command(args, command);
    let name = target.get_bin_name().unwrap_or(target.get_name()).to_string();
    if let Some(message) = removed_hint(error, &target) {
        return format!("{message} (see `{name} --help`)");
    }
    let message = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            "what is to be done is missing".into()
        }
        _ => one_line(&error.render().to_string()),
    };
    if error.kind() == ErrorKind::MissingRequiredArgument {
        let usage = target.render_usage().to_string();
        let usage: Vec<_> = usage.split_whitespace().skip(1).collect();
        return format!("{message}; usage: {}", usage.join(" "));
    }
    let alternatives = match error.kind() {
        ErrorKind::InvalidSubcommand => find_alternatives(error, &root),
        _ => Vec::new(),
    };
    let suggestion = match alternatives.is_empty() {
        true => String::new(),
        false => format!("; there is `{}`", alternatives.join("`, `")),
    };
    format!("{message}{suggestion} (see `{name} --help`)")
}

/// Returns the commands of this name under other parents: `leave` belongs to `credenza cluster
/// ring`.
fn find_alternatives(error: &clap::Error, root: &clap::Command) -> Vec<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut pending = vec![root];
    while let Some(command) = pending.pop() {
        for subcommand in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let has_name = subcommand.get_name() == name
                || subcommand.get_all_aliases().any(|alias| alias == name);
            found.extend(
                has_name.then(|| subcommand.get_bin_name().unwrap_or_default().to_string()),
            );
            pending.push(subcommand);
        }
    }
    found.sort();
    found
}

/// Returns the innermost command that these arguments name.
fn resolve_command(args: &[OsString], mut command: clap::Command) -> clap::Command {
    command.build();
    for name in args.iter().skip(1) {
        if let Some(subcommand) = command.find_subcommand(name) {
            command = subcommand.clone();
        }
    }
    command
}

/// Joins the lines before the usage into one: list items follow the line that ends with a colon;
/// suggestions follow after semicolons.
fn one_line(rendered: &str) -> String {
    let mut text = String::new();
    let mut in_list = false;
    for line in rendered.lines() {
        let (indented, line) = (line.starts_with("  "), line.trim());
        if line.starts_with("Usage:") || line.starts_with("For more information") {
            break;
        }
        let suggestion = line.strip_prefix("tip: ");
        let line = suggestion.or(line.strip_prefix("error: ")).unwrap_or(line);
        let line = line.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let item = indented && suggestion.is_none();
        text.push_str(match (text.is_empty(), item && text.ends_with(':'), item && in_list) {
            (true, ..) => "",
            (_, true, _) => " ",
            (_, _, true) => ", ",
            _ => "; ",
        });
        in_list = item && (in_list || text.ends_with(": "));
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_error_lists_are_joined_on_a_single_line() {
        let rendered = "error: the following required arguments were not provided:\n  <KEY>\n  \
                        <VALUE>\n\nUsage: credenza put <KEY> <VALUE>\n\nFor more information, try \
                        '--help'.\n";
        let expected = "the following required arguments were not provided: <KEY>, <VALUE>";
        assert_eq!(one_line(rendered), expected);
        let rendered = "error: invalid value 'x' for '--format <F>'\n  [possible values: tsv, \
                        raw]\n\n  tip: a similar value exists: 'tsv'\n\nFor more information, \
                        try '--help'.";
        let expected = "invalid value 'x' for '--format <F>'; possible values: tsv, raw; a similar \
                    value exists: 'tsv'";
        assert_eq!(one_line(rendered), expected);
    }

    #[test]
    fn json_flag_counts_only_before_the_double_dash() {
        let has_flag =
            |line: &str| has_json_flag(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(has_flag("credenza nothing --json") && has_flag("credenza --json put"));
        assert!(!has_flag("credenza put k -- --json") && !has_flag("credenza put json"));
    }
}
