//! Time and chance: the only place that asks for them. What the vnodes do in the background goes
//! through here too, so that a simulation can have it done in an order of its own.

#[cfg(test)]
use std::cell::{Cell, RefCell};
use std::future::Future;
#[cfg(test)]
use std::pin::Pin;
#[cfg(test)]
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::watch;

/// Monotonic nanoseconds that go on while the machine sleeps (`CLOCK_BOOTTIME`).
pub(crate) fn nanoseconds() -> u64 {
    #[cfg(test)]
    if let Some(now) = SIMULATED.get() {
        return now;
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The same in milliseconds.
pub(crate) fn milliseconds() -> u64 {
    nanoseconds() / 1_000_000
}

#[cfg(test)]
thread_local! {
    /// The time on this thread, where a simulation makes it.
    pub(crate) static SIMULATED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// What a clock on the wall says, in milliseconds since 1970: told to people, and decided upon only
/// where a bucket's properties ask for it.
pub(crate) fn unix_ms() -> u64 {
    #[cfg(test)]
    if let Some(now) = stage().map(|stage| stage.unix_ms()) {
        return now;
    }
    #[cfg(test)]
    if let Some(now) = SIMULATED.get() {
        return now / 1_000_000;
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    time.tv_sec.max(0) as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

/// A number drawn once per process: it keys hash tables that clients can fill.
pub(crate) fn salt() -> u64 {
    #[cfg(test)]
    if SIMULATED.get().is_some() {
        return 1;
    }
    static SALT: OnceLock<u64> = OnceLock::new();
    *SALT.get_or_init(rand::random)
}

/// A number by chance that nobody can guess.
pub(crate) fn chance() -> u64 {
    #[cfg(test)]
    if let Some(stage) = stage() {
        return stage.chance();
    }
    rand::random()
}

/// Bytes that nobody can guess.
pub(crate) fn secret<const BYTES: usize>() -> [u8; BYTES] {
    rand::random()
}

/// Begins a task that ends by itself, or with the node.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    #[cfg(test)]
    if let Some(stage) = stage() {
        return stage.spawn(Box::pin(task));
    }
    tokio::spawn(task);
}

/// Resolves after so long.
pub(crate) async fn sleep(time: Duration) {
    #[cfg(test)]
    if let Some(asleep) = stage().map(|stage| stage.sleep(time)) {
        return asleep.await;
    }
    tokio::time::sleep(time).await;
}

/// Resolves after so long, or at once when the node stops.
pub(crate) async fn rest(stop: &mut watch::Receiver<bool>, time: Duration) {
    tokio::select! {
        biased;
        _ = stop.changed() => {}
        () = sleep(time) => {}
    }
}

/// What comes of a task if it is done within this time.
pub(crate) async fn timeout<T>(time: Duration, task: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = task => Some(done),
        () = sleep(time) => None,
    }
}

/// Work that takes long, off the threads that answer; none: the node is stopping.
pub(crate) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    #[cfg(test)]
    if stage().is_some() {
        return Some(work());
    }
    tokio::task::spawn_blocking(work).await.ok()
}

/// Where a simulation takes the place of threads, clocks and dice.
#[cfg(test)]
pub(crate) trait Stage {
    /// Begins a task of the node whose turn it is.
    fn spawn(&self, task: Task);
    /// Resolves after so long by that node's clock.
    fn sleep(&self, time: Duration) -> Task;
    /// A number from the seed.
    fn chance(&self) -> u64;
    /// What that node's clock on the wall says.
    fn unix_ms(&self) -> u64;
}

/// A future without a result, in a box.
#[cfg(test)]
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

#[cfg(test)]
thread_local! {
    /// The simulation on this thread.
    pub(crate) static STAGE: RefCell<Option<Rc<dyn Stage>>> = const { RefCell::new(None) };
}

#[cfg(test)]
fn stage() -> Option<Rc<dyn Stage>> {
    STAGE.with_borrow(Option::clone)
}
