//! Task scopes: parents of everything that runs in the background.
//!
//! A [`TaskScope`] owns the tasks and threads of one part of a program: the groups of a node, its
//! connections. Scopes form a tree, as the parts do. To stop a part, its owner cancels the scope,
//! which the part's loops watch, and awaits it.
//!
//! A loop has a name, and takes a lock when it begins and ends. A request's task has none, and
//! costs only its count.
//!
//! Promises: a task counts from before it runs until nothing of it is left, whether it returns,
//! panics or is dropped; tasks that were awaited in vain are named.
//! Never: aborts a task (its work would be half done); refuses one that begins late.

use crate::world;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Parent of background tasks: counts, cancels, awaits and names them. A clone is the same scope.
#[derive(Clone)]
pub struct TaskScope(Arc<Scope>);

/// State of a scope, shared by its clones.
struct Scope {
    name: &'static str,
    stop: CancellationToken,
    tracker: TaskTracker,
    names: Arc<TaskNames>,
    children: Mutex<Vec<TaskScope>>,
}

/// Names of the loops and threads that run, each under a number of its own.
#[derive(Default)]
struct TaskNames(Mutex<NumberedNames>);

#[derive(Default)]
struct NumberedNames {
    next: u64,
    running: BTreeMap<u64, String>,
}

/// Entry of a running task among the names; dropping it takes it out.
struct NameEntry {
    names: Arc<TaskNames>,
    number: u64,
    /// Dropped last: a task that counts no more has no name.
    _counted: TaskTrackerToken,
}

impl TaskNames {
    fn lock(&self) -> MutexGuard<'_, NumberedNames> {
        self.0.lock().expect("no one panics while holding it")
    }
}

impl Drop for NameEntry {
    fn drop(&mut self) {
        self.names.lock().running.remove(&self.number);
    }
}

impl TaskScope {
    /// Returns a scope without a parent.
    pub fn new(name: &'static str) -> TaskScope {
        TaskScope::with_stop(name, CancellationToken::new())
    }

    fn with_stop(name: &'static str, stop: CancellationToken) -> TaskScope {
        let (tracker, names) = (TaskTracker::new(), Arc::default());
        TaskScope(Arc::new(Scope { name, stop, tracker, names, children: Mutex::default() }))
    }

    /// Returns a scope within this one: it is cancelled and awaited with it, or before.
    pub fn child(&self, name: &'static str) -> TaskScope {
        let child = TaskScope::with_stop(name, self.0.stop.child_token());
        self.children().push(child.clone());
        child
    }

    /// Begins a loop.
    pub fn spawn(&self, name: &str, task: impl Future<Output = ()> + Send + 'static) {
        world::spawn(self.track(name, task));
    }

    /// Counts and names a loop that another begins.
    pub fn track<F: Future>(
        &self,
        name: &str,
        task: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let entry = self.enter(name.into());
        async move {
            let ended = task.await;
            drop(entry);
            ended
        }
    }

    /// Begins a request's task: it counts, and has no name.
    pub fn spawn_short(&self, task: impl Future<Output = ()> + Send + 'static) {
        world::spawn(self.0.tracker.track_future(task));
    }

    /// Begins a thread.
    ///
    /// Errors: the system has none to give.
    pub fn start_thread(
        &self,
        name: &'static str,
        life: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        let entry = self.enter(name.into());
        let life = move || {
            life();
            drop(entry);
        };
        std::thread::Builder::new().name(name.into()).spawn(life).map(drop)
    }

