//! Many clients of a ledger that write at once, each on a thread of its own, until stopped.

use crate::client::{Fate, Http, Resp};
use crate::history::{Ledger, Tongue, Writing};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a roaming client rests after each batch: many of them and several nodes share a
/// machine, and what is tried is not its speed.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a roaming client rests before it tries the next node.
const REST: Duration = Duration::from_millis(20);

/// What clients are told while they write.
#[derive(Debug)]
pub struct Orders {
    /// Stop after this batch.
    stop: AtomicBool,
    /// Believe no acknowledgement any more.
    doubted: AtomicBool,
    /// How long a client waits for an answer; none: as long as its tongue does by itself.
    patience: Option<Duration>,
    /// Whether a client goes to the next node when it is refused or its connection breaks.
    roams: bool,
}

impl Orders {
    /// The fate to be noted of an answer.
    pub fn believed(&self, fate: Fate) -> Fate {
        match fate {
            Fate::Ok if self.doubted.load(Ordering::SeqCst) => Fate::Info,
            fate => fate,
        }
    }

    /// Connects to Redis' door.
    pub fn resp(&self, address: SocketAddr) -> io::Result<Resp> {
        match self.patience {
            Some(patience) => Resp::with_patience(address, patience),
            None => Resp::connect(address),
        }
    }

    /// Connects to the native door.
    pub fn http(&self, address: SocketAddr) -> io::Result<Http> {
        match self.patience {
            Some(patience) => Http::with_patience(address, patience),
            None => Http::connect(address),
        }
    }

    /// Whether to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a client goes on here, by its count of refusals before a batch and after it.
    pub fn content(&self, before: u64, after: u64) -> io::Result<()> {
        if self.roams {
            std::thread::sleep(PAUSE);
        }
        let leaves = self.roams && after > before;
        if leaves { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(()) }
    }
}

/// Clients at work.
pub struct Load {
    orders: Arc<Orders>,
    clients: Vec<std::thread::JoinHandle<Ledger>>,
}

impl Load {
    /// Starts one client per element; each writes until its connection breaks.
    pub fn start(address: SocketAddr, clients: &[Writing]) -> Load {
        let (stop, doubted) = (AtomicBool::new(false), AtomicBool::new(false));
        let orders = Arc::new(Orders { stop, doubted, patience: None, roams: false });
        let begin = |how: &Writing| {
            let (orders, how) = (orders.clone(), *how);
            std::thread::spawn(move || {
                let mut ledger = Ledger::default();
                ledger.write(address, how, &orders);
                ledger
            })
        };
        let clients = clients.iter().map(begin).collect();
        Load { orders, clients }
    }

    /// Starts one client per element, spread over the nodes; one that is refused, gets no answer in
    /// time or loses its connection goes on with the next node.
    pub fn roam(nodes: &[SocketAddr], clients: &[Writing], patience: Duration) -> Load {
        let (stop, doubted) = (AtomicBool::new(false), AtomicBool::new(false));
        let orders = Arc::new(Orders { stop, doubted, patience: Some(patience), roams: true });
        let begin = |(at, how): (usize, &Writing)| {
            let (orders, how, nodes) = (orders.clone(), *how, nodes.to_vec());
            std::thread::spawn(move || {
                let mut ledger = Ledger::default();
                for at in at.. {
                    ledger.write(nodes[at % nodes.len()], how, &orders);
                    if orders.stopped() {
                        break;
                    }
                    std::thread::sleep(REST);
                }
                ledger
            })
        };
        let clients = clients.iter().enumerate().map(begin).collect();
        Load { orders, clients }
    }

    /// The usual mix: pipelined and single RESP clients, and one of HTTP. `round` keeps keys of
    /// rounds apart.
    pub fn mix(address: SocketAddr, round: usize, clients: usize, bytes: usize) -> Load {
        let how = |client: usize| Writing {
            client: round * 100 + client,
            keys: 400,
            depth: [1, 4, 16, 64][client % 4],
            bytes,
            tongue: if client.is_multiple_of(4) { Tongue::Http } else { Tongue::Resp },
        };
        Load::start(address, &(0..clients).map(how).collect::<Vec<_>>())
    }

    /// The power is about to be cut: what is acknowledged from here on may or may not be there.
    ///
    /// A machine without power answers nobody, but here only the file system goes down: a sync that
    /// is under way meanwhile can still return 0 (jbd2 counts a commit that was abandoned as one
    /// that is over), and the process can still speak.
    pub fn doubt(&self) {
        self.orders.doubted.store(true, Ordering::SeqCst);
    }

    /// Tells all to stop, waits, and joins what they were told.
    pub fn stop(self) -> Ledger {
        self.orders.stop.store(true, Ordering::Relaxed);
        let mut all = Ledger::default();
        for client in self.clients {
            all.join(client.join().expect("a client does not panic"));
        }
        all
    }
}
