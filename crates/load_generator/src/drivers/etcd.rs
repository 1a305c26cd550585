//! Driver of etcd, version 3 of its API, over gRPC: many streams over few connections.

use super::{Answer, Call, Driver, Failure, Sink, Target};
use crate::config::{EtcdConfig, Operation};
use crate::error::BenchError;
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, DeleteOptions, GetOptions, KvClient, Txn, TxnOp,
    TxnOpResponse,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Most answers received at once.
const ANSWERS_MAX: usize = 1_024;
/// Time limit of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A cluster that answered.
pub struct EtcdTarget {
    config: EtcdConfig,
    version: String,
}

impl EtcdTarget {
    /// Connects once and asks for the server's version.
    pub fn connect(config: &EtcdConfig) -> Result<EtcdTarget, BenchError> {
        let runtime = runtime()?;
        let version = runtime.block_on(async {
            let mut client = connect(config).await?;
            let reply = tokio::time::timeout(CONNECT_TIMEOUT, client.status()).await;
            let status = reply.map_err(|_| "it does not answer".to_string())?;
            status.map(|status| status.version().to_string()).map_err(|error| error.to_string())
        });
        let version = version.map_err(|error| {
            BenchError::unavailable(format!("etcd at {:?}: {error}", config.endpoints))
        })?;
        Ok(EtcdTarget { config: config.clone(), version: format!("etcd {version}") })
    }
}

