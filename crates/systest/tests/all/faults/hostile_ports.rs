//! Hostile messages at every port of a node whose access is on: inside TLS and without, from
//! strangers and from a user without rights. None ends the process, leaves a durable mark, or takes
//! memory beyond the limit.
//!
//! A durable mark is a row, a bucket, a user, a member, an entry of a log, or a change of the files
//! that say who the node is. They are read through the node's local socket before and after.

use super::hostile::{
    Dice, arakoon_frames, corpus, corrupt_frame, envelope, handshake_bodies, resp_frames,
    wait_until_registered,
};
use super::small_setup;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use systest::access::AccessAdmin;
use systest::certificates::TestAuthority;
use systest::client::encode_command;
use systest::environment::{Scratch, experiment, free_address, resident_bytes};
use systest::report::{Figures, short_or_long};
use systest::server::Server;
use tls::{PeerMode, Stream, Tls, TlsClient, TlsSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PASSWORD: &str = "hostile-password";
/// Messages at each port.
const SHORT_MESSAGES: usize = 3_000;
const LONG_MESSAGES: usize = 1_000_000;
const WORKERS: u64 = 4;
/// Messages of one connection.
const FRAMES: usize = 32;
/// Wait for an answer before the next message.
const ANSWER_WAIT: Duration = Duration::from_millis(1);
/// Longest wait for one that must come.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Memory that the node may take for all of them.
const GROWTH_MAX: u64 = 256 << 20;

/// Way to a port.
#[derive(Clone)]
enum Channel {
    Plain,
    Tls(TlsClient),
    /// TLS between nodes, with the certificate of another node.
    PeerTls(Arc<Tls>),
}

impl Channel {
    async fn connect(&self, address: SocketAddr) -> io::Result<Stream> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        match self {
            Channel::Plain => Ok(Stream::Plain(socket)),
            Channel::Tls(client) => client.connect(socket, "127.0.0.1").await,
            Channel::PeerTls(tls) => tls.connect_peer(socket, "node1").await,
        }
    }
}

/// Source of hostile messages.
type Messages = dyn Fn(&mut Dice) -> Vec<u8> + Sync;

/// Kind of hostile messages at one port.
struct Attack {
    name: &'static str,
    address: SocketAddr,
    channel: Channel,
    /// Bytes that every other connection begins with: a login.
    greeting: Vec<u8>,
    /// Returns the next message.
    message: Box<Messages>,
    /// Part of the port's messages, as the number of attacks that share it.
    share: usize,
}

/// Node with listeners of all kinds, and its users.
struct HostileTarget {
    server: Server,
    data: PathBuf,
    /// Addresses of clients, operators, Riak's clients, Arakoon's clients and nodes.
    addresses: [SocketAddr; 5],
    clients: Channel,
    peers: Channel,
    /// Header of the user without rights.
    header: String,
}

/// Returns the flags of a node's TLS, and the ways to its ports.
fn encrypt(scratch: &Scratch) -> (Vec<String>, Channel, Channel) {
    let authority = TestAuthority::create(&scratch.join("ca"));
    ["node1", "stranger"].iter().for_each(|name| authority.node(name));
    let mut args: Vec<_> =
        authority.node_args().iter().map(|arg| arg.replace("@NODE", "node1")).collect();
    args.extend(["--tls", "required", "--peer-tls", "required"].map(String::from));
    let file = |name: &str| Some(PathBuf::from(authority.file(name)));
    let ca = PathBuf::from(authority.file("ca.crt"));
    let settings = TlsSettings {
        peers: PeerMode::Required,
        certificate: file("stranger.node.crt"),
        key: file("stranger.node.key"),
        authorities: file("ca.crt"),
        ..TlsSettings::default()
    };
    let clients = TlsClient::open(&ca, None).expect("the authority's certificate");
    let peers = Tls::open(settings).expect("files of a node");
    (args, Channel::Tls(clients), Channel::PeerTls(Arc::new(peers)))
}

