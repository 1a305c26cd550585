//! Service manager (systemd): the state of the node, the remedy of its failure, the watchdog, and
//! the sockets that the manager passes.
//!
//! A state is one datagram to its socket (`sd_notify`). The crate `sd-notify` would be the same,
//! but does not know sockets with abstract names, which containers have.
//!
//! Promises: without a service manager nothing happens; a failure to notify it is only logged.

use listenfd::ListenFd;
use program::{Failure, Outcome};
use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Longest text of a state: more than any sentence of a failure.
const STATUS_CHARS_MAX: usize = 1_000;
/// Kicks of the watchdog within its time: one that is late by scheduling is no alarm.
const KICKS_PER_TIMEOUT: u32 = 3;

/// Reports that the node serves.
pub fn ready(status: &str) {
    notify(&format!("READY=1\nSTATUS={}", one_line(status)));
}

/// Reports that the node stops.
pub fn stopping() {
    notify("STOPPING=1\nSTATUS=stopping");
}

/// Reports what the node does, in words; or its failure, with the remedy.
pub fn status(text: &str) {
    notify(&format!("STATUS={}", one_line(text)));
}

/// Sends a state if a service manager listens.
fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(name.as_encoded_bytes(), state) {
        tracing::warn!(%error, state, "the service manager can't be notified");
    }
}

fn send(name: &[u8], state: &str) -> std::io::Result<()> {
    let address = match name.strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(OsStr::from_bytes(name))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}

/// Returns a text as one line of limited length: a line feed would begin another state.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ").chars().take(STATUS_CHARS_MAX).collect()
}

/// Kicks the watchdog of the service manager, except while `tasks_to_restart` returns tasks for
/// which the process is to be restarted. Runs until it is dropped; without a watchdog it waits
/// forever. `serving`: text of the state while the node serves.
///
/// It runs on the runtime that serves clients: a kick also proves that tasks and timers still run.
pub async fn watch(
    serving: &str,
    tasks_to_restart: impl Fn() -> Vec<String>,
) -> std::convert::Infallible {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(timeout) = watchdog_timeout(&variable, std::process::id()) else {
        return std::future::pending().await;
    };
    let mut kicks = WatchdogKicks::default();
    loop {
        for state in kicks.next_states(serving, &tasks_to_restart()) {
            notify(&state);
        }
        tokio::time::sleep(timeout / KICKS_PER_TIMEOUT).await;
    }
}

/// Kicks of the service manager's watchdog, and the states that say why there are none.
#[derive(Default)]
struct WatchdogKicks {
    is_withheld: bool,
}

impl WatchdogKicks {
    /// Returns the states to notify now. `serving`: text of the state while the watchdog is kicked.
    /// `tasks`: tasks for which the process is to be restarted.
    fn next_states(&mut self, serving: &str, tasks: &[String]) -> Vec<String> {
        let was_withheld = std::mem::replace(&mut self.is_withheld, !tasks.is_empty());
        let names = tasks.join(", ");
        match (was_withheld, self.is_withheld) {
            (false, false) => vec!["WATCHDOG=1".into()],
            (true, false) => {
                tracing::warn!("the tasks go on: the service manager's watchdog is kicked again");
                vec!["WATCHDOG=1".into(), format!("STATUS={}", one_line(serving))]
            }
            (true, true) => Vec::new(),
            (false, true) => {
                tracing::error!(
                    tasks = names,
                    "tasks stand still: the service manager's watchdog is not kicked, and restarts \
                     the node"
                );
                let text = format!("tasks stand still, the watchdog restarts the node: {names}");
                vec![format!("STATUS={}", one_line(&text))]
            }
        }
    }
}

