//! Query parameters, and the options they set.

use super::answer::RiakResponse;
use crate::http::percent::{Plus, decode};
use base::{FetchOptions, Quorum, StoreOptions};

/// Decoded query. If a name occurs twice, the first value counts.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn read(text: &str) -> Query {
        let word = |text: &str| {
            let bytes = decode(text, Plus::Blank).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (word(name), word(value))
        };
        Query(text.split('&').filter(|pair| !pair.is_empty()).map(pair).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}

/// Options of a request. The refusal has one line for every wrong option, as Riak's clients expect.
pub(super) struct Options<'a> {
    query: &'a Query,
    wrong: String,
}

impl<'a> Options<'a> {
    pub(super) fn of(query: &'a Query) -> Options<'a> {
        Options { query, wrong: String::new() }
    }

    fn quorum(&mut self, name: &str) -> Option<Quorum> {
        let text = self.query.get(name)?;
        match text.to_ascii_lowercase().as_str() {
            "default" => None,
            text => Quorum::parse(text).or_else(|| {
                self.no_quorum(name);
                None
            }),
        }
    }

    fn no_quorum(&mut self, name: &str) {
        self.no(&format!(
            "{name} query parameter must be an integer or one of the following words: 'one', \
             'quorum' or 'all'\n"
        ));
    }

    /// Adds a line to the refusal, unless it is there already: a conditional write reads its
    /// options twice.
    fn no(&mut self, line: &str) {
        if !self.wrong.contains(line) {
            self.wrong.push_str(line);
        }
    }

    fn truth(&mut self, name: &str) -> Option<bool> {
        match self.query.get(name)?.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            "default" => None,
            _ => {
                self.no(&format!("{name} query parameter must be true or false\n"));
                None
            }
        }
    }

    /// Parses `node_confirms`, a number of nodes. The words `quorum` and `all` name no number of
    /// nodes, so they are refused.
    fn nodes(&mut self) -> Option<u8> {
        let text = self.query.get("node_confirms")?.to_ascii_lowercase();
        match Quorum::parse(&text) {
            Some(Quorum::One) => Some(1),
            Some(Quorum::Number(number)) => Some(number),
            Some(Quorum::Quorum | Quorum::All) => {
                self.no("node_confirms is a number here: so many different nodes\n");
                None
            }
            None => {
                if text != "default" {
                    self.no_quorum("node_confirms");
                }
                None
            }
        }
    }

    /// Refuses the values of `asis` and `sync_on_write` that the bucket alone decides.
    fn left_to_the_bucket(&mut self) {
        if self.truth("asis") == Some(true) {
            self.no("asis is not supported: every write has a dot of its own\n");
        }
        match self.query.get("sync_on_write").map(str::to_ascii_lowercase).as_deref() {
            None | Some("backend" | "default") => {}
            Some("one" | "all") => self.no(
                "sync_on_write is backend here: the bucket's property `sync` says when a write is \
                 synced\n",
            ),
            Some(_) => {
                let words = "sync_on_write query parameter must be one of the following words: \
                             'backend', 'one' or 'all'\n";
                self.no(words);
            }
        }
    }

    /// Parses the timeout in milliseconds. `None`: no timeout, also if it is 0.
    pub(super) fn timeout(&mut self) -> Option<u64> {
        let text = self.query.get("timeout")?;
        let number: Option<u64> = text.parse().ok();
        if number.is_none() {
            self.no(&format!("Bad timeout value {text:?}\n"));
        }
        number.filter(|number| *number > 0)
    }

    pub(super) fn fetch(&mut self) -> FetchOptions {
        FetchOptions {
            r: self.quorum("r"),
            pr: self.quorum("pr"),
            node_confirms: self.nodes(),
            basic_quorum: self.truth("basic_quorum"),
            notfound_ok: self.truth("notfound_ok"),
            timeout_ms: self.timeout(),
        }
    }

    pub(super) fn store(&mut self) -> StoreOptions {
        self.left_to_the_bucket();
        StoreOptions {
            w: self.quorum("w"),
            dw: self.quorum("dw"),
            pw: self.quorum("pw"),
            node_confirms: self.nodes(),
            timeout_ms: self.timeout(),
            return_body: self.query.is_true("returnbody"),
        }
    }

    /// Parses `rw` of a delete, the default of its `r` and `w`.
    pub(super) fn both(&mut self) -> Option<Quorum> {
        self.quorum("rw")
    }

    /// Returns the refusal if any option was wrong.
    pub(super) fn end(self) -> Result<(), RiakResponse> {
        if self.wrong.is_empty() { Ok(()) } else { Err(RiakResponse::text(400, self.wrong)) }
    }
}
