//! Query parameters, and the options they set.

use super::answer::RiakResponse;
use crate::http::percent::{PlusMeaning, decode};
use base::{FetchOptions, Quorum, StoreOptions};

/// Decoded query. If a name occurs twice, the first value counts.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Returns a query of these names and values.
    pub(super) fn from_pairs(pairs: Vec<(String, String)>) -> Query {
        Query(pairs)
    }

    pub(super) fn parse(text: &str) -> Query {
        let decode_text = |text: &str| {
            let bytes = decode(text, PlusMeaning::Blank).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_text(name), decode_text(value))
        };
        Query(text.split('&').filter(|pair| !pair.is_empty()).map(pair).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(stored_name, _)| stored_name == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}

/// Options of a request. The refusal has one line for every wrong option, as Riak's clients expect.
pub(super) struct Options<'a> {
    query: &'a Query,
    errors: String,
}

impl<'a> Options<'a> {
    pub(super) fn new(query: &'a Query) -> Options<'a> {
        Options { query, errors: String::new() }
    }

    fn quorum(&mut self, name: &str) -> Option<Quorum> {
        let text = self.query.get(name)?;
        match text.to_ascii_lowercase().as_str() {
            "default" => None,
            text => Quorum::parse(text).or_else(|| {
                self.add_quorum_error(name);
                None
            }),
        }
    }

    fn add_quorum_error(&mut self, name: &str) {
        self.add_error(&format!(
            "{name} query parameter must be an integer or one of the following words: 'one', \
             'quorum' or 'all'\n"
        ));
    }

    /// Adds a line to the refusal, unless it is there already: a conditional write parses its
    /// options twice.
    fn add_error(&mut self, line: &str) {
        if !self.errors.contains(line) {
            self.errors.push_str(line);
        }
    }

    fn flag(&mut self, name: &str) -> Option<bool> {
        match self.query.get(name)?.to_ascii_lowercase().as_str() {
            "true" => Some(true),
            "false" => Some(false),
            "default" => None,
            _ => {
                self.add_error(&format!("{name} query parameter must be true or false\n"));
                None
            }
        }
    }

    /// Parses `node_confirms`, a number of nodes. `quorum` and `all` are no numbers of nodes, so
    /// they are refused.
    fn node_confirms(&mut self) -> Option<u8> {
        let text = self.query.get("node_confirms")?.to_ascii_lowercase();
        match Quorum::parse(&text) {
            Some(Quorum::One) => Some(1),
            Some(Quorum::Number(number)) => Some(number),
            Some(Quorum::Quorum | Quorum::All) => {
                self.add_error("node_confirms must be a number of nodes\n");
                None
            }
            None => {
                if text != "default" {
                    self.add_quorum_error("node_confirms");
                }
                None
            }
        }
    }

    /// Refuses the values of `asis` and `sync_on_write` that only the bucket's properties set.
    fn check_bucket_options(&mut self) {
        if self.flag("asis") == Some(true) {
            self.add_error("asis is not supported: every write gets a new dot\n");
        }
        match self.query.get("sync_on_write").map(str::to_ascii_lowercase).as_deref() {
            None | Some("backend" | "default") => {}
            Some("one" | "all") => self.add_error(
                "sync_on_write supports only backend: set the bucket's property `sync` instead\n",
            ),
            Some(_) => {
                let text = "sync_on_write query parameter must be one of the following words: \
                             'backend', 'one' or 'all'\n";
                self.add_error(text);
            }
        }
    }

    /// Parses the timeout in milliseconds. `None`: no timeout, also if it is 0.
    pub(super) fn timeout(&mut self) -> Option<u64> {
        let text = self.query.get("timeout")?;
        let number: Option<u64> = text.parse().ok();
        if number.is_none() {
            self.add_error(&format!("Bad timeout value {text:?}\n"));
        }
        number.filter(|number| *number > 0)
    }

    pub(super) fn fetch(&mut self) -> FetchOptions {
        FetchOptions {
            r: self.quorum("r"),
            pr: self.quorum("pr"),
            node_confirms: self.node_confirms(),
            basic_quorum: self.flag("basic_quorum"),
            notfound_ok: self.flag("notfound_ok"),
            timeout_ms: self.timeout(),
        }
    }

    pub(super) fn store(&mut self) -> StoreOptions {
        self.check_bucket_options();
        StoreOptions {
            w: self.quorum("w"),
            dw: self.quorum("dw"),
            pw: self.quorum("pw"),
            node_confirms: self.node_confirms(),
            timeout_ms: self.timeout(),
            return_body: self.query.is_true("returnbody"),
        }
    }

    /// Parses `r` of a query: the number of replicas of each partition that answer.
    pub(super) fn r(&mut self) -> Option<Quorum> {
        self.quorum("r")
    }

    /// Parses `rw` of a delete, the default of its `r` and `w`.
    pub(super) fn rw(&mut self) -> Option<Quorum> {
        self.quorum("rw")
    }

    /// Returns the refusal if any option was wrong.
    pub(super) fn finish(self) -> Result<(), RiakResponse> {
        if self.errors.is_empty() { Ok(()) } else { Err(RiakResponse::text(400, self.errors)) }
    }
}
