//! Client of Arakoon's protocol, written from the protocol's description alone. It finds the master
//! as Arakoon's own clients do, and accepts only a node whose name is the one in the configuration.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Client configuration: the cluster id and its nodes.
#[derive(Clone, Debug)]
pub struct ArakoonCluster {
    /// The cluster id.
    pub id: String,
    /// Names of the nodes with their addresses.
    pub nodes: Vec<(String, SocketAddr)>,
}

/// Failure of a call.
#[derive(Debug)]
pub enum ArakoonError {
    /// An error of the server: code and message.
    Server(i32, Vec<u8>),
    /// The connection broke; a write may have happened.
    Broken(io::Error),
    /// No node is master under the name it has in the configuration.
    NoMaster,
}

impl ArakoonError {
    /// Returns the error code. `None`: the server sent none.
    pub fn code(&self) -> Option<i32> {
        match self {
            ArakoonError::Server(code, _) => Some(*code),
            _ => None,
        }
    }

    /// Returns the message as text.
    pub fn message(&self) -> String {
        match self {
            ArakoonError::Server(_, message) => String::from_utf8_lossy(message).into_owned(),
            other => format!("{other:?}"),
        }
    }
}

impl From<io::Error> for ArakoonError {
    fn from(error: io::Error) -> ArakoonError {
        ArakoonError::Broken(error)
    }
}

/// Result of a call.
pub type CallResult<T> = Result<T, ArakoonError>;

