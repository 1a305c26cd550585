//! State of every follower of a feed: the token that it keeps, and the view that it keeps with it.

use super::shared::{DocumentBucket, SharedState};
use super::view::FollowerView;
use crate::client::encode_key;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// State of a follower, which survives its deaths: token and view are kept in one step, so no event
/// may come twice to it where tokens promise that.
#[derive(Debug)]
struct FollowerState {
    token: String,
    view: FollowerView,
    /// Number of times that it went on from its token elsewhere.
    resumptions: u64,
    /// Texts of refusals, with their counts.
    refusals: BTreeMap<String, u64>,
}

/// A follower of a bucket's feed.
pub(super) struct Follower {
    pub shared: Arc<SharedState>,
    pub name: String,
    state: Mutex<FollowerState>,
}

impl Follower {
    /// Returns a follower that begins at the start.
    pub fn new(shared: &Arc<SharedState>, name: &str) -> Arc<Follower> {
        let is_consistent = shared.bucket == DocumentBucket::Consistent;
        let state = FollowerState {
            token: "start".into(),
            view: FollowerView::new(is_consistent),
            resumptions: 0,
            refusals: BTreeMap::new(),
        };
        let name = format!("{} of {}", name, shared.bucket.name());
        Arc::new(Follower { shared: shared.clone(), name, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, FollowerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kept token.
    pub fn token(&self) -> String {
        self.state().token.clone()
    }

    /// Returns what it knows.
    pub fn view(&self) -> FollowerView {
        self.state().view.clone()
    }

    /// Returns the number of times that it went on from its token.
    pub fn resumptions(&self) -> u64 {
        self.state().resumptions
    }

    /// Describes the refusals that it got.
    pub fn refusals(&self) -> String {
        format!("{:?}", self.state().refusals)
    }

    /// Applies a page, or what a stream sent up to a token, and keeps its token.
    pub fn apply(&self, message: &Value, change: impl FnOnce(&mut FollowerView)) {
        let mut state = self.state();
        change(&mut state.view);
        match message["token"].as_str() {
            Some(token) => state.token = token.into(),
            None => state.view.note(format!("no token: {message}")),
        }
    }

    /// Counts that it goes on from its token.
    pub fn count_resumption(&self) {
        self.state().resumptions += 1;
    }

    /// Records a refusal. One by which a token, a bucket or a feed is said to be no such thing is
    /// wrong: time does not mend it.
    pub fn on_refusal(&self, status: u16, text: &str) {
        let mut state = self.state();
        if (400..500).contains(&status) && status != 429 {
            state.view.note(format!("refused: {status} {text}"));
        }
        let text: String = text.chars().take(90).collect();
        *state.refusals.entry(format!("{status} {text}")).or_default() += 1;
    }
}

/// Returns the path of a feed's page, or with `/stream` of its stream, from a place on.
pub(super) fn feed_path(
    bucket: DocumentBucket,
    stream: &str,
    from: &str,
    parameters: &str,
) -> String {
    let from = encode_key(from.as_bytes());
    format!("{}/feed{stream}?from={from}&values=true{parameters}", bucket.path())
}
