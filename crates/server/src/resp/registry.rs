//! Registry shared by all RESP connections: the list of clients, cursors of scans, counts.

use super::client::ClientCounts;
use super::cursors::Cursors;
use super::output::Protocol;
use crate::clock::Clock;
use crate::idle::Activity;
use base::access::ListenerRights;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// Maximum bytes of concurrent requests in the windows of all connections: every replica must have
/// space for all of them (`FORWARDED_MAX` there).
const WINDOWS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Minimum number of bytes that a concurrent request counts as.
const WINDOW_CHARGE_BYTES_MIN: usize = 16 * 1024;

/// State that all RESP connections share.
#[derive(Debug)]
pub struct Registry {
    /// Wall clock, for commands with absolute times.
    pub clock: Clock,
    /// Counts since the front-end opened.
    pub counts: Counts,
    next_client: AtomicU64,
    clients: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    cursors: Mutex<Cursors>,
    rate: Mutex<CommandRate>,
    window_bytes: Arc<Semaphore>,
    /// Turns of pattern matching: half of the runtime's threads.
    match_turns: Semaphore,
}

/// Counts since the front-end opened.
#[derive(Debug, Default)]
pub struct Counts {
    /// Number of commands answered.
    pub commands: AtomicU64,
    /// Number of reads of keys that existed.
    pub hits: AtomicU64,
    /// Number of reads of keys that did not exist.
    pub misses: AtomicU64,
    /// Number of answers that were errors.
    pub errors: AtomicU64,
}

impl Counts {
    /// Adds the counts of one connection.
    pub fn add(&self, counts: &ClientCounts) {
        let pairs = [
            (&self.commands, counts.commands),
            (&self.hits, counts.hits),
            (&self.misses, counts.misses),
            (&self.errors, counts.errors),
        ];
        for (count, added) in pairs.into_iter().filter(|(_, added)| *added > 0) {
            count.fetch_add(added, Relaxed);
        }
    }

    /// Resets all counts to 0.
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

/// Part of a connection's state that others may see (`CLIENT LIST`).
#[derive(Debug)]
pub struct ClientInfo {
    /// Id of the connection; it is never reused.
    pub id: u64,
    /// Address of the client.
    pub address: SocketAddr,
    /// Address of the server that the client connected to.
    pub local: SocketAddr,
    /// Rights of the connection while access is off.
    pub listener: ListenerRights,
    /// Time of the connection's begin in milliseconds since 1970.
    pub since_ms: u64,
    /// Time of the last activity, and the signal that the connection must end.
    pub activity: Arc<Activity>,
    /// Number of commands in its transaction; -1 outside of one.
    pub queued: AtomicI64,
    /// Number of keys that it watches.
    pub watched: AtomicU64,
    /// Version number of the protocol that it uses.
    pub protocol: AtomicU8,
    names: Mutex<ConnectionNames>,
}

/// Names that the client set for its connection, and its last command.
#[derive(Clone, Debug, Default)]
pub struct ConnectionNames {
    /// Name set by `CLIENT SETNAME`.
    pub name: String,
    /// User that it is logged in as; empty: none.
    pub user: String,
    /// Name set by `CLIENT SETINFO LIB-NAME`.
    pub library: String,
    /// Version set by `CLIENT SETINFO LIB-VER`.
    pub library_version: String,
    /// Name of its last command; of a pipeline, of the last one before its answers were sent.
    pub command: &'static str,
    /// Name of its bucket; empty for the default one.
    pub bucket: String,
}

/// Locks a mutex even if it is poisoned. The data is plain: a connection that panicked left no
/// state that others could misread.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientInfo {
    /// Returns its names. The caller must release them soon.
    pub fn names(&self) -> MutexGuard<'_, ConnectionNames> {
        lock(&self.names)
    }
}

impl Registry {
    /// Returns an empty registry.
    pub fn new(clock: Clock) -> Registry {
        let opened_ms = clock.unix_ms();
        let threads = Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers());
        Registry {
            clock,
            counts: Counts::default(),
            next_client: AtomicU64::new(1),
            clients: Mutex::default(),
            cursors: Mutex::default(),
            rate: Mutex::new(CommandRate { at_ms: opened_ms, ..CommandRate::default() }),
            window_bytes: Arc::new(Semaphore::new(WINDOWS_BYTES_MAX)),
            match_turns: Semaphore::new((threads / 2).max(1)),
        }
    }

    /// Registers a connection.
    pub fn add_client(
        &self,
        (address, local): (SocketAddr, SocketAddr),
        listener: ListenerRights,
    ) -> Arc<ClientInfo> {
        let now = self.clock.unix_ms();
        let info = Arc::new(ClientInfo {
            id: self.next_client.fetch_add(1, Relaxed),
            address,
            local,
            listener,
            since_ms: now,
            activity: Arc::new(Activity::new(now)),
            queued: AtomicI64::new(-1),
            watched: AtomicU64::new(0),
            protocol: AtomicU8::new(Protocol::Two.number() as u8),
            names: Mutex::default(),
        });
        lock(&self.clients).insert(info.id, info.clone());
        info
    }

    /// Removes a connection from the list.
    pub fn remove_client(&self, info: &ClientInfo) {
        lock(&self.clients).remove(&info.id);
    }

    /// Returns all connections, the oldest first.
    pub fn clients(&self) -> Vec<Arc<ClientInfo>> {
        lock(&self.clients).values().cloned().collect()
    }

    /// Returns the number of connections.
    pub fn clients_count(&self) -> usize {
        lock(&self.clients).len()
    }

    /// Reserves memory for a request of this many bytes that runs concurrently with others of its
    /// connection. Returns `None` if none is free.
    pub fn reserve_window(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes.max(WINDOW_CHARGE_BYTES_MIN)).ok()?;
        self.window_bytes.clone().try_acquire_many_owned(bytes).ok()
    }

    /// Returns the number of bytes free for concurrent requests.
    #[cfg(test)]
    pub fn window_free(&self) -> usize {
        self.window_bytes.available_permits()
    }

    /// Waits for a turn to match patterns, which others wait for until it is dropped.
    pub async fn match_turn(&self) -> Option<SemaphorePermit<'_>> {
        // An error means that the semaphore was closed, which never happens.
        self.match_turns.acquire().await.ok()
    }

    /// Returns the cursors of scans. The caller must release them soon.
    pub fn cursors(&self) -> MutexGuard<'_, Cursors> {
        lock(&self.cursors)
    }

    /// Returns the commands per second between the last two calls that were at least a second
    /// apart.
    pub fn commands_per_second(&self) -> u64 {
        let now = self.clock.unix_ms();
        let commands = self.counts.commands.load(Relaxed);
        let mut rate = lock(&self.rate);
        let elapsed_ms = now.saturating_sub(rate.at_ms);
        if elapsed_ms >= 1_000 {
            let per_second = (commands.saturating_sub(rate.commands)) * 1_000 / elapsed_ms;
            *rate = CommandRate { at_ms: now, commands, per_second };
        }
        rate.per_second
    }
}