impl HostileTarget {
    fn start(scratch: &Scratch, is_encrypted: bool) -> HostileTarget {
        let [admin, riak, arakoon, peer] = [(); 4].map(|()| free_address());
        let (args, clients, peers) = match is_encrypted {
            true => encrypt(scratch),
            false => (Vec::new(), Channel::Plain, Channel::Plain),
        };
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let data = scratch.join("data");
        let setup = small_setup(&data)
            .with_args(&["--admin-listen", &admin.to_string()])
            .with_args(&["--riak-listen", &riak.to_string()])
            .with_args(&["--arakoon-listen", &arakoon.to_string()])
            .with_args(&["--arakoon-clusters", "ricky", "--arakoon-user", "reader"])
            .with_args(&["--peer-listen", &peer.to_string(), "--advertise", "127.0.0.1:1"])
            .with_args(&args);
        let server = Server::must_start(&setup);
        let addresses = [server.address, admin, riak, arakoon, peer];
        for line in ["PUT /v1/types/arakoon", "PUT /v1/buckets/arakoon/ricky"] {
            let answer = ask_locally(&data, line);
            assert!(answer.starts_with("HTTP/1.1 201 "), "{line}: {answer}");
        }
        let admin = AccessAdmin::new(&data);
        admin.set_role("nothing", &[]);
        admin.set_role("books", &["read,list:arakoon/ricky"]);
        admin.set_role("data", &["read,write:default/default"]);
        admin.add_user("mallory", PASSWORD, "nothing");
        admin.add_user("reader", PASSWORD, "books");
        admin.add_user("ada", PASSWORD, "data");
        let header = format!("Authorization: Bearer {}\r\n", admin.add_token("mallory", "hostile"));
        admin.turn_on();
        HostileTarget { server, data, addresses, clients, peers, header }
    }

    /// Returns all that the node has durably, as far as a client or another node could change it.
    fn durable_state(&self) -> Vec<(String, String)> {
        let files = ["IDENTITY", "MEMBERS", "SECRET", "INCARNATION", "LIVES", "OUTDATED", "JOINER"];
        let read = |name: &str| {
            let bytes = std::fs::read(self.data.join(name)).unwrap_or_default();
            (name.to_string(), bytes.escape_ascii().to_string())
        };
        let paths = [
            "/v1/buckets/default/default/keys",
            "/v1/buckets/arakoon/ricky/keys",
            "/v1/buckets",
            "/v1/types",
            "/v1/cluster/members",
            "/v1/access",
        ];
        let ask = |path: &str| {
            let answer = ask_locally(&self.data, &format!("GET {path}"));
            assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
            (path.to_string(), body(&answer).to_string())
        };
        let status = ask_locally(&self.data, "GET /status");
        let status: Value = serde_json::from_str(body(&status)).expect("the status is JSON");
        let groups = status["groups"].as_array().into_iter().flatten();
        let index =
            |group: &Value| (format!("log of group {}", group["id"]), group["applied"].to_string());
        let indexes: Vec<_> = groups.map(index).collect();
        assert!(indexes.len() >= 2, "{status}");
        let state = files.into_iter().map(read).chain(paths.into_iter().map(ask));
        state.chain(indexes).collect()
    }

