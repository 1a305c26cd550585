//! Several answers awaited at once, in an order that does not depend on chance.

use runtime::world::timeout;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

type JoinSetTask<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Futures of one kind; few, so all are looked at whenever one of them wakes.
pub(super) struct JoinSet<T> {
    all: Vec<JoinSetTask<T>>,
}

impl<T> JoinSet<T> {
    pub(super) fn new() -> JoinSet<T> {
        JoinSet { all: Vec::new() }
    }

    pub(super) fn push(&mut self, one: impl Future<Output = T> + Send + 'static) {
        self.all.push(Box::pin(one));
    }

    /// Awaits the remaining tasks for their effects, at most so long.
    pub(super) async fn finish(mut self, within: Duration) {
        let all = async {
            while !self.all.is_empty() {
                self.next().await;
            }
        };
        let _ = timeout(within, all).await;
    }

    /// Returns the next result, of the task that has waited longest. Never resolves if there is no
    /// task.
    pub(super) async fn next(&mut self) -> T {
        poll_fn(|context| {
            for at in 0..self.all.len() {
                if let Poll::Ready(ready) = self.all[at].as_mut().poll(context) {
                    drop(self.all.remove(at));
                    return Poll::Ready(ready);
                }
            }
            Poll::Pending
        })
        .await
    }
}
