//! `credenza log-levels`: how much a running node logs.

use crate::client::{Address, Call, Client};
use crate::failure::{Failure, Outcome};
use crate::output;
use hyper::Method;
use serde_json::{Map, Value};

pub const EXAMPLES: &str = "\
Examples:
  credenza log-levels
  credenza log-levels set node=debug http=warn
  credenza log-levels set all=info

A change lasts until the node stops; the setting `log_level` is what it starts with.";

/// `credenza log-levels`.
#[derive(clap::Args)]
pub struct LogLevels {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Change levels: off, error, warn, info, debug, trace
    Set {
        /// Sections and their levels; `all` is every section
        #[arg(required = true, value_name = "SECTION=LEVEL")]
        levels: Vec<String>,
    },
}

impl LogLevels {
    /// Shows them, after the change if there is one.
    pub async fn run(self) -> Outcome {
        const PATH: &str = "/v1/admin/log-levels";
        let call = match &self.action {
            None => Call::new(Method::GET, PATH),
            Some(Action::Set { levels }) => Call::json(Method::PUT, PATH, body(levels)?),
        };
        let levels = Client::new(&self.address)?.call(call).await?.json()?;
        if self.json {
            return output::json(&levels);
        }
        let rows = levels.as_object().into_iter().flatten();
        let rows = rows.map(|(section, level)| vec![section.clone(), super::bucket::plain(level)]);
        output::table(&["section", "level"], rows.collect())
    }
}

fn body(levels: &[String]) -> Outcome<String> {
    let mut changes = Map::new();
    for level in levels {
        let (section, word) = level
            .split_once('=')
            .ok_or_else(|| Failure::invalid(format!("`{level}`: SECTION=LEVEL is wanted")))?;
        changes.insert(section.into(), word.into());
    }
    Ok(Value::Object(changes).to_string())
}
