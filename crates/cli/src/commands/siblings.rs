//! `credenza siblings`: all values of a key of an available bucket, with their context.

use super::BucketAddress;
use crate::args::Encoding;
use crate::output;
use api::{Blob, SiblingReply, SiblingsReply};
use base::Reason;
use client::{HttpCall, encode};
use hyper::Method;
use program::{Failure, Outcome};
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
    address: BucketAddress,
    #[command(flatten)]
    encoding: Encoding,
}

impl SiblingsCommand {
    /// Prints the values.
    pub async fn run(self) -> Outcome {
        let key = self.encoding.bytes(&self.key)?;
        let call =
            HttpCall::new(Method::GET, self.address.path(&format!("/siblings/{}", encode(&key))));
        let Some(answer) = self.address.client()?.call_key(call).await? else {
            if self.address.json {
                output::text("null\n")?;
            }
            return Err(Failure::negative("there is no such key"));
        };
        let found: SiblingsReply = answer.read()?;
        if self.address.json {
            return output::json(&found);
        }
        let all = &found.siblings;
        let rows = all.iter().enumerate().map(|(at, sibling)| self.row(at + 1, sibling));
        output::table(&["#", "written", "value"], rows.collect())?;
        output::text(&format!("context  {}\n", found.context))?;
        if all.len() > 1 {
            let write = self.address.command("put", &self.key, self.encoding);
            eprintln!("{write} --context CONTEXT VALUE   writes one value in place of these");
        }
        Ok(())
    }

    fn row(&self, number: usize, sibling: &SiblingReply) -> Vec<String> {
        let value = shown_value(sibling, self.encoding);
        let written = match sibling.written_ms {
            // A consistent bucket stores no write times.
            0 => "-".into(),
            ms => logging::time(Duration::from_millis(ms)),
        };
        vec![number.to_string(), written, value]
    }
}

/// Returns the value of a sibling as text.
pub fn shown_value(sibling: &SiblingReply, encoding: Encoding) -> String {
    match &sibling.value {
        Some(value) => encoding.show(&value.0),
        None => "(deleted)".into(),
    }
}

/// Returns a line for each value behind this beginning, or the beginning alone if there is none.
pub fn value_lines(
    front: &str,
    value: Option<&Blob>,
    siblings: Option<&[SiblingReply]>,
    encoding: Encoding,
) -> String {
    let value = value.iter().map(|value| encoding.show(&value.0));
    let siblings = siblings.into_iter().flatten().map(|sibling| shown_value(sibling, encoding));
    let values: Vec<_> = value.chain(siblings).collect();
    if values.is_empty() {
        return format!("{front}\n");
    }
    values.into_iter().map(|value| format!("{front}\t{value}\n")).collect()
}

/// Names the commands that resolve siblings in the error of a command that failed because of them.
pub fn with_sibling_hint(
    failure: Failure,
    address: &BucketAddress,
    key: &str,
    encoding: Encoding,
) -> Failure {
    if failure.reason() != Some(Reason::Siblings) {
        return failure;
    }
    let show = address.command("siblings", key, encoding);
    let write = address.command("put", key, encoding);
    failure.with_suffix(&format!(
        ". `{show}` shows them with their context, `{write} --context CONTEXT VALUE` resolves them"
    ))
}
