//! Replay between nodes: everything that nodes said to each other is recorded on the way, and sent
//! once more on connections of its own. Nothing of it takes effect.
//!
//! Plain connections are protected by the greeting: it is signed with the cluster's secret and a
//! number that the called node draws anew, so a recorded one ends before its frames count. That
//! protects from replays, not from listeners. Inside TLS nothing can be recorded but a handshake
//! that no other connection completes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use systest::certificates::TestAuthority;
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment};
use systest::report::Figures;

/// Port of each node's recorder, and of the node itself for the others.
const RECORDER_PORT: u16 = 7720;
const PEER_PORT: u16 = 7712;
/// Most bytes of one connection that are recorded.
const RECORDED_BYTES_MAX: usize = 4 << 20;
/// Longest wait for a node to end a replayed connection: it waits for a greeting for a while.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of each connection to a node, as its callers sent them.
type Recordings = Arc<Mutex<Vec<Vec<u8>>>>;

/// Relay before a node that records what is sent to it.
struct Recorder {
    node: SocketAddr,
    recordings: Recordings,
    stop: Arc<AtomicBool>,
}

impl Recorder {
    fn start(address: Ipv4Addr) -> Recorder {
        let listener = TcpListener::bind((address, RECORDER_PORT)).expect("the port is free");
        listener.set_nonblocking(true).expect("an option");
        let node = SocketAddr::from((address, PEER_PORT));
        let (recordings, stop) = (Recordings::default(), Arc::new(AtomicBool::new(false)));
        let recorder = Recorder { node, recordings: recordings.clone(), stop: stop.clone() };
        std::thread::spawn(move || {
            while !stop.load(SeqCst) {
                match listener.accept() {
                    Ok((caller, _)) => relay(caller, node, &recordings),
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                }
            }
        });
        recorder
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
    }
}

/// Passes a connection on; its threads end with it.
fn relay(caller: TcpStream, node: SocketAddr, recordings: &Recordings) {
    // While the node does not listen yet, its caller tries again.
    let Ok(called) = TcpStream::connect(node) else { return };
    let _ = caller.set_nonblocking(false);
    let ends = [caller.try_clone(), called.try_clone()];
    let [Ok(caller_again), Ok(called_again)] = ends else { return };
    let number = {
        let mut all = recordings.lock().expect("no panic holds it");
        all.push(Vec::new());
        all.len() - 1
    };
    let recordings = recordings.clone();
    let record = move |bytes: &[u8]| {
        let mut all = recordings.lock().expect("no panic holds it");
        if all[number].len() + bytes.len() <= RECORDED_BYTES_MAX {
            all[number].extend_from_slice(bytes);
        }
    };
    std::thread::spawn(move || carry(caller, called_again, record));
    std::thread::spawn(move || carry(called, caller_again, |_: &[u8]| {}));
}

fn carry(mut from: TcpStream, mut to: TcpStream, record: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        record(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = from.shutdown(std::net::Shutdown::Both);
}

/// Starts a cluster whose nodes reach each other through recorders.
fn start(scratch: &Scratch, args: &[String]) -> (Cluster, Vec<Recorder>) {
    let mut options = Options::new(1);
    let advertised = format!("@ADDRESS:{RECORDER_PORT}");
    options.args.extend(["--peer-advertise".into(), advertised]);
    options.args.extend_from_slice(args);
    let mut cluster = Cluster::start(scratch, options);
    let std::net::IpAddr::V4(first) = cluster.client_address(1).ip() else {
        panic!("nodes on loopback have addresses of version 4")
    };
    // The nodes of a cluster have consecutive addresses.
    let address = |node: u32| Ipv4Addr::from(u32::from(first) + node);
    let recorders = (0..3).map(|node| Recorder::start(address(node))).collect();
    for _ in 0..2 {
        cluster.add();
    }
    cluster.must_converge();
    (cluster, recorders)
}

/// Adds to a counter at each node; returns its value.
fn add(cluster: &Cluster, times: usize) -> i64 {
    let mut value = 0;
    for _ in 0..times {
        for address in cluster.client_addresses() {
            let mut client = Resp::connect(address).expect("it listens");
            match client.call_line("INCR replayed").expect("it answers") {
                RespReply::Number(sum) => value = sum,
                other => panic!("a sum is answered, not {other:?}"),
            }
        }
    }
    value
}

/// Sends a recording to a node on a connection of its own; returns the number of bytes that it
/// answers until it ends the connection.
fn replay(node: SocketAddr, recording: &[u8]) -> usize {
    let mut stream = TcpStream::connect(node).expect("it listens");
    stream.set_read_timeout(Some(END_TIMEOUT)).expect("an option");
    // The node may end the connection before it has everything.
    let _ = stream.write_all(recording);
    let (mut buffer, mut answered) = ([0; 4096], 0);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return answered,
            Ok(count) => answered += count,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return answered,
            Err(error) => panic!("{node} keeps a replayed connection: {error}"),
        }
    }
}

/// Records traffic, replays all of it, and checks that nothing changed and all links held.
fn try_replay(name: &str, scratch: &Scratch, args: &[String]) {
    let _permit = experiment();
    let (mut cluster, recorders) = start(scratch, args);
    let mut figures = Figures::start(name);
    let before = add(&cluster, 20);
    let recordings: Vec<(SocketAddr, Vec<u8>)> = recorders
        .iter()
        .flat_map(|recorder| {
            let all = recorder.recordings.lock().expect("no panic holds it").clone();
            all.into_iter().map(|recording| (recorder.node, recording))
        })
        .filter(|(_, recording)| !recording.is_empty())
        .collect();
    let bytes: usize = recordings.iter().map(|(_, recording)| recording.len()).sum();
    assert!(recordings.len() >= 3 && bytes > 10_000, "{} of {bytes} bytes", recordings.len());
    let (master, connections) = (cluster.master(), count_connections(&recorders));
    let mut answered = 0;
    for (node, recording) in &recordings {
        answered += replay(*node, recording);
    }
    // Links that a replay had broken would have been dialled again.
    assert_eq!(count_connections(&recorders), connections, "a link was dialled again");
    assert_eq!(cluster.master(), master, "no election");
    assert_eq!(add(&cluster, 1), before + 3, "a replayed frame took effect");
    cluster.must_have_equal_rows();
    for node in cluster.nodes() {
        cluster.server(node).must_be_healthy();
    }
    figures.ok = recordings.len() as u64;
    figures.add("replayed_bytes", bytes);
    figures.add("answered_bytes", answered);
    figures.print();
}

fn count_connections(recorders: &[Recorder]) -> usize {
    let count = |recorder: &Recorder| recorder.recordings.lock().expect("no panic holds it").len();
    recorders.iter().map(count).sum()
}

#[test]
fn replayed_frames_of_plain_peers_take_no_effect() {
    let scratch = Scratch::new("replay-plain");
    try_replay("S5 replay, plain peers", &scratch, &[]);
}

#[test]
fn replayed_frames_of_encrypted_peers_take_no_effect() {
    let scratch = Scratch::new("replay-tls");
    let authority = TestAuthority::create(&scratch.join("ca"));
    (1..=3).for_each(|node| authority.node(&format!("n{node}")));
    let mut args = authority.node_args();
    args.extend(["--peer-tls", "required"].map(String::from));
    try_replay("S5 replay, encrypted peers", &scratch, &args);
}
