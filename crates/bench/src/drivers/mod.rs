//! Drivers: one small interface to the servers that a load is sent to.
//!
//! A driver serves the clients of one thread. The thread begins calls without waiting, then waits
//! for whatever answers come; so one thread keeps thousands of clients busy.
//!
//! Promises: a client's answers come in the order of its calls, each once; a call is either
//! answered or forgotten.
//! Never: measures, decides what to ask, or prints.
//! Read next: `sockets.rs`, then `resp.rs`.

mod embedded;
#[cfg(feature = "etcd")]
mod etcd;
mod http;
mod http_reply;
mod null;
mod percent;
mod resp;
mod resp_reply;
mod riak;
mod sockets;
#[cfg(test)]
mod tests;

use crate::config::{DriverConfig, Operation};
use crate::wrong::Wrong;
use base::Kind;
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// One request to a server.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// One row.
    Get(&'a [u8]),
    /// Writes a row.
    Put(&'a [u8], &'a [u8]),
    /// Writes a row in place of what was read with this context.
    Replace {
        /// The key.
        key: &'a [u8],
        /// What it shall hold.
        value: &'a [u8],
        /// What a get of it gave.
        context: &'a [u8],
    },
    /// Deletes a row; an absent one too.
    Delete(&'a [u8]),
    /// Writes `wanted` if the row holds `expected`.
    TestAndSet {
        /// The key.
        key: &'a [u8],
        /// What it must hold; none: nothing.
        expected: Option<&'a [u8]>,
        /// What it shall hold.
        wanted: &'a [u8],
    },
    /// So many rows from a key on.
    Range(&'a [u8], usize),
    /// Puts that hold together.
    Sequence(&'a [(Vec<u8>, Vec<u8>)]),
    /// Whether a key is there.
    Exists(&'a [u8]),
    /// Several rows.
    MultiGet(&'a [Vec<u8>]),
    /// What only the RESP driver can ask; `supports` of the others refuses it.
    Resp(RespCall<'a>),
}

/// Requests that only RESP servers are asked.
#[derive(Clone, Copy, Debug)]
pub enum RespCall<'a> {
    /// Writes a row that expires after so many seconds.
    PutExpiring(&'a [u8], &'a [u8], u64),
    /// Adds one to a counter.
    Increment(&'a [u8]),
    /// Puts a key with its value at the end of a queue.
    Push {
        /// The queue's name.
        queue: &'a [u8],
        /// The key; later ones are greater.
        key: &'a [u8],
        /// Its value, where the server's queue holds values.
        value: &'a [u8],
    },
    /// Returns the first key of a queue.
    First(&'a [u8]),
    /// Removes a key from a queue.
    Remove {
        /// The queue's name.
        queue: &'a [u8],
        /// The key, as `First` gave it.
        key: &'a [u8],
    },
    /// Opens a session, writes a row through it, closes it.
    SessionPut(&'a [u8], &'a [u8]),
}

/// What a server answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<'a> {
    /// It is done.
    Done,
    /// The row's value, or none.
    Value(Option<&'a [u8]>),
    /// The row, of a server that may keep several values of one key.
    Row(RowContext<'a>),
    /// Whether a test_and_set wrote: what etcd says.
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "only etcd answers so"))]
    Swapped(bool),
    /// What was there before a test_and_set: it wrote if that is what was expected.
    Old(Option<Cow<'a, [u8]>>),
    /// So many rows or keys.
    Count(u64),
}

/// A row with what happened before what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowContext<'a> {
    /// Its value, if it is a single one.
    pub value: Option<&'a [u8]>,
    /// How many values it has.
    pub values: usize,
    /// What a write has to bring that replaces them, as the server gave it.
    pub context: Option<&'a [u8]>,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// A short name for counting: never with keys or numbers in it.
    pub kind: Cow<'static, str>,
    /// Whether the way to the server is lost, so that trying again at once is of no use.
    pub lost: bool,
}

impl Failure {
    /// A refusal by the server.
    pub fn refused(kind: impl Into<Cow<'static, str>>) -> Failure {
        Failure { kind: kind.into(), lost: false }
    }

    /// A broken connection.
    pub fn lost(kind: &'static str) -> Failure {
        Failure { kind: kind.into(), lost: true }
    }
}

/// What an answer is handed to: client, when it came, what it was.
pub type Sink<'a> = &'a mut dyn FnMut(usize, Instant, Result<Answer<'_>, Failure>);

/// The clients of one thread.
pub trait Driver {
    /// Begins a call of a client; it leaves at the latest with `send`.
    fn begin(&mut self, client: usize, call: &Call<'_>);

    /// Sends what was begun for the client.
    fn send(&mut self, client: usize);

    /// Waits at most `timeout` for answers and hands them over.
    fn wait(&mut self, timeout: Duration, sink: Sink<'_>);

    /// Forgets all calls of a client that are in flight: no answer of theirs is handed over any
    /// more.
    fn forget(&mut self, client: usize);
}

/// A server that was found, or a node that was started.
pub trait Target: Send + Sync {
    /// Its name and version.
    fn version(&self) -> String;

    /// Whether it can do this; if not, why.
    fn supports(&self, operation: Operation) -> Result<(), String>;

    /// Connects so many clients, for the thread that calls.
    fn driver(&self, clients: usize) -> Result<Box<dyn Driver>, Wrong>;

    /// Ends what was started.
    fn close(&self) -> Result<(), String>;
}

/// The answer of `supports` for drivers that are not RESP's.
fn without_resp(driver: &str, operation: Operation) -> Result<(), String> {
    match operation.is_of_resp_alone() {
        true => Err(format!("the driver `{driver}` has no `{}`: take `resp`", operation.name())),
        false => Ok(()),
    }
}

/// Finds the server or starts the node; if there is none, the error says which setting names
/// another.
pub fn prepare(config: &DriverConfig) -> Result<Box<dyn Target>, Wrong> {
    found(config).map_err(|wrong| match config.setting() {
        Some(setting) if wrong.kind == Kind::Unavailable => Wrong::unreachable(format!(
            "{wrong}; start a server there, or name another with `{setting}` (`bench quick`: --url)"
        )),
        _ => wrong,
    })
}

fn found(config: &DriverConfig) -> Result<Box<dyn Target>, Wrong> {
    match config {
        DriverConfig::Null => Ok(Box::new(null::NullTarget)),
        DriverConfig::Resp(config) => Ok(Box::new(resp::RespTarget::find(config)?)),
        DriverConfig::Http(config) => Ok(Box::new(http::HttpTarget::find(config)?)),
        DriverConfig::Riak(config) => Ok(Box::new(riak::RiakTarget::find(config)?)),
        DriverConfig::Embedded(config) => Ok(Box::new(embedded::EmbeddedTarget::start(config)?)),
        #[cfg(feature = "etcd")]
        DriverConfig::Etcd(config) => Ok(Box::new(etcd::EtcdTarget::find(config)?)),
        #[cfg(not(feature = "etcd"))]
        DriverConfig::Etcd(_) => Err("this program was built without the driver `etcd`: build it \
                                      with `--features etcd` (needs protoc)"
            .into()),
    }
}
