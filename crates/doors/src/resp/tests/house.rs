//! A real node behind real doors on loopback, and a client that reads answers byte by byte.

use crate::{DoorSettings, Doors};
use node::{Node, NodeSettings};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;

/// A node with its doors, stopped and removed when dropped.
pub struct House {
    runtime: Runtime,
    folder: PathBuf,
    node: Option<Node>,
    doors: Option<Doors>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl House {
    /// A fresh one.
    pub fn build() -> House {
        House::of(DoorSettings::default())
    }

    /// A fresh one with these settings of its doors.
    pub fn of(settings: DoorSettings) -> House {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("credenza-resp-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let data = NodeSettings {
            data: folder.clone(),
            segment_bytes: 8 << 20,
            reserve_bytes: 0,
            ..NodeSettings::default()
        };
        let settings = DoorSettings {
            listen: "127.0.0.1:0".parse().expect("an address"),
            close_ms_max: 1_000,
            ..settings
        };
        let (node, doors) = runtime.block_on(async {
            let node = Node::start(data).await.expect("a node");
            let doors = Doors::open(node.clone(), settings).await.expect("doors");
            (node, doors)
        });
        let address = doors.addresses()[0];
        House { runtime, folder, node: Some(node), doors: Some(doors), address }
    }

    /// Closes the doors.
    pub fn close_doors(&mut self) {
        if let Some(doors) = self.doors.take() {
            self.runtime.block_on(doors.close());
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.close_doors();
        if let Some(node) = self.node.take() {
            let _ = self.runtime.block_on(node.stop());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A client.
pub struct Guest {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Guest {
    /// Calls an address.
    pub fn new(address: SocketAddr) -> Guest {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        Guest { stream, reader }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    /// Sends a request.
    pub fn say(&mut self, words: &[&str]) {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        self.send(&super::frames::request(&words));
    }

    /// Sends a request and gives its answer, line ends shown as `|`.
    pub fn ask(&mut self, words: &[&str]) -> String {
        self.say(words);
        shown(&self.answer().expect("an answer"))
    }

    /// The bytes of one answer; `None` when the connection has ended.
    pub fn answer(&mut self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_frame(&mut bytes).then_some(bytes)
    }

    /// Everything until the connection ends.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // A reset is an end, too.
        let _ = self.reader.read_to_end(&mut bytes);
        bytes
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

/// Bytes as one line of text, line ends shown as `|`.
pub fn shown(bytes: &[u8]) -> String {
    let text: String = bytes
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| match line.strip_suffix(b"\r\n") {
            Some(line) => base::codec::printable(line) + "|",
            None => base::codec::printable(line),
        })
        .collect();
    text
}