    /// Returns the kinds of messages at all ports.
    fn attacks(&self) -> Vec<Attack> {
        let [clients, operators, riak, arakoon, peers] = self.addresses;
        let login = encode_command(&[b"AUTH", b"mallory", PASSWORD.as_bytes()]);
        let with_login = |frames: Vec<Vec<u8>>| {
            frames.iter().map(|frame| with_header(frame, &self.header)).collect::<Vec<_>>()
        };
        // A wrong password costs a verification: a million of them would test nothing else.
        let verifies = |frame: &[u8]| {
            let upper = frame.to_ascii_uppercase();
            [&b"AUTH\r\n"[..], b"BASIC "]
                .iter()
                .any(|word| upper.windows(word.len()).any(|window| window == *word))
        };
        let corpus = |target| -> Vec<Vec<u8>> {
            corpus(target).into_iter().filter(|frame| !verifies(frame)).collect()
        };
        let of_clients = |name, address, greeting: &[u8], frames: Vec<Vec<u8>>, share| {
            let message =
                move |dice: &mut Dice| corrupt_frame(&frames[dice.roll(frames.len())], dice);
            let (channel, greeting) = (self.clients.clone(), greeting.to_vec());
            Attack { name, address, channel, greeting, message: Box::new(message), share }
        };
        let resp = [resp_frames(), corpus("resp")].concat();
        let (http, riaks) = (with_login(corpus("http")), with_login(corpus("riak")));
        let greetings = handshake_bodies();
        let greet = move |dice: &mut Dice| {
            let body = corrupt_frame(&greetings[dice.roll(greetings.len())], dice);
            let frame = envelope(&body);
            if dice.roll(4) == 0 { corrupt_frame(&frame, dice) } else { frame }
        };
        let mut attacks = vec![
            of_clients("RESP", clients, &login, resp, 5),
            of_clients("HTTP", clients, b"", http.clone(), 5),
            of_clients("Riak", clients, b"", riaks.clone(), 5),
            of_clients("Arakoon", clients, b"", arakoon_frames(), 5),
            of_clients("first bytes", clients, b"", corpus("port"), 5),
            of_clients("operators' HTTP", operators, b"", http, 1),
            of_clients("Riak's listener", riak, b"", riaks, 1),
            of_clients("Arakoon's listener", arakoon, b"", arakoon_frames(), 1),
            Attack {
                name: "greetings",
                address: peers,
                channel: self.peers.clone(),
                greeting: Vec::new(),
                message: Box::new(greet),
                share: 1,
            },
        ];
        if !matches!(self.clients, Channel::Plain) {
            // The handshake itself, on a plain connection.
            for (name, address, channel) in [
                ("client's handshake", clients, &self.clients),
                ("node's handshake", peers, &self.peers),
            ] {
                let hello = first_flight(channel);
                let message = move |dice: &mut Dice| corrupt_frame(&hello, dice);
                let (channel, greeting) = (Channel::Plain, Vec::new());
                let message = Box::new(message);
                attacks.push(Attack { name, address, channel, greeting, message, share: 1 });
            }
        }
        attacks
    }

    /// Fails the test unless a client that logs in is served.
    fn must_serve(&self, commands: &str) {
        let asked = runtime().block_on(async {
            let mut stream = self.clients.connect(self.addresses[0]).await?;
            let login = format!("AUTH ada {PASSWORD}\r\n{commands}QUIT\r\n");
            stream.write_all(login.as_bytes()).await?;
            let mut answer = Vec::new();
            let reading = timeout(ANSWER_TIMEOUT, stream.read_to_end(&mut answer)).await;
            reading.map_err(io::Error::other)??;
            io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
        });
        let answer = asked.expect("the next client is served");
        assert!(answer.starts_with("+OK\r\n") && !answer.contains("\r\n-"), "{answer}");
        assert!(answer.contains("unhurt") || commands.contains("SET"), "{answer}");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

/// Returns the bytes with which a client begins a TLS handshake.
fn first_flight(channel: &Channel) -> Vec<u8> {
    runtime().block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let accept = async {
            let (mut socket, _) = listener.accept().await.expect("it is called");
            let mut bytes = vec![0; 16 << 10];
            let length = socket.read(&mut bytes).await.expect("it says hello");
            bytes.truncate(length);
            bytes
        };
        let (bytes, refused) = tokio::join!(accept, channel.connect(address));
        assert!(refused.is_err() && bytes.len() > 100, "{} bytes", bytes.len());
        bytes
    })
}

