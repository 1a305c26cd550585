//! Driver of etcd, version 3 of its API, over gRPC: many streams over few connections.

use super::{Answer, Call, Driver, Failure, Sink, Target};
use crate::config::{EtcdConfig, Operation};
use crate::wrong::Wrong;
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, DeleteOptions, GetOptions, KvClient, Txn, TxnOp,
    TxnOpResponse,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Most answers taken at once.
const ANSWERS_MAX: usize = 1_024;
/// Time limit of connecting.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A cluster that answered.
pub struct EtcdTarget {
    config: EtcdConfig,
    version: String,
}

impl EtcdTarget {
    /// Connects once and asks for the server's version.
    pub fn find(config: &EtcdConfig) -> Result<EtcdTarget, Wrong> {
        let runtime = runtime()?;
        let version = runtime.block_on(async {
            let mut client = connect(config).await?;
            let asked = tokio::time::timeout(CONNECT_MAX, client.status()).await;
            let status = asked.map_err(|_| "it does not answer".to_string())?;
            status.map(|status| status.version().to_string()).map_err(|error| error.to_string())
        });
        let version = version.map_err(|error| {
            Wrong::unreachable(format!("etcd at {:?}: {error}", config.endpoints))
        })?;
        Ok(EtcdTarget { config: config.clone(), version: format!("etcd {version}") })
    }
}

