//! Actions of other commands on the nodes of a running cluster: kill and restart.

use super::control::DevRequest;
use super::node::DevNode;
use super::{DevCluster, PAUSE};
use base::Kind;
use client::HttpCall;
use hyper::Method;
use program::{Failure, Outcome};
use std::time::{Duration, Instant};

/// Time limits for a restarted node to stop, and then to serve.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const READY_TIMEOUT: Duration = Duration::from_secs(20);

impl DevCluster {
    /// Runs the request; returns the message for the other command.
    pub(super) async fn execute(
        &self,
        nodes: &mut [DevNode],
        request: Option<&DevRequest>,
    ) -> Outcome<String> {
        let request = request.ok_or_else(|| Failure::invalid("that is no request"))?;
        let (DevRequest::Kill(name) | DevRequest::Restart(name)) = request;
        let names: Vec<_> = nodes.iter().map(|node| node.name.clone()).collect();
        let index = nodes.iter().position(|node| node.name == *name).ok_or_else(|| {
            Failure::invalid(format!("no node is called `{name}`: there are {}", names.join(", ")))
        })?;
        let node = &mut nodes[index];
        let was_running = node.is_running();
        match request {
            DevRequest::Kill(_) if !was_running => Ok(format!("{name} is down already")),
            DevRequest::Kill(_) => {
                node.kill();
                Ok(format!("{name} is killed"))
            }
            DevRequest::Restart(_) => {
                node.stop();
                let started = Instant::now();
                while node.is_running() {
                    if started.elapsed() > STOP_TIMEOUT {
                        node.kill();
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                node.restart()?;
                self.wait_until_ready(node, self.client_port(index as u16 + 1)).await?;
                Ok(format!("{name} is {}", if was_running { "restarted" } else { "back" }))
            }
        }
    }

    /// Waits until a started node serves its clients.
    async fn wait_until_ready(&self, node: &mut DevNode, port: u16) -> Outcome {
        let address = self.address_at(port, READY_TIMEOUT);
        let started = Instant::now();
        loop {
            let reply = address.client()?.call(HttpCall::new(Method::GET, "/ready")).await;
            match reply {
                Ok(_) => return Ok(()),
                Err(_) if !node.is_running() => {
                    let text = format!("{} ended: {}", node.name, node.last_error());
                    return Err(Failure::new(Kind::Unavailable, text));
                }
                Err(failure) if started.elapsed() > READY_TIMEOUT => return Err(failure),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}
