//! Connections of one thread: an epoll loop, one write per batch, one read per readiness.

use super::{Answer, Call, Driver, Failure, Sink};
use crate::error::BenchError;
use rustix::event::epoll;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Size of the read buffer that all connections share.
const READ_BYTES: usize = 256 * 1024;
/// Most events returned by one call of epoll_wait.
const EVENTS_MAX: usize = 512;
/// Number of clients that connect at the same time.
const CONNECTS_AT_ONCE: usize = 64;
/// Time limit of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A wire protocol: the encoding of requests and the parsing of replies.
pub trait WireProtocol: Send + Sync + Sync {
    /// Format of a request's reply.
    type Expected: Send;

    /// Appends a request.
    fn encode(&self, call: &Call<'_>, out: &mut Vec<u8>) -> Self::Expected;

    /// Parses one reply at the front of the input.
    fn parse<'a>(&self, input: &'a [u8], expected: &Self::Expected) -> Parsed<'a>;

    /// Sends the commands that open a connection, and reads their answers.
    fn handshake(&self, stream: &mut TcpStream) -> Result<(), BenchError>;
}

/// Outcome of parsing the front of the input.
#[derive(Debug, PartialEq)]
pub enum Parsed<'a> {
    /// An incomplete reply.
    Partial,
    /// A reply with its length in bytes.
    Reply(usize, Result<Answer<'a>, Failure>),
    /// Input that violates the protocol: the connection must be closed.
    Broken,
}

struct Connection<E> {
    stream: Option<TcpStream>,
    out: Vec<u8>,
    sent: usize,
    /// Bytes of a reply that is not complete yet.
    rest: Vec<u8>,
    expected: VecDeque<E>,
    awaits_writable: bool,
}

