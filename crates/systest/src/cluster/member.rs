//! One node of a cluster: its process, its directory, its file system.

use crate::fault_injection::Mount;
use crate::server::{Server, Setup, StartRefusal, signal};
use rustix::process::Signal;
use std::time::{Duration, Instant};

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

    /// Pauses the process and waits until none of its threads runs. SIGSTOP takes effect on a
    /// thread only when that thread is scheduled: on a busy machine it still answers before.
    pub fn pause(&mut self) {
        self.is_paused = true;
        let pid = self.pid();
        signal(pid, Signal::STOP);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while has_running_thread(pid) {
            assert!(Instant::now() < deadline, "{} does not pause", self.name);
            std::thread::sleep(Duration::from_millis(1));
        }
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

/// Returns true while a thread of the process runs or can be woken. A thread in uninterruptible
/// sleep (`D`, on a hung disk) stops when the disk answers.
fn has_running_thread(pid: u32) -> bool {
    let mut threads =
        std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.any(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        matches!(state, Some('R' | 'S' | 'I'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_has_running_thread_until_its_stop_signal_took_effect() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
        assert!(has_running_thread(child.id()));
        signal(child.id(), Signal::STOP);
        let deadline = Instant::now() + STOP_TIMEOUT;
        while has_running_thread(child.id()) {
            assert!(Instant::now() < deadline, "it is stopped");
            std::thread::sleep(Duration::from_millis(1));
        }
        signal(child.id(), Signal::CONT);
        let mut resumed = false;
        while !resumed && Instant::now() < deadline {
            resumed = has_running_thread(child.id());
        }
        assert!(resumed, "it runs again");
        child.kill().expect("it is killed");
        child.wait().expect("it is reaped");
    }
}
