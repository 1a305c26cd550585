//! Task scopes: parents of everything that runs in the background.
//!
//! A [`TaskScope`] owns the tasks and threads of one part of a program: the groups of a node, its
//! connections. Scopes form a tree, like the parts. To stop a part, its owner cancels the scope,
//! which the part's loops watch, and awaits it.
//!
//! A loop has a name, a beat and a [`Watch`], and takes a lock when it begins and ends. A request's
//! task has none of them, and costs only its count: what it waits for has time limits of its own.
//!
//! Promises: a task counts from before it runs until nothing of it is left, whether it returns,
//! panics or is dropped; tasks that were awaited in vain are named.
//! Never: aborts a task (its work would be half done); refuses one that begins late.

use crate::beat::{Beat, Watch};
use crate::{round, world};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
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

/// Beats of the loops and threads that run, each under a number of its own.
#[derive(Default)]
struct TaskNames(Mutex<NumberedNames>);

#[derive(Default)]
struct NumberedNames {
    next: u64,
    running: BTreeMap<u64, Arc<Beat>>,
}

/// Registration of a running task's name; dropping it removes the name.
struct NameEntry {
    names: Arc<TaskNames>,
    number: u64,
    beat: Arc<Beat>,
    /// Declared last, so dropped last: a task loses its name before it leaves the count.
    _token: TaskTrackerToken,
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

    /// Begins a loop. A watchdog reports it if it does not come round as `watch` says.
    pub fn spawn(&self, name: &str, watch: Watch, task: impl Future<Output = ()> + Send + 'static) {
        world::spawn(self.track(name, watch, task));
    }

    /// Counts, names and watches a loop that another begins.
    pub fn track<F: Future>(
        &self,
        name: &str,
        watch: Watch,
        task: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        run_with_beat(self.register(Beat::of_loop(name, watch)), task)
    }

    /// Begins a request's task: it counts, and has no name.
    pub fn spawn_short(&self, task: impl Future<Output = ()> + Send + 'static) {
        world::spawn(self.0.tracker.track_future(task));
    }

    /// Begins a thread, which changes its beat itself.
    ///
    /// Errors: the system can't create one.
    pub fn start_thread(
        &self,
        name: &'static str,
        body: impl FnOnce(&Beat) + Send + 'static,
    ) -> std::io::Result<()> {
        let entry = self.register(Beat::new(name));
        let body = move || {
            body(&entry.beat);
            drop(entry);
        };
        std::thread::Builder::new().name(name.into()).spawn(body).map(drop)
    }

    /// Runs long work on a thread that may block. `None`: the program is ending. The work counts
    /// until it is done, even after the caller stopped waiting.
    pub async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let token = self.0.tracker.token();
        let work = move || {
            let result = work();
            drop(token);
            result
        };
        round::wait("work on a thread that may block", world::run_blocking(work)).await
    }

    /// Returns the token that is cancelled when this scope is to end.
    pub fn cancellation_token(&self) -> &CancellationToken {
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
        let children = self.child_scopes();
        self.0.tracker.len() + children.iter().map(TaskScope::count).sum::<usize>()
    }

    /// Cancels the scope and waits for its tasks, for at most `bound`. Returns the names of those
    /// that had not ended by then.
    pub async fn cancel_and_wait(&self, timeout: Duration) -> Vec<String> {
        self.cancel();
        let all_idle = async {
            // Repeated: a task that ended may have spawned another before.
            while self.count() > 0 {
                self.wait_until_idle().await;
            }
        };
        match world::timeout(timeout, all_idle).await {
            Some(()) => Vec::new(),
            None => self.running_names(),
        }
    }

    /// Resolves once each scope has been without tasks at some moment.
    async fn wait_until_idle(&self) {
        self.0.tracker.close();
        self.0.tracker.wait().await;
        for child in self.child_scopes() {
            Box::pin(child.wait_until_idle()).await;
        }
    }

    /// Returns the names of the tasks that have not ended.
    pub fn running_names(&self) -> Vec<String> {
        let scope = self.0.name;
        let names = self.0.names.lock();
        let running = names.running.values();
        let mut all: Vec<_> = running.map(|beat| format!("{scope}: {}", beat.name())).collect();
        let unnamed = self.0.tracker.len().saturating_sub(names.running.len());
        drop(names);
        if unnamed > 0 {
            all.push(format!("{scope}: {unnamed} without a name"));
        }
        all.extend(self.child_scopes().iter().flat_map(TaskScope::running_names));
        all
    }

    /// Visits the beats of the tasks that run, here and in the scopes within, each with the name of
    /// its scope.
    pub fn visit_beats(&self, visitor: &mut dyn FnMut(&str, &Beat)) {
        let beats: Vec<_> = self.0.names.lock().running.values().cloned().collect();
        beats.iter().for_each(|beat| visitor(self.0.name, beat));
        self.child_scopes().iter().for_each(|child| child.visit_beats(visitor));
    }

    fn register(&self, beat: Beat) -> NameEntry {
        let _token = self.0.tracker.token();
        let mut names = self.0.names.lock();
        let number = names.next;
        names.next += 1;
        let beat = Arc::new(beat);
        names.running.insert(number, beat.clone());
        NameEntry { names: self.0.names.clone(), number, beat, _token }
    }

    fn children(&self) -> MutexGuard<'_, Vec<TaskScope>> {
        self.0.children.lock().expect("no one panics while holding it")
    }

    fn child_scopes(&self) -> Vec<TaskScope> {
        self.children().clone()
    }
}

