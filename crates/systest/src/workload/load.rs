//! Load: many writing clients at once, whose acknowledgements a ledger keeps by key.

use super::ledger::{ClientProtocol, Ledger, Writing};
use super::orders::Orders;
use super::{Workload, WorkloadContext};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Pause of a roaming client before it tries the next node.
const REST: Duration = Duration::from_millis(20);

/// Writing clients at work.
pub type Load = Workload<Ledger>;

impl Load {
    /// Starts one client per element; each writes until its connection breaks.
    pub fn start(address: SocketAddr, clients: &[Writing]) -> Load {
        let writings = clients.to_vec();
        Workload::spawn(&[address], clients.len(), move |at, context| {
            write(at, writings[at], Orders { context, patience: None, roams: false })
        })
    }

    /// Starts one client per element, spread over the nodes; one that is refused, gets no answer in
    /// time or loses its connection goes on with the next node.
    pub fn roam(nodes: &[SocketAddr], clients: &[Writing], patience: Duration) -> Load {
        let writings = clients.to_vec();
        Workload::spawn(nodes, clients.len(), move |at, context| {
            write(at, writings[at], Orders { context, patience: Some(patience), roams: true })
        })
    }

    /// Starts the usual mix: pipelined and single RESP clients, and one of HTTP. `round` separates
    /// the keys of repeated loads.
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
}

/// Writes until stopped, or, unless the client roams, until its connection breaks.
fn write(at: usize, how: Writing, orders: Orders) -> Ledger {
    let context: Arc<WorkloadContext> = orders.context.clone();
    let mut ledger = Ledger::default();
    for at in at.. {
        ledger.write(context.node(at).1, how, &orders);
        if !orders.roams || context.stopped() {
            break;
        }
        std::thread::sleep(REST);
    }
    ledger
}
