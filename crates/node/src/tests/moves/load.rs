//! Clients that use a bucket all the time, and know what they must find.

use crate::Node;
use crate::tests::{bytes, request, set};
use base::{
    Body, BucketName, Call, Kind, Outcome, Read, ReadLevel, Reply, Request, Result, RetryId,
    SessionCall, SessionId, Update,
};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(1);

/// Nodes that run, for clients to choose from.
pub(super) type Nodes = Arc<Mutex<Vec<Node>>>;

pub(super) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<u64>>,
}

/// Parameters of one client.
#[derive(Clone)]
struct Client {
    nodes: Nodes,
    bucket: BucketName,
    which: usize,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Starts so many clients of each kind.
    pub(super) fn begin(nodes: &Nodes, bucket: &BucketName, count: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for nth in 0..count {
            let (nodes, bucket, stop) = (nodes.clone(), bucket.clone(), stop.clone());
            let client = Client { nodes, bucket, which: nth, stop };
            clients.push(tokio::spawn(client.clone().counts()));
            clients.push(tokio::spawn(client.clone().chains()));
            clients.push(tokio::spawn(client.writes()));
        }
        Load { stop, clients }
    }

    /// Stops the load. Every client has checked its last values. Returns the number of answers.
    pub(super) async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Release);
        let mut answered = 0;
        for client in self.clients {
            answered += client.await.expect("it found what it must");
        }
        answered
    }
}

impl Client {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Acquire)
    }

    async fn ask(&self, turn: u64, call: Call, retry: Option<RetryId>) -> Result<Reply> {
        let node = {
            let nodes = self.nodes.lock().expect("plain data");
            let place = (turn as usize + self.which) % nodes.len().max(1);
            nodes.get(place).cloned()
        };
        let Some(node) = node else {
            tokio::time::sleep(PAUSE).await;
            return Err(base::Error::new(base::Reason::ShuttingDown, "no node runs"));
        };
        node.handle(
            &base::Principal::Node,
            Request { bucket: self.bucket.clone(), retry, ..request(call) },
        )
        .await
    }

    /// Repeats a call until there is an answer; only for repeatable calls.
    async fn insist(&self, turn: u64, call: Call, retry: Option<RetryId>) -> Reply {
        for attempt in 0.. {
            match self.ask(turn + attempt, call.clone(), retry).await {
                Ok(reply) => return reply,
                Err(error) => {
                    let again = matches!(error.kind(), Kind::Unavailable | Kind::Unknown);
                    assert!(again, "client {}: {call:?}: {error}", self.which);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        unreachable!("it goes on until there is an answer")
    }

    async fn value(&self, turn: u64, key: &str) -> Option<Bytes> {
        let call = Call::Read(Read::Get(bytes(key)), ReadLevel::Consistent);
        match self.insist(turn, call, None).await.body {
            Body::Row(row) => row.map(|row| row.value),
            other => panic!("a get is answered with a row, not {other:?}"),
        }
    }

    async fn open(&self) -> SessionId {
        match self.insist(0, Call::Session(SessionCall::Open), None).await.body {
            Body::Session(session) => session,
            other => panic!("a session is answered, not {other:?}"),
        }
    }

    /// Adds one by one, each attempt with a retry id, and now and then repeated though it was
    /// answered. Meanwhile a reader must never see less than was acknowledged before.
    async fn counts(self) -> u64 {
        let (key, session) = (format!("count{}", self.which), self.open().await);
        let told = Arc::new(AtomicU64::new(0));
        let reader = tokio::spawn(self.clone().reads(key.clone(), told.clone()));
        let mut number = 0;
        while self.goes_on() {
            number += 1;
            let call = Call::Update(Update::Add { key: bytes(&key), delta: 1 });
            let retry = Some(RetryId { session, number });
            let first = self.insist(number, call.clone(), retry).await;
            assert_eq!(first.body, Body::Updated(Outcome::Number(number as i64)));
            told.store(number, Ordering::Release);
            if number % 5 == 0 {
                let again = self.insist(number + 1, call, retry).await;
                assert_eq!(again.body, first.body, "it was applied again");
            }
            tokio::time::sleep(PAUSE).await;
        }
        reader.await.expect("it read nothing stale");
        let found = self.value(number, &key).await;
        assert_eq!(found, (number > 0).then(|| bytes(&number.to_string())), "{key}");
        number
    }

    async fn reads(self, key: String, told: Arc<AtomicU64>) {
        let mut turn = 0;
        while self.goes_on() {
            turn += 1;
            let before = told.load(Ordering::Acquire);
            let found = self.value(turn, &key).await;
            let found = found.map_or(0, |value| {
                String::from_utf8_lossy(&value).parse::<u64>().expect("a number")
            });
            assert!(found >= before, "{key}: {found} was read when {before} was acknowledged");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Each test-and-set expects the value that the one before wrote. Attempts have no retry ids: a
    /// doubtful one is looked up.
    async fn chains(self) -> u64 {
        let key = format!("chain{}", self.which);
        let (mut last, mut number) = (None, 0);
        while self.goes_on() {
            number += 1;
            let wanted = Some(bytes(&format!("link{number}")));
            let (expected, to) = (last.clone(), wanted.clone());
            let update = Update::TestAndSet { key: bytes(&key), expected, wanted: to };
            match self.ask(number, Call::Update(update), None).await {
                Ok(reply) => {
                    let found = Body::Updated(Outcome::Old(last.clone()));
                    assert_eq!(reply.body, found, "{key} is broken at {number}");
                    last = wanted;
                }
                Err(error) => {
                    let again = matches!(error.kind(), Kind::Unavailable | Kind::Unknown);
                    assert!(again, "{key}: {error}");
                    let found = self.value(number, &key).await;
                    assert!(found == last || found == wanted, "{key}: {found:?} after {last:?}");
                    if error.kind() == Kind::Unavailable {
                        assert_eq!(found, last, "{key}: nothing was to have happened: {error}");
                    }
                    last = found;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        assert_eq!(self.value(number, &key).await, last, "{key}");
        number
    }

    /// Writes fresh keys, and deletes some; all that was acknowledged is found at the end.
    async fn writes(self) -> u64 {
        let key = |number: u64| format!("write{}.{number}", self.which);
        let mut number = 0;
        while self.goes_on() {
            number += 1;
            let call = Call::Update(set(&key(number), &"v".repeat(number as usize % 300)));
            self.insist(number, call, None).await;
            if number % 3 == 0 {
                let missing = base::request::OnMissing::Skip;
                let call = Call::Update(Update::Delete { key: bytes(&key(number - 1)), missing });
                self.insist(number, call, None).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
        for one in 1..=number {
            let deleted = one % 3 == 2 && one < number;
            let expected = (!deleted).then(|| bytes(&"v".repeat(one as usize % 300)));
            assert_eq!(self.value(one, &key(one)).await, expected, "{}", key(one));
        }
        number
    }
}
