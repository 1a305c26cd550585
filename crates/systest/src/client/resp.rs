//! Client of Redis' protocol, as far as tests need it: commands as lists of bulk strings, replies
//! of RESP2.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RespReply {
    /// `+OK`.
    Simple(String),
    /// `-ERR ...`.
    Error(String),
    /// `:1`.
    Number(i64),
    /// `$n`. `None`: nil.
    Bulk(Option<Vec<u8>>),
    /// `*n`. `None`: nil.
    List(Option<Vec<RespReply>>),
}

impl RespReply {
    /// Returns the bytes of a bulk string. `None`: it is nil or another reply.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            RespReply::Bulk(Some(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the text of an error. `None`: it is another reply.
    pub fn error(&self) -> Option<&str> {
        match self {
            RespReply::Error(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the elements of a list; empty if it is another reply.
    pub fn list(&self) -> &[RespReply] {
        match self {
            RespReply::List(Some(elements)) => elements,
            _ => &[],
        }
    }

    /// Returns the outcome of a call with this reply.
    pub fn outcome(&self) -> super::CallOutcome {
        const UNKNOWN_CODES: [&str; 3] = ["UNKNOWN", "STOREFAILED", "CORRUPT"];
        match self.error() {
            None => super::CallOutcome::Acknowledged(()),
            Some(text) if UNKNOWN_CODES.iter().any(|code| text.starts_with(code)) => {
                super::CallOutcome::Unknown
            }
            Some(_) => super::CallOutcome::Refused,
        }
    }
}

/// Encodes a command.
pub fn encode_command(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A connection.
#[derive(Debug)]
pub struct Resp {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Resp {
    /// Connects; connecting, and each reply, may take ten seconds.
    pub fn connect(address: SocketAddr) -> io::Result<Resp> {
        Resp::with_timeout(address, Duration::from_secs(10))
    }

    /// Connects; each reply may take at most `timeout`.
    pub fn with_timeout(address: SocketAddr, timeout: Duration) -> io::Result<Resp> {
        let stream = TcpStream::connect_timeout(&address, timeout.min(Duration::from_secs(10)))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let reader = BufReader::with_capacity(64 * 1024, stream.try_clone()?);
        Ok(Resp { stream, reader })
    }

    /// Sends a command; returns its reply.
    pub fn call(&mut self, args: &[&[u8]]) -> io::Result<RespReply> {
        self.send(&encode_command(args))?;
        self.receive()
    }

    /// Sends a command whose arguments contain no spaces; returns its reply.
    pub fn call_line(&mut self, line: &str) -> io::Result<RespReply> {
        let args: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        self.call(&args)
    }

    /// Sends raw bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Receives the next reply.
    pub fn receive(&mut self) -> io::Result<RespReply> {
        let line = self.read_line()?;
        let (mark, rest) =
            line.split_at_checked(1).ok_or_else(|| malformed_reply("an empty line"))?;
        let count = || rest.parse::<i64>().map_err(|_| malformed_reply(&line));
        match mark {
            "+" => Ok(RespReply::Simple(rest.into())),
            "-" => Ok(RespReply::Error(rest.into())),
            ":" => Ok(RespReply::Number(count()?)),
            "$" if count()? < 0 => Ok(RespReply::Bulk(None)),
            "$" => {
                let mut bytes = vec![0; count()? as usize + 2];
                self.reader.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Ok(RespReply::Bulk(Some(bytes)))
            }
            "*" if count()? < 0 => Ok(RespReply::List(None)),
            "*" => {
                let elements: io::Result<Vec<_>> = (0..count()?).map(|_| self.receive()).collect();
                Ok(RespReply::List(Some(elements?)))
            }
            _ => Err(malformed_reply(&line)),
        }
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Waits until the peer closes the connection, and discards what it still sends. Returns false
    /// on a timeout.
    pub fn closed_within(&mut self, timeout: Duration) -> bool {
        super::closed_within(&self.stream, &mut self.reader, timeout)
    }
}

fn malformed_reply(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no RESP answer: {line:?}"))
}
