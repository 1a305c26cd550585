//! Manual client: a test makes each of its calls, for stories in which the order matters.

use super::{SiblingAction, SiblingAnswer, SiblingCall, SiblingHistory, SiblingOp};
use crate::client::{CallOutcome, Riak, RiakObject, RiakOutcome};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Timeout of a call.
const PATIENCE: Duration = Duration::from_secs(5);

/// Values that a read returned, with the context of the next write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownValues {
    /// Causal context. `None`: the key was absent.
    pub context: Option<String>,
    /// Values, without order.
    pub values: BTreeSet<String>,
}

/// Client with a connection to each node.
pub struct ManualClient {
    nodes: Vec<SocketAddr>,
    clients: BTreeMap<usize, Riak>,
    place: String,
    name: String,
    written: u32,
    /// Its calls, for the judge.
    pub calls: Vec<SiblingCall>,
}

impl ManualClient {
    /// Returns a client of a bucket, `TYPE/BUCKET`. Its values begin with `name`.
    pub fn new(nodes: &[SocketAddr], place: &str, name: &str) -> ManualClient {
        let (nodes, clients, calls) = (nodes.to_vec(), BTreeMap::new(), Vec::new());
        ManualClient { nodes, clients, place: place.into(), name: name.into(), written: 0, calls }
    }

    /// Drops all connections, because nodes have restarted.
    pub fn connect_anew(&mut self) {
        self.clients.clear();
    }

    /// Reads at a node, counted from 1. Absence of the key is an answer; a refusal is an error.
    pub fn get(&mut self, node: usize, key: &str, options: &str) -> Result<ShownValues, String> {
        let place = self.place.clone();
        match self.ask(node, |client| client.fetch(&place, key, options)) {
            Ok(RiakOutcome::Done(shown) | RiakOutcome::Absent(shown)) => Ok(self.saw(key, shown)),
            Ok(RiakOutcome::Other(answer)) => Err(answer.text()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Writes a new value that replaces the seen ones. Returns the outcome.
    pub fn put(
        &mut self,
        node: usize,
        key: &str,
        seen: &ShownValues,
        options: &str,
    ) -> CallOutcome {
        self.written += 1;
        let (place, value) = (self.place.clone(), format!("{}.{}", self.name, self.written));
        let how = (seen.context.as_deref(), options);
        let answer = self.ask(node, |client| client.store(&place, key, value.as_bytes(), how));
        let told = told(&answer);
        self.record(key, SiblingAction::Write(value), seen, told.map(|()| None));
        told
    }

    /// Deletes the seen values. Returns the outcome.
    pub fn delete(
        &mut self,
        node: usize,
        key: &str,
        seen: &ShownValues,
        options: &str,
    ) -> CallOutcome {
        let place = self.place.clone();
        let how = (seen.context.as_deref(), options);
        let answer = self.ask(node, |client| client.remove(&place, key, how));
        let told = told(&answer);
        self.record(key, SiblingAction::Delete, seen, told.map(|()| None));
        told
    }

    /// Returns its calls as a history for the checker, untimed.
    pub fn history(self) -> SiblingHistory {
        SiblingHistory { calls: self.calls, ..SiblingHistory::default() }
    }

    fn saw(&mut self, key: &str, shown: RiakObject) -> ShownValues {
        let text = |value: &Vec<u8>| String::from_utf8_lossy(value).into_owned();
        let seen =
            ShownValues { context: shown.context, values: shown.values.iter().map(text).collect() };
        let answer = CallOutcome::Acknowledged(Some(seen.values.clone()));
        self.record(key, SiblingAction::Read, &ShownValues::default(), answer);
        seen
    }

    fn record(
        &mut self,
        key: &str,
        action: SiblingAction,
        seen: &ShownValues,
        outcome: CallOutcome<SiblingAnswer>,
    ) {
        let op = SiblingOp { key: key.into(), action, seen: seen.values.clone() };
        self.calls.push(SiblingCall::untimed(op, outcome));
    }

    /// Calls a node, over its open connection or a new one. A failed call drops the connection.
    fn ask<T>(
        &mut self,
        node: usize,
        what: impl FnOnce(&mut Riak) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        let mut client = match self.clients.remove(&node) {
            Some(client) => client,
            None => Riak::with_patience(self.nodes[node - 1], PATIENCE)?,
        };
        let answer = what(&mut client)?;
        self.clients.insert(node, client);
        Ok(answer)
    }
}

/// Returns the outcome of a change. A client error had no effect; after a server error, some
/// replicas may have executed the call.
fn told(answer: &std::io::Result<RiakOutcome>) -> CallOutcome {
    match answer {
        Ok(RiakOutcome::Done(_)) => CallOutcome::Acknowledged(()),
        Ok(RiakOutcome::Absent(_)) => CallOutcome::Refused,
        Ok(RiakOutcome::Other(answer)) if answer.status < 500 => CallOutcome::Refused,
        Ok(RiakOutcome::Other(_)) | Err(_) => CallOutcome::Unknown,
    }
}
