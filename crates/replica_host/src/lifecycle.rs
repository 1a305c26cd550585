//! State of a running node, as its parts see it: serving, stopping, or failed.
//!
//! Promises: the first failure is the one that is reported; after it nothing is acknowledged any
//! more.

use crate::groups::Groups;
use crate::node_tasks::NodeTasks;
use base::Error;
use dynamo::vnode_store::VnodeStore;
use runtime::CancellationToken;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// State of a running node, and the components that fail with it.
pub struct Lifecycle {
    groups: Arc<Groups>,
    vnode_store: Arc<VnodeStore>,
    /// True once no request is accepted any more.
    pub stopping: AtomicBool,
    /// Task scopes of the node.
    pub tasks: NodeTasks,
    failed: watch::Sender<Option<Error>>,
}

impl Lifecycle {
    /// Returns the state of a node that serves.
    pub fn new(groups: Arc<Groups>, vnode_store: Arc<VnodeStore>, tasks: NodeTasks) -> Lifecycle {
        Lifecycle {
            groups,
            vnode_store,
            stopping: AtomicBool::new(false),
            tasks,
            failed: watch::Sender::new(None),
        }
    }

    /// Ends the node with an error: no more answers, and the process must exit.
    pub fn fail(&self, error: Error) {
        self.fail_paths(&error);
        self.failed.send_if_modified(|failed| {
            let first = failed.is_none();
            failed.get_or_insert(error);
            first
        });
    }

    /// Ends the node because of a failed log.
    pub fn fail_log(&self, error: Error) {
        // First, so that a readiness check reports this error, and not one of its consequences.
        self.failed.send_replace(Some(error.clone()));
        self.fail_paths(&error);
    }

    fn fail_paths(&self, error: &Error) {
        for group in self.groups.all() {
            group.fail(error.clone());
        }
        self.vnode_store.fail(error.clone());
    }

    /// Returns the reason if the node has failed.
    pub fn failure(&self) -> Option<Error> {
        self.failed.borrow().clone()
    }

    /// Resolves when the node has failed, with the reason.
    pub async fn failed(&self) -> Error {
        let mut failed = self.failed.subscribe();
        loop {
            if let Some(error) = failed.borrow_and_update().clone() {
                return error;
            }
            if failed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns true if the node takes no requests any more.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Takes no requests any more; `false`: the node was stopping before.
    pub fn begin_stop(&self) -> bool {
        !self.stopping.swap(true, Ordering::AcqRel)
    }

    /// Returns the token that is cancelled when the background loops must end.
    pub fn stop_signal(&self) -> CancellationToken {
        self.tasks.loops.cancellation_token().clone()
    }
}