/// The connections of one thread, one per client.
pub struct Sockets<T: WireProtocol> {
    protocol: T,
    addresses: Vec<SocketAddr>,
    /// Index of the address that each client is connected to; a lost connection is replaced by one
    /// to the next address.
    address_indexes: Vec<usize>,
    epoll: rustix::fd::OwnedFd,
    connections: Vec<Connection<T::Expected>>,
    /// Clients whose calls failed outside `wait`, each with the number of calls and the failure.
    failed: Vec<(usize, usize, Failure)>,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

/// Resolves a name to its first address.
pub fn resolve(address: &str) -> Result<SocketAddr, String> {
    let unresolved = |error: std::io::Error| format!("{address}: {error}");
    let mut addresses = address.to_socket_addrs().map_err(unresolved)?;
    addresses.next().ok_or_else(|| format!("{address}: no such address"))
}

/// Connects and runs the handshake; the stream is blocking.
pub fn connect<T: WireProtocol>(
    protocol: &T,
    address: SocketAddr,
) -> Result<TcpStream, BenchError> {
    let unreachable = |error: std::io::Error| {
        BenchError::unavailable(format!("can't connect to {address}: {error}"))
    };
    let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    stream.set_read_timeout(Some(CONNECT_TIMEOUT)).map_err(unreachable)?;
    protocol.handshake(&mut stream)?;
    Ok(stream)
}

/// Connects this many clients, several at the same time: one after the other, a distant server
/// would close the first as idle before the last is connected.
fn connect_all<T: WireProtocol>(
    protocol: &T,
    addresses: &[SocketAddr],
) -> Result<Vec<TcpStream>, BenchError> {
    let mut streams = Vec::with_capacity(addresses.len());
    for addresses in addresses.chunks(CONNECTS_AT_ONCE) {
        std::thread::scope(|scope| {
            let handles = addresses.iter();
            let handles: Vec<_> =
                handles.map(|address| scope.spawn(|| connect(protocol, *address))).collect();
            handles.into_iter().try_for_each(|handle| {
                let stream = handle.join().map_err(|_| "a thread that connects panicked")??;
                streams.push(stream);
                Ok::<(), BenchError>(())
            })
        })?;
    }
    Ok(streams)
}

/// Sends one call and waits for its reply; for probes, not for measurements.
pub fn request_once<T: WireProtocol, R>(
    protocol: &T,
    stream: &mut TcpStream,
    request: &[u8],
    expected: &T::Expected,
    read: impl FnOnce(Result<Answer<'_>, Failure>) -> R,
) -> Result<R, BenchError> {
    let connection_lost =
        |error: std::io::Error| BenchError::unavailable(format!("the server is gone: {error}"));
    stream.write_all(request).map_err(connection_lost)?;
    let (mut input, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        match protocol.parse(&input, expected) {
            Parsed::Reply(_, answer) => return Ok(read(answer)),
            Parsed::Broken => return Err("the server answers in an unknown language".into()),
            Parsed::Partial => {}
        }
        let count = stream.read(&mut chunk).map_err(connection_lost)?;
        if count == 0 {
            return Err("the server closed the connection".into());
        }
        input.extend_from_slice(&chunk[..count]);
    }
}

/// Addresses of a cluster's members; clients use them in turn.
pub struct Addresses {
    resolved: Vec<SocketAddr>,
    /// Number of clients created so far; the next client uses the next address.
    assigned: AtomicUsize,
}

impl Addresses {
    /// Resolves addresses, `host:port` each.
    pub fn resolve(addresses: &[String]) -> Result<Addresses, BenchError> {
        let resolved = addresses.iter().map(|address| resolve(address));
        Ok(Addresses {
            resolved: resolved.collect::<Result<_, _>>()?,
            assigned: AtomicUsize::new(0),
        })
    }

    /// Returns the first address, which reports the server's version.
    pub fn first(&self) -> Result<SocketAddr, BenchError> {
        self.resolved.first().copied().ok_or_else(|| "the driver wants an address".into())
    }

    /// Connects this many further clients.
    pub fn connect<T: WireProtocol>(
        &self,
        protocol: T,
        clients: usize,
    ) -> Result<Sockets<T>, BenchError> {
        let first = self.assigned.fetch_add(clients, Ordering::Relaxed);
        Sockets::connect_in_turn(protocol, self.resolved.clone(), first, clients)
    }
}

impl<T: WireProtocol> Sockets<T> {
    /// Connects this many clients to one address.
    pub fn connect(
        protocol: T,
        address: SocketAddr,
        clients: usize,
    ) -> Result<Sockets<T>, BenchError> {
        Sockets::connect_in_turn(protocol, vec![address], 0, clients)
    }

    /// Connects this many clients, to these addresses in turn, beginning at index `first`.
    fn connect_in_turn(
        protocol: T,
        addresses: Vec<SocketAddr>,
        first: usize,
        clients: usize,
    ) -> Result<Sockets<T>, BenchError> {
        let epoll_error = |error: rustix::io::Errno| format!("epoll: {error}");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(epoll_error)?;
        let mut sockets = Sockets {
            protocol,
            address_indexes: (first..first + clients)
                .map(|index| index % addresses.len())
                .collect(),
            addresses,
            epoll,
            connections: Vec::with_capacity(clients),
            failed: Vec::new(),
            events: Vec::with_capacity(EVENTS_MAX),
            buffer: vec![0; READ_BYTES],
        };
        let targets = sockets.address_indexes.iter().map(|index| sockets.addresses[*index]);
        let streams = connect_all(&sockets.protocol, &targets.collect::<Vec<_>>())?;
        for (client, stream) in streams.into_iter().enumerate() {
            sockets.connections.push(Connection::default());
            sockets.register(client, stream)?;
        }
        Ok(sockets)
    }

    fn reconnect(&mut self, client: usize) -> Result<(), BenchError> {
        let index = self.address_indexes[client];
        self.address_indexes[client] = (index + 1) % self.addresses.len();
        let stream = connect(&self.protocol, self.addresses[index])?;
        self.address_indexes[client] = index;
        self.register(client, stream)
    }

    fn register(&mut self, client: usize, stream: TcpStream) -> Result<(), BenchError> {
        stream.set_nonblocking(true).map_err(|error| error.to_string())?;
        let data = epoll::EventData::new_u64(client as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)
            .map_err(|error| format!("epoll: {error}"))?;
        self.connections[client] = Connection { stream: Some(stream), ..Connection::default() };
        Ok(())
    }

    /// Closes a client's connection; all its calls fail with `kind`.
    fn close(&mut self, client: usize, kind: &'static str) {
        let connection = std::mem::take(&mut self.connections[client]);
        if !connection.expected.is_empty() {
            self.failed.push((client, connection.expected.len(), Failure::lost(kind)));
        }
    }

    fn deliver_failures(&mut self, sink: Sink<'_>) {
        for (client, calls, failure) in self.failed.drain(..) {
            let now = Instant::now();
            for _ in 0..calls {
                sink(client, now, Err(failure.clone()));
            }
        }
    }

    fn set_write_interest(&mut self, client: usize, writing: bool) {
        let connection = &mut self.connections[client];
        let Some(stream) = &connection.stream else { return };
        if connection.awaits_writable == writing {
            return;
        }
        connection.awaits_writable = writing;
        let flags = match writing {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        let data = epoll::EventData::new_u64(client as u64);
        if epoll::modify(&self.epoll, stream, data, flags).is_err() {
            self.close(client, "connection_lost");
        }
    }

    fn write(&mut self, client: usize) {
        let connection = &mut self.connections[client];
        let Some(stream) = &mut connection.stream else { return };
        while connection.sent < connection.out.len() {
            match stream.write(&connection.out[connection.sent..]) {
                Ok(count) if count > 0 => connection.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.set_write_interest(client, true);
                }
                _ => return self.close(client, "connection_lost"),
            }
        }
        connection.out.clear();
        connection.sent = 0;
        self.set_write_interest(client, false);
    }

    fn read(&mut self, client: usize, sink: Sink<'_>) {
        let connection = &mut self.connections[client];
        let Some(stream) = &mut connection.stream else { return };
        let count = match stream.read(&mut self.buffer) {
            Ok(count) if count > 0 => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => return,
            _ => return self.close(client, "connection_lost"),
        };
        let now = Instant::now();
        let mut pending_input = std::mem::take(&mut connection.rest);
        let input = if pending_input.is_empty() {
            &self.buffer[..count]
        } else {
            pending_input.extend_from_slice(&self.buffer[..count]);
            &pending_input[..]
        };
        let mut at = 0;
        while let Some(expected) = connection.expected.front() {
            match self.protocol.parse(&input[at..], expected) {
                Parsed::Reply(bytes, answer) => {
                    connection.expected.pop_front();
                    at += bytes;
                    sink(client, now, answer);
                }
                Parsed::Partial => break,
                Parsed::Broken => return self.close(client, "unreadable_reply"),
            }
        }
        if at == input.len() {
            pending_input.clear();
            connection.rest = pending_input;
        } else if connection.expected.is_empty() {
            self.close(client, "unreadable_reply");
        } else if pending_input.is_empty() {
            connection.rest.extend_from_slice(&self.buffer[at..count]);
        } else {
            pending_input.drain(..at);
            connection.rest = pending_input;
        }
    }
}

impl<E> Default for Connection<E> {
    fn default() -> Connection<E> {
        Connection {
            stream: None,
            out: Vec::new(),
            sent: 0,
            rest: Vec::new(),
            expected: VecDeque::new(),
            awaits_writable: false,
        }
    }
}

impl<T: WireProtocol> Driver for Sockets<T> {
    fn begin(&mut self, client: usize, call: &Call<'_>) {
        if self.connections[client].stream.is_none() && self.reconnect(client).is_err() {
            return self.failed.push((client, 1, Failure::lost("not_connected")));
        }
        let connection = &mut self.connections[client];
        let expected = self.protocol.encode(call, &mut connection.out);
        connection.expected.push_back(expected);
    }

    fn send(&mut self, client: usize) {
        if !self.connections[client].awaits_writable {
            self.write(client);
        }
    }

    fn wait(&mut self, timeout: Duration, sink: Sink<'_>) {
        let timeout = if self.failed.is_empty() { timeout } else { Duration::ZERO };
        // Failures go first, since calls of a new connection may follow lost ones of the old.
        self.deliver_failures(sink);
        let timeout = rustix::event::Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        // An interrupted wait returns no events.
        let _ = epoll::wait(&self.epoll, spare, Some(&timeout));
        let mut events = std::mem::take(&mut self.events);
        for event in &events {
            let (client, flags) = (event.data.u64() as usize, event.flags);
            if flags.contains(epoll::EventFlags::OUT) {
                self.write(client);
            }
            if flags != epoll::EventFlags::OUT {
                self.read(client, sink);
            }
        }
        events.clear();
        self.events = events;
        self.deliver_failures(sink);
    }

    fn forget(&mut self, client: usize) {
        self.connections[client] = Connection::default();
        self.failed.retain(|(other, ..)| *other != client);
    }
}
