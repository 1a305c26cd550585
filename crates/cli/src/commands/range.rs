//! `credenza range`: keys and values in order.

use super::{BucketAddress, ReadLevelArguments};
use crate::args::Encoding;
use crate::output;
use api::{EntryReply, PageReply};
use base::Reason;
use base::limits::PAGE_ROWS_MAX;
use client::{Client, encode};
use program::{Failure, Outcome};
use serde_json::json;
use std::io::Write;

pub const EXAMPLES: &str = "\
Examples:
  credenza range                                   the first 1,000 keys with their values
  credenza range --prefix user: --keys
  credenza range --from a --to b --reverse --limit 10
  credenza range --limit 0 --json                  all of them, a JSON object a line

One line a key: key, tab, value; bytes that are no text are shown as \\xNN. For all rows of a bucket
in a form that can be read back, see `credenza export`.";

/// `credenza range`.
#[derive(clap::Args)]
pub struct Range {
    #[command(flatten)]
    range: RangeArguments,
    /// Most keys; 0: all
    #[arg(short = 'n', long, default_value_t = 1_000)]
    limit: u64,
    /// Highest key first
    #[arg(short, long)]
    reverse: bool,
    /// Keys alone
    #[arg(short, long)]
    keys: bool,
    #[command(flatten)]
    address: BucketAddress,
    #[command(flatten)]
    encoding: Encoding,
    #[command(flatten)]
    read_level: ReadLevelArguments,
}

/// Range of keys.
#[derive(clap::Args)]
pub struct RangeArguments {
    /// Keys that begin with this
    #[arg(short, long, conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
    /// First key of the range
    #[arg(long)]
    from: Option<String>,
    /// Up to this key, without it
    #[arg(long)]
    to: Option<String>,
}

impl RangeArguments {
    /// Returns the range as parameters of a query.
    pub fn query(&self, encoding: Encoding) -> Outcome<String> {
        let mut query = String::new();
        let ends = [("prefix", &self.prefix), ("from", &self.from), ("to", &self.to)];
        for (name, text) in ends {
            if let Some(text) = text {
                query.push_str(&format!("&{name}={}", encode(&encoding.bytes(text)?)));
            }
        }
        Ok(query)
    }
}

impl Range {
    /// Prints the range.
    pub async fn run(self) -> Outcome {
        let mut query = self.range.query(self.encoding)?;
        query.push_str(&format!("&consistency={}", encode(self.read_level.consistency.as_bytes())));
        query.push_str(if self.reverse { "&reverse=true" } else { "" });
        query.push_str(if self.keys { "&want=keys" } else { "" });
        let mut pages = Pages::new(self.address.client()?, self.address.path("/range"), query);
        let mut remaining = if self.limit == 0 { u64::MAX } else { self.limit };
        while remaining > 0 {
            let page_rows = remaining.min(PAGE_ROWS_MAX as u64 / 10) as usize;
            let Some(entries) = pages.next(page_rows).await.map_err(with_keys_hint)? else { break };
            remaining -= entries.len() as u64;
            self.print(&entries)?;
        }
        Ok(())
    }

    fn print(&self, entries: &[EntryReply]) -> Outcome {
        let mut text = Vec::new();
        for entry in entries {
            let written = if self.address.json {
                writeln!(text, "{}", json!(entry))
            } else {
                let key = self.encoding.show(&entry.key.0);
                match &entry.value {
                    Some(value) => writeln!(text, "{key}\t{}", self.encoding.show(&value.0)),
                    None => writeln!(text, "{key}"),
                }
            };
            written.map_err(output::write_failure)?;
        }
        output::bytes(&text)
    }
}

/// The pages of a range, one after the other.
pub struct Pages {
    client: Client,
    path: String,
    query: String,
    after: Option<String>,
    has_more: bool,
}

impl Pages {
    /// Starts at the beginning of the range.
    pub fn new(client: Client, path: String, query: String) -> Pages {
        Pages { client, path, query, after: None, has_more: true }
    }

    /// Starts after this key.
    pub fn start_after(mut self, key: &[u8]) -> Pages {
        self.after = Some(encode(key));
        self
    }

    /// Returns the rows of the next page, at most `rows_max`. `None`: the end.
    pub async fn next(&mut self, rows_max: usize) -> Outcome<Option<Vec<EntryReply>>> {
        if !self.has_more {
            return Ok(None);
        }
        let after = self.after.as_ref().map(|key| format!("&after={key}")).unwrap_or_default();
        let path = format!("{}?limit={rows_max}{}{after}", self.path, self.query);
        let page: PageReply = self.client.get(path).await?;
        self.has_more = page.more;
        self.after = page.entries.last().map(|last| encode(&last.key.0));
        Ok((!page.entries.is_empty()).then_some(page.entries))
    }
}

/// Adds a hint to the failure of a range read of an available bucket, which supports only lists of
/// keys.
fn with_keys_hint(failure: Failure) -> Failure {
    match failure.reason() {
        Some(Reason::NotSupported) => {
            failure.with_suffix("; `credenza keys` lists the keys of any bucket")
        }
        _ => failure,
    }
}