/// Returns the time within which the service manager wants a kick. `None`: it wants none of this
/// process.
fn watchdog_timeout(variable: &dyn Fn(&str) -> Option<String>, process: u32) -> Option<Duration> {
    let wanted_of = variable("WATCHDOG_PID").map_or(Some(process), |text| text.parse().ok());
    let timeout_us = variable("WATCHDOG_USEC")?.parse().ok()?;
    (wanted_of == Some(process) && timeout_us > 0).then(|| Duration::from_micros(timeout_us))
}

/// Returns the sockets that the service manager passes (`LISTEN_FDS`). None without one.
pub fn listeners() -> Outcome<Vec<TcpListener>> {
    let mut passed = ListenFd::from_env();
    let mut listeners = Vec::new();
    for index in 0..passed.len() {
        let taken = passed.take_tcp_listener(index).map_err(|error| {
            Failure::invalid(format!(
                "passed socket {index} is no TCP listener ({error}): correct the socket unit"
            ))
        })?;
        listeners.extend(taken);
    }
    Ok(listeners)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_notification_reaches_path_and_abstract_sockets() {
        let path = std::env::temp_dir().join(format!("credenza-notify-{}", std::process::id()));
        let hidden = format!("credenza-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&hidden).expect("a short name");
        let sockets = [UnixDatagram::bind(&path), UnixDatagram::bind_addr(&address)];
        let names = [path.as_os_str().as_encoded_bytes().to_vec(), format!("@{hidden}").into()];
        for (socket, name) in sockets.into_iter().zip(names) {
            send(&name, "READY=1").expect("someone listens");
            let mut bytes = [0; 16];
            let length = socket.expect("bound").recv(&mut bytes).expect("sent above");
            assert_eq!(&bytes[..length], b"READY=1");
        }
        std::fs::remove_file(path).expect("bound above");
    }

    #[test]
    fn status_text_is_one_line_of_limited_length() {
        assert_eq!(one_line("a\nREADY=1\u{1b}[31m"), "a READY=1 [31m");
        assert_eq!(one_line(&"\u{e9}".repeat(5_000)).chars().count(), STATUS_CHARS_MAX);
    }

    #[test]
    fn watchdog_is_not_kicked_while_a_task_stands_still_and_the_status_names_it() {
        let mut kicks = WatchdogKicks::default();
        let mut next = |tasks: &[&str]| {
            let tasks: Vec<_> = tasks.iter().map(|task| task.to_string()).collect();
            kicks.next_states("serving on a:1", &tasks)
        };
        let kick = ["WATCHDOG=1"];
        assert_eq!(next(&[]), kick);
        assert_eq!(next(&[]), kick);
        let withheld = next(&["loops: merger"]);
        assert_eq!(withheld.len(), 1, "{withheld:?}");
        assert!(withheld[0].starts_with("STATUS=tasks stand still"), "{withheld:?}");
        assert!(withheld[0].ends_with(": loops: merger"), "{withheld:?}");
        assert!(next(&["loops: merger"]).is_empty());
        assert!(next(&["loops: merger", "groups: group 1"]).is_empty());
        assert_eq!(next(&[]), ["WATCHDOG=1", "STATUS=serving on a:1"]);
        assert_eq!(next(&[]), kick);
    }

    #[test]
    fn watchdog_is_kicked_only_by_the_process_that_it_wants() {
        let timeout = |usec: Option<&str>, pid: Option<&str>| {
            let variable = |name: &str| match name {
                "WATCHDOG_USEC" => usec.map(String::from),
                "WATCHDOG_PID" => pid.map(String::from),
                _ => None,
            };
            watchdog_timeout(&variable, 7)
        };
        assert_eq!(timeout(Some("60000000"), Some("7")), Some(Duration::from_secs(60)));
        assert_eq!(timeout(Some("3000"), None), Some(Duration::from_millis(3)));
        for other in [
            (None, Some("7")),
            (Some("60000000"), Some("8")),
            (Some("60000000"), Some("x")),
            (Some("0"), Some("7")),
            (Some("soon"), None),
        ] {
            assert_eq!(timeout(other.0, other.1), None, "{other:?}");
        }
    }
}
