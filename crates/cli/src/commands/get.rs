//! `credenza get`: the value of a key.

use super::siblings::with_sibling_hint;
use super::{BucketAddress, ReadLevelArguments};
use crate::args::Encoding;
use crate::output;
use api::Blob;
use client::{HttpCall, encode};
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::json;

pub const EXAMPLES: &str = "\
Examples:
  credenza get greeting
  credenza get photo -b pictures > photo.jpg
  credenza get greeting --json                     with its version, and when it expires
  credenza get --hex 00ff                          keys and values in hexadecimal

Exit code 1: there is no such key.";

/// `credenza get`.
#[derive(clap::Args)]
pub struct Get {
    /// The key
    key: String,
    #[command(flatten)]
    address: BucketAddress,
    #[command(flatten)]
    encoding: Encoding,
    #[command(flatten)]
    read_level: ReadLevelArguments,
}

impl Get {
    /// Prints the value.
    pub async fn run(self) -> Outcome {
        let key = self.encoding.bytes(&self.key)?;
        let path = format!(
            "/keys/{}?consistency={}",
            encode(&key),
            encode(self.read_level.consistency.as_bytes())
        );
        let call = HttpCall::new(Method::GET, self.address.path(&path));
        let answer = self.address.client()?.call_key(call).await;
        let add_hint =
            |failure| with_sibling_hint(failure, &self.address, &self.key, self.encoding);
        let Some(answer) = answer.map_err(add_hint)? else {
            if self.address.json {
                output::text("null\n")?;
            }
            return Err(Failure::negative("there is no such key"));
        };
        if !self.address.json {
            return self.encoding.print(&answer.body);
        }
        let mut row = json!({
            "key": Blob(key),
            "value": Blob(answer.body),
            "version": answer.version,
            "index": answer.index,
        });
        if let Some(ms) = answer.expires_in_ms {
            row["expires_in_ms"] = ms.into();
        }
        output::json(&row)
    }
}
