//! Manual client: a test makes each of its calls, for stories in which the order matters.

use super::{SiblingAction, SiblingAnswer, SiblingCall, SiblingHistory, SiblingOp};
use crate::client::{CallOutcome, Riak, RiakObject, RiakOutcome};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Timeout of a call.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Values that a read returned, with the context of the next write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadValues {
    /// Causal context. `None`: the key was absent.
    pub context: Option<String>,
    /// Values, without order.
    pub values: BTreeSet<String>,
}

/// Client with a connection to each node.
pub struct ManualClient {
    nodes: Vec<SocketAddr>,
    clients: BTreeMap<usize, Riak>,
    bucket_path: String,
    name: String,
    written: u32,
    /// Its calls, for the judge.
    pub calls: Vec<SiblingCall>,
}

impl ManualClient {
    /// Returns a client of a bucket, `TYPE/BUCKET`. Its values begin with `name`.
    pub fn new(nodes: &[SocketAddr], bucket_path: &str, name: &str) -> ManualClient {
        let (nodes, clients, calls) = (nodes.to_vec(), BTreeMap::new(), Vec::new());
        ManualClient {
            nodes,
            clients,
            bucket_path: bucket_path.into(),
            name: name.into(),
            written: 0,
            calls,
        }
    }

    /// Drops all connections, because nodes have restarted.
    pub fn drop_connections(&mut self) {
        self.clients.clear();
    }

    /// Reads at a node, counted from 1. Absence of the key is an answer; a refusal is an error.
    pub fn get(&mut self, node: usize, key: &str, options: &str) -> Result<ReadValues, String> {
        let bucket_path = self.bucket_path.clone();
        match self.call(node, |client| client.fetch(&bucket_path, key, options)) {
            Ok(RiakOutcome::Done(object) | RiakOutcome::Absent(object)) => {
                Ok(self.record_read(key, object))
            }
            Ok(RiakOutcome::Other(answer)) => Err(answer.text()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Writes a new value that replaces the seen ones. Returns the outcome.
    pub fn put(&mut self, node: usize, key: &str, seen: &ReadValues, options: &str) -> CallOutcome {
        self.written += 1;
        let (bucket_path, value) =
            (self.bucket_path.clone(), format!("{}.{}", self.name, self.written));
        let context_and_options = (seen.context.as_deref(), options);
        let answer = self.call(node, |client| {
            client.store(&bucket_path, key, value.as_bytes(), context_and_options)
        });
        let outcome = outcome_of(&answer);
        self.record(key, SiblingAction::Write(value), seen, outcome.map(|()| None));
        outcome
    }

    /// Deletes the seen values. Returns the outcome.
    pub fn delete(
        &mut self,
        node: usize,
        key: &str,
        seen: &ReadValues,
        options: &str,
    ) -> CallOutcome {
        let bucket_path = self.bucket_path.clone();
        let context_and_options = (seen.context.as_deref(), options);
        let answer =
            self.call(node, |client| client.remove(&bucket_path, key, context_and_options));
        let outcome = outcome_of(&answer);
        self.record(key, SiblingAction::Delete, seen, outcome.map(|()| None));
        outcome
    }

    /// Returns its calls as a history for the checker, untimed.
    pub fn history(self) -> SiblingHistory {
        SiblingHistory { calls: self.calls, ..SiblingHistory::default() }
    }

    fn record_read(&mut self, key: &str, object: RiakObject) -> ReadValues {
        let text = |value: &Vec<u8>| String::from_utf8_lossy(value).into_owned();
        let values = ReadValues {
            context: object.context,
            values: object.values.iter().map(text).collect(),
        };
        let answer = CallOutcome::Acknowledged(Some(values.values.clone()));
        self.record(key, SiblingAction::Read, &ReadValues::default(), answer);
        values
    }

    fn record(
        &mut self,
        key: &str,
        action: SiblingAction,
        seen: &ReadValues,
        outcome: CallOutcome<SiblingAnswer>,
    ) {
        let op = SiblingOp { key: key.into(), action, seen: seen.values.clone() };
        self.calls.push(SiblingCall::untimed(op, outcome));
    }

    /// Calls a node, over its open connection or a new one. A failed call drops the connection.
    fn call<T>(
        &mut self,
        node: usize,
        call: impl FnOnce(&mut Riak) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        let mut client = match self.clients.remove(&node) {
            Some(client) => client,
            None => Riak::with_timeout(self.nodes[node - 1], ANSWER_TIMEOUT)?,
        };
        let answer = call(&mut client)?;
        self.clients.insert(node, client);
        Ok(answer)
    }
}

/// Returns the outcome of a change. A client error had no effect; after a server error, some
/// replicas may have executed the call.
fn outcome_of(answer: &std::io::Result<RiakOutcome>) -> CallOutcome {
    match answer {
        Ok(RiakOutcome::Done(_)) => CallOutcome::Acknowledged(()),
        Ok(RiakOutcome::Absent(_)) => CallOutcome::Refused,
        Ok(RiakOutcome::Other(answer)) if answer.status < 500 => CallOutcome::Refused,
        Ok(RiakOutcome::Other(_)) | Err(_) => CallOutcome::Unknown,
    }
}
