//! `credenza generate`: manual pages and completions for shells, made of the command line itself.

use crate::output;
use clap_complete::Shell;
use program::{Failure, Outcome};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

pub const EXAMPLES: &str = "\
Examples:
  credenza generate /tmp/pages                     man/*.1 and completions/* in that folder
  man /tmp/pages/man/credenza-serve.1
  . /tmp/pages/completions/credenza.bash           completions in this shell";

/// Shells with completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// `credenza generate`.
#[derive(clap::Args)]
pub struct Generate {
    /// Folder for the files; made if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Generate {
    /// Writes the files of a command line.
    pub fn run(self, command: clap::Command) -> Outcome {
        let (man, completions) = (self.folder.join("man"), self.folder.join("completions"));
        for folder in [&man, &completions] {
            let made = fs::create_dir_all(folder);
            made.map_err(|error| Failure::file("make", folder, &error))?;
        }
        write_files(command, &man, &completions)
            .map_err(|error| Failure::file("write into", &self.folder, &error))?;
        match self.json {
            true => output::json(&json!({ "man": man, "completions": completions })),
            false => output::text(&format!("{}\n{}\n", man.display(), completions.display())),
        }
    }
}

fn write_files(command: clap::Command, man: &Path, completions: &Path) -> std::io::Result<()> {
    clap_mangen::generate_to(command.clone(), man)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut command.clone(), "credenza", completions)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;
    use crate::examples::add_examples;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_a_manual_page_with_its_examples() {
        let folder = std::env::temp_dir().join(format!("credenza-pages-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        let command = add_examples(CommandLine::command());
        write_files(command.clone(), &folder, &folder).expect("written");
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let page = read(&format!("credenza-{}.1", sub.get_name()));
            assert!(page.contains("Examples:"), "{}", sub.get_name());
        }
        assert!(
            read("credenza-cluster-upgrade.1").contains("auto"),
            "commands within commands, too"
        );
        for file in ["credenza.bash", "_credenza", "credenza.fish"] {
            assert!(read(file).contains("upgrade"), "{file}");
        }
        fs::remove_dir_all(folder).expect("written above");
    }
}
