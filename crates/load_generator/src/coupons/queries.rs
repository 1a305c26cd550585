//! Queries of the index of coupons: with documents by one client, and of a few keys by many.

use super::{ExpectedRows, WAIT};
use crate::drivers::{Answer, Call, DocumentCall, Driver, IntegerRange, QueryRow, Target};
use crate::error::BenchError;
use crate::generators::{LOW_COUNTS, SeededRng, write_coupon_key};
use crate::load::new_histogram;
use crate::report::Percentiles;
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// Rows of a page of the query with documents: all, unless the server has a limit of its own.
const PAGE_ROWS: usize = 100_000;
/// Time after which a query of keys that is not answered ends the experiment.
const KEY_QUERY_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause before a read or query that was refused is repeated.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);
/// Seed of the terms that are queried.
const SEED: u64 = 42;

/// Failure of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryFailure {
    /// The server refused or did not answer, for this reason. It may answer later.
    Refused(String),
    /// The answer is not what was written: this is the difference.
    Wrong(String),
}

impl From<QueryFailure> for BenchError {
    fn from(failure: QueryFailure) -> BenchError {
        match failure {
            QueryFailure::Refused(text) => {
                BenchError::unavailable(format!("the query was refused: {text}"))
            }
            QueryFailure::Wrong(text) => format!("the answer is wrong: {text}").into(),
        }
    }
}

/// Queries of a few keys by many clients, each of which sends its next one when the last one was
/// answered.
#[derive(Clone, Copy, Debug)]
pub struct KeyQueries {
    /// Number of clients.
    pub clients: usize,
    /// Number of rows of each query.
    pub rows: usize,
    /// Time that is not counted, at the beginning.
    pub warm_up: Duration,
    /// Time that is counted.
    pub duration: Duration,
}

/// Result of queries of keys.
#[derive(Clone, Debug)]
pub struct KeyQueryResult {
    /// Number of queries a second.
    pub per_second: f64,
    /// Their latency, microseconds.
    pub latency_us: Percentiles,
}

/// Waits until the first coupon can be read, at most `timeout`. Errors: it can't.
pub fn wait_until_served(driver: &mut dyn Driver, timeout: Duration) -> Result<(), BenchError> {
    let (begin, mut key) = (Instant::now(), Vec::new());
    write_coupon_key(0, &mut key);
    loop {
        let is_present = ask(driver, &Call::Get(&key), timeout, |_, answer| match answer {
            Answer::Value(value) => value.is_some(),
            Answer::Row(row) => row.values > 0,
            _ => false,
        });
        let problem = match is_present {
            Ok(true) => return Ok(()),
            Ok(false) => "it is absent".into(),
            Err(problem) => problem,
        };
        if begin.elapsed() > timeout {
            let text = format!("the first document can't be read after the start: {problem}");
            return Err(BenchError::unavailable(text));
        }
        std::thread::sleep(REFUSED_PAUSE);
    }
}

/// Queries all documents with a count below [`LOW_COUNTS`], page by page. Returns the time from the
/// first request to the last byte of the last answer; comparing the rows is not a part of it.
pub fn query_documents(
    driver: &mut dyn Driver,
    expected: &ExpectedRows<'_>,
    timeout: Duration,
) -> Result<Duration, QueryFailure> {
    let low = expected.low();
    let (begin, mut rows, mut after) = (Instant::now(), Vec::new(), None);
    loop {
        let range = IntegerRange {
            high: Some(LOW_COUNTS),
            rows_max: PAGE_ROWS,
            wants_documents: true,
            after: after.as_deref(),
            ..IntegerRange::default()
        };
        let call = Call::Document(DocumentCall::Query(range));
        let page = ask(driver, &call, timeout, |at, answer| match answer {
            Answer::Page(page) => {
                let after = page.after.map(Cow::into_owned);
                Some((at, page.rows.into_iter().map(into_owned).collect::<Vec<_>>(), after))
            }
            _ => None,
        });
        let page = page.map_err(QueryFailure::Refused)?;
        let Some((at, page_rows, next)) = page else {
            return Err(QueryFailure::Wrong("it is no page of an index".into()));
        };
        rows.extend(page_rows);
        if next.is_none() || rows.len() > low.len() {
            let elapsed = at.duration_since(begin);
            expected.check(&rows, low).map_err(QueryFailure::Wrong)?;
            return Ok(elapsed);
        }
        after = next;
    }
}

