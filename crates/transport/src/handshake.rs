//! Greetings of two nodes as bytes, pure; `admission.rs` decides who is accepted.
//!
//! The dialler sends `Hello`, the other `Welcome` or `Refused`, the dialler `Go` or `Refused`; then
//! frames begin. All numbers little-endian:
//!
//! ```text
//!   0  8 bytes  magic      "CRDZPEER"
//!   8  u32      length     of the body, at most PEER_GREETING_BYTES_MAX
//!  12  u64      checksum   xxh3 of the body
//!  20           body       u8 kind, then
//!      hello    u32 lowest, u32 highest version; u64 cluster, node, target node, incarnation,
//!               process, nonce, previous link; string name; string address; lives; mac
//!      welcome  u32 version; u64 cluster, node, incarnation, process, nonce; string name, address;
//!               lives; mac
//!      go       u64 the link's id; mac
//!      refused  u8 code; string words; mac
//! ```
//!
//! `incarnations`, u32 how many and for each u64 number, u64 token, was added later: a node without
//! any omits it, unless a MAC follows. `mac`, u8 1 and 32 bytes, was added after those: a node
//! without the cluster's secret omits it. `transcript.rs` describes the bytes that it covers.
//!
//! A later version may append to a body and must not change existing fields: bytes after the known
//! fields are skipped. The magic, the envelope, `refused` and the two versions never change.

use super::incarnation::Incarnation;
use super::refusal::Refusal;
use super::versions::Versions;
use base::codec::{Malformed, Reader, Writer, checksum, is_hidden};
use base::limits::{
    NAME_BYTES_MAX, PEER_ADDRESS_BYTES_MAX, PEER_GREETING_BYTES_MAX, PEER_LIVES_MAX,
};
use base::{ClusterId, ClusterSecret, IncarnationId, NodeId};

const MAGIC: &[u8; 8] = b"CRDZPEER";
/// Size of the envelope before a body.
pub(super) const ENVELOPE_BYTES: usize = 20;
/// Maximum length of a refusal's text, in bytes.
const REFUSAL_TEXT_BYTES_MAX: usize = 512;
/// MAC of a greeting: proves that its sender holds the cluster's secret.
pub(super) type Mac = [u8; ClusterSecret::BYTES];

/// Identity of the node that sends a greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PeerIdentity {
    pub(super) cluster: ClusterId,
    pub(super) node: NodeId,
    /// Number of its current incarnation; see [`Incarnation`].
    pub(super) incarnation: Incarnation,
    /// Random id of the process: distinguishes two processes on copies of one directory.
    pub(super) process: u64,
    /// Random number of this connection.
    pub(super) nonce: u64,
    pub(super) name: String,
    /// Address at which its peers should reach it.
    pub(super) address: String,
    /// Incarnations of the node that the cluster may have on record; without the current one if
    /// that has no token.
    pub(super) incarnations: Vec<IncarnationId>,
}

/// First greeting of the dialler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) versions: Versions,
    pub(super) identity: PeerIdentity,
    /// Id of the node that is dialled.
    pub(super) target: NodeId,
    /// Id of the last link that this process had with that node; 0: none. It distinguishes a dial
    /// made after a link was lost from one made before the link began.
    pub(super) previous: u64,
}

/// Greeting as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) greeting: Greeting,
    /// Bytes that its MAC covers, or would cover.
    pub(super) signed: Vec<u8>,
    /// Its MAC. `None`: the sender holds no secret, or is of a version before MACs.
    pub(super) mac: Option<Mac>,
}

/// A greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    Hello(Hello),
    Welcome { version: u16, identity: PeerIdentity },
    Go { link: u64 },
    Refused { code: u8, text: String },
}

impl Greeting {
    /// Returns the encoded greeting without a MAC.
    pub(super) fn encode(&self) -> Vec<u8> {
        enveloped(&self.body(false))
    }

    /// Returns the encoded greeting with a MAC, and the part of it that the MAC covers.
    pub(super) fn encode_signed(&self, mac: impl FnOnce(&[u8]) -> Mac) -> (Vec<u8>, Vec<u8>) {
        let signed = self.body(true);
        let mac = mac(&signed);
        (enveloped(&[&signed[..], &[1], &mac].concat()), signed)
    }

