//! Time and chance: the only place that asks for them.

use std::sync::OnceLock;

/// Monotonic nanoseconds that go on while the machine sleeps (`CLOCK_BOOTTIME`).
pub(crate) fn nanoseconds() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The same in milliseconds.
pub(crate) fn milliseconds() -> u64 {
    nanoseconds() / 1_000_000
}

/// A number drawn once per process: it keys hash tables that clients can fill.
pub(crate) fn salt() -> u64 {
    static SALT: OnceLock<u64> = OnceLock::new();
    *SALT.get_or_init(rand::random)
}

/// A number by chance.
pub(crate) fn chance() -> u64 {
    rand::random()
}
