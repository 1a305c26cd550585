//! Memory of secrets: each is wiped when it is dropped, and none shows itself.
//!
//! The compiler checks that each type is one that wipes itself, and that it has no `Debug` of its
//! content. One test looks for the bytes of dropped secrets in the memory of its own process.

use crate::access::{ApiToken, Password, PasswordHash};
use crate::{ClusterSecret, DerivedKey, JoinToken};
use std::fmt::{Debug, Display};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Fails to compile if a type has a trait: the second implementation makes the first ambiguous.
macro_rules! must_not_be {
    ($kind:ty: $forbidden:path) => {{
        trait IsUnambiguous<A> {
            fn check() {}
        }
        impl<T: ?Sized> IsUnambiguous<()> for T {}
        #[allow(dead_code)]
        struct HasForbiddenTrait;
        impl<T: ?Sized + $forbidden> IsUnambiguous<HasForbiddenTrait> for T {}
        <$kind as IsUnambiguous<_>>::check();
    }};
}

/// Compiles for types that are wiped when they are dropped.
fn must_be_wiped<T: ZeroizeOnDrop>() {}

#[test]
fn secret_types_wipe_themselves_and_have_no_text_or_debug_of_their_content() {
    must_be_wiped::<ClusterSecret>();
    must_be_wiped::<PasswordHash>();
    must_be_wiped::<DerivedKey>();
    must_be_wiped::<JoinToken>();
    must_be_wiped::<ApiToken>();
    must_be_wiped::<Password>();
    must_not_be!(ApiToken: Debug);
    must_not_be!(Password: Debug);
    must_not_be!(ClusterSecret: Display);
    must_not_be!(DerivedKey: Display);
    must_not_be!(JoinToken: Display);
    must_not_be!(ApiToken: Display);
    must_not_be!(Password: Display);
    must_not_be!(PasswordHash: Display);
}

/// Bytes to look for, kept as their complement, so that this is no place where they are found.
struct HiddenNeedle(Vec<u8>);

impl HiddenNeedle {
    /// Returns a needle that no other run of the test has.
    fn new(bytes: usize) -> HiddenNeedle {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let mut state = (now.as_nanos() as u64) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            !(b'a' + (state >> 32) as u8 % 26)
        };
        HiddenNeedle((0..bytes).map(|_| next()).collect())
    }

    /// Returns the bytes themselves, which are wiped when they are dropped.
    fn reveal(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.0.len()));
        bytes.extend(self.0.iter().map(|byte| !byte));
        bytes
    }

    fn is_at(&self, window: &[u8]) -> bool {
        window.iter().zip(&self.0).all(|(byte, hidden)| *byte == !hidden)
    }

    fn is_in(&self, memory: &[u8]) -> bool {
        memory.windows(self.0.len()).any(|window| self.is_at(window))
    }
}

/// Returns true if a writable part of this process' memory has the bytes.
fn is_in_memory(needle: &HiddenNeedle) -> bool {
    const CHUNK_BYTES: u64 = 1 << 20;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    let memory = File::open("/proc/self/mem").expect("it is this process' own");
    let mut chunk = vec![0; CHUNK_BYTES as usize];
    let mut found = false;
    for line in maps.lines() {
        let mut words = line.split(' ');
        let (span, permissions) = (words.next().unwrap_or_default(), words.next());
        let address = |text: &str| u64::from_str_radix(text, 16).expect("an address");
        let (from, to) = span.split_once('-').expect("FROM-TO");
        let (from, to) = (address(from), address(to));
        if !permissions.is_some_and(|permissions| permissions.starts_with("rw")) {
            continue;
        }
        // Chunks overlap, so that no place between two is missed.
        for begin in (from..to).step_by(CHUNK_BYTES as usize - needle.0.len()) {
            let wanted = (to - begin).min(CHUNK_BYTES) as usize;
            let read = memory.read_at(&mut chunk[..wanted], begin).unwrap_or(0);
            found |= needle.is_in(&chunk[..read]);
        }
    }
    // Otherwise the next search finds what this one has read.
    chunk.zeroize();
    found
}

/// Makes a secret of a needle, looks for it, drops it, and looks again.
#[track_caller]
fn must_be_gone_once_dropped<T>(name: &str, make: impl FnOnce(&[u8]) -> T) {
    let needle = HiddenNeedle::new(ClusterSecret::BYTES);
    assert!(!is_in_memory(&needle), "{name}: the needle is not hidden");
    let secret = make(&needle.reveal());
    assert!(is_in_memory(&needle), "{name}: the search finds nothing");
    drop(secret);
    assert!(!is_in_memory(&needle), "{name} is still in memory");
}

#[test]
fn dropped_secrets_are_nowhere_in_the_memory_of_the_process() {
    must_be_gone_once_dropped("a password", |bytes| Password::new(bytes).expect("one"));
    must_be_gone_once_dropped("a join token", |bytes| JoinToken::parse(bytes).expect("one"));
    must_be_gone_once_dropped("a copy of a join token", |bytes| {
        let token = JoinToken::parse(bytes).expect("one");
        let copy = token.clone();
        drop(token);
        copy
    });
    must_be_gone_once_dropped("the cluster's secret", |bytes| {
        let mut array = Zeroizing::new([0; ClusterSecret::BYTES]);
        array.copy_from_slice(bytes);
        ClusterSecret::new(*array)
    });
}
