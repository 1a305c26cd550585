//! World: time, randomness and tasks. No other code takes them from the system.
//!
//! A simulation enters a [`World`] of its own on its thread, as a program enters a Tokio runtime.
//! On every other thread the machine's clocks, its entropy and Tokio answer. The check for an
//! entered world is one thread-local flag: about a nanosecond, beside the 20 of reading a clock.

use crate::round;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Boxed future without a result.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Clock, randomness and tasks of a simulation.
pub trait World {
    /// Spawns a task on the node whose turn it is.
    fn spawn(&self, task: Task);
    /// Resolves after this time by that node's clock.
    fn sleep(&self, time: Duration) -> Task;
    /// Returns a pseudo-random number.
    fn random_u64(&self) -> u64;
    /// Returns the wall clock of that node, milliseconds since 1970.
    fn unix_ms(&self) -> u64;
}

thread_local! {
    /// Monotonic time of this thread in nanoseconds. `None`: no simulation sets it.
    static TIME_NS: Cell<Option<u64>> = const { Cell::new(None) };
    /// True if [`CURRENT_WORLD`] is set: a flag without a destructor, for the hot path.
    static IS_ENTERED: Cell<bool> = const { Cell::new(false) };
    static CURRENT_WORLD: RefCell<Option<Rc<dyn World>>> = const { RefCell::new(None) };
}

/// Sets this thread's monotonic time, in nanoseconds. `None`: returns to the machine's clock.
pub fn set_time(nanoseconds: Option<u64>) {
    TIME_NS.set(nanoseconds);
}

/// Returns the time that [`set_time`] set on this thread.
pub fn simulated_time() -> Option<u64> {
    TIME_NS.get()
}

/// Enters a world on this thread. `None`: leaves it.
pub fn set_current(world: Option<Rc<dyn World>>) {
    IS_ENTERED.set(world.is_some());
    CURRENT_WORLD.set(world);
}

#[inline]
fn current_world() -> Option<Rc<dyn World>> {
    if IS_ENTERED.get() { CURRENT_WORLD.with_borrow(Option::clone) } else { None }
}

/// Returns monotonic nanoseconds, which also advance while the machine sleeps (`CLOCK_BOOTTIME`).
pub fn nanoseconds() -> u64 {
    if let Some(now) = TIME_NS.get() {
        return now;
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns monotonic milliseconds; see [`nanoseconds`].
pub fn milliseconds() -> u64 {
    nanoseconds() / 1_000_000
}

/// Returns the wall clock, milliseconds since 1970. It is for display; decisions use it only where
/// a bucket's properties require it.
pub fn unix_ms() -> u64 {
    if let Some(world) = current_world() {
        return world.unix_ms();
    }
    if let Some(now) = TIME_NS.get() {
        return now / 1_000_000;
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    time.tv_sec.max(0) as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

/// Returns a number drawn once per process, to key hash tables that clients can fill.
pub fn salt() -> u64 {
    if TIME_NS.get().is_some() {
        return 1;
    }
    static SALT: OnceLock<u64> = OnceLock::new();
    *SALT.get_or_init(rand::random)
}

/// Returns an unguessable random number.
pub fn random_u64() -> u64 {
    match current_world() {
        Some(world) => world.random_u64(),
        None => rand::random(),
    }
}

/// Returns unguessable random bytes.
pub fn secret<const BYTES: usize>() -> [u8; BYTES] {
    rand::random()
}

/// Spawns a task. Its parent is a [`TaskScope`](crate::TaskScope), which alone calls this.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    match current_world() {
        Some(world) => world.spawn(Box::pin(task)),
        None => drop(tokio::spawn(task)),
    }
}

/// Resolves after this time.
pub async fn sleep(time: Duration) {
    let sleeping = current_world().map(|world| world.sleep(time));
    match sleeping {
        Some(sleeping) => sleeping.await,
        None => tokio::time::sleep(time).await,
    }
}

/// Lets the tasks that are runnable now run first.
pub async fn yield_now() {
    // Outside a Tokio runtime, as in a simulation, it wakes its task for the next round.
    tokio::task::yield_now().await;
}

/// Pause of a loop between two turns, in which it rests. Resolves after this time, or at once when
/// the token is cancelled.
pub async fn sleep_or_cancelled(stop: &CancellationToken, time: Duration) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = round::rest(sleep(time)) => {}
    }
}

