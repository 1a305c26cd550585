//! Floods of writes: as fast as answers come, or at a given rate whatever the answers.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use systest::client::encode_command;

const CONNECTIONS: u64 = 64;
/// Number of calls that one connection has open when it waits for answers.
const DEPTH: usize = 64;
const VALUE_BYTES: usize = 1_000;
/// Largest number of calls that one connection sends at once, if it has a rate.
const STEP_MAX: u64 = 500;
/// Longest wait for a socket.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(30);

/// Results of a flood with a rate.
#[derive(Debug, Default)]
pub struct Flood {
    /// Number of calls sent; a refused one is sent again at once and counts again.
    pub sent: u64,
    /// Number of calls acknowledged.
    pub acknowledged: u64,
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
        self.acknowledged += other.acknowledged;
        for (error_name, count) in other.refused {
            *self.refused.entry(error_name).or_default() += count;
        }
        self.refusal_ms.extend(other.refusal_ms);
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a socket can be told");
    stream.set_read_timeout(Some(SOCKET_TIMEOUT)).expect("a socket can be told");
    stream.set_write_timeout(Some(SOCKET_TIMEOUT)).expect("a socket can be told");
    stream
}

fn encode_calls(connection: u64, count: u64) -> Vec<u8> {
    let value = vec![b'v'; VALUE_BYTES];
    let key = |n: u64| format!("flood{connection:02}-{:03}", n % 500);
    (0..count).flat_map(|n| encode_command(&[b"SET", key(n).as_bytes(), &value])).collect()
}

/// Sends on every connection again when all its calls are answered; returns the number of
/// acknowledged calls.
pub fn run_closed_loop(address: SocketAddr, seconds: u64) -> u64 {
    let start_client = |connection| {
        std::thread::spawn(move || {
            let mut stream = connect(address);
            let batch = encode_calls(connection, DEPTH as u64);
            let mut lines = BufReader::new(stream.try_clone().expect("it can be cloned")).lines();
            let (started, mut acknowledged) = (Instant::now(), 0);
            while started.elapsed() < Duration::from_secs(seconds) {
                stream.write_all(&batch).expect("it listens");
                for line in lines.by_ref().take(DEPTH) {
                    acknowledged += u64::from(line.expect("it answers").starts_with('+'));
                }
            }
            acknowledged
        })
    };
    let clients: Vec<_> = (0..CONNECTIONS).map(start_client).collect();
    clients.into_iter().map(|client| client.join().expect("a client does not panic")).sum()
}

/// State shared by a connection's two halves.
#[derive(Default)]
struct FloodState {
    /// Times at which calls up to each number were sent.
    sent: Mutex<VecDeque<(u64, Instant)>>,
    /// Number of refused calls that must be sent again at once.
    to_resend: AtomicU64,
}

/// Sends this many calls a second whatever the answers, and refused ones again at once.
pub fn send_at_rate(address: SocketAddr, rate: u64, seconds: u64) -> Flood {
    send_at_rate_over(address, CONNECTIONS, rate, seconds)
}

/// Sends at this rate in all, on several connections.
pub fn send_at_rate_over(address: SocketAddr, connections: u64, rate: u64, seconds: u64) -> Flood {
    let start_connection = |connection| {
        let stream = connect(address);
        let writer = stream.try_clone().expect("it can be cloned");
        let state = Arc::new(FloodState::default());
        let sender_state = state.clone();
        let send = move || send(writer, connection, rate / connections, seconds, &sender_state);
        (std::thread::spawn(send), std::thread::spawn(move || read_answers(stream, &state)))
    };
    let threads: Vec<_> = (0..connections).map(start_connection).collect();
    let mut flood = Flood::default();
    for (sender, reader) in threads {
        flood.sent += sender.join().expect("a sender does not panic");
        flood.join(reader.join().expect("a reader does not panic"));
    }
    flood
}

fn send(
    mut writer: TcpStream,
    connection: u64,
    rate: u64,
    seconds: u64,
    state: &FloodState,
) -> u64 {
    let batch_bytes = encode_calls(connection, STEP_MAX);
    let call_bytes = batch_bytes.len() / STEP_MAX as usize;
    let (started, mut sent, mut new_calls) = (Instant::now(), 0, 0);
    while started.elapsed() < Duration::from_secs(seconds) {
        let due = started.elapsed().as_micros() as u64 * rate / 1_000_000;
        let resend = state.to_resend.swap(0, Ordering::Relaxed);
        let batch = (due.saturating_sub(new_calls) + resend).min(STEP_MAX);
        state.to_resend.fetch_add(resend.saturating_sub(batch), Ordering::Relaxed);
        if batch == 0 {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        }
        new_calls += batch.saturating_sub(resend);
        sent += batch;
        state.sent.lock().expect("no panic holds it").push_back((sent, Instant::now()));
        if writer.write_all(&batch_bytes[..batch as usize * call_bytes]).is_err() {
            break;
        }
    }
    let _ = writer.write_all(&encode_command(&[b"QUIT"]));
    let _ = writer.shutdown(Shutdown::Write);
    sent
}

fn read_answers(stream: TcpStream, state: &FloodState) -> Flood {
    let (mut flood, mut answered) = (Flood::default(), 0);
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        answered += 1;
        let mut sent = state.sent.lock().expect("no panic holds it");
        while sent.front().is_some_and(|(last, _)| *last < answered) {
            sent.pop_front();
        }
        let Some(started) = sent.front().map(|(_, at)| *at) else { continue }; // of QUIT
        drop(sent);
        if line.starts_with('+') {
            flood.acknowledged += 1;
            continue;
        }
        let error_name = line.split(' ').next().unwrap_or_default().to_string();
        *flood.refused.entry(error_name).or_default() += 1;
        flood.refusal_ms.push(started.elapsed().as_millis() as u64);
        state.to_resend.fetch_add(1, Ordering::Relaxed);
    }
    flood
}
