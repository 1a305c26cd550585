//! `credenza siblings`: all values of a key of an available bucket, with their context.

use super::BucketAddress;
use crate::args::{Encoding, from_json};
use crate::client::{HttpCall, encode};
use crate::{logging, output};
use base::Reason;
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::Value;
use std::time::Duration;

pub const EXAMPLES: &str = "\
Examples:
  credenza siblings fig -b available/fruit         all values of the key, and their context
  credenza put fig sweet -b available/fruit --context CONTEXT
                                                   writes one value in place of those
  credenza delete fig -b available/fruit --context CONTEXT
                                                   deletes those
  credenza put fig ripe -b available/fruit --beside
                                                   writes one more, in place of none

Values that were written at the same time, or at nodes that did not reach each other, are siblings.
The context stands for those that are shown: a write or delete with it replaces them, and leaves
alone what was written since.

Exit code 1: there is no such key.";

/// `credenza siblings`.
#[derive(clap::Args)]
pub struct SiblingsCommand {
    /// The key
    key: String,
    #[command(flatten)]
    place: BucketAddress,
    #[command(flatten)]
    encoding: Encoding,
}

impl SiblingsCommand {
    /// Prints the values.
    pub async fn run(self) -> Outcome {
        let key = self.encoding.bytes(&self.key)?;
        let call =
            HttpCall::new(Method::GET, self.place.path(&format!("/siblings/{}", encode(&key))));
        let Some(answer) = self.place.client()?.call_key(call).await? else {
            if self.place.json {
                output::text("null\n")?;
            }
            return Err(Failure::no("there is no such key"));
        };
        let found = answer.json()?;
        if self.place.json {
            return output::json(&found);
        }
        let all: Vec<&Value> = found["siblings"].as_array().into_iter().flatten().collect();
        let rows = all.iter().enumerate().map(|(at, sibling)| self.row(at + 1, sibling));
        output::table(&["#", "written", "value"], rows.collect())?;
        let context = found["context"].as_str().unwrap_or_default();
        output::text(&format!("context  {context}\n"))?;
        if all.len() > 1 {
            let write = self.place.command("put", &self.key, self.encoding);
            eprintln!("{write} --context CONTEXT VALUE   writes one value in place of these");
        }
        Ok(())
    }

    fn row(&self, number: usize, sibling: &Value) -> Vec<String> {
        let value = match from_json(&sibling["value"]) {
            Some(value) => self.encoding.show(&value),
            None => "(deleted)".into(),
        };
        let written = match sibling["written_ms"].as_u64() {
            // A consistent bucket does not record the times of its writes.
            None | Some(0) => "-".into(),
            Some(ms) => logging::time(Duration::from_millis(ms)),
        };
        vec![number.to_string(), written, value]
    }
}

/// Names the commands that resolve siblings in the error of a command that failed because of them.
pub fn explained(
    failure: Failure,
    place: &BucketAddress,
    key: &str,
    encoding: Encoding,
) -> Failure {
    if failure.reason() != Some(Reason::Siblings) {
        return failure;
    }
    let show = place.command("siblings", key, encoding);
    let write = place.command("put", key, encoding);
    failure.and(&format!(
        ". `{show}` shows them with their context, `{write} --context CONTEXT VALUE` resolves them"
    ))
}
