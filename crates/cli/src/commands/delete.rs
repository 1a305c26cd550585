//! `credenza delete`: deletes a key.

use super::BucketAddress;
use super::put::{condition, context_query};
use crate::args::Encoding;
use crate::output;
use client::{HttpCall, encode};
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::json;

pub const EXAMPLES: &str = "\
Examples:
  credenza delete greeting
  credenza delete lock --if-version 17             exit code 4 when it changed meanwhile
  credenza delete fig -b available/fruit --context CONTEXT
                                                   what `credenza siblings fig` showed, no more

Exit code 1: there was no such key.";

/// `credenza delete`.
#[derive(clap::Args)]
pub struct Delete {
    /// The key
    key: String,
    #[command(flatten)]
    address: BucketAddress,
    #[command(flatten)]
    encoding: Encoding,
    /// Only when the key still has this version (`credenza get --json` shows it)
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    /// Only the values that this context has seen (`credenza siblings` shows it)
    #[arg(long, value_name = "CONTEXT", allow_hyphen_values = true)]
    #[arg(conflicts_with = "if_version")]
    context: Option<String>,
}

impl Delete {
    /// Deletes the key.
    pub async fn run(self) -> Outcome {
        let key = self.encoding.bytes(&self.key)?;
        let path = match &self.context {
            Some(_) => {
                format!("/siblings/{}{}", encode(&key), context_query(self.context.as_deref()))
            }
            None => format!("/keys/{}", encode(&key)),
        };
        let mut call = HttpCall::new(Method::DELETE, self.address.path(&path));
        call.headers.extend(condition(false, self.if_version));
        let answer = self.address.client()?.call_key(call).await?;
        if self.address.json {
            let index = answer.as_ref().and_then(|answer| answer.index);
            output::json(&json!({ "existed": answer.is_some(), "index": index }))?;
        }
        answer.map(|_| ()).ok_or_else(|| Failure::negative("there was no such key"))
    }
}
