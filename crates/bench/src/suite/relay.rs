//! Relays: TCP ports that pass bytes on with a delay each way, as distance between hosts does.
//!
//! A connection and its answers arrive later by the delay; bandwidth is not limited. Connections
//! end at the relay, so the round trip of a TCP handshake is not delayed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most pieces of one direction that are under way; a sender that is faster waits.
const PIECES_MAX: usize = 4_096;
/// Length of a piece, bytes.
const PIECE_BYTES: usize = 64 * 1024;
/// Time limit of connecting to the relay's target.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A relay; it closes when dropped. Open connections end with their servers.
pub struct Relay {
    address: SocketAddr,
    is_closed: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Relay {
    /// Accepts connections at the listener, and passes them on to the target.
    pub fn start(
        listener: TcpListener,
        target: SocketAddr,
        delay: Duration,
    ) -> Result<Relay, String> {
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = is_closed.clone();
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if closed.load(Ordering::Relaxed) {
                    return;
                }
                // A client whose server is not there is closed, as if the port were.
                if let Ok(server) = TcpStream::connect_timeout(&target, CONNECT_TIMEOUT) {
                    pass_both_ways(&stream, &server, delay);
                }
            }
        });
        Ok(Relay { address, is_closed, accepting: Some(accepting) })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Relaxed);
        // A connection wakes the thread, which then ends.
        let is_woken = TcpStream::connect_timeout(&self.address, CONNECT_TIMEOUT).is_ok();
        if let Some(thread) = self.accepting.take().filter(|_| is_woken) {
            // A panic there has been printed; the relay is closed in any case.
            let _ = thread.join();
        }
    }
}

fn pass_both_ways(client: &TcpStream, server: &TcpStream, delay: Duration) {
    for (from, to) in [(client, server), (server, client)] {
        let streams = (from.try_clone(), to.try_clone());
        let (Ok(mut from), Ok(to)) = streams else { return };
        // Small requests must not wait for each other here.
        let _ = to.set_nodelay(true);
        let (sender, receiver) = sync_channel::<(Instant, Vec<u8>)>(PIECES_MAX);
        std::thread::spawn(move || write_when_due(to, &receiver));
        std::thread::spawn(move || {
            let mut buffer = vec![0; PIECE_BYTES];
            while let Ok(count) = from.read(&mut buffer) {
                let due = Instant::now() + delay;
                // An empty piece is the end, which is delayed, too.
                if sender.send((due, buffer[..count].to_vec())).is_err() || count == 0 {
                    return;
                }
            }
        });
    }
}

fn write_when_due(mut to: TcpStream, pieces: &Receiver<(Instant, Vec<u8>)>) {
    while let Ok((due, piece)) = pieces.recv() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if piece.is_empty() || to.write_all(&piece).is_err() {
            break;
        }
    }
    // The other end may be closed already.
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relay_delays_bytes_each_way_and_passes_the_end_on() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = server.local_addr().expect("bound");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let delay = Duration::from_millis(30);
        let relay = Relay::start(listener, target, delay).expect("started");
        let echo = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().expect("connected");
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("asked");
            stream.write_all(&byte).expect("told");
        });
        let begin = Instant::now();
        let mut client = TcpStream::connect(address).expect("connected");
        client.write_all(b"x").expect("sent");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("answered, then closed");
        assert_eq!(answer, b"x");
        assert!(begin.elapsed() >= 2 * delay, "{:?}", begin.elapsed());
        echo.join().expect("served");
        drop(relay);
        assert!(TcpStream::connect(address).is_err(), "the relay is closed");
    }
}
