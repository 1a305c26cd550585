//! Querier of the index: asks for spans of terms in pages, in streams and at once, at any node, and
//! has each complete answer judged.

use super::answers::{AnswerMoments, AnswerRow, RowDetail, TermQuery, judge_answer};
use super::document::TERMS;
use super::shared::{DocumentBucket, FAILOVER_PAUSE, INDEX, SharedState};
use crate::client::{Http, HttpResponse};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for an answer: longer than what a node allows a page of an available bucket.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(20);
/// Number of rows in a page of a query by pages, and in one of a query at once: all of them.
const SHORT_PAGE: usize = 40;
const LONG_PAGE: usize = 100_000;

/// Number of answers by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueryCounts {
    /// Complete answers, which were judged.
    pub complete: u64,
    /// Answers that say that rows may be missing.
    pub partial: u64,
    /// Refusals that time mends, and calls without an answer.
    pub unavailable: u64,
    /// Keys with a certain state, summed over the complete answers.
    pub certain_keys: u64,
}

impl QueryCounts {
    /// Adds the counts of another querier.
    pub fn join(&mut self, other: QueryCounts) {
        self.complete += other.complete;
        self.partial += other.partial;
        self.unavailable += other.unavailable;
        self.certain_keys += other.certain_keys;
    }
}

/// Way in which a query is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueryForm {
    Once,
    Pages,
    Stream,
}

/// Answer to a query, as far as it can be judged.
enum QueryAnswer {
    Complete(Vec<AnswerRow>),
    Partial,
    Unavailable,
}

/// Querier, on a thread of its own.
pub(super) struct IndexQuerier {
    shared: Arc<SharedState>,
    dice: StdRng,
    counts: QueryCounts,
}

impl IndexQuerier {
    pub fn new(shared: Arc<SharedState>, seed: u64) -> IndexQuerier {
        let dice = StdRng::seed_from_u64(seed.wrapping_mul(2003));
        IndexQuerier { shared, dice, counts: QueryCounts::default() }
    }

    /// Asks until stopped.
    pub fn run(mut self) -> QueryCounts {
        while !self.shared.is_stopped() {
            let (query, form) = self.draw();
            let before = self.shared.record.expectations(self.shared.bucket.settle());
            match self.ask(&query, form) {
                QueryAnswer::Complete(rows) => {
                    let certain = self.shared.record.still_certain(before);
                    self.counts.complete += 1;
                    self.counts.certain_keys += certain.len() as u64;
                    let is_one_moment =
                        form == QueryForm::Once && self.shared.bucket == DocumentBucket::Consistent;
                    let moments =
                        if is_one_moment { AnswerMoments::One } else { AnswerMoments::Several };
                    let record = &self.shared.record;
                    for finding in judge_answer((&query, moments), &rows, &certain, record) {
                        self.shared.note(format!("index, {form:?}: {finding}"));
                    }
                }
                QueryAnswer::Partial => self.counts.partial += 1,
                QueryAnswer::Unavailable => {
                    self.counts.unavailable += 1;
                    std::thread::sleep(FAILOVER_PAUSE);
                }
            }
            std::thread::sleep(PAUSE);
        }
        self.counts
    }

    fn draw(&mut self) -> (TermQuery, QueryForm) {
        let dice = &mut self.dice;
        let mut bounds = [0, 0].map(|_| dice.random_range(-TERMS / 2..TERMS / 2));
        bounds.sort_unstable();
        let query = TermQuery {
            from: dice.random_bool(0.5).then_some(bounds[0]),
            to: dice.random_bool(0.5).then_some(bounds[1]),
            is_reverse: dice.random_bool(0.3),
            detail: if dice.random_bool(0.5) { RowDetail::Terms } else { RowDetail::Records },
        };
        let forms = [QueryForm::Once, QueryForm::Once, QueryForm::Pages, QueryForm::Stream];
        (query, forms[dice.random_range(0..forms.len())])
    }

