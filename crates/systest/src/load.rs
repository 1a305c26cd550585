//! Many clients of a ledger that write at once, each on a thread of its own, until stopped.

use crate::history::{ClientProtocol, Ledger, Writing};
use crate::orders::Orders;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a roaming client rests before it tries the next node.
const REST: Duration = Duration::from_millis(20);

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
            protocol: if client.is_multiple_of(4) {
                ClientProtocol::Http
            } else {
                ClientProtocol::Resp
            },
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