    /// Returns the body. `signed`: a MAC follows, so no field before it may be omitted.
    fn body(&self, signed: bool) -> Vec<u8> {
        let mut body = Vec::with_capacity(256);
        match self {
            Greeting::Hello(hello) => {
                body.put_u8(1);
                body.put_u32(u32::from(hello.versions.lowest));
                body.put_u32(u32::from(hello.versions.highest));
                body.put_u64(hello.identity.cluster.0);
                body.put_u64(hello.identity.node.0);
                body.put_u64(hello.target.0);
                put_incarnation(&mut body, &hello.identity);
                body.put_u64(hello.previous);
                put_names(&mut body, &hello.identity, signed);
            }
            Greeting::Welcome { version, identity } => {
                body.put_u8(2);
                body.put_u32(u32::from(*version));
                body.put_u64(identity.cluster.0);
                body.put_u64(identity.node.0);
                put_incarnation(&mut body, identity);
                put_names(&mut body, identity, signed);
            }
            Greeting::Go { link } => {
                body.put_u8(3);
                body.put_u64(*link);
            }
            Greeting::Refused { code, text } => {
                body.put_u8(4);
                body.put_u8(*code);
                body.put_string(&text.as_bytes()[..text.len().min(REFUSAL_TEXT_BYTES_MAX)]);
            }
        }
        body
    }

    /// Returns the length of the body that this envelope announces.
    pub(super) fn body_bytes(envelope: &[u8; ENVELOPE_BYTES]) -> Result<usize, Refusal> {
        let mut reader = Reader::new(envelope);
        let read = |reader: &mut Reader| -> Result<usize, Malformed> {
            if reader.take(8, "magic")? != MAGIC {
                return Err(Malformed("magic"));
            }
            let length = reader.u32("length")? as usize;
            if length > PEER_GREETING_BYTES_MAX {
                return Err(Malformed("length"));
            }
            Ok(length)
        };
        read(&mut reader).map_err(|Malformed(field)| Refusal::Malformed(field))
    }

    /// Decodes a body. A `Hello` whose versions have none in common with `supported` is refused
    /// before the rest is read: its fields may differ.
    pub(super) fn decode(
        envelope: &[u8; ENVELOPE_BYTES],
        body: &[u8],
        supported: Versions,
    ) -> Result<Received, Refusal> {
        let malformed = |Malformed(field)| Refusal::Malformed(field);
        let mut sum = Reader::new(&envelope[12..]);
        if sum.u64("checksum").map_err(malformed)? != checksum(body, 0) {
            return Err(Refusal::Malformed("checksum"));
        }
        let mut reader = Reader::new(body);
        let greeting = match reader.u8("kind").map_err(malformed)? {
            1 => {
                let versions = read_versions(&mut reader).map_err(malformed)?;
                if supported.common(versions).is_none() {
                    return Err(Refusal::versions(supported, versions));
                }
                read_hello(&mut reader, versions).map_err(malformed)?
            }
            2 => read_welcome(&mut reader).map_err(malformed)?,
            3 => Greeting::Go { link: reader.u64("link").map_err(malformed)? },
            4 => read_refused(&mut reader).map_err(malformed)?,
            _ => return Err(Refusal::Malformed("kind")),
        };
        let signed = body[..body.len() - reader.rest().len()].to_vec();
        let mac = read_mac(&mut reader).map_err(malformed)?;
        Ok(Received { greeting, signed, mac })
    }
}

pub(super) fn enveloped(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ENVELOPE_BYTES + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.put_u32(body.len() as u32);
    bytes.put_u64(checksum(body, 0));
    bytes.extend_from_slice(body);
    bytes
}

fn put_incarnation(body: &mut Vec<u8>, identity: &PeerIdentity) {
    body.put_u64(identity.incarnation.0);
    body.put_u64(identity.process);
    body.put_u64(identity.nonce);
}

fn put_names(body: &mut Vec<u8>, identity: &PeerIdentity, signed: bool) {
    body.put_string(identity.name.as_bytes());
    body.put_string(identity.address.as_bytes());
    if signed || !identity.incarnations.is_empty() {
        body.put_u32(identity.incarnations.len() as u32);
        for incarnation_id in &identity.incarnations {
            body.put_u64(incarnation_id.number);
            body.put_u64(incarnation_id.token);
        }
    }
}

fn read_version(reader: &mut Reader) -> Result<u16, Malformed> {
    u16::try_from(reader.u32("version")?).map_err(|_| Malformed("version"))
}

fn read_versions(reader: &mut Reader) -> Result<Versions, Malformed> {
    let (lowest, highest) = (read_version(reader)?, read_version(reader)?);
    if lowest > highest {
        return Err(Malformed("versions"));
    }
    Ok(Versions { lowest, highest })
}

fn read_hello(reader: &mut Reader, versions: Versions) -> Result<Greeting, Malformed> {
    let cluster = ClusterId(reader.u64("cluster")?);
    let node = read_node(reader)?;
    let target = self::read_node(reader)?;
    let (incarnation, process, nonce) = read_incarnation(reader)?;
    let previous = reader.u64("previous")?;
    let (name, address) = read_names(reader)?;
    let incarnations = read_incarnations(reader)?;
    let identity =
        PeerIdentity { cluster, node, incarnation, process, nonce, name, address, incarnations };
    Ok(Greeting::Hello(Hello { versions, identity, target, previous }))
}