/// Runs a loop; its beat says whether it works, waits or rests.
async fn run_with_beat<F: Future>(entry: NameEntry, task: F) -> F::Output {
    let mut task = pin!(task);
    let output = poll_fn(|context| {
        entry.beat.work();
        let (output, marks) = round::observe_poll(|| task.as_mut().poll(context));
        entry.beat.end_poll(marks);
        output
    });
    let output = output.await;
    drop(entry);
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::sync::oneshot;

    const SOON: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);
    const WATCH: Watch = Watch::Round(LONG);

    #[tokio::test]
    async fn scope_ends_once_its_loops_observe_cancellation() {
        let node = TaskScope::new("node");
        let groups = node.child("groups");
        let stop = groups.cancellation_token().clone();
        groups.spawn("group 1", WATCH, async move { stop.cancelled().await });
        node.spawn_short(async {});
        assert!(node.count() > 0, "they run");
        assert_eq!(node.cancel_and_wait(LONG).await, Vec::<String>::new());
        assert_eq!(node.count(), 0);
    }

    #[tokio::test]
    async fn hanging_tasks_are_named_with_their_scope() {
        let node = TaskScope::new("node");
        let groups = node.child("groups");
        groups.spawn("group 7", WATCH, pending());
        groups.spawn("group 1", WATCH, async {});
        node.spawn_short(pending());
        assert_eq!(node.cancel_and_wait(SOON).await, ["node: 1 without a name", "groups: group 7"]);
        assert_eq!(node.count(), 2);
    }

    #[tokio::test]
    async fn child_scope_ends_without_its_parent() {
        let node = TaskScope::new("node");
        let (groups, peers) = (node.child("groups"), node.child("peers"));
        for scope in [&groups, &peers] {
            let stop = scope.cancellation_token().clone();
            scope.spawn("loop", WATCH, async move { stop.cancelled().await });
        }
        assert!(groups.cancel_and_wait(LONG).await.is_empty());
        assert_eq!(node.running_names(), ["peers: loop"]);
        assert!(!peers.is_cancelled());
        assert!(node.cancel_and_wait(LONG).await.is_empty());
    }

    #[tokio::test]
    async fn dropped_or_panicked_task_is_no_longer_counted() {
        let scope = TaskScope::new("node");
        drop(scope.track("dropped", WATCH, pending::<()>()));
        let ended = tokio::spawn(scope.track("panics", WATCH, async { panic!("on purpose") }));
        assert!(ended.await.is_err());
        assert_eq!((scope.count(), scope.running_names()), (0, Vec::new()));
    }

    #[tokio::test]
    async fn task_started_during_shutdown_is_awaited_too() {
        let node = TaskScope::new("node");
        let (first, second) = (node.child("first"), node.child("second"));
        let stop = second.cancellation_token().clone();
        second.spawn("begets", WATCH, async move {
            stop.cancelled().await;
            first.spawn("late", WATCH, world::sleep(SOON));
        });
        assert!(node.cancel_and_wait(LONG).await.is_empty());
        assert_eq!(node.count(), 0);
    }

    #[tokio::test]
    async fn blocking_work_is_counted_until_done() {
        let scope = TaskScope::new("node");
        let (go, wait) = oneshot::channel::<()>();
        let work = scope.run_blocking(move || wait.blocking_recv().is_ok());
        // The caller gives up waiting.
        assert!(world::timeout(SOON, work).await.is_none());
        assert_eq!(scope.count(), 1);
        assert_eq!(scope.cancel_and_wait(SOON).await, ["node: 1 without a name"]);
        go.send(()).expect("it waits");
        assert!(scope.cancel_and_wait(LONG).await.is_empty());
    }

    #[tokio::test]
    async fn thread_is_counted_until_return() {
        let scope = TaskScope::new("node");
        let (go, wait) = oneshot::channel::<()>();
        scope.start_thread("merger", move |_| drop(wait.blocking_recv())).expect("a thread");
        assert_eq!(scope.cancel_and_wait(SOON).await, ["node: merger"]);
        drop(go);
        assert!(scope.cancel_and_wait(LONG).await.is_empty());
    }
}
