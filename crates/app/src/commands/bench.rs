//! `credenza bench`: the load tool.

use crate::failure::{Failure, Outcome};

/// `credenza bench`.
#[derive(clap::Args)]
pub struct Bench {
    #[command(flatten)]
    arguments: bench::BenchArguments,
}

impl Bench {
    /// Runs a load to its end.
    pub fn run(self, json: bool) -> Outcome {
        bench::run(self.arguments, json).map_err(|wrong| Failure::new(wrong.kind, wrong.text))
    }
}
