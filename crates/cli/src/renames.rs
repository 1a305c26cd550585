//! Former commands and flags of the command line, each with its replacement.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use settings::current_name;

/// Former commands and flags: the parent command, the former name, and the replacement.
const RENAMES: [(&str, &str, &str); 6] = [
    ("credenza", "check", "credenza verify"),
    ("credenza cluster", "transfer", "credenza cluster move-master"),
    ("credenza cluster ring", "--give-out", "credenza cluster ring init"),
    ("credenza cluster ring", "double", "credenza cluster ring resize"),
    ("credenza cluster ring", "halve", "credenza cluster ring resize"),
    ("credenza group", "place", "credenza group members"),
];

/// Returns the complaint about a former word of this command. `None`: the command never had the
/// word.
pub fn rename_hint(error: &clap::Error, command: &clap::Command) -> Option<String> {
    let word = match error.kind() {
        ErrorKind::InvalidSubcommand => error.get(ContextKind::InvalidSubcommand),
        ErrorKind::UnknownArgument => error.get(ContextKind::InvalidArg),
        _ => None,
    };
    let Some(ContextValue::String(word)) = word else { return None };
    let path = command.get_bin_name().unwrap_or("credenza");
    let is_match = |(around, former, _): &&(&str, &str, &str)| *around == path && former == word;
    if let Some((around, former, current)) = RENAMES.iter().find(is_match) {
        return Some(format!("`{around} {former}` is now called `{current}`"));
    }
    let current = current_name(&word.strip_prefix("--")?.replace('-', "_"))?.replace('_', "-");
    let is_flag = command.get_arguments().any(|argument| argument.get_long() == Some(&current));
    is_flag.then(|| format!("the flag {word} is now called --{current}"))
}
