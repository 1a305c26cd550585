//! `credenza dev`: a cluster of several nodes on this machine, to try things out.
//!
//! Promises: each node is a separate process, and all of them end with this one; a node that ends
//! is named, with the command that restarts it.
//! Never: restarts a node by itself.
//! Read next: `node.rs`, then `control.rs` (requests of other commands to a running cluster).

mod actions;
mod control;
mod node;
mod security;

use super::convergence;
use crate::output;
use crate::signals::listen_for_signal;
use base::{Kind, Part};
use client::Address;
use control::{AcceptedRequest, DevRequest};
use node::{DevNode, describe};
use program::{Failure, Outcome};
use std::fs::DirBuilder;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::net::UnixListener;
use tokio::signal::unix::SignalKind;

pub const EXAMPLES: &str = "\
Examples:
  credenza dev                                     three nodes, data in ./dev
  credenza dev --nodes 5 --data /tmp/five
  credenza dev --port 8811                         clients at 8811, 8821, 8831
  credenza dev --tls --data secure                 everything encrypted
  credenza dev kill n2                             n2 dies, as in a crash (from another terminal)
  credenza dev restart n2                          and comes back
  credenza dev restart n2 --data /tmp/five         of the cluster in that folder

Each node is a process of its own with its own folder and log. Ctrl-C stops all of them; the same
command starts them again with what they had.";

/// Distance between two nodes' ports; the port for other nodes is one above that for clients.
const PORTS: u16 = 10;
/// Time limit for a cluster on one machine to form.
const FORM_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// `credenza dev`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Dev {
    #[command(flatten)]
    cluster: DevCluster,
    #[command(subcommand)]
    action: Option<DevAction>,
}

/// Actions on a node of a running cluster.
#[derive(clap::Subcommand)]
enum DevAction {
    /// Kill a node of the running cluster, as a crash would
    Kill(DevTarget),
    /// Start a node that ended, or stop and start one that runs
    Restart(DevTarget),
}

/// Arguments: a node of a running cluster.
#[derive(clap::Args)]
struct DevTarget {
    /// The node: `n1`, `n2`, ...
    node: String,
    /// The folder of the cluster's data
    #[arg(long, default_value = "dev")]
    data: PathBuf,
}

/// Arguments of a cluster that this command runs.
#[derive(clap::Args)]
struct DevCluster {
    /// Number of nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=7))]
    nodes: u16,
    /// Folder of their data: one within it for each node
    #[arg(long, default_value = "dev")]
    data: PathBuf,
    /// The first node's port; the others follow in steps of 10
    #[arg(long, default_value_t = 7711, value_parser = clap::value_parser!(u16).range(1024..65000))]
    port: u16,
    /// Encrypt everything, with an authority and certificates that are made in the folder
    #[arg(long)]
    tls: bool,
}

impl Dev {
    /// Runs the cluster until Ctrl-C, or acts on a running one.
    pub async fn run(self) -> Outcome {
        let (target, request) = match self.action {
            None => return self.cluster.run().await,
            Some(DevAction::Kill(target)) => {
                let request = DevRequest::Kill(target.node.clone());
                (target, request)
            }
            Some(DevAction::Restart(target)) => {
                let request = DevRequest::Restart(target.node.clone());
                (target, request)
            }
        };
        let words = control::send_request(&target.data, &request).await?;
        output::text(&format!("{words}\n"))
    }
}

impl DevCluster {
    async fn run(self) -> Outcome {
        self.check_ports()?;
        create_directory(&self.data)?;
        self.check_original_port()?;
        if self.tls {
            security::make_certificates(&self.data, self.nodes)?;
        }
        let mut interrupt = listen_for_signal(SignalKind::interrupt())?;
        let mut termination = listen_for_signal(SignalKind::terminate())?;
        let listener = control::listen(&self.data).await?;
        let mut nodes = Vec::new();
        for number in 1..=self.nodes {
            match self.start(number) {
                Ok(node) => nodes.push(node),
                Err(failure) => {
                    stop(&mut nodes).await;
                    return Err(failure);
                }
            }
        }
        let result = tokio::select! {
            biased;
            _ = interrupt.recv() => Ok(()),
            _ = termination.recv() => Ok(()),
            failure = self.supervise(&mut nodes, &listener) => Err(failure),
            failure = self.announce() => Err(failure),
        };
        output::text("stopping\n")?;
        stop(&mut nodes).await;
        result
    }

