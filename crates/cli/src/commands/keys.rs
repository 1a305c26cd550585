//! `credenza keys`: the keys of a bucket, in order.

use super::BucketAddress;
use super::range::RangeArguments;
use crate::args::Encoding;
use crate::output;
use api::{Blob, KeyPage};
use base::limits::PAGE_ROWS_MAX;
use client::{Client, encode};
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
    range: RangeArguments,
    /// Most keys; 0: all
    #[arg(short = 'n', long, default_value_t = 1_000)]
    limit: u64,
    #[command(flatten)]
    address: BucketAddress,
    #[command(flatten)]
    encoding: Encoding,
}

impl KeysCommand {
    /// Prints the keys.
    pub async fn run(self) -> Outcome {
        let query = self.range.query(self.encoding)?;
        let mut pages = KeyPages::new(self.address.client()?, self.address.path("/keys"), query);
        let mut remaining = if self.limit == 0 { u64::MAX } else { self.limit };
        while remaining > 0 {
            let Some(keys) = pages.next(remaining.min(PAGE_KEYS)).await? else { break };
            remaining = remaining.saturating_sub(keys.len() as u64);
            self.print(&keys)?;
        }
        Ok(())
    }

    fn print(&self, keys: &[Blob]) -> Outcome {
        let mut text = Vec::new();
        for key in keys {
            let written = if self.address.json {
                writeln!(text, "{}", json!({ "key": key }))
            } else {
                writeln!(text, "{}", self.encoding.show(&key.0))
            };
            written.map_err(output::write_failure)?;
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
    has_more: bool,
}

impl KeyPages {
    /// Starts at the first key of the query.
    pub fn new(client: Client, path: String, query: String) -> KeyPages {
        KeyPages { client, path, query, after: None, has_more: true }
    }

    /// Starts after this key.
    pub fn start_after(mut self, key: &[u8]) -> KeyPages {
        self.after = Some(encode(key));
        self
    }

    /// Returns the keys of the next page, at most `keys_max`, possibly none. `None`: the end.
    pub async fn next(&mut self, keys_max: u64) -> Outcome<Option<Vec<Blob>>> {
        if !self.has_more {
            return Ok(None);
        }
        let after = self.after.as_ref().map(|key| format!("&after={key}")).unwrap_or_default();
        let path = format!("{}?limit={keys_max}{}{after}", self.path, self.query);
        let page: KeyPage = self.client.get(path).await?;
        self.has_more = page.r#continue.is_some();
        self.after = page.r#continue.map(|key| encode(&key.0));
        Ok(Some(page.keys))
    }
}
