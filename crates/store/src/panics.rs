//! Sections in which a panic is damage, and not the end of the process.
//!
//! The LSM library below the trees panics at bytes that make no sense to it. A read through it
//! returns an error that names the file instead, and the process goes on. The node's panic hook
//! ends the process before anything unwinds, so it checks here whether the panicking thread is in
//! such a section.
//!
//! Promises: a panic outside such a section is never spared, nor one of a thread that was in one
//! before.
//! Never: spares a panic of this crate or of a crate above it, except in callbacks from the
//! library.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

thread_local! {
    /// Sections that this thread is in, one inside the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Returns true if a panic of this thread now would be caught and reported as damage.
pub fn is_spared() -> bool {
    DEPTH.get() > 0
}

/// Runs work of the library. An error holds the panic's payload.
pub(crate) fn spared<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
    struct Section;
    impl Drop for Section {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    let _section = Section;
    catch_unwind(AssertUnwindSafe(work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_spared_within_a_section_alone() {
        assert!(!is_spared());
        let nested = spared(|| {
            assert!(spared(|| panic!("no sense")).is_err() && is_spared());
            let other = thread::spawn(is_spared).join();
            assert!(!other.expect("it only asks"), "another thread is in no section");
            7
        });
        assert_eq!(nested.expect("the inner panic was caught"), 7);
        assert!(spared(|| panic!("no sense")).is_err());
        assert!(!is_spared(), "a section ends with its panic");
    }
}