    /// Watches the nodes, and runs the requests of other commands, until a failure. Returns that
    /// failure.
    async fn supervise(&self, nodes: &mut [DevNode], listener: &UnixListener) -> Failure {
        let started = Instant::now();
        loop {
            tokio::select! {
                biased;
                accepted = listener.accept() => {
                    // The request is read outside the `select!`, which would drop a half-read one.
                    let request = match accepted {
                        Ok((stream, _)) => AcceptedRequest::read(stream).await,
                        Err(_) => None,
                    };
                    if let Some(request) = request {
                        let result = self.execute(nodes, request.request.as_ref()).await;
                        request.answer(result).await;
                    }
                }
                () = tokio::time::sleep(PAUSE) => {}
            }
            let is_forming = started.elapsed() < FORM_TIMEOUT;
            if let Err(failure) = self.report_exits(nodes, is_forming) {
                return failure;
            }
        }
    }

    /// Prints which nodes have ended, with the command that restarts them. Fails if a node ends by
    /// itself while the cluster forms.
    fn report_exits(&self, nodes: &mut [DevNode], is_forming: bool) -> Outcome {
        let ended: Vec<_> = nodes
            .iter_mut()
            .filter_map(|node| {
                Some((node.name.clone(), node.take_exit_status()?, node.last_error()))
            })
            .collect();
        for (name, status, words) in ended {
            let failed = status.code().is_some_and(|code| code != 0);
            if is_forming && failed {
                return Err(Failure::new(Kind::Unavailable, format!("{name} ended: {words}")));
            }
            let running =
                nodes.iter_mut().filter_map(|node| node.is_running().then_some(())).count();
            let (exit, total, restart) =
                (describe(status), nodes.len(), self.restart_command(&name));
            let reason = if failed { format!(": {words}") } else { String::new() };
            let consequence = match 2 * running > total {
                true => "the rest goes on",
                false => "no majority is left, writes wait",
            };
            output::text(&format!(
                "{name} is down ({exit}){reason}; {running} of {total} nodes run: {consequence}\n\
                 start it again with: {restart}\n"
            ))?;
        }
        Ok(())
    }

    fn restart_command(&self, name: &str) -> String {
        match self.data == Path::new("dev") {
            true => format!("credenza dev restart {name}"),
            false => format!("credenza dev restart {name} --data {}", self.data.display()),
        }
    }

    fn client_port(&self, number: u16) -> u16 {
        self.port + (number - 1) * PORTS
    }

    /// Fails with the name of a port that is in use, before anything is started.
    fn check_ports(&self) -> Outcome {
        let ports = (1..=self.nodes).map(|number| self.client_port(number));
        for port in ports.flat_map(|port| [port, port + 1]) {
            if let Err(error) = TcpListener::bind(("127.0.0.1", port)) {
                let text = format!("port {port} of 127.0.0.1: {error}; choose others with --port");
                return Err(Failure::new(Kind::Unavailable, text));
            }
        }
        Ok(())
    }

    /// Fails if the cluster was created with another port: nodes connect to each other by their
    /// addresses, which would differ.
    fn check_original_port(&self) -> Outcome {
        let file = self.data.join("port");
        match std::fs::read_to_string(&file) {
            Ok(text) if text.trim() == self.port.to_string() => Ok(()),
            Ok(text) => {
                let text = format!(
                    "{} was made with --port {}: start it with that, or name another folder with \
                     --data",
                    self.data.display(),
                    text.trim()
                );
                Err(Failure::invalid(text))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let written = std::fs::write(&file, format!("{}\n", self.port));
                written.map_err(|error| Failure::file("write", &file, &error))
            }
            Err(error) => Err(Failure::file("read", &file, &error)),
        }
    }

    fn start(&self, number: u16) -> Outcome<DevNode> {
        let (name, port) = (format!("n{number}"), self.client_port(number));
        let data = self.data.join(&name).display().to_string();
        let mut arguments: Vec<String> =
            ["--data-dir", &data, "--name", &name].map(Into::into).into();
        arguments.extend(["--listen".into(), format!("127.0.0.1:{port}")]);
        arguments.extend(["--peer-listen".into(), format!("127.0.0.1:{}", port + 1)]);
        if number > 1 {
            arguments.extend(["--join".into(), format!("127.0.0.1:{}", self.port)]);
        }
        if self.tls {
            arguments.extend(security::node_arguments(&self.data, &name));
        }
        DevNode::start(&self.data, name, &arguments)
    }

