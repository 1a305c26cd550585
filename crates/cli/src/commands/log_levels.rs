//! `credenza log-levels`: log levels of a running node.

use crate::client::{Address, Client, HttpCall};
use crate::output;
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::{Map, Value};

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
        const PATH: &str = "/v1/admin/log-levels";
        let call = match self.changes.split_first() {
            None => HttpCall::new(Method::GET, PATH),
            // The optional verb, which other tools have before a change.
            Some((verb, changes)) if verb == "set" => {
                HttpCall::json(Method::PUT, PATH, body(changes)?)
            }
            Some(_) => HttpCall::json(Method::PUT, PATH, body(&self.changes)?),
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

fn body(changes: &[String]) -> Outcome<String> {
    let expected = "expected SECTION=LEVEL, such as node=debug (`credenza log-levels` lists them)";
    if changes.is_empty() {
        return Err(Failure::invalid(expected));
    }
    let mut levels = Map::new();
    for change in changes {
        let (section, level) = change
            .split_once('=')
            .ok_or_else(|| Failure::invalid(format!("`{change}`: {expected}")))?;
        levels.insert(section.into(), level.into());
    }
    Ok(Value::Object(levels).to_string())
}