fn read_welcome(reader: &mut Reader) -> Result<Greeting, Malformed> {
    let version = read_version(reader)?;
    let cluster = ClusterId(reader.u64("cluster")?);
    let node = read_node(reader)?;
    let (incarnation, process, nonce) = read_incarnation(reader)?;
    let (name, address) = read_names(reader)?;
    let incarnations = read_incarnations(reader)?;
    let identity =
        PeerIdentity { cluster, node, incarnation, process, nonce, name, address, incarnations };
    Ok(Greeting::Welcome { version, identity })
}

fn read_refused(reader: &mut Reader) -> Result<Greeting, Malformed> {
    let code = reader.u8("code")?;
    let text = base::codec::printable(reader.string(REFUSAL_TEXT_BYTES_MAX, "words")?);
    Ok(Greeting::Refused { code, text })
}

fn read_node(reader: &mut Reader) -> Result<NodeId, Malformed> {
    match reader.u64("node")? {
        0 => Err(Malformed("node")),
        id => Ok(NodeId(id)),
    }
}

fn read_incarnation(reader: &mut Reader) -> Result<(Incarnation, u64, u64), Malformed> {
    let incarnation = Incarnation(reader.u64("incarnation")?);
    Ok((incarnation, reader.u64("process")?, reader.u64("nonce")?))
}

/// Reads name and address. Both go into logs and status, so anything but plain text is refused.
fn read_names(reader: &mut Reader) -> Result<(String, String), Malformed> {
    let text = |bytes: &[u8], field| {
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed(field))?;
        let plain = !text.contains(is_hidden);
        plain.then(|| text.to_string()).ok_or(Malformed(field))
    };
    let name = text(reader.string(NAME_BYTES_MAX, "name")?, "name")?;
    let address = text(reader.string(PEER_ADDRESS_BYTES_MAX, "address")?, "address")?;
    Ok((name, address))
}

/// Reads the listed incarnations; the greeting of an older version ends before them.
fn read_incarnations(reader: &mut Reader) -> Result<Vec<IncarnationId>, Malformed> {
    if reader.rest().is_empty() {
        return Ok(Vec::new());
    }
    let count = reader.u32("lives")? as usize;
    if count > PEER_LIVES_MAX {
        return Err(Malformed("lives"));
    }
    let mut incarnations = Vec::with_capacity(count);
    for _ in 0..count {
        let incarnation_id =
            IncarnationId { number: reader.u64("lives")?, token: reader.u64("lives")? };
        if incarnation_id.token == 0 {
            return Err(Malformed("lives"));
        }
        incarnations.push(incarnation_id);
    }
    Ok(incarnations)
}

/// Reads the MAC; the greeting of a version before MACs ends before it.
fn read_mac(reader: &mut Reader) -> Result<Option<Mac>, Malformed> {
    if reader.rest().is_empty() {
        return Ok(None);
    }
    match reader.u8("mac")? {
        0 => Ok(None),
        1 => {
            let bytes = reader.take(ClusterSecret::BYTES, "mac")?;
            bytes.try_into().map(Some).map_err(|_| Malformed("mac"))
        }
        _ => Err(Malformed("mac")),
    }
}

/// Keys of a link after the handshake: its id, and a salt for each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkKeys {
    pub(super) link: u64,
    /// Salt of the frames that the dialling side sends.
    pub(super) dialler_salt: u64,
    /// Salt of the frames that the dialled side sends.
    pub(super) dialled_salt: u64,
}

impl LinkKeys {
    /// Derives the keys from both identities, with their nonces and ids. `secret`: the cluster's,
    /// if both sides have proven that they hold it; then the salts can't be derived from the
    /// greetings, so that a reader of the greetings alone can't forge a frame.
    pub(super) fn new(
        dialler: &PeerIdentity,
        dialled: &PeerIdentity,
        secret: Option<&ClusterSecret>,
    ) -> LinkKeys {
        let mut material = Vec::with_capacity(64);
        for side in [dialler, dialled] {
            material.put_u64(side.node.0);
            put_incarnation(&mut material, side);
        }
        // 0 stands for "no link yet".
        let link = checksum(&material, 0).max(1);
        let salt = |seed| match secret {
            Some(secret) => checksum(&secret.mac(&[b"frames", &material]), seed),
            None => checksum(&material, seed),
        };
        LinkKeys { link, dialler_salt: salt(1), dialled_salt: salt(2) }
    }

    /// Binds the keys to a TLS session by bytes that only its two ends know, so that greetings of
    /// another session do not fit. `None`: the connection is plain.
    pub(super) fn bound_to(self, session_secret: Option<[u8; 32]>) -> LinkKeys {
        let Some(secret) = session_secret else { return self };
        let bind = |key| checksum(&secret, key);
        LinkKeys {
            link: bind(self.link).max(1),
            dialler_salt: bind(self.dialler_salt),
            dialled_salt: bind(self.dialled_salt),
        }
    }
}
