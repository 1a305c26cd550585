//! `credenza index query`: what an index finds, page by page.

use super::siblings::value_lines;
use super::{IndexArguments, ReadLevelArguments};
use crate::args::Encoding;
use crate::output;
use api::{IndexPageReply, IndexRowReply};
use base::index::IndexContent;
use base::limits::PAGE_ROWS_MAX;
use base::{Kind, Quorum};
use client::{Client, encode};
use program::{Failure, Outcome};
use serde_json::json;
use std::io::Write;

/// Number of rows in a page.
const PAGE_ROWS: u64 = PAGE_ROWS_MAX as u64 / 10;

/// `credenza index query`.
#[derive(clap::Args)]
pub struct IndexQueryCommand {
    #[command(flatten)]
    target: IndexArguments,
    #[command(flatten)]
    terms: TermArguments,
    /// Most rows; 0: all
    #[arg(short = 'n', long, default_value_t = 1_000)]
    limit: u64,
    /// Highest term first
    #[arg(short, long)]
    reverse: bool,
    /// Keys with their terms
    #[arg(short = 't', long = "terms", conflicts_with = "records")]
    shows_terms: bool,
    /// Keys with their terms and values
    #[arg(long)]
    records: bool,
    #[command(flatten)]
    encoding: Encoding,
    #[command(flatten)]
    read_level: ReadLevelArguments,
    #[command(flatten)]
    replicas: ReplicaArguments,
}

/// Options of queries of available buckets.
#[derive(clap::Args)]
struct ReplicaArguments {
    /// Owners of each partition that must answer: `one`, `quorum`, `all` or a number; only of an
    /// available bucket
    #[arg(long, value_name = "QUORUM", value_parser = parse_quorum)]
    r: Option<Quorum>,
    /// Show the rows there are if too few owners of a partition answer, and end with exit code 5;
    /// only of an available bucket
    #[arg(long = "partial")]
    allows_partial: bool,
    /// Milliseconds until a page must be there; only of an available bucket
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
}

impl ReplicaArguments {
    /// Returns the options as parameters of a query.
    fn query(&self) -> String {
        let r = self.r.map(|r| format!("&r={r}"));
        let partial = self.allows_partial.then(|| "&partial=true".to_string());
        let timeout = self.timeout_ms.map(|ms| format!("&timeout_ms={ms}"));
        [r, partial, timeout].into_iter().flatten().collect()
    }
}

fn parse_quorum(text: &str) -> Result<Quorum, String> {
    Quorum::parse(text).ok_or_else(|| "it is `one`, `quorum`, `all` or a number".into())
}

/// Terms that a query asks for; without any of these: all.
#[derive(clap::Args)]
struct TermArguments {
    /// One term: an integer or number, `true` or `false`, or text
    #[arg(short, long, value_name = "TERM", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["from", "to", "prefix"])]
    equals: Option<String>,
    /// Terms that begin with this; only of strings and bytes
    #[arg(short, long, value_name = "TERM", allow_hyphen_values = true)]
    #[arg(conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
    /// First term of the range
    #[arg(long, value_name = "TERM", allow_hyphen_values = true)]
    from: Option<String>,
    /// Up to this term, without it
    #[arg(long, value_name = "TERM", allow_hyphen_values = true)]
    to: Option<String>,
    /// Without the first term of the range
    #[arg(long, requires = "from")]
    from_exclusive: bool,
    /// With the last term of the range
    #[arg(long, requires = "to")]
    to_inclusive: bool,
}

impl TermArguments {
    /// Returns the terms as parameters of a query.
    fn query(&self, encoding: Encoding) -> Outcome<String> {
        let TermArguments { equals, prefix, from, to, .. } = self;
        let mut query = String::new();
        for (name, text) in [("equals", equals), ("prefix", prefix), ("from", from), ("to", to)] {
            if let Some(text) = text {
                query.push_str(&format!("&{name}={}", encode(&encoding.bytes(text)?)));
            }
        }
        query.push_str(if self.from_exclusive { "&from_exclusive=true" } else { "" });
        query.push_str(if self.to_inclusive { "&to_inclusive=true" } else { "" });
        Ok(query)
    }
}

impl IndexQueryCommand {
    /// Prints the rows, page by page.
    pub async fn run(self) -> Outcome {
        let content = match (self.shows_terms, self.records) {
            (false, false) => IndexContent::Keys,
            (true, _) => IndexContent::Terms,
            (false, true) => IndexContent::Records,
        };
        let mut query = self.terms.query(self.encoding)?;
        query.push_str(&format!("&want={}", content.name()));
        query.push_str(if self.reverse { "&reverse=true" } else { "" });
        query.push_str(&format!("&consistency={}", encode(self.read_level.consistency.as_bytes())));
        query.push_str(&self.replicas.query());
        let IndexArguments { bucket, name, node } = &self.target;
        let path = format!("/v1/buckets/{bucket}/index/{}", encode(name.as_bytes()));
        let mut pages = IndexPages::new(node.address.client()?, path, query);
        let mut remaining = if self.limit == 0 { u64::MAX } else { self.limit };
        while remaining > 0 {
            let Some(rows) = pages.next(remaining.min(PAGE_ROWS)).await? else { break };
            remaining = remaining.saturating_sub(rows.len() as u64);
            self.print(&rows)?;
        }
        completeness(pages.is_partial)
    }

    fn print(&self, rows: &[IndexRowReply]) -> Outcome {
        let mut text = Vec::new();
        for row in rows {
            let written = match self.target.node.json {
                true => writeln!(text, "{}", json!(row)),
                false => write!(text, "{}", lines(row, self.encoding)),
            };
            written.map_err(output::write_failure)?;
        }
        output::bytes(&text)
    }
}

