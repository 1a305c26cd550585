//! Examples in the help of every command. A command without its own shows those lines of its
//! parent's examples that begin with its words.

use clap::Command;

/// Examples of commands whose parent has none for them.
const ADDITIONAL: &str = "\
Examples:
  credenza cluster init --data n1                  a data directory, and with it a new cluster
  credenza cluster add n4 --group 2                a copy of group 2 without a vote
  credenza cluster promote n4 --wait               a vote in every group
  credenza cluster demote n4                       the votes are taken, the copies stay
  credenza cluster trust-log --data n1
  credenza cluster ring replace n3 n4              n4 is to keep what n3 keeps
  credenza cluster ring rack n4 east               n4 stands in the rack `east`
  credenza cluster ring init                       every member keeps an even part
  credenza cluster ring resize 128                 128 partitions, where there are 64 or 256
  credenza cluster ring plan                       what the changes that are planned would do
  credenza cluster ring cancel                     the change under way is called off
  credenza cluster ring leave n4                   n4 is to keep no part of the ring any more
  credenza cluster ring down n3
  credenza cluster ring clear                      the changes that are planned are given up
  credenza cluster ring transfers                  how far the change under way is
  credenza access status                           whether requests need rights, and who there is
  credenza access on                               requests need rights again
  credenza access off --confirm off                requests need no rights
  credenza user set ada --role writer              the roles of a user, in place of the former
  credenza user password ada < password
  credenza user disable ada                        every login of the user ends
  credenza user enable ada
  credenza user list
  credenza user quota ada                          the quota of a user, and its use at this node
  credenza user quota ada --none                   without a quota
  credenza role remove web --confirm web
  credenza role list
";

/// Adds examples to all subcommands.
pub fn add_examples(command: Command) -> Command {
    let path = command.get_name().to_string();
    command.mut_subcommands(|sub| with_examples(sub, &path, ADDITIONAL))
}

fn with_examples(command: Command, around: &str, theirs: &str) -> Command {
    let path = format!("{around} {}", command.get_name());
    let own = command.get_after_help().map(|text| text.to_string()).unwrap_or_default();
    let found = examples_of(theirs, &path);
    let (text, command) = if own.contains("Examples:") || found.is_empty() {
        (own, command)
    } else {
        let text = format!("Examples:\n{found}{}{own}", if own.is_empty() { "" } else { "\n" });
        (text.clone(), command.after_help(text.trim_end().to_string()))
    };
    // The parent may have examples for the subcommands of a command without any.
    let examples = format!("{text}\n{theirs}");
    command.mut_subcommands(|sub| with_examples(sub, &path, &examples))
}

/// Returns the example lines that begin with a command's words, with their continuation lines.
fn examples_of(examples: &str, path: &str) -> String {
    let mut found = String::new();
    let mut is_included = false;
    for line in examples.lines() {
        let is_continuation = line.starts_with("    ");
        is_included = match line.strip_prefix("  ").filter(|_| !is_continuation) {
            Some(command_line) => command_line
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
            None => is_included && is_continuation,
        };
        if is_included && !found.lines().any(|known| known == line) {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;
    use clap::CommandFactory;

    #[test]
    fn examples_of_a_command_are_extracted_from_surrounding_help() {
        let around = "Examples:\n  credenza a b one\n  credenza a bc\n  credenza a b two \\\n    \
                      more\n  credenza a c\n\nWords: a b";
        let lines = examples_of(around, "credenza a b");
        assert_eq!(lines, "  credenza a b one\n  credenza a b two \\\n    more\n");
        assert_eq!(examples_of(around, "credenza x"), "");
    }

    fn collect_missing(command: &Command, path: &str, missing: &mut Vec<String>) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let path = format!("{path} {}", sub.get_name());
            let help = sub.get_after_help().map(|text| text.to_string()).unwrap_or_default();
            if !help.contains("Examples:") {
                missing.push(path.clone());
            }
            collect_missing(sub, &path, missing);
        }
    }

    #[test]
    fn every_command_shows_an_example() {
        let command = add_examples(CommandLine::command());
        let mut missing = Vec::new();
        collect_missing(&command, "credenza", &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }
}
