//! Load: many writing clients at once, whose acknowledgements a ledger keeps by key.

use super::client_control::ClientControl;
use super::ledger::{ClientProtocol, Ledger, WriterPlan};
use super::{Workload, WorkloadContext};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Pause of a roaming client before it tries the next node.
const FAILOVER_PAUSE: Duration = Duration::from_millis(20);

/// Writing clients at work.
pub type Load = Workload<Ledger>;

impl Load {
    /// Starts one client per element; each writes until its connection breaks.
    pub fn start(address: SocketAddr, clients: &[WriterPlan]) -> Load {
        let plans = clients.to_vec();
        Workload::spawn(&[address], clients.len(), move |at, context| {
            write(at, plans[at], ClientControl { context, timeout: None, fails_over: false })
        })
    }

    /// Starts one client per element, spread over the nodes; one that is refused, gets no answer in
    /// time or loses its connection goes on with the next node.
    pub fn with_failover(nodes: &[SocketAddr], clients: &[WriterPlan], timeout: Duration) -> Load {
        let plans = clients.to_vec();
        Workload::spawn(nodes, clients.len(), move |at, context| {
            write(
                at,
                plans[at],
                ClientControl { context, timeout: Some(timeout), fails_over: true },
            )
        })
    }

    /// Starts the usual mix: pipelined and single RESP clients, and one of HTTP. `round` separates
    /// the keys of repeated loads.
    pub fn start_mix(address: SocketAddr, round: usize, clients: usize, bytes: usize) -> Load {
        let plan = |client: usize| WriterPlan {
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
        Load::start(address, &(0..clients).map(plan).collect::<Vec<_>>())
    }
}

/// Writes until stopped, or, unless the client roams, until its connection breaks.
fn write(at: usize, plan: WriterPlan, control: ClientControl) -> Ledger {
    let context: Arc<WorkloadContext> = control.context.clone();
    let mut ledger = Ledger::default();
    for at in at.. {
        ledger.write(context.node(at).1, plan, &control);
        if !control.fails_over || context.is_stopped() {
            break;
        }
        std::thread::sleep(FAILOVER_PAUSE);
    }
    ledger
}
