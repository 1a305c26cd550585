//! `credenza dev`: a cluster of several nodes on this machine, to try things out.

use super::{ring, settle};
use crate::client::{Address, Call, Client};
use crate::failure::{Failure, Outcome};
use crate::output;
use base::Kind;
use hyper::Method;
use rustix::process::{Pid, Signal as Sign, kill_process};
use std::fs::{DirBuilder, OpenOptions};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

pub const EXAMPLES: &str = "\
Examples:
  credenza dev                                     three nodes, data in ./dev
  credenza dev --nodes 5 --data /tmp/five
  credenza dev --port 8811                         clients at 8811, 8821, 8831

Each node is a process of its own with its own folder and log. Ctrl-C stops all of them; the same
command starts them again with what they had.";

/// Between two nodes' ports; nodes reach each other one above.
const PORTS: u16 = 10;
/// How long a cluster on one machine may take to form.
const FORMS_WITHIN: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// `credenza dev`.
#[derive(clap::Args)]
pub struct Dev {
    /// How many nodes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=7))]
    nodes: u16,
    /// Where their data goes: a folder for each node
    #[arg(long, default_value = "dev")]
    data: PathBuf,
    /// The first node's port; the others follow in steps of 10
    #[arg(long, default_value_t = 7711, value_parser = clap::value_parser!(u16).range(1024..65000))]
    port: u16,
}

/// A node's process.
struct Member {
    name: String,
    log: PathBuf,
    process: Child,
}

impl Dev {
    /// Runs until Ctrl-C, or until a node ends by itself.
    pub async fn run(self) -> Outcome {
        self.check_ports()?;
        make(&self.data)?;
        let mut interrupted = heard(SignalKind::interrupt())?;
        let mut terminated = heard(SignalKind::terminate())?;
        let mut members = Vec::new();
        for number in 1..=self.nodes {
            match self.start(number) {
                Ok(member) => members.push(member),
                Err(failure) => {
                    stop(&mut members).await;
                    return Err(failure);
                }
            }
        }
        let ended = tokio::select! {
            biased;
            _ = interrupted.recv() => Ok(()),
            _ = terminated.recv() => Ok(()),
            ended = first_to_end(&mut members) => Err(ended),
            failure = self.show() => Err(failure),
        };
        output::text("stopping\n")?;
        stop(&mut members).await;
        ended
    }

    fn client_port(&self, number: u16) -> u16 {
        self.port + (number - 1) * PORTS
    }

    /// A port that is taken is named before anything is started.
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

    fn start(&self, number: u16) -> Outcome<Member> {
        let (name, port) = (format!("n{number}"), self.client_port(number));
        let path = self.data.join(format!("{name}.log"));
        let failed = |error| Failure::file("run", &path, &error);
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let log = log.map_err(failed)?;
        let also = log.try_clone().map_err(failed)?;
        let itself = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(itself);
        command.arg("serve").arg("--data").arg(self.data.join(&name)).args(["--node", &name]);
        command.arg("--listen").arg(format!("127.0.0.1:{port}"));
        command.arg("--peer-listen").arg(format!("127.0.0.1:{}", port + 1));
        if number > 1 {
            command.arg("--join").arg(format!("127.0.0.1:{}", self.port));
        }
        command.stdin(Stdio::null()).stdout(log).stderr(also);
        let process = command.spawn().map_err(failed)?;
        Ok(Member { name, log: path, process })
    }

    fn address(&self) -> Address {
        let url = format!("http://127.0.0.1:{}", self.port);
        Address { url, timeout: FORMS_WITHIN }
    }

    /// Waits until all vote, says what to try, and then waits for ever; or why it did not come to
    /// that.
    async fn show(&self) -> Failure {
        if let Err(failure) = self.form().await {
            return failure.and("; the nodes' logs are beside their data");
        }
        match output::text(&self.words()) {
            Ok(()) => std::future::pending().await,
            Err(failure) => failure,
        }
    }

