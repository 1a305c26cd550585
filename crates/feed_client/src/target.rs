//! Target of a copy: its records, and the state of the copy under a reserved key.

use crate::changes::NewRecord;
use crate::cluster_client::ClusterClient;
use crate::key_differences::KeyList;
use api::{Blob, SiblingsReply};
use base::{BucketName, Kind, Reason};
use bytes::Bytes;
use client::{HttpCall, encode};
use hyper::Method;
use program::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Prefix of the keys that hold the states of copies in their targets; the name of the source
/// follows. No copy writes or removes another such key.
pub const STATE_KEY_PREFIX: &str = "credenza/copy/";
/// Form of the state that this program writes and reads.
const STATE_FORM: u32 = 1;

/// State of a copy, as its target holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyState {
    form: u32,
    /// Place in the feed of the source behind all records that were written.
    pub token: String,
    /// True if keys of the target that the source lacks are still to be removed.
    pub is_sweep_due: bool,
}

impl CopyState {
    /// Returns the state behind this token.
    pub fn new(token: String, is_sweep_due: bool) -> CopyState {
        CopyState { form: STATE_FORM, token, is_sweep_due }
    }

    fn parse(bytes: &[u8]) -> Option<CopyState> {
        serde_json::from_slice(bytes).ok().filter(|state: &CopyState| state.form == STATE_FORM)
    }

    fn text(&self) -> Bytes {
        serde_json::to_vec(self).expect("texts and numbers have a JSON form").into()
    }
}

/// Rule for siblings that a target can't hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiblingsRule {
    /// They end the copy.
    Stop,
    /// The newest value is copied.
    Newest,
}

/// Target of a copy.
pub struct CopyTarget {
    nodes: ClusterClient,
    bucket: BucketName,
    is_available: bool,
    rule: SiblingsRule,
    state_key: Bytes,
    /// State as it is stored, as far as this copy knows. `None`: there is none.
    stored: Option<Bytes>,
}

impl CopyTarget {
    /// Opens the target of a copy of a source. Fails if it holds data types.
    pub async fn open(
        mut nodes: ClusterClient,
        (source, bucket): (&BucketName, BucketName),
        rule: SiblingsRule,
    ) -> Outcome<CopyTarget> {
        let is_available = is_available(&mut nodes, &bucket).await?;
        let state_key = Bytes::from(format!("{STATE_KEY_PREFIX}{source}"));
        let stored = None;
        let mut target = CopyTarget { nodes, bucket, is_available, rule, state_key, stored };
        target.stored = target.read_state().await?;
        Ok(target)
    }

    /// Returns the state of the copy. `None`: it has not begun. Fails if this program can't read
    /// it.
    pub fn state(&self) -> Outcome<Option<CopyState>> {
        let Some(stored) = &self.stored else { return Ok(None) };
        CopyState::parse(stored).map(Some).ok_or_else(|| {
            let text = format!(
                "the key `{}` of `{}` holds no state of a copy that this program reads: delete \
                 it, and begin again with --overwrite",
                base::codec::printable(&self.state_key),
                self.bucket
            );
            Failure::new(Kind::Conflict, text)
        })
    }

    /// Returns true if the copy has a state.
    pub fn has_state(&self) -> bool {
        self.stored.is_some()
    }

    /// Returns the bucket.
    pub fn bucket(&self) -> &BucketName {
        &self.bucket
    }

    /// Returns the client of the target's cluster.
    pub fn nodes(&mut self) -> &mut ClusterClient {
        &mut self.nodes
    }

    /// Returns true if the bucket has no key.
    pub async fn is_empty(&mut self) -> Outcome<bool> {
        Ok(KeyList::new(&self.bucket).peek(&mut self.nodes).await?.is_none())
    }

    /// Writes records, and the state that covers them: in a consistent bucket in one step, in an
    /// available one after them. To write the same again is harmless. Returns false if another
    /// copy has stored a state since: nothing was written, and [`CopyTarget::state`] is that one.
    pub async fn write(
        &mut self,
        changes: BTreeMap<Bytes, NewRecord>,
        state: &CopyState,
    ) -> Outcome<bool> {
        let text = state.text();
        let (mut steps, mut siblings) = (Vec::new(), Vec::new());
        for (key, record) in changes {
            match record {
                NewRecord::Siblings(values) if self.is_available => siblings.push((key, values)),
                record => steps.push(self.step(key, record)?),
            }
        }
        if !self.is_available {
            return self.write_consistent(steps, text).await;
        }
        self.write_available(steps, siblings, &text).await?;
        self.stored = Some(text);
        Ok(true)
    }

