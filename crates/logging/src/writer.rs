//! Thread that writes log lines, so that no logging thread waits for a pipe, a terminal or a full
//! disk.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Maximum number of queued lines. Further ones are dropped and counted.
pub const LINES_MAX: usize = 8_192;
/// Maximum wait for queued lines when the process ends.
const FLUSH_MS_MAX: u64 = 1_000;

enum WriterCommand {
    Line(String),
    Flush(SyncSender<()>),
}

/// Sender of lines. The thread ends when all senders are dropped.
pub struct LineWriter {
    commands: SyncSender<WriterCommand>,
    dropped: Arc<AtomicU64>,
}

impl LineWriter {
    /// Starts the thread.
    pub fn start(target: Box<dyn Write + Send>) -> LineWriter {
        let (commands, receiver) = sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&dropped);
        let thread = std::thread::Builder::new().name("log".into());
        thread
            .spawn(move || write_all(target, &receiver, &count))
            .expect("a process that can't start one thread can't serve");
        LineWriter { commands, dropped }
    }

    /// Queues a line. Drops it if the queue is full.
    pub fn write(&self, line: String) {
        if self.commands.try_send(WriterCommand::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines so far are written, at most `FLUSH_MS_MAX`.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.commands.try_send(WriterCommand::Flush(done)).is_ok() {
            // A timeout is ignored: the process ends now.
            let _ = written.recv_timeout(Duration::from_millis(FLUSH_MS_MAX));
        }
    }
}

/// Writes lines until all senders are dropped. Write errors are ignored, because there is no other
/// output to report them to.
fn write_all(
    mut target: Box<dyn Write + Send>,
    receiver: &Receiver<WriterCommand>,
    dropped: &AtomicU64,
) {
    while let Ok(command) = receiver.recv() {
        match command {
            WriterCommand::Line(mut line) => {
                line.push('\n');
                let _ = target.write_all(line.as_bytes());
            }
            WriterCommand::Flush(done) => {
                let _ = target.flush();
                let _ = done.try_send(());
            }
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(
                target,
                "{lost} lines of the log were dropped: standard error was too slow"
            );
        }
    }
}
