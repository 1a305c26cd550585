//! Sections in which a panic means damage and does not end the process.
//!
//! The LSM library below the trees panics at invalid bytes. A read through it returns an error that
//! names the file instead, and the process goes on. The node's panic hook ends the process before
//! anything unwinds, so it checks here whether the panicking thread is in such a section.
//!
//! Promises: a panic outside such a section is never caught, nor one of a thread that has left its
//! section.
//! Never: catches a panic of this crate or of a crate above it, except in callbacks from the
//! library.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

thread_local! {
    /// Number of nested sections that this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Returns true if a panic of this thread now would be caught and reported as damage.
pub fn is_caught() -> bool {
    DEPTH.get() > 0
}

/// Runs a call of the library as such a section. An error holds the panic's payload.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
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
    fn panic_is_caught_only_within_a_spared_section() {
        assert!(!is_caught());
        let outer = catch_panic(|| {
            assert!(catch_panic(|| panic!("no sense")).is_err() && is_caught());
            let other_thread = thread::spawn(is_caught).join();
            assert!(!other_thread.expect("it only asks"), "another thread is in no section");
            7
        });
        assert_eq!(outer.expect("the inner panic was caught"), 7);
        assert!(catch_panic(|| panic!("no sense")).is_err());
        assert!(!is_caught(), "a section ends with its panic");
    }
}
