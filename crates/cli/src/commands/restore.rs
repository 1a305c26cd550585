//! `credenza restore`: makes a data directory from a checkpoint.

use super::verify::check_damage;
use crate::offline;
use crate::output;
use program::units::show_size;
use program::{Failure, Outcome};
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  credenza restore data/checkpoints/monday --data /srv/credenza

The checkpoint is verified, copied, synced, and the copy is verified again. The copy is the same
node of the same cluster: of the two, only one may serve.";

/// `credenza restore`.
#[derive(clap::Args)]
pub struct Restore {
    /// The checkpoint, or another data directory that no node has open
    from: PathBuf,
    /// The new data directory, which must not exist or be empty
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

impl Restore {
    /// Copies the checkpoint.
    pub fn run(self) -> Outcome {
        let from = offline::open(&self.from)?;
        offline::check_empty(&self.data)?;
        check_damage(&offline::verify(&from)?)?;
        let bytes = offline::copy(&from, &self.data)?;
        let copy = offline::open(&self.data)?;
        let report = offline::verify(&copy)?;
        check_damage(&report)?;
        let (rows, target) = (report.trees.rows, self.data.display());
        output::text(&format!(
            "{} copied and verified: {target} ({rows} rows)\n",
            show_size(bytes)
        ))?;
        let is_same_node = report.damage.is_empty() && copy.node == from.node;
        if is_same_node { Ok(()) } else { Err(Failure::invalid("the copy is of another node")) }
    }
}