/// Fails if rows may be missing, so that no script takes them for all.
fn completeness(is_partial: bool) -> Outcome {
    if !is_partial {
        return Ok(());
    }
    let text = "rows may be missing, because too few owners of some partitions answered: ask again \
                later; without --partial the refusal names the partitions";
    Err(Failure::new(Kind::Unavailable, text))
}

/// Returns a row as lines: key, and what was asked for of term and value, with tabs between them. A
/// key of an available bucket has a line for each of its siblings.
fn lines(row: &IndexRowReply, encoding: Encoding) -> String {
    let mut front = encoding.show(&row.key.0);
    if let Some(term) = &row.term {
        front = format!("{front}\t{}", encoding.show(&term.0));
    }
    value_lines(&front, row.value.as_ref(), row.siblings.as_deref(), encoding)
}

/// Pages of an index, one after the other.
struct IndexPages {
    client: Client,
    path: String,
    query: String,
    after: String,
    has_more: bool,
    /// True if rows of a page may be missing.
    is_partial: bool,
}

impl IndexPages {
    fn new(client: Client, path: String, query: String) -> IndexPages {
        let (after, has_more, is_partial) = (String::new(), true, false);
        IndexPages { client, path, query, after, has_more, is_partial }
    }

    /// Returns the rows of the next page, at most `rows_max`, possibly none. `None`: the end.
    async fn next(&mut self, rows_max: u64) -> Outcome<Option<Vec<IndexRowReply>>> {
        if !self.has_more {
            return Ok(None);
        }
        let path = format!("{}?limit={rows_max}{}{}", self.path, self.query, self.after);
        let page: IndexPageReply = self.client.get(path).await?;
        self.has_more = page.r#continue.is_some();
        self.is_partial |= page.partial;
        self.after = match page.r#continue {
            Some(after) => format!("&after={}", encode(after.as_bytes())),
            None => String::new(),
        };
        Ok(Some(page.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{Blob, SiblingReply};
    use clap::Parser;

    #[derive(Parser)]
    struct QueryCommand {
        #[command(flatten)]
        terms: TermArguments,
        #[command(flatten)]
        replicas: ReplicaArguments,
    }

    fn query(line: &str) -> Option<String> {
        let line =
            QueryCommand::try_parse_from(["query"].into_iter().chain(line.split(' '))).ok()?;
        Some(line.terms.query(Encoding::default()).ok()? + &line.replicas.query())
    }

    #[test]
    fn terms_of_a_query_become_parameters_and_exclude_each_other() {
        for (line, expected) in [
            ("--equals -7", "&equals=-7"),
            ("--from -7 --to 9.5", "&from=-7&to=9%2E5"),
            ("--prefix a/", "&prefix=a%2F"),
            (
                "--from a --from-exclusive --to b --to-inclusive",
                "&from=a&to=b&from_exclusive=true&to_inclusive=true",
            ),
        ] {
            assert_eq!(query(line).as_deref(), Some(expected), "{line}");
        }
        for bad in
            ["--equals 1 --from 2", "--prefix 1 --to 2", "--equals 1 --prefix 2", "--to-inclusive"]
        {
            assert_eq!(query(bad), None, "{bad}");
        }
    }

    #[test]
    fn options_of_available_buckets_become_parameters() {
        for (line, expected) in [
            ("--r quorum", "&r=quorum"),
            ("--r 2 --equals 7", "&equals=7&r=2"),
            ("--timeout-ms 1500 --partial --r all", "&r=all&partial=true&timeout_ms=1500"),
        ] {
            assert_eq!(query(line).as_deref(), Some(expected), "{line}");
        }
        for bad in ["--r most", "--r 256", "--r", "--timeout-ms 1s", "--partial=yes"] {
            assert_eq!(query(bad), None, "{bad}");
        }
    }

    #[test]
    fn partial_answer_ends_with_a_line_and_exit_code_5() {
        assert!(completeness(false).is_ok());
        let failure = completeness(true).expect_err("rows may be missing");
        assert_eq!(failure.exit_code(), 5);
        assert!(failure.sentence().starts_with("rows may be missing"), "{failure}");
    }

    #[test]
    fn row_of_a_query_is_a_line_for_each_value() {
        let blob = |text: &str| Blob::from(text.as_bytes());
        let key = IndexRowReply { key: blob("k\t1"), ..IndexRowReply::default() };
        let show = |row: &IndexRowReply| lines(row, Encoding::default());
        assert_eq!(show(&key), "k\\x091\n");
        let term = IndexRowReply { term: Some(blob("7")), ..key };
        assert_eq!(show(&term), "k\\x091\t7\n");
        let record = IndexRowReply { value: Some(blob("v")), ..term.clone() };
        assert_eq!(show(&record), "k\\x091\t7\tv\n");
        let sibling = |value: Option<Blob>| SiblingReply {
            value,
            vtag: String::new(),
            written_ms: 0,
            content_type: None,
            charset: None,
            encoding: None,
            meta: Vec::new(),
            indexes: Vec::new(),
            links: Vec::new(),
        };
        let siblings = [Some(blob("v")), None, Some(blob("w"))].map(sibling).to_vec();
        let siblings = IndexRowReply { siblings: Some(siblings), ..term.clone() };
        let lines = "k\\x091\t7\tv\nk\\x091\t7\t(deleted)\nk\\x091\t7\tw\n";
        assert_eq!(show(&siblings), lines);
        let one = IndexRowReply { siblings: Some(vec![sibling(Some(blob("v")))]), ..term };
        assert_eq!(show(&one), "k\\x091\t7\tv\n", "as in a consistent bucket");
    }
}
