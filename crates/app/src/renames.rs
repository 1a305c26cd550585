//! Former flags of the command line, each with the one that does the same now.

use crate::settings::current_name;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Complaint about a former flag of this command; none: it is no flag that the command ever had.
pub fn complaint(error: &clap::Error, command: &clap::Command) -> Option<String> {
    let word = match error.kind() {
        ErrorKind::UnknownArgument => error.get(ContextKind::InvalidArg),
        _ => None,
    };
    let Some(ContextValue::String(word)) = word else { return None };
    let current = current_name(&word.strip_prefix("--")?.replace('-', "_"))?.replace('_', "-");
    let takes_it = command.get_arguments().any(|it| it.get_long() == Some(&current));
    takes_it.then(|| format!("the flag {word} is now called --{current}"))
}
