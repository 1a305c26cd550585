//! Floods of writes: as fast as answers come, or at a given rate whatever the answers.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use systest::client::command;

const CONNECTIONS: u64 = 64;
/// Number of calls that one connection has open when it waits for answers.
const DEPTH: usize = 64;
const VALUE_BYTES: usize = 1_000;
/// Most calls that one connection sends at once, when it has a rate.
const STEP_MAX: u64 = 500;
/// Longest wait for a socket.
const PATIENCE: Duration = Duration::from_secs(30);

/// Results of a flood with a rate.
#[derive(Debug, Default)]
pub struct Flood {
    /// Number of calls sent; a refused one is sent again at once and counts again.
    pub sent: u64,
    /// Number of calls acknowledged.
    pub taken: u64,
    /// Number of refusals by their first word.
    pub refused: BTreeMap<String, u64>,
    /// Milliseconds from the send of a call to its refusal.
    refusal_ms: Vec<u64>,
}

impl Flood {
    /// Returns the 99th percentile of the time to a refusal.
    pub fn refusal_p99_ms(&self) -> u64 {
        let mut all = self.refusal_ms.clone();
        all.sort_unstable();
        all.get(all.len() * 99 / 100).copied().unwrap_or(0)
    }

    fn join(&mut self, other: Flood) {
        self.taken += other.taken;
        for (word, count) in other.refused {
            *self.refused.entry(word).or_default() += count;
        }
        self.refusal_ms.extend(other.refusal_ms);
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a socket can be told");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket can be told");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket can be told");
    stream
}

fn calls(connection: u64, count: u64) -> Vec<u8> {
    let value = vec![b'v'; VALUE_BYTES];
    let key = |n: u64| format!("flood{connection:02}-{:03}", n % 500);
    (0..count).flat_map(|n| command(&[b"SET", key(n).as_bytes(), &value])).collect()
}

/// Sends on every connection again when all its calls are answered; returns the number of
/// acknowledged calls.
pub fn at_once(address: SocketAddr, seconds: u64) -> u64 {
    let one = |connection| {
        std::thread::spawn(move || {
            let mut stream = connect(address);
            let batch = calls(connection, DEPTH as u64);
            let mut lines = BufReader::new(stream.try_clone().expect("it can be cloned")).lines();
            let (begun, mut taken) = (Instant::now(), 0);
            while begun.elapsed() < Duration::from_secs(seconds) {
                stream.write_all(&batch).expect("it listens");
                for line in lines.by_ref().take(DEPTH) {
                    taken += u64::from(line.expect("it answers").starts_with('+'));
                }
            }
            taken
        })
    };
    let clients: Vec<_> = (0..CONNECTIONS).map(one).collect();
    clients.into_iter().map(|client| client.join().expect("a client does not panic")).sum()
}

/// State shared by a connection's two halves.
#[derive(Default)]
struct Pair {
    /// Times at which calls up to each number were sent.
    sent: Mutex<VecDeque<(u64, Instant)>>,
    /// Number of refused calls that must be sent again at once.
    owed: AtomicU64,
}

/// Sends this many calls a second whatever the answers, and refused ones again at once.
pub fn steadily(address: SocketAddr, rate: u64, seconds: u64) -> Flood {
    crowd(address, CONNECTIONS, rate, seconds)
}

/// Sends at this rate in all, on several connections.
pub fn crowd(address: SocketAddr, connections: u64, rate: u64, seconds: u64) -> Flood {
    let one = |connection| {
        let stream = connect(address);
        let writer = stream.try_clone().expect("it can be cloned");
        let pair = Arc::new(Pair::default());
        let told = pair.clone();
        let send = move || send(writer, connection, rate / connections, seconds, &told);
        (std::thread::spawn(send), std::thread::spawn(move || answers(stream, &pair)))
    };
    let pairs: Vec<_> = (0..connections).map(one).collect();
    let mut flood = Flood::default();
    for (sender, reader) in pairs {
        flood.sent += sender.join().expect("a sender does not panic");
        flood.join(reader.join().expect("a reader does not panic"));
    }
    flood
}

fn send(mut writer: TcpStream, connection: u64, rate: u64, seconds: u64, pair: &Pair) -> u64 {
    let step = calls(connection, STEP_MAX);
    let call_bytes = step.len() / STEP_MAX as usize;
    let (begun, mut sent, mut new) = (Instant::now(), 0, 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let due = begun.elapsed().as_micros() as u64 * rate / 1_000_000;
        let owed = pair.owed.swap(0, Ordering::Relaxed);
        let batch = (due.saturating_sub(new) + owed).min(STEP_MAX);
        pair.owed.fetch_add(owed.saturating_sub(batch), Ordering::Relaxed);
        if batch == 0 {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        }
        new += batch.saturating_sub(owed);
        sent += batch;
        pair.sent.lock().expect("no panic holds it").push_back((sent, Instant::now()));
        if writer.write_all(&step[..batch as usize * call_bytes]).is_err() {
            break;
        }
    }
    let _ = writer.write_all(&command(&[b"QUIT"]));
    let _ = writer.shutdown(Shutdown::Write);
    sent
}

fn answers(stream: TcpStream, pair: &Pair) -> Flood {
    let (mut flood, mut answered) = (Flood::default(), 0);
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        answered += 1;
        let mut sent = pair.sent.lock().expect("no panic holds it");
        while sent.front().is_some_and(|(upto, _)| *upto < answered) {
            sent.pop_front();
        }
        let Some(begun) = sent.front().map(|(_, at)| *at) else { continue }; // of QUIT
        drop(sent);
        if line.starts_with('+') {
            flood.taken += 1;
            continue;
        }
        let word = line.split(' ').next().unwrap_or_default().to_string();
        *flood.refused.entry(word).or_default() += 1;
        flood.refusal_ms.push(begun.elapsed().as_millis() as u64);
        pair.owed.fetch_add(1, Ordering::Relaxed);
    }
    flood
}