/// One update of a sequence.
#[derive(Clone, Debug)]
pub enum SequenceStep<'a> {
    /// Writes a key.
    Set(&'a [u8], &'a [u8]),
    /// Deletes a key, which must exist.
    Delete(&'a [u8]),
    /// Asserts that the key holds this value, or is absent (`None`).
    Assert(&'a [u8], Option<&'a [u8]>),
    /// Deletes all keys under a prefix.
    DeletePrefix(&'a [u8]),
    /// Asserts that exactly these keys have the prefix.
    AssertRange(&'a [u8], &'a [&'a [u8]]),
    /// A nested sequence.
    Sequence(Vec<SequenceStep<'a>>),
}

/// Builder of a request's bytes.
struct RequestBuffer(Vec<u8>);

impl RequestBuffer {
    fn new(code: u32) -> RequestBuffer {
        RequestBuffer((0xb1ff_0000 | code).to_le_bytes().to_vec())
    }

    fn int(mut self, number: i32) -> RequestBuffer {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn byte(mut self, byte: u8) -> RequestBuffer {
        self.0.push(byte);
        self
    }

    fn text(mut self, text: &[u8]) -> RequestBuffer {
        self = self.int(text.len() as i32);
        self.0.extend(text);
        self
    }

    fn maybe(self, text: Option<&[u8]>) -> RequestBuffer {
        match text {
            None => self.byte(0),
            Some(text) => self.byte(1).text(text),
        }
    }

    fn steps(mut self, steps: &[SequenceStep]) -> RequestBuffer {
        self = self.int(5).int(steps.len() as i32);
        for step in steps {
            self = match step {
                SequenceStep::Set(key, value) => self.int(1).text(key).text(value),
                SequenceStep::Delete(key) => self.int(2).text(key),
                SequenceStep::Assert(key, value) => self.int(8).text(key).maybe(*value),
                SequenceStep::DeletePrefix(prefix) => self.int(14).text(prefix),
                SequenceStep::AssertRange(prefix, keys) => {
                    let request = self.int(17).text(prefix).int(1).int(keys.len() as i32);
                    keys.iter().fold(request, |request, key| request.text(key))
                }
                SequenceStep::Sequence(steps) => self.steps(steps),
            };
        }
        self
    }
}

/// A connection to one node.
pub struct Arakoon {
    stream: TcpStream,
    /// Read level sent with every read: 0 consistent, 1 dirty.
    pub read_level: u8,
}

impl Arakoon {
    /// Connects to one node, master or not.
    pub fn connect(address: SocketAddr, cluster: &str) -> io::Result<Arakoon> {
        Arakoon::with_timeout(address, cluster, Duration::from_secs(30))
    }

    /// Connects to one node; each answer may take at most `timeout`.
    pub fn with_timeout(
        address: SocketAddr,
        cluster: &str,
        timeout: Duration,
    ) -> io::Result<Arakoon> {
        let mut stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        let mut hello = vec![0x00, 0x00, 0xff, 0xb1, 1, 0, 0, 0];
        hello.extend((cluster.len() as i32).to_le_bytes());
        hello.extend(cluster.as_bytes());
        stream.write_all(&hello)?;
        Ok(Arakoon { stream, read_level: 0 })
    }

    /// Finds the master and connects to it. If a node names another as master, that one is tried
    /// once.
    pub fn master(cluster: &ArakoonCluster) -> CallResult<Arakoon> {
        for (name, address) in &cluster.nodes {
            let Ok(mut node) = Arakoon::connect(*address, &cluster.id) else { continue };
            let Ok(Some(master)) = node.who_master() else { continue };
            if master == *name {
                return Ok(node);
            }
            let hinted = cluster.nodes.iter().find(|(name, _)| *name == master);
            let Some((_, address)) = hinted else { continue };
            let Ok(mut node) = Arakoon::connect(*address, &cluster.id) else { continue };
            if node.who_master().ok().flatten().as_ref() == Some(&master) {
                return Ok(node);
            }
        }
        Err(ArakoonError::NoMaster)
    }

    fn send_request(&mut self, request: RequestBuffer) -> CallResult<()> {
        self.stream.write_all(&request.0)?;
        match self.int()? {
            0 => Ok(()),
            1 => Err(ArakoonError::Server(1, Vec::new())),
            code => Err(ArakoonError::Server(code, self.text()?)),
        }
    }

    fn read(&self, code: u32) -> RequestBuffer {
        RequestBuffer::new(code).byte(self.read_level)
    }

    fn read_bytes<const N: usize>(&mut self) -> CallResult<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn int(&mut self) -> CallResult<i32> {
        Ok(i32::from_le_bytes(self.read_bytes()?))
    }

    fn text(&mut self) -> CallResult<Vec<u8>> {
        let mut bytes = vec![0; self.int()? as usize];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn maybe(&mut self) -> CallResult<Option<Vec<u8>>> {
        Ok(if self.read_bytes::<1>()? == [1] { Some(self.text()?) } else { None })
    }

    /// Reads a list, whose elements are in reverse order on the wire.
    fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Arakoon) -> CallResult<T>,
    ) -> CallResult<Vec<T>> {
        let count = self.int()?;
        let mut list: Vec<T> = (0..count).map(|_| element(self)).collect::<CallResult<_>>()?;
        list.reverse();
        Ok(list)
    }

    /// Sends a request of this code with these argument bytes; returns its error, if there is one.
    /// The answer behind a success is not read: the connection is of no further use.
    pub fn request(&mut self, code: u32, arguments: &[u8]) -> CallResult<()> {
        let mut request = RequestBuffer::new(code);
        request.0.extend_from_slice(arguments);
        self.send_request(request)
    }

    /// Returns the master's name. `None`: there is none.
    pub fn who_master(&mut self) -> CallResult<Option<String>> {
        self.send_request(RequestBuffer::new(0x02))?;
        Ok(self.maybe()?.map(|name| String::from_utf8_lossy(&name).into_owned()))
    }

    /// Makes the master hand over to another node.
    pub fn drop_master(&mut self) -> CallResult<()> {
        self.send_request(RequestBuffer::new(0x30))
    }

    /// Returns the nodes of the nursery's configuration, which has one cluster, each with its one
    /// address.
    pub fn nursery(&mut self) -> CallResult<Vec<(String, SocketAddr)>> {
        self.send_request(RequestBuffer::new(0x20))?;
        self.int()?; // The length of all that follows.
        let routing = (self.read_bytes::<1>()?, self.text()?);
        let clusters = (self.int()?, self.text()?);
        let unexpected_answer =
            |description: &str| ArakoonError::Broken(io::Error::other(description.to_string()));
        if routing.0 != [1] || clusters.0 != 1 || routing.1 != clusters.1 {
            return Err(unexpected_answer("a routing to other clusters"));
        }
        let mut nodes = Vec::new();
        for _ in 0..self.int()? {
            let (name, addresses, host) = (self.text()?, self.int()?, self.text()?);
            let port = self.int()?;
            let [name, host] = [name, host].map(|text| String::from_utf8_lossy(&text).into_owned());
            let address = format!("{host}:{port}").parse();
            let address =
                address.ok().filter(|_| addresses == 1).ok_or_else(|| unexpected_answer(&host))?;
            nodes.push((name, address));
        }
        Ok(nodes)
    }

    /// Returns the server's greeting.
    pub fn hello(&mut self, cluster: &str) -> CallResult<String> {
        self.send_request(RequestBuffer::new(0x01).text(b"systest").text(cluster.as_bytes()))?;
        Ok(String::from_utf8_lossy(&self.text()?).into_owned())
    }

    /// Returns the value of a key.
    pub fn get(&mut self, key: &[u8]) -> CallResult<Vec<u8>> {
        self.send_request(self.read(0x08).text(key))?;
        self.text()
    }

    /// Returns true if a key exists.
    pub fn exists(&mut self, key: &[u8]) -> CallResult<bool> {
        self.send_request(self.read(0x07).text(key))?;
        Ok(self.read_bytes::<1>()? == [1])
    }

    /// Writes a key.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> CallResult<()> {
        self.send_request(RequestBuffer::new(0x09).text(key).text(value))
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: &[u8]) -> CallResult<()> {
        self.send_request(RequestBuffer::new(0x0a).text(key))
    }

    /// Writes if the key holds the expected value; returns the value before.
    pub fn test_and_set(
        &mut self,
        key: &[u8],
        expected: Option<&[u8]>,
        wanted: Option<&[u8]>,
    ) -> CallResult<Option<Vec<u8>>> {
        self.send_request(RequestBuffer::new(0x0d).text(key).maybe(expected).maybe(wanted))?;
        self.maybe()
    }

    /// Returns the values of keys, in the order of the keys.
    pub fn multi_get(&mut self, keys: &[&[u8]]) -> CallResult<Vec<Vec<u8>>> {
        let request = self.read(0x11).int(keys.len() as i32);
        self.send_request(keys.iter().fold(request, |request, key| request.text(key)))?;
        self.list(Arakoon::text)
    }

    /// Returns at most `max` keys with a prefix, in order.
    pub fn prefix(&mut self, prefix: &[u8], max: i32) -> CallResult<Vec<Vec<u8>>> {
        self.send_request(self.read(0x0c).text(prefix).int(max))?;
        self.list(Arakoon::text)
    }

    /// Returns keys with their values from `first` on, in order.
    pub fn entries(
        &mut self,
        first: Option<&[u8]>,
        max: i32,
    ) -> CallResult<Vec<(Vec<u8>, Vec<u8>)>> {
        self.send_request(self.read(0x0f).maybe(first).byte(1).byte(0).byte(0).int(max))?;
        self.list(|client| Ok((client.text()?, client.text()?)))
    }

    /// Executes a sequence: all its steps or none.
    pub fn sequence(&mut self, steps: &[SequenceStep]) -> CallResult<()> {
        let blob = RequestBuffer(Vec::new()).steps(steps).0;
        self.send_request(RequestBuffer::new(0x10).text(&blob))
    }

    /// Returns the number of keys.
    pub fn key_count(&mut self) -> CallResult<i64> {
        self.send_request(RequestBuffer::new(0x1a))?;
        Ok(i64::from_le_bytes(self.read_bytes()?))
    }

    /// Returns the last index, as a freshness of nine bytes.
    pub fn txid(&mut self) -> CallResult<[u8; 9]> {
        self.send_request(RequestBuffer::new(0x43))?;
        self.read_bytes()
    }

    /// Returns a value that is at least as fresh as the index `freshness`.
    pub fn get_at(&mut self, freshness: [u8; 9], key: &[u8]) -> CallResult<Vec<u8>> {
        let request = freshness.into_iter().fold(RequestBuffer::new(0x08), RequestBuffer::byte);
        self.send_request(request.text(key))?;
        self.text()
    }
}
