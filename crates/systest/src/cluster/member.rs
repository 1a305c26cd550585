//! One node of a cluster: its process, its directory, its file system.

use crate::fault_injection::Mount;
use crate::server::{Server, Setup, StartRefusal, signal};
use rustix::process::Signal;
use std::time::Duration;

/// Time limit for a node to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A node; the process is declared first, for it must end before its file system is unmounted.
pub(super) struct MemberProcess {
    pub server: Option<Server>,
    pub name: String,
    pub setup: Setup,
    pub disk: Option<Mount>,
    pub is_paused: bool,
}

impl MemberProcess {
    pub fn new(name: String, setup: Setup, disk: Option<Mount>) -> MemberProcess {
        MemberProcess { server: None, name, setup, disk, is_paused: false }
    }

    pub fn start(&mut self) {
        let result = self.try_start();
        result.unwrap_or_else(|refusal| panic!("{} did not start: {refusal}", self.name));
    }

    pub fn try_start(&mut self) -> Result<(), StartRefusal> {
        assert!(self.server.is_none(), "{} runs already", self.name);
        self.server = Some(Server::start(&self.setup)?);
        Ok(())
    }

    pub fn kill(&mut self) {
        self.is_paused = false;
        let mut server = self.server.take().expect("it runs");
        // A process that has ended has no process id any more.
        if server.is_alive() {
            server.kill();
        }
    }

    pub fn stop(&mut self) -> Option<i32> {
        let mut server = self.server.take().expect("it runs");
        let status = server.stop(STOP_TIMEOUT);
        status
            .unwrap_or_else(|| panic!("{} does not stop: {}", self.name, server.stderr_text()))
            .code()
    }

    pub fn pause(&mut self) {
        self.is_paused = true;
        signal(self.pid(), Signal::STOP);
    }

    pub fn resume(&mut self) {
        signal(self.pid(), Signal::CONT);
        self.is_paused = false;
    }

    fn pid(&self) -> u32 {
        self.server.as_ref().expect("it runs").pid()
    }

    /// Returns true if the node can answer: it runs and is not paused.
    pub fn can_answer(&self) -> bool {
        self.server.is_some() && !self.is_paused
    }
}
