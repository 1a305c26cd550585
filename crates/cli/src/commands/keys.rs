//! `credenza keys`: the keys of a bucket, in order.

use super::BucketAddress;
use super::range::RangeArguments;
use crate::args::Encoding;
use crate::client::{Client, encode};
use crate::output;
use api::{Blob, KeyPage};
use base::limits::PAGE_ROWS_MAX;
use program::Outcome;
use serde_json::json;
use std::io::Write;

pub const EXAMPLES: &str = "\
Examples:
  credenza keys                                    the first 1,000 keys
  credenza keys --prefix user: --limit 0           all that begin with user:
  credenza keys -b available/fruit                 an available bucket
  credenza keys --limit 0 --json                   a JSON object a line

Pages are printed as they arrive. The keys of an available bucket lie all around the ring: every
page asks every partition, so listing one is work for the whole cluster.";

/// Number of keys in a page.
const PAGE_KEYS: u64 = PAGE_ROWS_MAX as u64 / 10;

/// `credenza keys`.
#[derive(clap::Args)]
pub struct KeysCommand {
    #[command(flatten)]
    span: RangeArguments,
    /// Most keys; 0: all
    #[arg(short = 'n', long, default_value_t = 1_000)]
    limit: u64,
    #[command(flatten)]
    place: BucketAddress,
    #[command(flatten)]
    encoding: Encoding,
}

impl KeysCommand {
    /// Prints the keys.
    pub async fn run(self) -> Outcome {
        let query = self.span.query(self.encoding)?;
        let mut pages = KeyPages::new(self.place.client()?, self.place.path("/keys"), query);
        let mut left = if self.limit == 0 { u64::MAX } else { self.limit };
        while left > 0 {
            let Some(keys) = pages.next(left.min(PAGE_KEYS)).await? else { break };
            left = left.saturating_sub(keys.len() as u64);
            self.print(&keys)?;
        }
        Ok(())
    }

    fn print(&self, keys: &[Blob]) -> Outcome {
        let mut text = Vec::new();
        for key in keys {
            let written = if self.place.json {
                writeln!(text, "{}", json!({ "key": key }))
            } else {
                writeln!(text, "{}", self.encoding.show(&key.0))
            };
            written.map_err(output::unwritten)?;
        }
        output::bytes(&text)
    }
}

/// Pages of keys, one after the other.
pub struct KeyPages {
    client: Client,
    path: String,
    query: String,
    after: Option<String>,
    more: bool,
}

impl KeyPages {
    /// Starts at the first key of the query.
    pub fn new(client: Client, path: String, query: String) -> KeyPages {
        KeyPages { client, path, query, after: None, more: true }
    }

    /// Starts after this key.
    pub fn behind(mut self, key: &[u8]) -> KeyPages {
        self.after = Some(encode(key));
        self
    }

    /// The next page's keys, at most so many, maybe none; `None` at the end.
    pub async fn next(&mut self, keys_max: u64) -> Outcome<Option<Vec<Blob>>> {
        if !self.more {
            return Ok(None);
        }
        let after = self.after.as_ref().map(|key| format!("&after={key}")).unwrap_or_default();
        let path = format!("{}?limit={keys_max}{}{after}", self.path, self.query);
        let page: KeyPage = self.client.get(path).await?;
        self.more = page.r#continue.is_some();
        self.after = page.r#continue.map(|key| encode(&key.0));
        Ok(Some(page.keys))
    }
}
