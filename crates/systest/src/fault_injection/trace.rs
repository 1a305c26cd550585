//! System calls that fail, through strace: at the n-th call, with an error, a wrong result or a
//! delay.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An injection into a running process, detached on drop.
#[derive(Debug)]
pub struct Trace {
    child: Child,
    record: PathBuf,
}

impl Trace {
    /// Attaches to every thread of the process; from then on `fault` is injected into the calls.
    pub fn attach(pid: u32, calls: &str, fault: &str, record: PathBuf) -> Trace {
        Trace::attach_each(pid, &[(calls, fault)], record)
    }

    /// Attaches with several kinds of calls, each with its own fault.
    pub fn attach_each(pid: u32, faults: &[(&str, &str)], record: PathBuf) -> Trace {
        let call_names: Vec<_> = faults.iter().map(|(calls, _)| *calls).collect();
        let inject_args = faults
            .iter()
            .flat_map(|(calls, fault)| ["-e".to_string(), format!("inject={calls}:{fault}")]);
        let child = Command::new("strace")
            .args(["-f", "-y", "-ttt", "-p", &pid.to_string(), "-o"])
            .arg(&record)
            .args(["-e", &format!("trace={}", call_names.join(","))])
            .args(inject_args)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("strace was found before");
        let trace = Trace { child, record };
        let deadline = Instant::now() + Duration::from_secs(10);
        // The process may have ended already, by the very call that was to fail.
        while !is_traced(pid) && trace.injections() == 0 {
            assert!(Instant::now() < deadline, "strace does not attach to {pid}");
            std::thread::sleep(Duration::from_millis(5));
        }
        trace
    }

    /// Returns the record so far, a call a line.
    pub fn record(&self) -> String {
        std::fs::read_to_string(&self.record).unwrap_or_default()
    }

    /// Returns the number of calls that were changed or delayed.
    pub fn injections(&self) -> u64 {
        let record = self.record();
        let marks = ["(INJECTED)", "(DELAYED)"];
        marks.iter().map(|mark| record.matches(mark).count() as u64).sum()
    }

    /// Returns the seconds from the first injection to the process's exit, by the tracer's own
    /// clock.
    pub fn seconds_to_exit(&self) -> Option<f64> {
        let record = self.record();
        let time = |line: &str| line.split_whitespace().nth(1)?.parse::<f64>().ok();
        let first = record.lines().find(|line| line.contains("(INJECTED)")).and_then(time)?;
        let last = record.lines().rev().find(|line| line.contains("+++ ")).and_then(time)?;
        Some(last - first)
    }

    /// Detaches from the process and waits until it is free.
    pub fn detach(&mut self) {
        crate::server::signal(self.child.id(), rustix::process::Signal::INT);
        let _ = self.child.wait();
    }

    /// Waits for the traced process' end, which ends the tracer.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.detach();
        }
    }
}

/// Returns true if every thread of the process has a tracer.
fn is_traced(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_none_or(|pid| pid.trim() != "0")
    })
}
