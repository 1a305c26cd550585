//! Arakoon client for tests. It reads answers by their layout, because they have no other end mark.
//!
//! A layout is one letter a field: `s` a string, `o` a string or none, `b` a flag, `i` and `l`
//! numbers of 32 and 64 bits, `c` a read level, `S`, `O` and `P` lists of strings, of optional
//! strings and of pairs.

use crate::ServerSettings;
use crate::tests::test_server::TestServer;
use std::io::{Error, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Starts a test server whose node is `arakoon_0` and that serves the cluster `ricky`.
pub fn server() -> TestServer {
    let settings = ServerSettings { arakoon_clusters: vec!["ricky".into()], ..Default::default() };
    TestServer::with_name("arakoon_0", settings)
}

/// Returns the prologue of a cluster.
pub fn prologue(cluster: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x00, 0x00, 0xff, 0xb1, 1, 0, 0, 0];
    bytes.extend_from_slice(&(cluster.len() as u32).to_le_bytes());
    bytes.extend_from_slice(cluster);
    bytes
}

/// Client connection.
pub struct TestClient {
    stream: TcpStream,
    /// Error that ended reading. `None`: the connection can still be read.
    read_error: Option<Error>,
}

impl TestClient {
    /// Connects to an address and sends nothing.
    pub fn connect(address: SocketAddr) -> TestClient {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        TestClient { stream, read_error: None }
    }

    /// Connects to an address and sends the prologue of a cluster.
    pub fn open(address: SocketAddr, cluster: &[u8]) -> TestClient {
        let mut client = TestClient::connect(address);
        client.send(&prologue(cluster));
        client
    }

    /// Sends bytes as they are. Ignores failures: the server may have closed already, and its last
    /// answer has the reason.
    pub fn send(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.write_all(bytes) {
            let closed = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
            assert!(closed.contains(&error.kind()), "{error}");
        }
    }

    /// Reads one answer whose body has this layout. Returns `None` if the connection has ended.
    pub fn answer(&mut self, layout: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let code = self.number(&mut bytes)?;
        match code {
            0 => layout.chars().try_for_each(|field| self.field(field, &mut bytes))?,
            1 => {}
            _ => self.field('s', &mut bytes)?,
        }
        Some(bytes)
    }

    /// Sends a request and returns its answer.
    pub fn request(&mut self, request: &[u8], layout: &str) -> Vec<u8> {
        self.send(request);
        self.answer(layout).unwrap_or_else(|| panic!("no answer: {:?}", self.read_error))
    }

    /// Shuts down the sending side and returns all remaining bytes.
    pub fn close(&mut self) -> Vec<u8> {
        // The server may have closed the connection already.
        let _ = self.stream.shutdown(Shutdown::Write);
        self.read_to_end()
    }

    /// Returns all bytes until the connection ends.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset ends the connection, too.
        let _ = self.stream.read_to_end(&mut bytes);
        bytes
    }

    fn read_bytes(&mut self, length: usize, bytes: &mut Vec<u8>) -> Option<()> {
        let begin = bytes.len();
        bytes.resize(begin + length, 0);
        self.read_error = self.stream.read_exact(&mut bytes[begin..]).err();
        self.read_error.is_none().then_some(())
    }

    fn number(&mut self, bytes: &mut Vec<u8>) -> Option<i32> {
        self.read_bytes(4, bytes)?;
        let number_bytes = bytes.last_chunk::<4>().expect("just read");
        Some(i32::from_le_bytes(*number_bytes))
    }

    fn flag(&mut self, bytes: &mut Vec<u8>) -> Option<u8> {
        self.read_bytes(1, bytes)?;
        bytes.last().copied()
    }

    fn field(&mut self, field: char, bytes: &mut Vec<u8>) -> Option<()> {
        match field {
            's' => {
                let length = self.number(bytes)?;
                self.read_bytes(length as usize, bytes)
            }
            'o' if self.flag(bytes)? == 1 => self.field('s', bytes),
            'o' => Some(()),
            'b' => self.read_bytes(1, bytes),
            'i' => self.read_bytes(4, bytes),
            'l' => self.read_bytes(8, bytes),
            'c' => self.read_bytes(9, bytes),
            list => {
                let count = self.number(bytes)?;
                (0..count).try_for_each(|_| match list {
                    'S' => self.field('s', bytes),
                    'O' => self.field('o', bytes),
                    _ => self.field('s', bytes).and_then(|()| self.field('s', bytes)),
                })
            }
        }
    }
}
