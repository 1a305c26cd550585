//! Reads that wait for their read index (Raft dissertation, section 6.4): each is submitted to
//! consensus under a token of its own.

use base::{LogIndex, Result};
use logic::consensus::ReadToken;
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// See the head of this file.
#[derive(Default)]
pub struct ReadRequests {
    waiting: BTreeMap<ReadToken, oneshot::Sender<Result<LogIndex>>>,
    /// Token of the next read.
    next: u64,
}

impl ReadRequests {
    /// Adds a request. The caller submits it to consensus under the returned token.
    pub(super) fn begin(&mut self) -> (ReadToken, oneshot::Receiver<Result<LogIndex>>) {
        let (sender, answer) = oneshot::channel();
        let token = ReadToken(self.next);
        self.next += 1;
        self.waiting.insert(token, sender);
        (token, answer)
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, token: ReadToken, answer: Result<LogIndex>) {
        if let Some(reader) = self.waiting.remove(&token) {
            let _ = reader.send(answer); // The reader may have given up.
        }
    }

    /// Fails all requests.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}
