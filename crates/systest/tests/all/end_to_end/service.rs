//! A node under a service manager: notifications, watchdog, remedies, reload, passed sockets, and
//! the unit that the package installs.

use super::start_server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::cluster::wait_until;
use systest::environment::{Root, Scratch, missing, path_str};
use systest::report::skipped;
use systest::server::{Server, Setup, binary, tool};
use systest::tidy;

/// Socket of a service manager.
struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn listen(folder: &Path) -> Manager {
        let path = folder.join("notify");
        let socket = UnixDatagram::bind(&path).expect("a path of ours");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        Manager { socket, path: path_str(&path).into() }
    }

    /// Returns the states up to the first one with this text.
    fn until(&self, text: &str) -> Vec<String> {
        let mut states = Vec::new();
        loop {
            let mut bytes = [0; 4096];
            let length = self.socket.recv(&mut bytes).unwrap_or_else(|error| {
                panic!("`{text}` is not notified ({error}), but {states:?}")
            });
            states.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
            if states.last().is_some_and(|state| state.contains(text)) {
                return states;
            }
        }
    }
}

#[test]
fn service_manager_is_told_of_start_watchdog_and_stop() {
    let scratch = Scratch::new("service-states");
    let manager = Manager::listen(scratch.path());
    let setup = Setup::new(&scratch.join("data")).env("NOTIFY_SOCKET", &manager.path);
    let mut server = Server::must_start(&setup.env("WATCHDOG_USEC", "300000"));
    let states = manager.until("READY=1");
    assert!(states[0].starts_with("STATUS=starting"), "{states:?}");
    let ready = states.last().expect("one at least");
    assert!(ready.contains(&format!("\nSTATUS=serving on {}", server.address)), "{ready}");
    for _ in 0..3 {
        manager.until("WATCHDOG=1");
    }
    server.stop(Duration::from_secs(30)).expect("it stops when asked");
    manager.until("STOPPING=1");
}

#[test]
fn failure_that_no_restart_cures_has_its_remedy_in_the_status() {
    let scratch = Scratch::new("service-remedy");
    let manager = Manager::listen(scratch.path());
    let setup = Setup::new(&scratch.join("data")).env("NOTIFY_SOCKET", &manager.path);
    let setup = setup.with_args(&["--segment-bytes", "1GiB"]);
    let refusal = Server::start(&setup).map(|_| ()).expect_err("the log is too small for it");
    assert_eq!(refusal.code, Some(2), "{refusal}");
    let states = manager.until("STATUS=log_bytes_max must hold two segments");
    assert!(!states.iter().any(|state| state.contains("READY=1")), "{states:?}");
}

#[test]
fn reload_brings_live_settings_into_force_and_names_the_others() {
    let scratch = Scratch::new("service-reload");
    let (file, data) = (scratch.join("node.toml"), scratch.join("data"));
    let write = |rest: &str| {
        let data = data.display();
        let text = format!("data_dir = \"{data}\"\nlisten = \"127.0.0.1:0\"\n{rest}");
        std::fs::write(&file, text).expect("it is ours");
    };
    write("threads = 1\n");
    let setup = Setup::from_file(&data).with_args(&["--config", path_str(&file)]);
    let server = Server::must_start(&setup);
    let url = format!("http://{}", server.address);
    let reload = || {
        let output = tool(&["reload", "--url", &url]).output().expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    assert_eq!(reload(), (Some(0), "no setting has another value\n".into()));
    write("threads = 2\nlog_level = \"info,node=debug\"\n");
    let (code, text) = reload();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("log_level: info -> info,node=debug (in force)"), "{text}");
    assert!(text.contains("threads: 1 -> 2 (waits for a restart)"), "{text}");
    let node_level = || {
        let mut web = Http::connect(server.address).expect("it listens");
        web.request("GET", "/v1/admin/log-levels", b"").expect("it answers").text()
    };
    assert!(node_level().contains("\"node\":\"debug\""), "{}", node_level());
    write("threads = \"many\"\n");
    let (code, text) = reload();
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(":3: threads") && text.contains("nothing was changed"), "{text}");
    write("threads = 1\nlog_level = \"info\"\n");
    let pid = server.pid().to_string();
    let sent = Command::new("kill").args(["-HUP", &pid]).status().expect("it runs");
    assert!(sent.success());
    wait_until("the signal to reload", || match node_level().contains("\"node\":\"info\"") {
        true => Ok(()),
        false => Err(node_level()),
    });
}

#[test]
fn service_unit_is_valid_and_its_exposure_small() {
    if let Some(reason) = missing(Root::Spared, &["systemd-analyze"]) {
        skipped("service unit", &reason);
        return;
    }
    let unit = tidy::root().join("packaging/systemd/credenza.service");
    let analyze = |words: &[&str]| {
        let output = Command::new("systemd-analyze").args(words).output().expect("it runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (_, complaints) = analyze(&["verify", path_str(&unit)]);
    let unknown =
        complaints.lines().filter(|line| line.contains("Unknown") || line.contains("Fail"));
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&str>::new());
    // 20 of 100, which it shows as 2.0.
    let words = ["security", "--offline=true", "--threshold=20", "--no-pager", path_str(&unit)];
    let (is_low, table) = analyze(&words);
    assert!(is_low, "{table}");
    let text = std::fs::read_to_string(unit).expect("it is there");
    for line in ["Type=notify", "WatchdogSec=60", "RestartPreventExitStatus=2 3 7"] {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
}

#[test]
fn node_serves_at_the_socket_of_a_service_manager() {
    if let Some(reason) = missing(Root::Spared, &["systemd-socket-activate"]) {
        skipped("socket activation", &reason);
        return;
    }
    let (scratch, server) = start_server("service-port");
    let address = server.address;
    drop(server); // Its port is free again.
    let (data, listen) = (scratch.join("activated"), address.to_string());
    let mut command = Command::new("systemd-socket-activate");
    command.args(["-l", &listen]).arg(binary()).args(["serve", "--data", path_str(&data)]);
    let child = command.args(["--listen", &listen]).stderr(Stdio::null()).spawn();
    let mut child = child.expect("it runs");
    let answer = || -> std::io::Result<String> {
        let mut client = TcpStream::connect(address)?;
        client.set_read_timeout(Some(Duration::from_secs(60)))?;
        client.write_all(b"PING\r\n")?;
        let mut bytes = [0; 64];
        let length = client.read(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    };
    // The first connection starts the node, and waits for it.
    let began = Instant::now();
    let mut first = answer();
    while first.is_err() && began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(50));
        first = answer();
    }
    let ended = child.kill().and_then(|()| child.wait());
    assert_eq!(first.expect("somebody listens"), "+PONG\r\n");
    ended.expect("it ran");
}

#[test]
fn restart_behind_a_passed_socket_refuses_no_connection() {
    if let Some(reason) = missing(Root::Spared, &["python3"]) {
        skipped("socket activation", &reason);
        return;
    }
    let scratch = Scratch::new("service-activation");
    let script = tidy::root().join("crates/systest/clients/activation.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(binary()).arg(scratch.join("data")).arg("0");
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let count = |name: &str| {
        let word = text.split_whitespace().find_map(|word| word.strip_prefix(name));
        word.and_then(|count| count.parse::<u64>().ok()).unwrap_or_else(|| panic!("{name}: {text}"))
    };
    assert_eq!((count("refused="), count("restarts=")), (0, 3), "{text}");
    assert!(count("answered=") > 50, "{text}");
}