    /// Runs long work on a thread that may block. `None`: the program is ending. The work counts
    /// until it is done, even if nobody waits for it any more.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let counted = self.0.tracker.token();
        let work = move || {
            let done = work();
            drop(counted);
            done
        };
        world::run_blocking(work).await
    }

    /// Returns the token that is cancelled when this scope is to end.
    pub fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Returns true if this scope is to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// Cancels the scope: its tasks, and those of the scopes within it, are to end.
    pub fn cancel(&self) {
        self.0.stop.cancel();
    }

    /// Returns the number of tasks that have not ended, here and in the scopes within.
    pub fn count(&self) -> usize {
        let within = self.within();
        self.0.tracker.len() + within.iter().map(TaskScope::count).sum::<usize>()
    }

    /// Cancels the scope and waits for its tasks, for at most `bound`. Returns the names of those
    /// that had not ended by then.
    pub async fn end(&self, bound: Duration) -> Vec<String> {
        self.cancel();
        let ended = async {
            // Again: a task that ended may have begun another before.
            while self.count() > 0 {
                self.ended().await;
            }
        };
        match world::timeout(bound, ended).await {
            Some(()) => Vec::new(),
            None => self.unended(),
        }
    }

    /// Resolves when each scope has been without a task once.
    async fn ended(&self) {
        self.0.tracker.close();
        self.0.tracker.wait().await;
        for child in self.within() {
            Box::pin(child.ended()).await;
        }
    }

    /// Returns the names of the tasks that have not ended.
    pub fn unended(&self) -> Vec<String> {
        let own = self.0.name;
        let names = self.0.names.lock();
        let mut all: Vec<_> = names.running.values().map(|name| format!("{own}: {name}")).collect();
        let short = self.0.tracker.len().saturating_sub(names.running.len());
        drop(names);
        if short > 0 {
            all.push(format!("{own}: {short} without a name"));
        }
        all.extend(self.within().iter().flat_map(TaskScope::unended));
        all
    }

    fn enter(&self, name: String) -> NameEntry {
        let _counted = self.0.tracker.token();
        let mut names = self.0.names.lock();
        let number = names.next;
        names.next += 1;
        names.running.insert(number, name);
        NameEntry { names: self.0.names.clone(), number, _counted }
    }

    fn children(&self) -> MutexGuard<'_, Vec<TaskScope>> {
        self.0.children.lock().expect("no one panics while holding it")
    }

    fn within(&self) -> Vec<TaskScope> {
        self.children().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::sync::oneshot;

    const SOON: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_scope_ends_when_its_loops_have_looked_at_its_token() {
        let node = TaskScope::new("node");
        let groups = node.child("groups");
        let stop = groups.stop().clone();
        groups.spawn("group 1", async move { stop.cancelled().await });
        node.spawn_short(async {});
        assert!(node.count() > 0, "they run");
        assert_eq!(node.end(LONG).await, Vec::<String>::new());
        assert_eq!(node.count(), 0);
    }

    #[tokio::test]
    async fn tasks_that_hang_are_named_with_their_scope() {
        let node = TaskScope::new("node");
        let groups = node.child("groups");
        groups.spawn("group 7", pending());
        groups.spawn("group 1", async {});
        node.spawn_short(pending());
        assert_eq!(node.end(SOON).await, ["node: 1 without a name", "groups: group 7"]);
        assert_eq!(node.count(), 2);
    }

    #[tokio::test]
    async fn a_child_ends_alone_and_its_parent_goes_on() {
        let node = TaskScope::new("node");
        let (groups, peers) = (node.child("groups"), node.child("peers"));
        for scope in [&groups, &peers] {
            let stop = scope.stop().clone();
            scope.spawn("loop", async move { stop.cancelled().await });
        }
        assert!(groups.end(LONG).await.is_empty());
        assert_eq!(node.unended(), ["peers: loop"]);
        assert!(!peers.is_cancelled());
        assert!(node.end(LONG).await.is_empty());
    }

    #[tokio::test]
    async fn a_task_that_is_dropped_or_panics_counts_no_more() {
        let scope = TaskScope::new("node");
        drop(scope.track("dropped", pending::<()>()));
        let ended = tokio::spawn(scope.track("panics", async { panic!("on purpose") }));
        assert!(ended.await.is_err());
        assert_eq!((scope.count(), scope.unended()), (0, Vec::new()));
    }

    #[tokio::test]
    async fn a_task_that_begins_while_others_end_is_awaited_too() {
        let node = TaskScope::new("node");
        let (first, second) = (node.child("first"), node.child("second"));
        let stop = second.stop().clone();
        second.spawn("begets", async move {
            stop.cancelled().await;
            first.spawn("late", world::sleep(SOON));
        });
        assert!(node.end(LONG).await.is_empty());
        assert_eq!(node.count(), 0);
    }

    #[tokio::test]
    async fn blocking_work_counts_until_it_is_done() {
        let scope = TaskScope::new("node");
        let (go, wait) = oneshot::channel::<()>();
        let work = scope.run_blocking(move || wait.blocking_recv().is_ok());
        // Nobody waits for it any more.
        assert!(world::timeout(SOON, work).await.is_none());
        assert_eq!(scope.count(), 1);
        assert_eq!(scope.end(SOON).await, ["node: 1 without a name"]);
        go.send(()).expect("it waits");
        assert!(scope.end(LONG).await.is_empty());
    }

    #[tokio::test]
    async fn a_thread_counts_until_it_returns() {
        let scope = TaskScope::new("node");
        let (go, wait) = oneshot::channel::<()>();
        scope.start_thread("merger", move || drop(wait.blocking_recv())).expect("a thread");
        assert_eq!(scope.end(SOON).await, ["node: merger"]);
        drop(go);
        assert!(scope.end(LONG).await.is_empty());
    }
}