fn runtime() -> Result<Runtime, String> {
    Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

async fn connect(config: &EtcdConfig) -> Result<Client, String> {
    let options = ConnectOptions::new().with_connect_timeout(CONNECT_TIMEOUT);
    Client::connect(&config.endpoints, Some(options)).await.map_err(|error| error.to_string())
}

impl Target for EtcdTarget {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn supports(&self, operation: Operation) -> Result<(), String> {
        super::refuse_resp_operation("etcd", operation)
    }

    fn driver(&self, clients: usize) -> Result<Box<dyn Driver>, BenchError> {
        let runtime = runtime()?;
        let connections = runtime.block_on(async {
            let mut connections = Vec::new();
            for _ in 0..self.config.connections.min(clients) {
                connections.push(connect(&self.config).await?.kv_client());
            }
            Ok::<_, String>(connections)
        });
        let connections = connections.map_err(BenchError::unavailable)?;
        let (sender, answers) = unbounded_channel();
        Ok(Box::new(EtcdDriver {
            runtime,
            connections,
            incarnations: vec![0; clients],
            linearizable: self.config.linearizable,
            sender,
            answers,
            received: Vec::with_capacity(ANSWERS_MAX),
        }))
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

/// An answer: client, its incarnation when the call was sent, time of arrival, result.
type EtcdResult = (usize, u64, Instant, Result<OwnedAnswer, Failure>);

struct EtcdDriver {
    runtime: Runtime,
    connections: Vec<KvClient>,
    /// Number of times that each client's calls were forgotten; answers of an older incarnation are
    /// dropped.
    incarnations: Vec<u64>,
    linearizable: bool,
    // Each client has one call in flight, so the channel is bounded by the number of clients.
    sender: UnboundedSender<EtcdResult>,
    answers: UnboundedReceiver<EtcdResult>,
    received: Vec<EtcdResult>,
}

impl Driver for EtcdDriver {
    fn begin(&mut self, client: usize, call: &Call<'_>) {
        let kv = self.connections[client % self.connections.len()].clone();
        let (incarnation, sender) = (self.incarnations[client], self.sender.clone());
        let request = EtcdRequest::of(call, self.linearizable);
        self.runtime.spawn(async move {
            let answer = request.send(kv).await.map_err(|error| failure(&error));
            // A send fails only when the driver was dropped; the answer is not needed then.
            let _ = sender.send((client, incarnation, Instant::now(), answer));
        });
    }

    fn send(&mut self, _client: usize) {}

    fn wait(&mut self, timeout: Duration, sink: Sink<'_>) {
        let receiving = self.answers.recv_many(&mut self.received, ANSWERS_MAX);
        // The result is ignored: `received` holds the answers.
        let _ = self.runtime.block_on(async { tokio::time::timeout(timeout, receiving).await });
        for (client, incarnation, at, result) in self.received.drain(..) {
            if self.incarnations[client] == incarnation {
                sink(client, at, result.as_ref().map(OwnedAnswer::answer).map_err(Clone::clone));
            }
        }
    }

    fn forget(&mut self, client: usize) {
        self.incarnations[client] += 1;
    }
}

fn failure(error: &etcd_client::Error) -> Failure {
    let etcd_client::Error::GRpcStatus(status) = error else {
        return Failure::lost("connection_lost");
    };
    // The code's name in gRPC, such as `Unavailable`.
    let kind = format!("{:?}", status.code());
    Failure { is_lost: kind == "Unavailable", kind: kind.into() }
}

enum EtcdRequest {
    Get(Vec<u8>, GetOptions),
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Swap(Txn),
    Sequence(Txn),
    Count(Vec<u8>, GetOptions),
    MultiGet(Txn),
}

enum OwnedAnswer {
    Done,
    Value(Option<Vec<u8>>),
    Swapped(bool),
    Old(Option<Vec<u8>>),
    Count(u64),
}

impl OwnedAnswer {
    fn answer(&self) -> Answer<'_> {
        match self {
            OwnedAnswer::Done => Answer::Done,
            OwnedAnswer::Value(value) => Answer::Value(value.as_deref()),
            OwnedAnswer::Swapped(written) => Answer::Swapped(*written),
            OwnedAnswer::Old(old) => Answer::Old(old.as_deref().map(Cow::Borrowed)),
            OwnedAnswer::Count(count) => Answer::Count(*count),
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
                EtcdRequest::MultiGet(Txn::new().and_then(gets.collect::<Vec<_>>()))
            }
            Call::TestAndSet { key, expected, wanted } => {
                let condition = match expected {
                    Some(value) => Compare::value(key, CompareOp::Equal, value),
                    None => Compare::version(key, CompareOp::Equal, 0),
                };
                let swap = Txn::new().when([condition]);
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
            Call::Resp(_) | Call::Document(_) => EtcdRequest::Sequence(Txn::new()),
        }
    }

    async fn send(self, mut kv: KvClient) -> Result<OwnedAnswer, etcd_client::Error> {
        Ok(match self {
            EtcdRequest::Get(key, options) => {
                let mut reply = kv.get(key, Some(options)).await?.take_kvs();
                OwnedAnswer::Value(reply.pop().map(|row| row.into_key_value().1))
            }
            EtcdRequest::Put(key, value) => {
                kv.put(key, value, None).await.map(|_| OwnedAnswer::Done)?
            }
            EtcdRequest::Delete(key) => {
                kv.delete(key, None::<DeleteOptions>).await.map(|_| OwnedAnswer::Done)?
            }
            EtcdRequest::Count(key, options) => {
                let reply = kv.get(key, Some(options)).await?;
                // `count_only` returns no rows; a limited range counts beyond its limit.
                let rows = reply.kvs().len();
                OwnedAnswer::Count(if rows > 0 { rows as u64 } else { reply.count() as u64 })
            }
            EtcdRequest::Sequence(txn) => kv.txn(txn).await.map(|_| OwnedAnswer::Done)?,
            EtcdRequest::MultiGet(txn) => {
                let answers = kv.txn(txn).await?.op_responses();
                let counts = answers.iter().map(|answer| match answer {
                    TxnOpResponse::Get(reply) => reply.kvs().len() as u64,
                    _ => 0,
                });
                OwnedAnswer::Count(counts.sum())
            }
            EtcdRequest::Swap(txn) => {
                let answer = kv.txn(txn).await?;
                match answer.op_responses().pop() {
                    _ if answer.succeeded() => OwnedAnswer::Swapped(true),
                    Some(TxnOpResponse::Get(mut reply)) => {
                        let reply = reply.take_kvs().pop();
                        OwnedAnswer::Old(reply.map(|row| row.into_key_value().1))
                    }
                    _ => OwnedAnswer::Swapped(false),
                }
            }
        })
    }
}
