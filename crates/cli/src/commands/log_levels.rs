//! `credenza log-levels`: log levels of a running node.

use crate::output::{self, printable_text};
use api::SectionLevels;
use client::Address;
use program::{Failure, Outcome};

pub const EXAMPLES: &str = "\
Examples:
  credenza log-levels
  credenza log-levels node=debug http=warn
  credenza log-levels all=info

A change lasts until the node stops; the setting `log_level` is what it starts with.";

/// `credenza log-levels`.
#[derive(clap::Args)]
pub struct LogLevels {
    /// Sections and the levels they get: off, error, warn, info, debug or trace; `all` is every
    /// section [default: show the levels]
    #[arg(value_name = "SECTION=LEVEL")]
    changes: Vec<String>,
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long, global = true)]
    json: bool,
}

impl LogLevels {
    /// Prints the levels, after the change if there is one.
    pub async fn run(self) -> Outcome {
        let mut client = self.address.client()?;
        let levels = match self.changes.split_first() {
            None => client.log_levels().await?,
            // The verb `set`, which other tools use, is accepted before the changes.
            Some((verb, changes)) if verb == "set" => {
                client.set_log_levels(&parse_changes(changes)?).await?
            }
            Some(_) => client.set_log_levels(&parse_changes(&self.changes)?).await?,
        };
        if self.json {
            return output::json(&levels);
        }
        let rows =
            levels.texts().map(|(section, level)| vec![section.into(), printable_text(level)]);
        output::table(&["section", "level"], rows.collect())
    }
}

fn parse_changes(changes: &[String]) -> Outcome<SectionLevels> {
    let expected = "expected SECTION=LEVEL, such as node=debug (`credenza log-levels` lists them)";
    if changes.is_empty() {
        return Err(Failure::invalid(expected));
    }
    let level = |change: &String| {
        let (section, level) = change
            .split_once('=')
            .ok_or_else(|| Failure::invalid(format!("`{change}`: {expected}")))?;
        Ok((section.into(), level.into()))
    };
    changes.iter().map(level).collect()
}