fn runtime() -> Result<Runtime, String> {
    Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

async fn connect(config: &EtcdConfig) -> Result<Client, String> {
    let options = ConnectOptions::new().with_connect_timeout(CONNECT_MAX);
    Client::connect(&config.endpoints, Some(options)).await.map_err(|error| error.to_string())
}

impl Target for EtcdTarget {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn supports(&self, operation: Operation) -> Result<(), String> {
        super::without_resp("etcd", operation)
    }

    fn driver(&self, clients: usize) -> Result<Box<dyn Driver>, Wrong> {
        let runtime = runtime()?;
        let connections = runtime.block_on(async {
            let mut connections = Vec::new();
            for _ in 0..self.config.connections.min(clients) {
                connections.push(connect(&self.config).await?.kv_client());
            }
            Ok::<_, String>(connections)
        });
        let connections = connections.map_err(Wrong::unreachable)?;
        let (sender, answers) = unbounded_channel();
        Ok(Box::new(EtcdDriver {
            runtime,
            connections,
            lives: vec![0; clients],
            linearizable: self.config.linearizable,
            sender,
            answers,
            taken: Vec::with_capacity(ANSWERS_MAX),
        }))
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

/// An answer: client, its incarnation when the call was sent, time of arrival, result.
type EtcdResult = (usize, u64, Instant, Result<Owned, Failure>);

struct EtcdDriver {
    runtime: Runtime,
    connections: Vec<KvClient>,
    /// Number of times that each client's calls were forgotten; answers of an older incarnation are
    /// dropped.
    lives: Vec<u64>,
    linearizable: bool,
    // Each client has one call in flight, so the channel is bounded by the number of clients.
    sender: UnboundedSender<EtcdResult>,
    answers: UnboundedReceiver<EtcdResult>,
    taken: Vec<EtcdResult>,
}

impl Driver for EtcdDriver {
    fn begin(&mut self, client: usize, call: &Call<'_>) {
        let kv = self.connections[client % self.connections.len()].clone();
        let (life, sender) = (self.lives[client], self.sender.clone());
        let asked = EtcdRequest::of(call, self.linearizable);
        self.runtime.spawn(async move {
            let answer = asked.ask(kv).await.map_err(|error| failure(&error));
            // A send fails only when the driver was dropped; the answer is not needed then.
            let _ = sender.send((client, life, Instant::now(), answer));
        });
    }

    fn send(&mut self, _client: usize) {}

    fn wait(&mut self, timeout: Duration, sink: Sink<'_>) {
        let received = self.answers.recv_many(&mut self.taken, ANSWERS_MAX);
        // The result is ignored: `taken` shows whether answers came.
        let _ = self.runtime.block_on(async { tokio::time::timeout(timeout, received).await });
        for (client, life, at, given) in self.taken.drain(..) {
            if self.lives[client] == life {
                sink(client, at, given.as_ref().map(Owned::answer).map_err(Clone::clone));
            }
        }
    }

    fn forget(&mut self, client: usize) {
        self.lives[client] += 1;
    }
}

fn failure(error: &etcd_client::Error) -> Failure {
    let etcd_client::Error::GRpcStatus(status) = error else {
        return Failure::lost("connection_lost");
    };
    // gRPC's names of its codes, such as `Unavailable`.
    let kind = format!("{:?}", status.code());
    Failure { lost: kind == "Unavailable", kind: kind.into() }
}

enum EtcdRequest {
    Get(Vec<u8>, GetOptions),
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Swap(Txn),
    Sequence(Txn),
    Count(Vec<u8>, GetOptions),
    Many(Txn),
}

enum Owned {
    Done,
    Value(Option<Vec<u8>>),
    Swapped(bool),
    Old(Option<Vec<u8>>),
    Count(u64),
}

impl Owned {
    fn answer(&self) -> Answer<'_> {
        match self {
            Owned::Done => Answer::Done,
            Owned::Value(value) => Answer::Value(value.as_deref()),
            Owned::Swapped(written) => Answer::Swapped(*written),
            Owned::Old(old) => Answer::Old(old.as_deref().map(Cow::Borrowed)),
            Owned::Count(count) => Answer::Count(*count),
        }
    }
}

impl EtcdRequest {
    fn of(call: &Call<'_>, linearizable: bool) -> EtcdRequest {
        let read = || match linearizable {
            true => GetOptions::new(),
            false => GetOptions::new().with_serializable(),
        };
        match *call {
            Call::Get(key) => EtcdRequest::Get(key.into(), read()),
            Call::Put(key, value) | Call::Replace { key, value, .. } => {
                EtcdRequest::Put(key.into(), value.into())
            }
            Call::Delete(key) => EtcdRequest::Delete(key.into()),
            Call::Exists(key) => EtcdRequest::Count(key.into(), read().with_count_only()),
            Call::Range(from, rows) => {
                EtcdRequest::Count(from.into(), read().with_from_key().with_limit(rows as i64))
            }
            Call::MultiGet(keys) => {
                let gets = keys.iter().map(|key| TxnOp::get(key.as_slice(), Some(read())));
                EtcdRequest::Many(Txn::new().and_then(gets.collect::<Vec<_>>()))
            }
            Call::TestAndSet { key, expected, wanted } => {
                let holds = match expected {
                    Some(value) => Compare::value(key, CompareOp::Equal, value),
                    None => Compare::version(key, CompareOp::Equal, 0),
                };
                let swap = Txn::new().when([holds]);
                let swap = swap.and_then([TxnOp::put(key, wanted, None)]);
                EtcdRequest::Swap(swap.or_else([TxnOp::get(key, None)]))
            }
            Call::Sequence(rows) => {
                // A transaction of etcd must not write a key twice: the last write counts.
                let rows: BTreeMap<_, _> = rows.iter().map(|(key, value)| (key, value)).collect();
                let puts = rows.into_iter();
                let puts = puts.map(|(key, value)| TxnOp::put(key.clone(), value.clone(), None));
                EtcdRequest::Sequence(Txn::new().and_then(puts.collect::<Vec<_>>()))
            }
            // Unreachable: `supports` refuses these operations.
            Call::Resp(_) => EtcdRequest::Sequence(Txn::new()),
        }
    }

    async fn ask(self, mut kv: KvClient) -> Result<Owned, etcd_client::Error> {
        Ok(match self {
            EtcdRequest::Get(key, options) => {
                let mut found = kv.get(key, Some(options)).await?.take_kvs();
                Owned::Value(found.pop().map(|row| row.into_key_value().1))
            }
            EtcdRequest::Put(key, value) => kv.put(key, value, None).await.map(|_| Owned::Done)?,
            EtcdRequest::Delete(key) => {
                kv.delete(key, None::<DeleteOptions>).await.map(|_| Owned::Done)?
            }
            EtcdRequest::Count(key, options) => {
                let found = kv.get(key, Some(options)).await?;
                // `count_only` gives no rows; a limited range counts beyond its limit.
                let rows = found.kvs().len();
                Owned::Count(if rows > 0 { rows as u64 } else { found.count() as u64 })
            }
            EtcdRequest::Sequence(txn) => kv.txn(txn).await.map(|_| Owned::Done)?,
            EtcdRequest::Many(txn) => {
                let answers = kv.txn(txn).await?.op_responses();
                let found = answers.iter().map(|answer| match answer {
                    TxnOpResponse::Get(found) => found.kvs().len() as u64,
                    _ => 0,
                });
                Owned::Count(found.sum())
            }
            EtcdRequest::Swap(txn) => {
                let answer = kv.txn(txn).await?;
                match answer.op_responses().pop() {
                    _ if answer.succeeded() => Owned::Swapped(true),
                    Some(TxnOpResponse::Get(mut found)) => {
                        let found = found.take_kvs().pop();
                        Owned::Old(found.map(|row| row.into_key_value().1))
                    }
                    _ => Owned::Swapped(false),
                }
            }
        })
    }
}