    /// Returns the step of a sequence that gives a key this record.
    fn step(&self, key: Bytes, record: NewRecord) -> Outcome<Value> {
        let (value, expires_in_ms) = match record {
            NewRecord::Absent => return Ok(json!({ "op": "delete", "key": Blob(key) })),
            NewRecord::Value(value, expires_in_ms) => (value, expires_in_ms),
            NewRecord::Siblings(values) if self.rule == SiblingsRule::Newest => {
                (values.into_iter().next().unwrap_or_default(), None)
            }
            NewRecord::Siblings(values) => {
                let text = format!(
                    "the key {} has {} siblings, and `{}` holds one value of each key: resolve \
                     them (`credenza siblings --help`), or copy the newest value of such keys \
                     with --newest",
                    base::codec::printable(&key),
                    values.len(),
                    self.bucket
                );
                return Err(Failure::new(Kind::Conflict, text));
            }
        };
        let mut step = json!({ "op": "set", "key": Blob(key), "value": value });
        match expires_in_ms {
            Some(ms) => step["ttl_ms"] = ms.into(),
            // Not the time to live that the bucket gives to others' records.
            None if !self.is_available => step["ttl_ms"] = "never".into(),
            None => {}
        }
        Ok(step)
    }

    /// Writes all or nothing, if the state is the one that this copy stored last.
    async fn write_consistent(&mut self, steps: Vec<Value>, text: Bytes) -> Outcome<bool> {
        let (key, expected) = (Blob(self.state_key.clone()), self.stored.clone().map(Blob));
        let assert = json!({ "op": "assert", "key": key.clone(), "expected": expected });
        let value = Blob(text.clone());
        let set = json!({ "op": "set", "key": key, "value": value, "ttl_ms": "never" });
        let steps: Vec<_> = [assert].into_iter().chain(steps).chain([set]).collect();
        let call = HttpCall::new(Method::POST, self.path("/sequence")).with_json(&steps);
        match self.nodes.call(&call).await {
            Ok(_) => self.stored = Some(text.clone()),
            // An earlier attempt, whose answer was lost, may have been applied.
            Err(failure) if failure.reason() == Some(Reason::AssertionFailed) => {
                self.stored = self.read_state().await?;
            }
            Err(failure) => return Err(failure),
        }
        Ok(self.stored == Some(text))
    }

    async fn write_available(
        &mut self,
        steps: Vec<Value>,
        siblings: Vec<(Bytes, Vec<Blob>)>,
        text: &Bytes,
    ) -> Outcome {
        if !steps.is_empty() {
            let body = json!({ "steps": steps, "mode": "batch" });
            let call = HttpCall::new(Method::POST, self.path("/sequence")).with_json(&body);
            self.nodes.call(&call).await?;
        }
        for (key, values) in siblings {
            self.write_siblings(&key, &values).await?;
        }
        let path = self.path(&format!("/keys/{}", encode(&self.state_key)));
        let call = HttpCall { body: text.clone(), ..HttpCall::new(Method::PUT, path) };
        self.nodes.call(&call).await.map(|_| ())
    }

    /// Writes the siblings of a key in place of what is there, the newest one last.
    async fn write_siblings(&mut self, key: &Bytes, values: &[Blob]) -> Outcome {
        let path = self.path(&format!("/siblings/{}", encode(key)));
        // An attempt begins with a new context: it replaces what a former attempt wrote.
        let attempt = async |client: &mut client::Client| {
            let found = client.call_key(HttpCall::new(Method::GET, path.clone())).await?;
            let found = found.map(|answer| answer.read::<SiblingsReply>()).transpose()?;
            let mut query = found.map(|found| format!("?context={}", found.context));
            for value in values.iter().rev() {
                let path = format!("{path}{}", query.take().unwrap_or_default());
                let body = value.0.clone();
                client.call(HttpCall { body, ..HttpCall::new(Method::PUT, path) }).await?;
            }
            Ok(())
        };
        self.nodes.attempt(attempt).await
    }

    async fn read_state(&mut self) -> Outcome<Option<Bytes>> {
        let path = self.path(&format!("/keys/{}", encode(&self.state_key)));
        let read = HttpCall::new(Method::GET, path);
        let answer = self.nodes.attempt(async |client| client.call_key(read.clone()).await).await?;
        Ok(answer.map(|answer| answer.body))
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/buckets/{}{rest}", self.bucket)
    }
}

/// Returns true if a bucket is available. Fails if it holds data types: their values are changed,
/// and never written as a whole.
pub async fn is_available(nodes: &mut ClusterClient, bucket: &BucketName) -> Outcome<bool> {
    let properties = nodes.attempt(async |client| client.bucket(bucket).await).await?.properties;
    match properties.text("datatype").as_deref() {
        None | Some("none") => Ok(properties.text("consistency").as_deref() == Some("available")),
        Some(kind) => Err(Failure::invalid(format!(
            "the bucket {bucket} holds data types ({kind}), which a copy can't write"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_a_copy_is_read_back_and_that_of_another_form_is_not() {
        let state = CopyState::new("AQ-_".into(), true);
        assert_eq!(CopyState::parse(&state.text()), Some(state.clone()));
        let other = CopyState { form: STATE_FORM + 1, ..state };
        assert_eq!(CopyState::parse(&other.text()), None);
        assert_eq!(CopyState::parse(b"{}"), None);
    }
}