/// Pause of a loop, as [`sleep_or_cancelled`], which a change of the watched value ends, too. A
/// change since the last pause ends it at once.
pub async fn sleep_or_changed<T>(
    stop: &CancellationToken,
    changes: &mut watch::Receiver<T>,
    time: Duration,
) {
    tokio::select! {
        biased;
        _ = changes.changed() => {}
        () = sleep_or_cancelled(stop, time) => {}
    }
}

/// Returns the time until the next multiple of `period` on this node's clock. Loops whose periods
/// divide each other wake together: one wake-up of the process serves them all.
pub fn until_next(period: Duration) -> Duration {
    let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
    Duration::from_nanos(period_ns - nanoseconds() % period_ns)
}

/// Pause of a loop, as [`sleep_or_cancelled`], until the next multiple of `period`; see
/// [`until_next`].
pub async fn next_or_cancelled(stop: &CancellationToken, period: Duration) {
    sleep_or_cancelled(stop, until_next(period)).await;
}

/// Awaits a task for at most this time. `None`: it timed out.
pub async fn timeout<T>(time: Duration, task: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = task => Some(output),
        () = sleep(time) => None,
    }
}

/// Runs long work on a thread that may block. `None`: the program is ending.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if IS_ENTERED.get() {
        return Some(work());
    }
    tokio::task::spawn_blocking(work).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Asks a process of this test for its salt.
    const SHOW: &str = "CREDENZA_SHOW_SALT";

    #[test]
    fn salt_is_that_of_the_process_and_differs_between_processes() {
        let own = salt();
        if std::env::var_os(SHOW).is_some() {
            return println!("salt={own}");
        }
        assert_eq!(salt(), own);
        assert_eq!(std::thread::spawn(salt).join().expect("it returns"), own);
        let name = "world::tests::salt_is_that_of_the_process_and_differs_between_processes";
        let mut command = Command::new(std::env::current_exe().expect("known"));
        command.args(["--exact", name, "--nocapture"]).env(SHOW, "1");
        let output = command.output().expect("a test can be run");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let other = text.split_once("salt=").and_then(|(_, rest)| rest.lines().next());
        let other = other.unwrap_or_else(|| panic!("no salt: {text}"));
        assert_ne!(other, own.to_string());
    }

    #[tokio::test]
    async fn pause_ends_at_an_unseen_change_and_at_the_stop() {
        let (stop, hour) = (CancellationToken::new(), Duration::from_secs(3_600));
        let (sender, mut changes) = watch::channel(0);
        sender.send_replace(1);
        sleep_or_changed(&stop, &mut changes, hour).await;
        assert!(!changes.has_changed().expect("it is open"), "one change ends one pause");
        stop.cancel();
        sleep_or_changed(&stop, &mut changes, hour).await;
    }

    #[test]
    fn waits_of_different_loops_end_at_common_multiples() {
        let ms = Duration::from_millis;
        for (now_ms, period_ms, left_ms) in [
            (1_000, 250, 250),
            (1_001, 250, 249),
            (1_249, 250, 1),
            (1_249, 500, 251),
            (1_249, 1, 1),
        ] {
            set_time(Some(now_ms * 1_000_000));
            assert_eq!(until_next(ms(period_ms)), ms(left_ms), "{period_ms} ms at {now_ms}");
        }
        set_time(Some(1_999_999_999));
        assert_eq!(until_next(ms(250)), Duration::from_nanos(1));
        assert!(until_next(Duration::ZERO) > Duration::ZERO, "a loop without a period waits");
        set_time(None);
    }
}
