//! `credenza checkpoint`: copies a running node's data, lists such copies and removes them.

use crate::output::{self, printable_text};
use client::Address;
use program::units::show_size;
use program::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;

pub const EXAMPLES: &str = "\
Examples:
  credenza checkpoint monday                       into DATA/checkpoints/monday
  credenza checkpoint list                         those that are there
  credenza checkpoint remove monday
  credenza checkpoint create list                  one whose name is a command
  credenza restore data/checkpoints/monday --data /srv/copy

The copy shares the disk blocks of tables that did not change (hard links), so it is quick and
small at first. It is no backup before it is on another disk; `credenza verify` reads it there. As
long as it stands in DATA/checkpoints, the space of tables that it shares does not come back.";

/// `credenza checkpoint`.
#[derive(clap::Args)]
#[command(subcommand_negates_reqs = true)]
pub struct Checkpoint {
    /// The copy's name: a folder of `checkpoints` in the node's data directory
    #[arg(required = true)]
    name: Option<String>,
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

/// Actions on checkpoints other than the creation by name.
#[derive(clap::Subcommand)]
enum Action {
    /// Show the checkpoints of the node
    #[command(visible_alias = "ls")]
    List,
    /// Remove a checkpoint of the node
    #[command(visible_alias = "rm")]
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        checkpoint: String,
    },
    /// Make a checkpoint, whatever its name is (`list`, say)
    Create {
        /// Its name
        #[arg(value_name = "NAME")]
        checkpoint: String,
    },
}

impl Checkpoint {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        match (self.name, self.action) {
            (None, Some(Action::List)) => list(&self.address, self.json).await,
            (None, Some(Action::Remove { checkpoint })) => {
                self.address.client()?.remove_checkpoint(&checkpoint).await?;
                if self.json { output::json(&json!({ "removed": checkpoint })) } else { Ok(()) }
            }
            (None, Some(Action::Create { checkpoint: name })) | (Some(name), None) => {
                create(&self.address, &name, self.json).await
            }
            (Some(_), Some(_)) | (None, None) => {
                let text = "name a checkpoint that is to be made, or say `list` or `remove NAME`";
                Err(Failure::invalid(text))
            }
        }
    }
}

/// Makes a checkpoint and prints its path.
async fn create(address: &Address, name: &str, as_json: bool) -> Outcome {
    let checkpoint = address.client()?.make_checkpoint(name).await?;
    if as_json {
        return output::json(&checkpoint);
    }
    output::text(&format!("{}\n", printable_text(&checkpoint.target)))
}

/// Prints the checkpoints of the node.
async fn list(address: &Address, as_json: bool) -> Outcome {
    let checkpoints = address.client()?.checkpoints().await?.checkpoints;
    if as_json {
        return output::json(&checkpoints);
    }
    let rows = checkpoints.iter().map(|checkpoint| {
        vec![
            printable_text(&checkpoint.name),
            logging::time(Duration::from_millis(checkpoint.created_ms)),
            show_size(checkpoint.bytes),
            if checkpoint.complete { "whole" } else { "unfinished" }.into(),
        ]
    });
    output::table(&["checkpoint", "made", "size", "state"], rows.collect())
}
