//! `credenza put`: writes a value.

use super::BucketAddress;
use crate::args::Encoding;
use crate::output;
use base::{Error, Reason};
use client::{HttpCall, encode};
use hyper::Method;
use program::units::time_with_unit_ms;
use program::{Failure, Outcome};
use serde_json::json;

pub const EXAMPLES: &str = "\
Examples:
  credenza put greeting hello
  credenza put photo - -b pictures < photo.jpg
  credenza put session token --ttl 30m
  credenza put lock me --if-absent                 exit code 4 when it is there
  credenza put counter 2 --if-version 17           exit code 4 when it changed meanwhile
  credenza put fig sweet -b available/fruit --context CONTEXT
                                                   in place of what `credenza siblings fig` showed";

/// `credenza put`.
#[derive(clap::Args)]
pub struct Put {
    /// The key
    key: String,
    /// The value; `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    value: String,
    #[command(flatten)]
    address: BucketAddress,
    #[command(flatten)]
    encoding: Encoding,
    /// Let it expire after this time: 500ms, 30s, 5m, 1h30m, 1d
    #[arg(long, value_name = "TIME", value_parser = time_with_unit_ms)]
    #[arg(allow_hyphen_values = true)]
    ttl: Option<u64>,
    /// Only when the key is absent
    #[arg(long, conflicts_with = "if_version")]
    if_absent: bool,
    /// Only when the key still has this version (`credenza get --json` shows it)
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
    /// In place of the values that this context has seen (`credenza siblings` shows it)
    #[arg(long, value_name = "CONTEXT", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["ttl", "if_absent", "if_version"])]
    context: Option<String>,
    /// In an available bucket: beside the values that are there, in place of none
    #[arg(long, conflicts_with_all = ["ttl", "if_absent", "if_version", "context"])]
    beside: bool,
}

impl Put {
    /// Writes the value.
    pub async fn run(self) -> Outcome {
        let key = self.encoding.bytes(&self.key)?;
        if self.beside || self.context.is_some() {
            return self.write_sibling(&key).await;
        }
        let ttl = self.ttl.map(|ms| format!("?ttl_ms={ms}")).unwrap_or_default();
        let path = self.address.path(&format!("/keys/{}{ttl}", encode(&key)));
        let mut call = HttpCall::new(Method::PUT, path);
        call.body = self.encoding.value(&self.value)?;
        call.headers.push(("content-type", "application/octet-stream".into()));
        call.headers.extend(condition(self.if_absent, self.if_version));
        let answer = self.address.client()?.call_key(call).await?;
        let answer = answer.ok_or_else(|| Failure::from(changed_error()))?;
        if self.address.json {
            output::json(&json!({ "index": answer.index, "version": answer.version }))?;
        }
        Ok(())
    }

    /// Writes a sibling, which replaces the values that the context has seen, or none.
    async fn write_sibling(&self, key: &[u8]) -> Outcome {
        let path = format!("/siblings/{}{}", encode(key), context_query(self.context.as_deref()));
        let mut call = HttpCall::new(Method::PUT, self.address.path(&path));
        call.body = self.encoding.value(&self.value)?;
        call.headers.push(("content-type", "application/octet-stream".into()));
        let stored: api::StoredReply = self.address.client()?.call(call).await?.read()?;
        if self.address.json { output::json(&stored) } else { Ok(()) }
    }
}

/// Returns the query that sends a context.
pub fn context_query(context: Option<&str>) -> String {
    context.map(|text| format!("?context={}", encode(text.as_bytes()))).unwrap_or_default()
}

/// Returns the header of a condition. `None`: no condition.
pub fn condition(absent: bool, version: Option<u64>) -> Option<(&'static str, String)> {
    match version {
        Some(version) => Some(("if-match", format!("\"{version}\""))),
        None => absent.then(|| ("if-none-match", "*".to_string())),
    }
}

/// Returns the error of a condition whose key has been deleted.
pub fn changed_error() -> Error {
    Error::new(Reason::Changed, "the key is not there any more: read again and decide again")
}
