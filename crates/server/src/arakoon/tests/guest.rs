//! Arakoon client for tests. It reads answers by their layout, since nothing else marks their end.
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
    TestServer::named("arakoon_0", settings)
}

/// Returns the prologue of a cluster.
pub fn prologue(cluster: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x00, 0x00, 0xff, 0xb1, 1, 0, 0, 0];
    bytes.extend_from_slice(&(cluster.len() as u32).to_le_bytes());
    bytes.extend_from_slice(cluster);
    bytes
}

/// Client connection.
pub struct Guest {
    stream: TcpStream,
    /// Error that ended reading. `None`: the connection can still be read.
    ended: Option<Error>,
}

impl Guest {
    /// Connects to an address and sends nothing.
    pub fn silent(address: SocketAddr) -> Guest {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        Guest { stream, ended: None }
    }

    /// Connects to an address and sends the prologue of a cluster.
    pub fn of(address: SocketAddr, cluster: &[u8]) -> Guest {
        let mut guest = Guest::silent(address);
        guest.send(&prologue(cluster));
        guest
    }

    /// Sends bytes as they are. Ignores failures: the server may have closed already, and its last
    /// answer says why.
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
    pub fn ask(&mut self, request: &[u8], layout: &str) -> Vec<u8> {
        self.send(request);
        self.answer(layout).unwrap_or_else(|| panic!("no answer: {:?}", self.ended))
    }

    /// Shuts down the sending side and returns all remaining bytes.
    pub fn farewell(&mut self) -> Vec<u8> {
        // The server may have closed the connection already.
        let _ = self.stream.shutdown(Shutdown::Write);
        self.rest()
    }

    /// Returns all bytes until the connection ends.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset ends the connection, too.
        let _ = self.stream.read_to_end(&mut bytes);
        bytes
    }

    fn take(&mut self, length: usize, bytes: &mut Vec<u8>) -> Option<()> {
        let begin = bytes.len();
        bytes.resize(begin + length, 0);
        self.ended = self.stream.read_exact(&mut bytes[begin..]).err();
        self.ended.is_none().then_some(())
    }

    fn number(&mut self, bytes: &mut Vec<u8>) -> Option<i32> {
        self.take(4, bytes)?;
        let word = bytes.last_chunk::<4>().expect("just read");
        Some(i32::from_le_bytes(*word))
    }

    fn flag(&mut self, bytes: &mut Vec<u8>) -> Option<u8> {
        self.take(1, bytes)?;
        bytes.last().copied()
    }

    fn field(&mut self, field: char, bytes: &mut Vec<u8>) -> Option<()> {
        match field {
            's' => {
                let length = self.number(bytes)?;
                self.take(length as usize, bytes)
            }
            'o' if self.flag(bytes)? == 1 => self.field('s', bytes),
            'o' => Some(()),
            'b' => self.take(1, bytes),
            'i' => self.take(4, bytes),
            'l' => self.take(8, bytes),
            'c' => self.take(9, bytes),
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
