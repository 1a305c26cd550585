//! Driver that answers everything at once: measures the cost of the load tool itself.

use super::{Answer, Call, Driver, Sink, Target};
use crate::config::Operation;
use crate::wrong::Wrong;
use std::time::{Duration, Instant};

/// Target without a server.
pub struct NullTarget;

struct NullDriver {
    begun: Vec<usize>,
}

impl Target for NullTarget {
    fn version(&self) -> String {
        "null".into()
    }

    fn supports(&self, _operation: Operation) -> Result<(), String> {
        Ok(())
    }

    fn driver(&self, _clients: usize) -> Result<Box<dyn Driver>, Wrong> {
        Ok(Box::new(NullDriver { begun: Vec::new() }))
    }

    fn close(&self) -> Result<(), String> {
        Ok(())
    }
}

impl Driver for NullDriver {
    fn begin(&mut self, client: usize, _call: &Call<'_>) {
        self.begun.push(client);
    }

    fn send(&mut self, _client: usize) {}

    fn wait(&mut self, timeout: Duration, sink: Sink<'_>) {
        if self.begun.is_empty() {
            std::thread::sleep(timeout);
        }
        for client in self.begun.drain(..) {
            sink(client, Instant::now(), Ok(Answer::Done));
        }
    }

    fn forget(&mut self, client: usize) {
        self.begun.retain(|other| *other != client);
    }
}
