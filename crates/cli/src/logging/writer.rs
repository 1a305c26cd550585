//! A thread that writes lines, so that whoever logs never waits for a pipe, a terminal or a full
//! disk.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines that may wait; more are dropped and counted.
pub const LINES_MAX: usize = 8_192;
/// The longest wait for lines to be written at the end.
const FLUSH_MS_MAX: u64 = 1_000;

enum Order {
    Line(String),
    Flush(SyncSender<()>),
}

/// The writing end. The thread ends when all of them are gone.
pub struct LineWriter {
    orders: SyncSender<Order>,
    dropped: Arc<AtomicU64>,
}

impl LineWriter {
    /// Starts the thread.
    pub fn start(target: Box<dyn Write + Send>) -> LineWriter {
        let (orders, waiting) = sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&dropped);
        let thread = std::thread::Builder::new().name("log".into());
        thread
            .spawn(move || write_all(target, &waiting, &count))
            .expect("a process that can't start one thread can't serve");
        LineWriter { orders, dropped }
    }

    /// Takes a line; drops it when too many wait.
    pub fn write(&self, line: String) {
        if self.orders.try_send(Order::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits a little until all lines so far are written.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.orders.try_send(Order::Flush(done)).is_ok() {
            // Late is as good as done: the process ends now.
            let _ = written.recv_timeout(Duration::from_millis(FLUSH_MS_MAX));
        }
    }
}

/// Write errors are nobody's to hear: there is no better place to report them.
fn write_all(mut target: Box<dyn Write + Send>, waiting: &Receiver<Order>, dropped: &AtomicU64) {
    while let Ok(order) = waiting.recv() {
        match order {
            Order::Line(mut line) => {
                line.push('\n');
                let _ = target.write_all(line.as_bytes());
            }
            Order::Flush(done) => {
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
