//! `credenza put`: writes a value.

use super::Place;
use crate::client::{Call, encode};
use crate::failure::{Failure, Outcome};
use crate::given::Encoding;
use crate::output;
use base::{Error, Reason};
use hyper::Method;
use serde_json::json;

pub const EXAMPLES: &str = "\
Examples:
  credenza put greeting hello
  credenza put photo - -b pictures < photo.jpg
  credenza put session token --ttl 30m
  credenza put lock me --if-absent                 exit code 4 when it is there
  credenza put counter 2 --if-version 17           exit code 4 when it changed meanwhile";

/// `credenza put`.
#[derive(clap::Args)]
pub struct Put {
    /// The key
    key: String,
    /// The value; `-` reads it from standard input
    #[arg(allow_hyphen_values = true)]
    value: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    encoding: Encoding,
    /// Let it expire after this time
    #[arg(long, value_name = "TIME", value_parser = crate::settings::units::time_ms)]
    ttl: Option<u64>,
    /// Only when the key is absent
    #[arg(long, conflicts_with = "if_version")]
    if_absent: bool,
    /// Only when the key still has this version (`credenza get --json` shows it)
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u64>,
}

impl Put {
    /// Writes it.
    pub async fn run(self) -> Outcome {
        let key = self.encoding.bytes(&self.key)?;
        let ttl = self.ttl.map(|ms| format!("?ttl_ms={ms}")).unwrap_or_default();
        let path = self.place.path(&format!("/keys/{}{ttl}", encode(&key)));
        let mut call = Call::new(Method::PUT, path);
        call.body = self.encoding.value(&self.value)?;
        call.headers.push(("content-type", "application/octet-stream".into()));
        call.headers.extend(condition(self.if_absent, self.if_version));
        let answer = self.place.client()?.call_key(call).await?;
        let answer = answer.ok_or_else(|| Failure::from(changed()))?;
        if self.place.json {
            output::json(&json!({ "index": answer.index, "version": answer.version }))?;
        }
        Ok(())
    }
}

/// The header of a condition.
pub fn condition(absent: bool, version: Option<u64>) -> Option<(&'static str, String)> {
    match version {
        Some(version) => Some(("if-match", format!("\"{version}\""))),
        None => absent.then(|| ("if-none-match", "*".to_string())),
    }
}

/// What a condition says when its key is gone.
pub fn changed() -> Error {
    Error::new(Reason::Changed, "the key is not there any more: read again and decide again")
}
