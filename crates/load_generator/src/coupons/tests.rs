//! Tests of the experiment at a server in memory: it writes each document once a round and in
//! order, and takes no wrong answer.

use super::*;
use crate::config::Operation;
use crate::drivers::{
    Answer, Call, DocumentCall, Driver, Failure, IntegerRange, QueryPage, QueryRow, Sink, Target,
};
use crate::error::BenchError;
use crate::generators::{COUNT_MEMBER, CouponSet, write_coupon_key};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Rows of a page, however many are wanted: so the query of all low counts has several pages.
const PAGE_ROWS_MAX: usize = 40;

/// Change of a row that a query returns.
type RowChange = fn(&mut QueryRow<'static>);

/// A server in memory.
#[derive(Clone, Default)]
struct Server {
    documents: Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>,
    /// Number of documents that a bulk write has; 0: the server has none.
    bulk: usize,
    /// Every how many writes one is refused; 0: none.
    refused: usize,
    /// Change of each row that a query returns.
    change: Option<RowChange>,
}

struct ServerDriver {
    server: Server,
    replies: VecDeque<(usize, Result<Answer<'static>, Failure>)>,
    writes: usize,
}

impl Server {
    fn query(&self, range: &IntegerRange<'_>) -> QueryPage<'static> {
        let documents = self.documents.lock().expect("no panic while locked");
        let count = |document: &[u8]| {
            let document: serde_json::Value = serde_json::from_slice(document).expect("JSON");
            document[COUNT_MEMBER].as_u64().expect("a count") as u32
        };
        let mut rows: Vec<_> =
            documents.iter().map(|(key, document)| (count(document), key, document)).collect();
        rows.sort_unstable();
        rows.retain(|(count, ..)| {
            range.low.is_none_or(|low| *count >= low) && range.high.is_none_or(|high| *count < high)
        });
        let from = range.after.map_or(0, |after| after[0] as usize * PAGE_ROWS_MAX);
        let page = rows.iter().skip(from).take(range.rows_max.min(PAGE_ROWS_MAX));
        let page = page.map(|(_, key, document)| {
            let document = range.wants_documents.then(|| Cow::Owned(document.to_vec()));
            let mut row = QueryRow { key: Cow::Owned(key.to_vec()), document };
            self.change.iter().for_each(|change| change(&mut row));
            row
        });
        let next = range.after.map_or(1, |after| after[0] + 1);
        let has_more = rows.len() > from + PAGE_ROWS_MAX && range.rows_max > PAGE_ROWS_MAX;
        QueryPage { rows: page.collect(), after: has_more.then(|| Cow::Owned(vec![next])) }
    }
}

impl Target for Server {
    fn version(&self) -> String {
        "memory".into()
    }

    fn supports(&self, _operation: Operation) -> Result<(), String> {
        Ok(())
    }

    fn bulk_documents(&self) -> usize {
        self.bulk
    }

    fn driver(&self, _clients: usize) -> Result<Box<dyn Driver>, BenchError> {
        let server = self.clone();
        Ok(Box::new(ServerDriver { server, replies: VecDeque::new(), writes: 0 }))
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Driver for ServerDriver {
    fn begin(&mut self, client: usize, call: &Call<'_>) {
        self.writes += usize::from(!matches!(call, Call::Document(DocumentCall::Query(_))));
        let is_refused = self.server.refused > 0 && self.writes.is_multiple_of(self.server.refused);
        let mut documents = self.server.documents.lock().expect("no panic while locked");
        let reply = match *call {
            Call::Document(DocumentCall::Query(range)) => {
                drop(documents);
                Ok(Answer::Page(self.server.query(&range)))
            }
            _ if is_refused => Err(Failure::refused("BUSY")),
            Call::Put(key, document) => {
                documents.insert(key.to_vec(), document.to_vec());
                Ok(Answer::Done)
            }
            Call::Document(DocumentCall::Bulk(rows)) => {
                documents.extend(rows.iter().cloned());
                Ok(Answer::Count(rows.len() as u64))
            }
            Call::Get(key) => Ok(match documents.contains_key(key) {
                true => Answer::Value(Some(b"there")),
                false => Answer::Value(None),
            }),
            _ => panic!("no such call is expected: {call:?}"),
        };
        self.replies.push_back((client, reply));
    }

    fn send(&mut self, _client: usize) {}

    fn wait(&mut self, _timeout: Duration, sink: Sink<'_>) {
        for (client, reply) in self.replies.drain(..) {
            sink(client, Instant::now(), reply);
        }
    }

    fn forget(&mut self, client: usize) {
        self.replies.retain(|(other, _)| *other != client);
    }
}

fn rounds(first: u32, count: u32) -> WriteRounds {
    WriteRounds { clients: 7, pipeline: 16, first, count }
}

/// Loads a server and writes further rounds; returns the results of both.
fn write(server: &Server, coupons: &CouponSet, later: u32) -> [WriteResult; 2] {
    [rounds(0, 1), rounds(1, later)].map(|rounds| {
        let mut observed = 0;
        let result = write_rounds(server, coupons, &rounds, &mut |written| observed = written);
        let result = result.expect("written");
        assert_eq!(observed, result.documents);
        result
    })
}

const KEY_QUERIES: KeyQueries = KeyQueries {
    clients: 3,
    rows: 10,
    warm_up: Duration::ZERO,
    duration: Duration::from_millis(300),
};

fn query(server: &Server, coupons: &CouponSet, round: u32) -> Result<(), String> {
    let expected = ExpectedRows::new(coupons, round);
    let mut driver = server.driver(1).expect("in memory");
    let minute = Duration::from_secs(60);
    wait_until_served(&mut *driver, minute).expect("it was written");
    let documents = query_documents(&mut *driver, &expected, minute);
    documents.map_err(|failure| BenchError::from(failure).text)?;
    let keys = query_keys(server, &expected, &KEY_QUERIES).map_err(|error| error.text)?;
    assert!(keys.per_second > 0.0);
    Ok(())
}

#[test]
fn each_round_writes_every_document_and_queries_find_its_counts() {
    // Sets with fewer documents than clients, and with fewer than all pipelines hold.
    for documents in [5, 100, 1_000] {
        let coupons = CouponSet::new(documents);
        for (bulk, refused) in [(0, 0), (0, 3), (30, 0)] {
            let server = Server { bulk, refused, ..Server::default() };
            let [load, later] = write(&server, &coupons, 3);
            let written = [load.documents, later.documents];
            assert_eq!(written, [documents.into(), u64::from(documents) * 3]);
            assert_eq!(load.repeated > 0, refused > 0);
            let documents = server.documents.lock().expect("whole").len();
            assert_eq!(documents, coupons.documents() as usize);
            query(&server, &coupons, 3).expect("right");
            // The answers of another round are wrong.
            if documents > 5 {
                assert!(query(&server, &coupons, 2).is_err());
            }
        }
    }
}

#[test]
fn wrong_answers_have_no_result() {
    let coupons = CouponSet::new(2_000);
    let changes: [(RowChange, &str); 3] = [
        (|row| row.key = Cow::Borrowed(b"coupon:x"), "row 0 is coupon:x instead of coupon:0"),
        (|row| row.document = Some(Cow::Borrowed(b"{}")), "row 0 has {} instead of {\"type\""),
        (|row| row.document = Some(Cow::Borrowed(b"no")), "row 0 has no instead of {\"type\""),
    ];
    for (change, expected) in changes {
        let server = Server { change: Some(change), ..Server::default() };
        write(&server, &coupons, 0);
        let error = query(&server, &coupons, 0).expect_err("wrong");
        assert!(error.contains(expected), "{error}");
    }
    let server = Server::default();
    write(&server, &coupons, 0);
    let mut key = Vec::new();
    write_coupon_key(ExpectedRows::new(&coupons, 0).low()[7].1, &mut key);
    assert!(server.documents.lock().expect("whole").remove(&key).is_some());
    let error = query(&server, &coupons, 0).expect_err("a document is missing");
    assert!(error.contains("98 rows instead of 99"), "{error}");
}

#[test]
fn documents_are_equal_whatever_the_order_of_their_members() {
    let coupons = CouponSet::new(10);
    let rows = ExpectedRows::new(&coupons, 0);
    let (count, expected) = rows.from_position(9, 1);
    assert!(expected.len() == 1 && count == coupons.count(expected[0].1, 0));
    let mut document = Vec::new();
    coupons.write(expected[0].1, 0, &mut document);
    let members: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&document).expect("JSON");
    let sorted = serde_json::to_vec(&members).expect("JSON");
    assert_ne!(sorted, document);
    let mut key = Vec::new();
    write_coupon_key(expected[0].1, &mut key);
    let row = |document: Vec<u8>| QueryRow {
        key: Cow::Owned(key.clone()),
        document: Some(Cow::Owned(document)),
    };
    assert_eq!(rows.check(&[row(sorted)], expected), Ok(()));
    assert!(rows.check(&[row(b"{}".to_vec())], expected).is_err());
    assert!(rows.check(&[], expected).is_err());
}
