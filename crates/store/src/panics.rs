//! Sections in which a panic is damage, and not the end of the process.
//!
//! The crate below the trees panics at bytes that make no sense to it. Whoever reads through it
//! gets an error that names the file, and everything else goes on. The node's panic hook ends the
//! process before anything unwinds, so it asks here whether the panicking thread is in such a
//! section.
//!
//! Promises: a panic outside such a section is never spared, also not one of a thread that was in
//! one before.
//! Never: spares what this room or a room above it does, but for what the crate below calls back.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

thread_local! {
    /// Sections that this thread is in, one inside the other.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether a panic of this thread now will be caught and taken for damage.
pub fn is_spared() -> bool {
    DEPTH.get() > 0
}

/// Does work of the crate below; an error holds the words of its panic.
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
