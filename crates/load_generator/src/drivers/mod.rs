//! Drivers: one small interface to the servers that a load is sent to.
//!
//! A driver serves the clients of one thread. The thread begins calls without waiting, then waits
//! for any answers; so one thread keeps thousands of clients busy.
//!
//! Promises: a client's answers come in the order of its calls, each once; a call is either
//! answered or forgotten.
//! Never: measures, chooses operations, or prints.
//! Read next: `sockets.rs`, then `resp.rs`.

mod arakoon;
mod couchdb;
mod documents;
mod embedded;
#[cfg(feature = "etcd")]
mod etcd;
mod http;
mod http_reply;
mod null;
mod percent;
mod resp;
mod resp_page;
mod resp_reply;
mod riak;
mod sockets;
#[cfg(test)]
mod tests;

pub use documents::{DocumentCall, IntegerRange, QueryPage, QueryRow};
// Readers of feeds speak HTTP, too, but make no calls of their own.
pub(crate) use http_reply::parse_http_reply;
pub(crate) use sockets::resolve;

use crate::config::{DriverConfig, Operation};
use crate::error::BenchError;
use base::Kind;
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// One request to a server.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// Reads one row.
    Get(&'a [u8]),
    /// Writes a row.
    Put(&'a [u8], &'a [u8]),
    /// Replaces the values that a read returned with this context.
    Replace {
        /// The key.
        key: &'a [u8],
        /// New value.
        value: &'a [u8],
        /// Context that a get of the key returned.
        context: &'a [u8],
    },
    /// Deletes a row; an absent one is no error.
    Delete(&'a [u8]),
    /// Writes `wanted` if the row holds `expected`.
    TestAndSet {
        /// The key.
        key: &'a [u8],
        /// Expected value. `None`: the row must be absent.
        expected: Option<&'a [u8]>,
        /// New value.
        wanted: &'a [u8],
    },
    /// Reads this many rows from a key on.
    Range(&'a [u8], usize),
    /// Writes rows, all or none.
    Sequence(&'a [(Vec<u8>, Vec<u8>)]),
    /// Checks whether a key exists.
    Exists(&'a [u8]),
    /// Reads several rows.
    MultiGet(&'a [Vec<u8>]),
    /// A request of the RESP driver only; `supports` of the others refuses it.
    Resp(RespCall<'a>),
    /// A request about documents, which only drivers with an index get.
    Document(DocumentCall<'a>),
}

/// Requests that only RESP servers support.
#[derive(Clone, Copy, Debug)]
pub enum RespCall<'a> {
    /// Writes a row that expires after this many seconds.
    PutExpiring(&'a [u8], &'a [u8], u64),
    /// Adds one to a counter.
    Increment(&'a [u8]),
    /// Counts all keys.
    Count,
    /// Appends a key with its value to a queue.
    Push {
        /// The queue's name.
        queue: &'a [u8],
        /// The key, greater than all earlier ones.
        key: &'a [u8],
        /// The key's value, for servers whose queues hold values.
        value: &'a [u8],
    },
    /// Returns the first key of a queue.
    First(&'a [u8]),
    /// Removes a key from a queue.
    Remove {
        /// The queue's name.
        queue: &'a [u8],
        /// The key as `First` returned it.
        key: &'a [u8],
    },
    /// Opens a session, writes a row through it, closes it.
    SessionPut(&'a [u8], &'a [u8]),
}

/// Answer of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<'a> {
    /// Success without a result.
    Done,
    /// The row's value. `None`: the row is absent.
    Value(Option<&'a [u8]>),
    /// The row of a server that may keep several values of one key.
    Row(RowContext<'a>),
    /// True if a test_and_set wrote, as etcd reports it.
    Swapped(bool),
    /// The row's value before a test_and_set, which wrote if it equals the expected value.
    Old(Option<Cow<'a, [u8]>>),
    /// Number of rows, keys or documents.
    Count(u64),
    /// Page of a query.
    Page(QueryPage<'a>),
}

/// A row with its causal context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowContext<'a> {
    /// Its value. `None`: it has none or several.
    pub value: Option<&'a [u8]>,
    /// Number of its values.
    pub values: usize,
    /// Context that a write must carry to replace the values, as the server encoded it. `None`: the
    /// server sent none.
    pub context: Option<&'a [u8]>,
}

/// Failure of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// A short name under which the failure is counted; never contains keys or numbers.
    pub kind: Cow<'static, str>,
    /// True if the connection is lost, so that a retry at once is of no use.
    pub is_lost: bool,
}

impl Failure {
    /// Returns the failure of a call that the server refused.
    pub fn refused(kind: impl Into<Cow<'static, str>>) -> Failure {
        Failure { kind: kind.into(), is_lost: false }
    }

    /// Returns the failure of a call whose connection is lost.
    pub fn lost(kind: &'static str) -> Failure {
        Failure { kind: kind.into(), is_lost: true }
    }
}

/// Receiver of answers: client, time of arrival, answer.
pub type Sink<'a> = &'a mut dyn FnMut(usize, Instant, Result<Answer<'_>, Failure>);

/// The clients of one thread.
pub trait Driver {
    /// Begins a call of a client. It is sent at the latest by `send`.
    fn begin(&mut self, client: usize, call: &Call<'_>);

    /// Sends the calls begun for the client.
    fn send(&mut self, client: usize);

    /// Waits at most `timeout` for answers and hands them over.
    fn wait(&mut self, timeout: Duration, sink: Sink<'_>);

    /// Forgets all calls of a client that are in flight: their answers are never handed over.
    fn forget(&mut self, client: usize);
}

/// A server that answered, or a node that was started.
pub trait Target: Send + Sync {
    /// Returns its name and version.
    fn version(&self) -> String;

    /// Returns an error with the reason if the server can't do this operation.
    fn supports(&self, operation: Operation) -> Result<(), String>;

    /// Returns the number of documents that one call writes when many are loaded: 1, by `Put`, or
    /// more, by `DocumentCall::Bulk`.
    fn bulk_documents(&self) -> usize {
        1
    }

    /// Connects this many clients, for the calling thread.
    fn driver(&self, clients: usize) -> Result<Box<dyn Driver>, BenchError>;

    /// Stops the node, if one was started.
    fn close(&self) -> Result<(), String>;
}

/// Returns the result of `supports` for a driver other than RESP's.
fn refuse_resp_operation(driver: &str, operation: Operation) -> Result<(), String> {
    match operation.is_resp_only() {
        true => Err(format!("the driver `{driver}` has no `{}`: take `resp`", operation.name())),
        false => Ok(()),
    }
}

/// Connects to the server or starts the node. If no server answers, the error names the setting of
/// its address.
pub fn prepare(config: &DriverConfig) -> Result<Box<dyn Target>, BenchError> {
    connect_target(config).map_err(|error| match config.setting() {
        Some(setting) if error.kind == Kind::Unavailable => BenchError::unavailable(format!(
            "{error}; start a server there, or name another with `{setting}` (`bench quick`: --url)"
        )),
        _ => error,
    })
}

fn connect_target(config: &DriverConfig) -> Result<Box<dyn Target>, BenchError> {
    match config {
        DriverConfig::Null => Ok(Box::new(null::NullTarget)),
        DriverConfig::Resp(config) => Ok(Box::new(resp::RespTarget::connect(config)?)),
        DriverConfig::Http(config) => Ok(Box::new(http::HttpTarget::connect(config)?)),
        DriverConfig::Riak(config) => Ok(Box::new(riak::RiakTarget::connect(config)?)),
        DriverConfig::Arakoon(config) => Ok(Box::new(arakoon::ArakoonTarget::connect(config)?)),
        DriverConfig::CouchDb(config) => Ok(Box::new(couchdb::CouchDbTarget::connect(config)?)),
        DriverConfig::Embedded(config) => Ok(Box::new(embedded::EmbeddedTarget::start(config)?)),
        #[cfg(feature = "etcd")]
        DriverConfig::Etcd(config) => Ok(Box::new(etcd::EtcdTarget::connect(config)?)),
        #[cfg(not(feature = "etcd"))]
        DriverConfig::Etcd(_) => Err("this program was built without the driver `etcd`: build it \
                                      with `--features etcd` (needs protoc)"
            .into()),
    }
}