    async fn form(&self) -> Outcome {
        let began = Instant::now();
        loop {
            match self.voters().await {
                Ok(count) if count == usize::from(self.nodes) => break,
                Ok(_) => {}
                Err(failure) if began.elapsed() > FORMS_WITHIN => return Err(failure),
                Err(_) => {}
            }
            if began.elapsed() > FORMS_WITHIN {
                let text = "the nodes did not form a cluster in time";
                return Err(Failure::new(Kind::Unavailable, text));
            }
            tokio::time::sleep(PAUSE).await;
        }
        settle::settle(&self.address()).await?;
        // A ring that was given out before and holds data stays as it is.
        match ring::give_out(&self.address()).await {
            Err(failure) if failure.kind() != Some(Kind::Invalid) => Err(failure),
            _ => Ok(()),
        }
    }

    /// How many are to vote in the group that holds the buckets.
    async fn voters(&self) -> Outcome<usize> {
        let call = Call::new(Method::GET, "/v1/cluster");
        let cluster = Client::new(&self.address())?.call(call).await?.json()?;
        let groups = cluster["groups"].as_array().into_iter().flatten();
        let buckets = groups.into_iter().find(|group| group["group"] == 1);
        let wanted = buckets.and_then(|group| group["wanted"].as_array());
        let votes = |member: &&serde_json::Value| member["part"] == "voter";
        Ok(wanted.into_iter().flatten().filter(votes).count())
    }

    fn words(&self) -> String {
        let (nodes, data, port) = (self.nodes, self.data.display(), self.port);
        let last = self.client_port(self.nodes);
        let then = match nodes {
            1 => "nothing is served until it is back",
            2 => "no majority is left, writes wait until it is back",
            _ => "the rest goes on",
        };
        format!(
            "\n{nodes} nodes are one cluster: n1 at 127.0.0.1:{port} to n{nodes} at \
             127.0.0.1:{last}, data and logs in {data}/\n\n\
             Try, in another terminal:\n  \
             export CREDENZA_URL=http://127.0.0.1:{port}\n  \
             credenza put hello world\n  \
             credenza get hello --url http://127.0.0.1:{last}\n  \
             credenza cluster status\n  \
             credenza cluster transfer n{nodes}\n  \
             curl -X PUT http://127.0.0.1:{port}/buckets/fruit/keys/fig \
             -H 'Content-Type: text/plain' -d ripe      # Riak's way: an available bucket\n  \
             curl http://127.0.0.1:{last}/buckets/fruit/keys/fig\n  \
             kill -9 $(head -1 {data}/n{nodes}/LOCK)      # one node dies: {then}\n\n\
             Ctrl-C stops all of them.\n"
        )
    }
}

fn heard(kind: SignalKind) -> Outcome<tokio::signal::unix::Signal> {
    signal(kind).map_err(|error| {
        Failure::new(Kind::Unavailable, format!("can't listen to signals: {error}"))
    })
}

fn make(path: &Path) -> Outcome {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Failure::file("make", path, &error))
}

/// A node that ends while the first one runs is left to whoever tries such things; when the first
/// one ends, or all have, there is nothing left to show.
async fn first_to_end(members: &mut [Member]) -> Failure {
    let began = Instant::now();
    loop {
        for member in members.iter_mut() {
            if let Ok(Some(status)) = member.process.try_wait() {
                let name = &member.name;
                if began.elapsed() < FORMS_WITHIN && !status.success() && status.code().is_some() {
                    let words = last_line(&member.log);
                    let text = format!("{name} ended: {words} ({})", member.log.display());
                    return Failure::new(Kind::Unavailable, text);
                }
            }
        }
        if !members.iter_mut().any(lives) {
            return Failure::new(Kind::Unavailable, "all nodes have ended; see their logs");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn lives(member: &mut Member) -> bool {
    matches!(member.process.try_wait(), Ok(None))
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().rev().find(|line| line.starts_with("credenza: "));
    line.unwrap_or("it said nothing").trim_start_matches("credenza: ").into()
}

/// Asks all of them to stop, and waits until they have.
async fn stop(members: &mut [Member]) {
    for member in members.iter() {
        let id = Pid::from_raw(member.process.id().cast_signed());
        if let Some(id) = id {
            // Who has gone already is not there to be asked.
            let _ = kill_process(id, Sign::TERM);
        }
    }
    while members.iter_mut().any(lives) {
        tokio::time::sleep(PAUSE).await;
    }
}
