//! Time and chance: the only place that asks for them.

#[cfg(test)]
use std::cell::Cell;
use std::sync::OnceLock;

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

/// A number by chance.
pub(crate) fn chance() -> u64 {
    rand::random()
}
