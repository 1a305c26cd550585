//! Control of a running `credenza dev` by other commands: a Unix socket in its folder, which only
//! the folder's owner can open.
//!
//! A request is one line, `kill NAME` or `restart NAME`; the answer is one line, `ok` or `error`
//! followed by a message.

use base::Kind;
use program::{Failure, Outcome};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// Longest request and longest answer, bytes.
const LINE_BYTES_MAX: u64 = 512;
/// Time limit for an answer, which includes the restart of a node.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Request to a running `credenza dev`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevRequest {
    /// Kills a node, as a crash would.
    Kill(String),
    /// Starts a node that ended, or stops and starts one that runs.
    Restart(String),
}

impl DevRequest {
    fn line(&self) -> String {
        match self {
            DevRequest::Kill(name) => format!("kill {name}\n"),
            DevRequest::Restart(name) => format!("restart {name}\n"),
        }
    }

    fn parse(line: &str) -> Option<DevRequest> {
        let (verb, name) = line.trim_end().split_once(' ')?;
        match verb {
            "kill" => Some(DevRequest::Kill(name.into())),
            "restart" => Some(DevRequest::Restart(name.into())),
            _ => None,
        }
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("control")
}

/// Listens in this folder. Replaces a socket that a killed `credenza dev` left; fails if another
/// process answers at it.
pub async fn listen(folder: &Path) -> Outcome<UnixListener> {
    let path = path(folder);
    if UnixStream::connect(&path).await.is_ok() {
        let text = format!("another `credenza dev` runs in {}: stop that one", folder.display());
        return Err(Failure::new(Kind::Unavailable, text));
    }
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(Failure::file("replace", &path, &error));
        }
        _ => {}
    }
    UnixListener::bind(&path).map_err(|error| Failure::file("listen at", &path, &error))
}

/// A request that was accepted and is to be answered.
pub struct AcceptedRequest {
    stream: UnixStream,
    /// The request. `None`: the line is malformed.
    pub request: Option<DevRequest>,
}

impl AcceptedRequest {
    /// Reads a request. `None`: the client sent nothing in time.
    pub async fn read(mut stream: UnixStream) -> Option<AcceptedRequest> {
        let line = timeout(Duration::from_secs(1), read(&mut stream)).await.ok()?.ok()?;
        Some(AcceptedRequest { request: DevRequest::parse(&line), stream })
    }

    /// Sends the answer; a client that has disconnected does not get it.
    pub async fn answer(mut self, result: Outcome<String>) {
        let line = match result {
            Ok(words) => format!("ok {words}\n"),
            Err(failure) => format!("error {failure}\n"),
        };
        let _ = timeout(ANSWER_TIMEOUT, self.stream.write_all(line.as_bytes())).await;
    }
}

async fn read(stream: &mut UnixStream) -> std::io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < LINE_BYTES_MAX as usize && stream.read_exact(&mut byte).await.is_ok() {
        if byte[0] == b'\n' {
            break;
        }
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Sends a request to the `credenza dev` that runs in this folder; returns its answer.
pub async fn send_request(folder: &Path, request: &DevRequest) -> Outcome<String> {
    let not_running = |_| {
        let text = format!(
            "no `credenza dev` runs in {}: start it with `credenza dev --data {}`, or name its \
             folder with --data",
            folder.display(),
            folder.display()
        );
        Failure::new(Kind::Unavailable, text)
    };
    let mut stream = UnixStream::connect(path(folder)).await.map_err(not_running)?;
    let exchange = async {
        stream.write_all(request.line().as_bytes()).await?;
        read(&mut stream).await
    };
    let no_answer = || Failure::new(Kind::Unavailable, "`credenza dev` did not answer");
    let answer = timeout(ANSWER_TIMEOUT, exchange)
        .await
        .map_err(|_| no_answer())?
        .map_err(|_| no_answer())?;
    match answer.split_once(' ') {
        Some(("ok", text)) => Ok(text.into()),
        Some(("error", text)) => Err(Failure::invalid(text)),
        _ => Err(no_answer()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dev_request_round_trips_and_unknown_line_is_rejected() {
        for request in [DevRequest::Kill("n1".into()), DevRequest::Restart("n2".into())] {
            assert_eq!(DevRequest::parse(&request.line()), Some(request));
        }
        for bad in ["", "kill", "remove n1", "\u{fffd} n1"] {
            assert_eq!(DevRequest::parse(bad), None, "{bad}");
        }
    }
}
