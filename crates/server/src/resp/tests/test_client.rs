//! RESP client for tests. It reads answers byte by byte.

pub use crate::tests::test_server::TestServer;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Client connection.
pub struct TestClient {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl TestClient {
    /// Connects to an address.
    pub fn new(address: SocketAddr) -> TestClient {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        TestClient { stream, reader }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// Sends a request.
    pub fn send_command(&mut self, args: &[&str]) {
        let args: Vec<_> = args.iter().map(|word| word.as_bytes()).collect();
        self.send(&super::frames::request(&args));
    }

    /// Sends a request and returns its answer, with line ends shown as `|`.
    pub fn call(&mut self, args: &[&str]) -> String {
        self.send_command(args);
        show(&self.answer().expect("an answer"))
    }

    /// Reads one answer. Returns `None` if the connection has ended.
    pub fn answer(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_frame(&mut bytes).then_some(bytes)
    }

    /// Returns all bytes until the connection ends.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset ends the connection, too.
        let _ = self.reader.read_to_end(&mut bytes);
        bytes
    }

    /// Shuts down the sending side; answers can still be read.
    pub fn shutdown_write(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Write).expect("it is connected");
    }

    fn read_frame(&mut self, bytes: &mut Vec<u8>) -> bool {
        let begin = bytes.len();
        if self.reader.read_until(b'\n', bytes).unwrap_or(0) == 0 {
            return false;
        }
        let line = String::from_utf8_lossy(&bytes[begin + 1..]).trim().to_string();
        let number: i64 = line.parse().unwrap_or(-1);
        match bytes[begin] {
            b'$' | b'=' if number >= 0 => {
                let mut body = vec![0; number as usize + 2];
                self.reader.read_exact(&mut body).expect("the whole answer");
                bytes.extend_from_slice(&body);
                true
            }
            b'*' | b'~' => (0..number).all(|_| self.read_frame(bytes)),
            b'%' => (0..2 * number).all(|_| self.read_frame(bytes)),
            _ => true,
        }
    }
}

/// Formats bytes as one line of text, with line ends shown as `|`.
pub fn show(bytes: &[u8]) -> String {
    let text: String = bytes
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| match line.strip_suffix(b"\r\n") {
            Some(line) => base::codec::printable(line) + "|",
            None => base::codec::printable(line),
        })
        .collect();
    text
}
