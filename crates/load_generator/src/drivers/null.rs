//! Driver that answers everything at once: measures the cost of the load tool itself.

use super::{Answer, Call, Driver, Sink, Target};
use crate::config::Operation;
use crate::error::BenchError;
use std::time::{Duration, Instant};

/// Target without a server.
pub struct NullTarget;

struct NullDriver {
    pending: Vec<usize>,
}

impl Target for NullTarget {
    fn version(&self) -> String {
        "null".into()
    }

    fn supports(&self, _operation: Operation) -> Result<(), String> {
        Ok(())
    }

    fn driver(&self, _clients: usize) -> Result<Box<dyn Driver>, BenchError> {
        Ok(Box::new(NullDriver { pending: Vec::new() }))
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Driver for NullDriver {
    fn begin(&mut self, client: usize, _call: &Call<'_>) {
        self.pending.push(client);
    }

    fn send(&mut self, _client: usize) {}

    fn wait(&mut self, timeout: Duration, sink: Sink<'_>) {
        if self.pending.is_empty() {
            std::thread::sleep(timeout);
        }
        for client in self.pending.drain(..) {
            sink(client, Instant::now(), Ok(Answer::Done));
        }
    }

    fn forget(&mut self, client: usize) {
        self.pending.retain(|other| *other != client);
    }
}