    /// Returns the address of the node with this port for clients.
    fn address_at(&self, port: u16, timeout: Duration) -> Address {
        match self.tls {
            true => security::address(&self.data, port, timeout),
            false => Address::plain(format!("http://127.0.0.1:{port}"), timeout),
        }
    }

    fn address(&self) -> Address {
        self.address_at(self.port, FORM_TIMEOUT)
    }

    /// Waits until all nodes vote, prints suggestions, and then waits without end. Returns the
    /// failure of the formation or of the output.
    async fn announce(&self) -> Failure {
        if let Err(failure) = self.wait_until_formed().await {
            return failure.with_suffix("; the nodes' logs are beside their data");
        }
        match output::text(&self.instructions()) {
            Ok(()) => std::future::pending().await,
            Err(failure) => failure,
        }
    }

    async fn wait_until_formed(&self) -> Outcome {
        let started = Instant::now();
        loop {
            match self.voters().await {
                Ok(count) if count == usize::from(self.nodes) => break,
                Ok(_) => {}
                Err(failure) if started.elapsed() > FORM_TIMEOUT => return Err(failure),
                Err(_) => {}
            }
            if started.elapsed() > FORM_TIMEOUT {
                let text = "the nodes did not form a cluster in time";
                return Err(Failure::new(Kind::Unavailable, text));
            }
            tokio::time::sleep(PAUSE).await;
        }
        convergence::wait_until_converged(&self.address()).await?;
        // The node rejects the claim (`Invalid`) if an earlier ring holds data; that ring stays.
        match self.address().client()?.claim_ring().await {
            Err(failure) if failure.kind() != Some(Kind::Invalid) => Err(failure),
            _ => Ok(()),
        }
    }

    /// Returns the desired number of voters of the group that holds the buckets.
    async fn voters(&self) -> Outcome<usize> {
        let groups = self.address().client()?.cluster().await?.groups;
        let buckets = groups.into_iter().find(|group| group.group == 1);
        let desired = buckets.map_or_else(Vec::new, |group| group.desired);
        Ok(desired.iter().filter(|member| member.part == Part::Voter).count())
    }

    fn instructions(&self) -> String {
        let (nodes, data, port) = (self.nodes, self.data.display(), self.port);
        let last = self.client_port(self.nodes);
        let restart = self.restart_command(&format!("n{nodes}"));
        let kill = restart.replace("restart", "kill");
        let consequence = match nodes {
            1 => "nothing is served until it is back",
            2 => "no majority is left, writes wait until it is back",
            _ => "the rest goes on",
        };
        if self.tls {
            return security::instructions(&self.data, (nodes, port, last));
        }
        format!(
            "\n{nodes} nodes are one cluster: n1 at 127.0.0.1:{port} to n{nodes} at \
             127.0.0.1:{last}, data and logs in {data}/\n\n\
             Try, in another terminal:\n  \
             export CREDENZA_URL=http://127.0.0.1:{port}\n  \
             credenza put hello world\n  \
             credenza get hello --url http://127.0.0.1:{last}\n  \
             credenza cluster status\n  \
             credenza cluster move-master n{nodes}\n  \
             curl -X PUT http://127.0.0.1:{port}/buckets/fruit/keys/fig \
             -H 'Content-Type: text/plain' -d ripe      # Riak's way: an available bucket\n  \
             curl http://127.0.0.1:{last}/buckets/fruit/keys/fig\n  \
             {kill}      # one node dies: {consequence}\n  \
             {restart}   # and comes back\n\n\
             Ctrl-C stops all of them.\n"
        )
    }
}

fn create_directory(path: &Path) -> Outcome {
    let result = DirBuilder::new().recursive(true).mode(0o700).create(path);
    result.map_err(|error| Failure::file("make", path, &error))
}

/// Stops all nodes, and waits until they have ended.
async fn stop(nodes: &mut [DevNode]) {
    nodes.iter().for_each(DevNode::stop);
    while nodes.iter_mut().any(DevNode::is_running) {
        tokio::time::sleep(PAUSE).await;
    }
}
