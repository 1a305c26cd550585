//! Registry that all RESP connections share: clients, cursors of scans, counts.

use super::client::ClientTally;
use super::cursors::Cursors;
use super::output::Protocol;
use crate::clock::Clock;
use crate::idle::Activity;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most bytes of requests of all connections that are under way beside others of their connection:
/// what is under way at all must find room at every replica (`FORWARDED_MAX` there).
const BESIDE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Each counts as so many at least.
const BESIDE_BYTES_MIN: usize = 16 * 1024;

/// What all connections share.
#[derive(Debug)]
pub struct Registry {
    /// Where the hour comes from.
    pub clock: Clock,
    /// Since the front-end opened.
    pub counts: Counts,
    next_client: AtomicU64,
    clients: Mutex<BTreeMap<u64, Arc<Card>>>,
    cursors: Mutex<Cursors>,
    rate: Mutex<CommandRate>,
    beside: Arc<Semaphore>,
}

/// Counts since the front-end opened.
#[derive(Debug, Default)]
pub struct Counts {
    /// Commands answered.
    pub commands: AtomicU64,
    /// Reads of keys that were there.
    pub hits: AtomicU64,
    /// Reads of keys that were not.
    pub misses: AtomicU64,
    /// Answers that were errors.
    pub errors: AtomicU64,
}

impl Counts {
    /// Adds what one connection did.
    pub fn add(&self, tally: &ClientTally) {
        let pairs = [
            (&self.commands, tally.commands),
            (&self.hits, tally.hits),
            (&self.misses, tally.misses),
            (&self.errors, tally.errors),
        ];
        for (count, more) in pairs.into_iter().filter(|(_, more)| *more > 0) {
            count.fetch_add(more, Relaxed);
        }
    }

    /// All begin anew.
    pub fn reset(&self) {
        for count in [&self.commands, &self.hits, &self.misses, &self.errors] {
            count.store(0, Relaxed);
        }
    }
}

#[derive(Debug, Default)]
struct CommandRate {
    at_ms: u64,
    commands: u64,
    per_second: u64,
}

/// What the others may see of a connection (`CLIENT LIST`).
#[derive(Debug)]
pub struct Card {
    /// Its number, never given twice.
    pub id: u64,
    /// Who.
    pub address: SocketAddr,
    /// Whom it called.
    pub local: SocketAddr,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
    /// Time of the last activity, and the order to end.
    pub activity: Arc<Activity>,
    /// Commands in its transaction; -1 outside of one.
    pub queued: AtomicI64,
    /// Keys it watches.
    pub watched: AtomicU64,
    /// Which version of the protocol it speaks.
    pub protocol: AtomicU8,
    names: Mutex<ConnectionNames>,
}

/// What a connection calls itself, and what it did last.
#[derive(Clone, Debug, Default)]
pub struct ConnectionNames {
    /// `CLIENT SETNAME`.
    pub name: String,
    /// `CLIENT SETINFO LIB-NAME`.
    pub library: String,
    /// `CLIENT SETINFO LIB-VER`.
    pub library_version: String,
    /// Its last command; of a pipeline the first.
    pub command: &'static str,
    /// Its bucket, when it is not the default one.
    pub bucket: String,
}

/// A poisoned lock guards plain data here: a connection that died in between left nothing half done
/// that others would misread.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Card {
    /// Its names, for a few lines.
    pub fn names(&self) -> MutexGuard<'_, ConnectionNames> {
        lock(&self.names)
    }
}

impl Registry {
    /// With nobody in it.
    pub fn new(clock: Clock) -> Registry {
        let opened_ms = clock.unix_ms();
        Registry {
            clock,
            counts: Counts::default(),
            next_client: AtomicU64::new(1),
            clients: Mutex::default(),
            cursors: Mutex::new(Cursors::new(opened_ms)),
            rate: Mutex::new(CommandRate { at_ms: opened_ms, ..CommandRate::default() }),
            beside: Arc::new(Semaphore::new(BESIDE_BYTES_MAX)),
        }
    }

    /// Enters a connection in the list.
    pub fn enter(&self, address: SocketAddr, local: SocketAddr) -> Arc<Card> {
        let now = self.clock.unix_ms();
        let card = Arc::new(Card {
            id: self.next_client.fetch_add(1, Relaxed),
            address,
            local,
            since_ms: now,
            activity: Arc::new(Activity::new(now)),
            queued: AtomicI64::new(-1),
            watched: AtomicU64::new(0),
            protocol: AtomicU8::new(Protocol::Two.number() as u8),
            names: Mutex::default(),
        });
        lock(&self.clients).insert(card.id, card.clone());
        card
    }

    /// Takes a connection off the list.
    pub fn leave(&self, card: &Card) {
        lock(&self.clients).remove(&card.id);
    }

    /// Who is here, the eldest first.
    pub fn clients(&self) -> Vec<Arc<Card>> {
        lock(&self.clients).values().cloned().collect()
    }

    /// How many are here.
    pub fn clients_count(&self) -> usize {
        lock(&self.clients).len()
    }

    /// Room for a request of so many bytes beside others of its connection, if there is any.
    pub fn seat_beside(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes.max(BESIDE_BYTES_MIN)).ok()?;
        self.beside.clone().try_acquire_many_owned(bytes).ok()
    }

    /// How many bytes more there is room for.
    #[cfg(test)]
    pub fn beside_free(&self) -> usize {
        self.beside.available_permits()
    }

    /// The cursors of scans, for a few lines.
    pub fn cursors(&self) -> MutexGuard<'_, Cursors> {
        lock(&self.cursors)
    }

    /// Commands per second between the last two times that somebody asked, at least a second apart.
    pub fn commands_per_second(&self) -> u64 {
        let now = self.clock.unix_ms();
        let commands = self.counts.commands.load(Relaxed);
        let mut rate = lock(&self.rate);
        let passed_ms = now.saturating_sub(rate.at_ms);
        if passed_ms >= 1_000 {
            let per_second = (commands.saturating_sub(rate.commands)) * 1_000 / passed_ms;
            *rate = CommandRate { at_ms: now, commands, per_second };
        }
        rate.per_second
    }
}