    /// Asks a query, each page of it at any node.
    fn ask(&mut self, query: &TermQuery, form: QueryForm) -> QueryAnswer {
        let bucket = self.shared.bucket;
        let (stream, page) = match form {
            QueryForm::Once => ("", LONG_PAGE),
            QueryForm::Pages => ("", SHORT_PAGE),
            QueryForm::Stream => ("/stream", LONG_PAGE),
        };
        let mut path = format!("{}/index/{INDEX}{stream}?{}", bucket.path(), query.parameters());
        if form != QueryForm::Stream {
            path.push_str(&format!("&limit={page}"));
        }
        if bucket == DocumentBucket::Available && self.dice.random_bool(0.2) {
            path.push_str("&partial=true");
        }
        let mut rows = Vec::new();
        let mut after = String::new();
        loop {
            let Some(answer) = self.get(&format!("{path}{after}"), after.is_empty()) else {
                return QueryAnswer::Unavailable;
            };
            let page = match form {
                QueryForm::Stream => stream_page(&answer),
                QueryForm::Once | QueryForm::Pages => Some(answer.json()),
            };
            let Some(page) = page else { return QueryAnswer::Unavailable };
            for row in page["rows"].as_array().into_iter().flatten() {
                match AnswerRow::read(row) {
                    Some(row) => rows.push(row),
                    None => self.shared.note(format!("index: no row: {row}")),
                }
            }
            if page["partial"] == true {
                return QueryAnswer::Partial;
            }
            match page["continue"].as_str().filter(|_| page["more"] == true) {
                Some(token) => after = format!("&after={token}"),
                None => return QueryAnswer::Complete(rows),
            }
        }
    }

    /// Sends a request to any node. `None`: no answer, or a refusal that time mends. A page behind
    /// another one may be refused for good: a move may begin the index anew.
    fn get(&mut self, path: &str, is_first: bool) -> Option<HttpResponse> {
        let address = self.shared.node(self.dice.random_range(0..usize::from(u16::MAX)));
        let client = Http::with_timeout(address, ANSWER_TIMEOUT);
        let answer = client.and_then(|mut client| client.request("GET", path, b"")).ok()?;
        if answer.status == 200 {
            return Some(answer);
        }
        if (400..500).contains(&answer.status) && is_first {
            self.shared.note(format!("index: {path}: {} {}", answer.status, answer.text()));
        }
        None
    }
}

/// Returns the rows of a stream as one page. `None`: it says that it could not be completed.
fn stream_page(answer: &HttpResponse) -> Option<Value> {
    let mut rows = Vec::new();
    let mut is_partial = false;
    for line in answer.text().lines() {
        let line: Value = serde_json::from_str(line).ok()?;
        if line.get("error").is_some() {
            return None;
        }
        match line["partial"] == true {
            true => is_partial = true,
            false => rows.push(line),
        }
    }
    Some(serde_json::json!({ "rows": rows, "partial": is_partial, "more": false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_complete_unless_its_last_line_says_otherwise() {
        let page = |text: &str| {
            let (headers, body) = (Vec::new(), text.as_bytes().to_vec());
            stream_page(&HttpResponse { status: 200, headers, body })
        };
        let rows = "{\"key\":\"a\",\"term\":\"1\"}\n{\"key\":\"b\",\"term\":\"2\"}\n";
        let complete = page(rows).expect("a page");
        assert_eq!(complete["rows"].as_array().map(Vec::len), Some(2));
        assert_eq!(complete["partial"], false);
        let partial = page(&format!("{rows}{{\"partial\":true}}\n")).expect("a page");
        assert_eq!(
            (&partial["partial"], partial["rows"].as_array().map(Vec::len)),
            (&true.into(), Some(2))
        );
        assert_eq!(page(&format!("{rows}{{\"error\":{{}}}}\n")), None);
    }
}