/// Sends a request without a body to the local socket of a node; returns the answer.
fn ask_locally(data: &Path, line: &str) -> String {
    let mut socket = UnixStream::connect(data.join("admin.sock")).expect("it is there");
    socket.set_read_timeout(Some(ANSWER_TIMEOUT)).expect("a socket can be told");
    let request = format!("{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("it listens");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("it answers");
    String::from_utf8_lossy(&answer).into_owned()
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}

/// Returns a request with one more header.
fn with_header(request: &[u8], header: &str) -> Vec<u8> {
    let end = request.windows(2).position(|window| window == b"\r\n").map_or(0, |at| at + 2);
    [&request[..end], header.as_bytes(), &request[end..]].concat()
}

/// Sends messages on one connection until it is closed; returns their number.
async fn send_until_closed(attack: &Attack, greets: bool, dice: &mut Dice) -> u64 {
    let Ok(mut stream) = attack.channel.connect(attack.address).await else { return 0 };
    if greets && stream.write_all(&attack.greeting).await.is_err() {
        return 0;
    }
    let mut discarded = vec![0; 64 << 10];
    let mut sent = 0;
    for _ in 0..FRAMES {
        if stream.write_all(&(attack.message)(dice)).await.is_err() {
            break;
        }
        sent += 1;
        match timeout(ANSWER_WAIT, stream.read(&mut discarded)).await {
            Ok(Ok(0) | Err(_)) => break,
            // The node waits for the rest of an unfinished message.
            Err(_) if sent % 4 == 0 => break,
            Ok(Ok(_)) | Err(_) => {}
        }
    }
    sent
}

/// Sends the messages of an attack from several threads; returns their number.
fn send(attack: &Attack, seed: u64) -> u64 {
    let goal = (short_or_long(SHORT_MESSAGES, LONG_MESSAGES) / attack.share) as u64;
    let worker = |worker: u64| {
        let (runtime, mut dice) = (runtime(), Dice::new(seed * 1_000 + worker + 1));
        let (mut sent, mut refused) = (0, 0);
        while sent < goal / WORKERS {
            let greets = dice.roll(2) == 0;
            let more = runtime.block_on(send_until_closed(attack, greets, &mut dice));
            // A node may be busy with handshakes, but it listens.
            refused = if more == 0 { refused + 1 } else { 0 };
            assert!(refused < 1_000, "{}: it does not listen any more", attack.name);
            sent += more;
        }
        sent
    };
    std::thread::scope(|threads| {
        let worker = &worker;
        let workers: Vec<_> =
            (0..WORKERS).map(|number| threads.spawn(move || worker(number))).collect();
        workers.into_iter().map(|worker| worker.join().expect("it does not panic")).sum()
    })
}

fn attack_all_ports(name: &str, is_encrypted: bool) {
    let _permit = experiment();
    let scratch = Scratch::new(if is_encrypted { "hostile-tls-ports" } else { "hostile-ports" });
    let mut target = HostileTarget::start(&scratch, is_encrypted);
    let mut figures = Figures::start(name);
    target.must_serve("SET bystander unhurt\r\n");
    wait_until_registered(&target.data, || {
        body(&ask_locally(&target.data, "GET /v1/cluster/members")).as_bytes().to_vec()
    });
    let known = target.durable_state();
    let before = resident_bytes(target.server.pid());
    for (attack, seed) in target.attacks().iter().zip(60..) {
        let sent = send(attack, seed);
        figures.faults += sent;
        assert!(target.server.is_alive(), "{}: {}", attack.name, target.server.stderr_text());
        let growth = resident_bytes(target.server.pid()).saturating_sub(before);
        assert!(growth < GROWTH_MAX, "{}: {growth} bytes more", attack.name);
        target.must_serve("GET bystander\r\n");
        for (found, known) in target.durable_state().iter().zip(&known) {
            assert_eq!(found, known, "{}: it has left a mark", attack.name);
        }
    }
    let growth = resident_bytes(target.server.pid()).saturating_sub(before);
    figures.add("grown_mib", growth >> 20);
    figures.print();
    target.server.must_be_healthy();
}

#[test]
fn hostile_messages_at_every_port_leave_no_mark_while_access_is_on() {
    attack_all_ports("hostile messages at every port, plain", false);
}

#[test]
fn hostile_messages_inside_tls_at_every_port_leave_no_mark_while_access_is_on() {
    attack_all_ports("hostile messages at every port, TLS", true);
}