fn into_owned(row: QueryRow<'_>) -> QueryRow<'static> {
    QueryRow {
        key: Cow::Owned(row.key.into_owned()),
        document: row.document.map(|document| Cow::Owned(document.into_owned())),
    }
}

/// Sends a call of the first client and waits for its answer, at most `timeout`. Errors: the server
/// refused, or did not answer.
fn ask<T>(
    driver: &mut dyn Driver,
    call: &Call<'_>,
    timeout: Duration,
    read: impl Fn(Instant, Answer<'_>) -> T,
) -> Result<T, String> {
    driver.begin(0, call);
    driver.send(0);
    let begin = Instant::now();
    while begin.elapsed() < timeout {
        let mut result = None;
        driver.wait(WAIT, &mut |_, at, answer| {
            result = Some(match answer {
                Ok(answer) => Ok(read(at, answer)),
                Err(failure) => Err(failure.kind.into_owned()),
            });
        });
        if let Some(result) = result {
            return result;
        }
    }
    driver.forget(0);
    Err(format!("no answer within {} s", timeout.as_secs()))
}

/// Queries the first rows from a random count on, again and again. Errors: a query failed, or its
/// answer was wrong.
pub fn query_keys(
    target: &dyn Target,
    expected: &ExpectedRows<'_>,
    settings: &KeyQueries,
) -> Result<KeyQueryResult, BenchError> {
    let mut driver = target.driver(settings.clients)?;
    let begin = Instant::now();
    let measured_from = begin + settings.warm_up;
    let end = measured_from + settings.duration;
    let (mut latency, mut count) = (new_histogram(), 0u64);
    let mut rng = SeededRng::new(SEED, 0);
    let mut clients = vec![(0, begin); settings.clients];
    let mut ready: Vec<usize> = (0..settings.clients).collect();
    while Instant::now() < end {
        for client in ready.drain(..) {
            let position = rng.below(expected.positions(settings.rows)) as usize;
            let (low, _) = expected.from_position(position, settings.rows);
            let range =
                IntegerRange { low: Some(low), rows_max: settings.rows, ..IntegerRange::default() };
            clients[client] = (position, Instant::now());
            driver.begin(client, &Call::Document(DocumentCall::Query(range)));
            driver.send(client);
        }
        let mut failure = None;
        driver.wait(WAIT, &mut |client, at, answer| {
            let (position, sent) = clients[client];
            let (_, rows) = expected.from_position(position, settings.rows);
            let checked = match answer {
                Ok(Answer::Page(page)) => {
                    expected.check(&page.rows, rows).map_err(QueryFailure::Wrong)
                }
                Ok(_) => Err(QueryFailure::Wrong("it is no page of an index".into())),
                Err(refused) => Err(QueryFailure::Refused(refused.kind.into_owned())),
            };
            failure = failure.take().or(checked.err());
            if at >= measured_from && at < end {
                latency.saturating_record(at.duration_since(sent).as_nanos() as u64);
                count += 1;
            }
            ready.push(client);
        });
        if let Some(failure) = failure {
            return Err(failure.into());
        }
        if clients.iter().any(|(_, sent)| sent.elapsed() > KEY_QUERY_TIMEOUT) {
            return Err(BenchError::unavailable("a query of keys was not answered"));
        }
    }
    Ok(KeyQueryResult {
        per_second: count as f64 / settings.duration.as_secs_f64(),
        latency_us: Percentiles::from_histogram(&latency),
    })
}
