//! Follower of a feed by the command line: `credenza feed --follow`, which goes on at another node
//! by itself. Its events and its notes are written to one file, in their order.

use super::shared::DocumentBucket;
use super::view::FollowerView;
use crate::server::{signal, tool};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// Time limit for its end after a signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Beginning of a note, on standard error.
const NOTE: &str = "credenza: ";

/// Follower by the command line. A drop kills its process.
pub struct CommandFollower {
    bucket: DocumentBucket,
    child: Child,
    path: PathBuf,
    /// Number of bytes of the file that were read, and the beginning of a line among them.
    read: u64,
    rest: Vec<u8>,
    /// Token that it named at its last end. `None`: it did not end since it was started.
    token: Option<String>,
    last_note: String,
    view: FollowerView,
    resumptions: u64,
}

impl CommandFollower {
    /// Starts it at a node, from the start; its output goes to a file of this folder.
    pub fn start(bucket: DocumentBucket, folder: &Path, node: SocketAddr) -> CommandFollower {
        let name = bucket.name().replace('/', "-");
        let path = folder.join(format!("feed-{name}"));
        File::create(&path).expect("the scratch folder can be written");
        let child = spawn(bucket, &path, (node, "start"));
        let view = FollowerView::new(bucket == DocumentBucket::Consistent);
        let (rest, last_note) = (Vec::new(), String::new());
        let (read, token, resumptions) = (0, None, 0);
        CommandFollower { bucket, child, path, read, rest, token, last_note, view, resumptions }
    }

    /// Ends it as an operator does, and starts it again at a node, behind the token that it named.
    pub fn resume(&mut self, node: SocketAddr) {
        signal(self.child.id(), Signal::TERM);
        let deadline = Instant::now() + STOP_TIMEOUT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            assert!(Instant::now() < deadline, "{} does not end", self.name());
            std::thread::sleep(Duration::from_millis(10));
        };
        self.read_output();
        assert_eq!(status.code(), Some(0), "{}: {:?}", self.name(), self.view.findings());
        let token = self.token.take().expect("it names its token at its end");
        self.child = spawn(self.bucket, &self.path, (node, &token));
        self.resumptions += 1;
    }

    /// Returns its name, for a message.
    pub fn name(&self) -> String {
        format!("command of {}", self.bucket.name())
    }

    /// Reads what it has written since, and returns what it knows.
    pub fn view(&mut self) -> &FollowerView {
        self.read_output();
        if let Ok(Some(status)) = self.child.try_wait() {
            self.view.note(format!("the command has ended: {status}: {}", self.last_note));
        }
        &self.view
    }

    /// Returns the number of times that it was resumed.
    pub fn resumptions(&self) -> u64 {
        self.resumptions
    }

    fn read_output(&mut self) {
        let mut file = File::open(&self.path).expect("it is ours");
        file.seek(SeekFrom::Start(self.read)).expect("it is a file");
        self.read += file.read_to_end(&mut self.rest).expect("it is readable") as u64;
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..end).collect();
        String::from_utf8_lossy(&lines).lines().for_each(|line| self.take_line(line));
    }

    fn take_line(&mut self, line: &str) {
        let Some(note) = line.strip_prefix(NOTE) else {
            return match serde_json::from_str::<Value>(line) {
                Ok(event) => self.view.take(&event),
                Err(_) => self.view.note(format!("no event: {line}")),
            };
        };
        self.last_note = note.into();
        if note.starts_with("restart") {
            self.view.restart();
        } else if note.starts_with("level") {
            self.view.reach_level();
        } else if let Some(token) = note.strip_prefix("go on with --from ") {
            self.token = Some(token.into());
        }
    }
}

impl Drop for CommandFollower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts the command at a node, from a place on; it appends to a file.
fn spawn(bucket: DocumentBucket, path: &Path, (node, from): (SocketAddr, &str)) -> Child {
    let open = || File::options().append(true).open(path).expect("it is ours");
    let url = format!("http://{node}");
    let args = ["feed", bucket.name(), "--follow", "--values", "--json", "--url", &url];
    let mut command = tool(&args);
    command.args(["--from", from]).stdout(open()).stderr(open());
    command.spawn().expect("the tool starts")
}
