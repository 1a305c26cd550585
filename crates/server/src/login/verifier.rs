//! Verification of passwords by argon2id: a bounded number at a time, on threads of their own.

use super::places::{Places, overloaded};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use base::access::{Password, PasswordHash};
use base::{Error, Reason, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Most verifications that wait for a turn; one more is refused as `overloaded`.
const WAITING_MAX: usize = 128;
/// Most verifications of one address beyond this machine, with those that wait for a turn.
const PER_ADDRESS_MAX: usize = WAITING_MAX / 2;
/// Memory of one verification in KiB, passes over it, and lanes, as in [`PasswordHash::PREFIX`].
const COSTS: (u32, u32, u32) = (19 * 1024, 2, 1);

/// Salt of a hash.
type Salt = [u8; PasswordHash::SALT_BYTES];
/// Hash of a password, without its salt.
type HashBytes = [u8; PasswordHash::HASH_BYTES];

/// Verifier of passwords.
pub struct Verifier {
    /// Turns: half of the runtime's threads.
    turns: Arc<Semaphore>,
    /// Places of those that have a turn, and of those that wait for one.
    places: Arc<Places>,
    verifications: AtomicU64,
}

impl Verifier {
    pub fn new() -> Verifier {
        let threads = Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers());
        let turns = (threads / 2).max(1);
        Verifier {
            turns: Arc::new(Semaphore::new(turns)),
            places: Arc::new(Places::new(turns + WAITING_MAX, PER_ADDRESS_MAX)),
            verifications: AtomicU64::new(0),
        }
    }

    /// Returns true if the password, which comes from this address, has this hash. `None`: it has
    /// none, and costs the same.
    pub async fn verify(
        &self,
        from: IpAddr,
        hash: Option<PasswordHash>,
        password: &Password,
    ) -> Result<bool> {
        self.verifications.fetch_add(1, Relaxed);
        let (salt, expected) = match &hash {
            Some(hash) => {
                let (salt, expected) = hash.parts();
                (decode::<{ PasswordHash::SALT_BYTES }>(salt), decode(expected))
            }
            None => ([0; PasswordHash::SALT_BYTES], [0; PasswordHash::HASH_BYTES]),
        };
        let found = self.run(Some(from), password, salt).await?;
        let differs =
            found.iter().zip(&expected).fold(0, |differs, (one, two)| differs | one ^ two);
        Ok(std::hint::black_box(differs) == 0 && hash.is_some())
    }

    /// Hashes a password with a new salt.
    pub async fn hash(&self, password: &Password) -> Result<PasswordHash> {
        let salt = rand::random();
        encode(salt, self.run(None, password, salt).await?)
    }

    async fn run(
        &self,
        from: Option<IpAddr>,
        password: &Password,
        salt: Salt,
    ) -> Result<HashBytes> {
        let place = self.places.acquire(from)?;
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| overloaded())?;
        let password = Password::new(password.bytes())?;
        // Whoever leaves in between does not make room before the work is done.
        let work = move || {
            let _held = (place, turn);
            compute(&password, &salt)
        };
        spawn_blocking(work).await.ok().flatten().ok_or_else(overloaded)
    }

    #[cfg(test)]
    pub fn verifications(&self) -> u64 {
        self.verifications.load(Relaxed)
    }
}

/// Hashes a password with a new salt, outside of a serving node: a file is to have its hash.
pub fn hash_password(password: &Password) -> Result<PasswordHash> {
    let salt = rand::random();
    let failed = || Error::new(Reason::Overloaded, "the password can't be hashed");
    encode(salt, compute(password, &salt).ok_or_else(failed)?)
}

/// Computes the hash of a password.
fn compute(password: &Password, salt: &Salt) -> Option<HashBytes> {
    let mut hash = [0; PasswordHash::HASH_BYTES];
    let (memory, passes, lanes) = COSTS;
    let params = Params::new(memory, passes, lanes, Some(PasswordHash::HASH_BYTES)).ok()?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut blocks = vec![Block::default(); argon2.params().block_count()];
    let (password, blocks) = (password.bytes(), &mut blocks[..]);
    argon2.hash_password_into_with_memory(password, salt, &mut hash, blocks).ok()?;
    Some(hash)
}

/// Returns a hash in the form that is stored.
fn encode(salt: Salt, hash: HashBytes) -> Result<PasswordHash> {
    let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
    PasswordHash::parse(&format!("{}{salt}${hash}", PasswordHash::PREFIX))
}

/// Decodes a part of a hash, whose form was checked.
fn decode<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let decoded = STANDARD_NO_PAD.decode(text).unwrap_or_default();
    // A part whose last bits are odd decodes to nothing, which no password has.
    decoded.try_into().unwrap_or([0; BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Reason;

    const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test]
    async fn password_verifies_only_against_its_own_hash_and_unknown_users_cost_the_same() {
        let verifier = Verifier::new();
        let (right, wrong) = (Password::new(b"right").expect("one"), Password::new(b"wrong"));
        let wrong = wrong.expect("one");
        let hash = verifier.hash(&right).await.expect("a hash");
        let again = verifier.hash(&right).await.expect("a hash");
        assert_ne!(hash, again, "each has a salt of its own");
        let of_tool = hash_password(&right).expect("a hash");
        assert_eq!(verifier.verify(FROM, Some(of_tool), &right).await, Ok(true));
        assert_eq!(verifier.verify(FROM, Some(hash.clone()), &right).await, Ok(true));
        assert_eq!(verifier.verify(FROM, Some(hash), &wrong).await, Ok(false));
        assert_eq!(verifier.verifications(), 3);
        assert_eq!(verifier.verify(FROM, None, &right).await, Ok(false));
        assert_eq!(verifier.verifications(), 4, "it is verified, too");
    }

    #[test]
    fn costs_of_verification_are_those_that_hashes_name() {
        let (memory, passes, lanes) = COSTS;
        let prefix = format!("$argon2id$v=19$m={memory},t={passes},p={lanes}$");
        assert_eq!(prefix, PasswordHash::PREFIX);
        assert_eq!(Version::V0x13 as u32, 19);
    }

    #[tokio::test]
    async fn verification_beyond_those_that_may_wait_is_refused_as_overloaded() {
        let verifier = Verifier::new();
        let password = Password::new(b"x").expect("one");
        let all: Vec<_> = (0..=WAITING_MAX).map(|_| verifier.places.acquire(Some(FROM))).collect();
        let refused = verifier.verify(FROM, None, &password).await.map_err(|error| error.reason);
        assert_eq!(refused, Err(Reason::Overloaded));
        drop(all);
        assert_eq!(verifier.verify(FROM, None, &password).await, Ok(false));
    }
}
