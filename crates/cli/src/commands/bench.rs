//! `credenza bench`: starts the load tool, a separate program, so that the server is shipped
//! without charts and drivers of other servers.

use base::Kind;
use program::{Failure, Outcome};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Name of the program that replaces this process.
const PROGRAM: &str = "credenza-bench";

pub const EXAMPLES: &str = "\
Examples:
  credenza bench quick                             load the node at CREDENZA_URL for 5 seconds
  credenza bench --help                            all that the load tool does";

/// `credenza bench`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Bench {
    /// Command and options of the load tool (see `credenza bench --help`)
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORDS")]
    words: Vec<OsString>,
}

impl Bench {
    /// Replaces this process by the load tool.
    pub fn run(self, json: bool) -> Outcome {
        let mut command = Command::new(program::sibling_program(PROGRAM));
        command.args(&self.words);
        if json && !self.words.iter().any(|word| word == "--json") {
            command.arg("--json");
        }
        let error = command.exec();
        let remedy = "the load tool is a program of its own: put it beside `credenza` or into a \
                      directory of PATH (`make install` does)";
        Err(Failure::new(Kind::Invalid, format!("can't start `{PROGRAM}`: {error}; {remedy}")))
    }
}
