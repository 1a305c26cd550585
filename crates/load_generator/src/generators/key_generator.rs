//! Key generators: numbers, lines of a file, random bytes, and what transforms or joins them.

use super::{Blob, KeyShape, KeyStream, Numbers, SeededRng, ValueGenerator};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A key generator as configured.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyGenerator {
    /// A number, written in some shape.
    Number {
        /// Distribution of the numbers.
        numbers: Numbers,
        /// Encoding of a number as a key.
        shape: KeyShape,
    },
    /// A random UUID, version 4, as 16 bytes.
    Uuid,
    /// A constant key.
    Constant(Arc<[u8]>),
    /// Lines of a file.
    Lines(Lines),
    /// The inner generator's key in base 64.
    Base64(Box<KeyGenerator>),
    /// A digest of the inner generator's key.
    Digest(Digest, Box<KeyGenerator>),
    /// The keys of two generators, one after the other.
    Joined(Box<[KeyGenerator; 2]>),
    /// A value of a value generator.
    Value(ValueGenerator),
}

/// Digest algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// MD5, 16 bytes.
    Md5,
    /// SHA-1, 20 bytes.
    Sha1,
}

/// Lines of a file, which all clients share: each draw returns the next one.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The file.
    pub path: PathBuf,
    /// True if the first line follows the last; otherwise the clients finish after the last line.
    pub repeats: bool,
    lines: Arc<[Box<[u8]>]>,
    next_line: Arc<AtomicUsize>,
}

impl PartialEq for Lines {
    fn eq(&self, other: &Lines) -> bool {
        (&self.path, self.repeats) == (&other.path, other.repeats)
    }
}

impl Lines {
    /// Splits this text into lines.
    pub fn new(path: PathBuf, text: &[u8], repeats: bool) -> Lines {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let lines = text.split(|byte| *byte == b'\n').map(Box::from).collect();
        Lines { path, repeats, lines, next_line: Arc::default() }
    }

    fn next(&self) -> Option<Box<[u8]>> {
        let index = self.next_line.fetch_add(1, Ordering::Relaxed);
        if self.repeats {
            return self.lines.get(index % self.lines.len()).cloned();
        }
        self.lines.get(index).cloned()
    }

    fn remaining(&self) -> Option<u64> {
        let remaining = self.lines.len().saturating_sub(self.next_line.load(Ordering::Relaxed));
        (!self.repeats).then_some(remaining as u64)
    }
}

/// A key that was drawn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DrawnKey {
    /// A number, which the generator's shape encodes.
    Number(u64),
    /// The key itself.
    Bytes(Box<[u8]>),
}

impl KeyGenerator {
    /// Appends the bytes of a key that this generator drew.
    #[inline]
    pub fn write(&self, key: &DrawnKey, out: &mut Vec<u8>) {
        match (key, self) {
            (DrawnKey::Number(number), KeyGenerator::Number { shape, .. }) => {
                shape.write(*number, out)
            }
            (DrawnKey::Number(number), _) => KeyShape::Decimal.write(*number, out),
            (DrawnKey::Bytes(bytes), _) => out.extend_from_slice(bytes),
        }
    }

    /// Returns the length of a long key, in bytes, for sizing.
    pub fn bytes_max(&self) -> usize {
        match self {
            KeyGenerator::Number { shape, .. } => {
                let mut key = Vec::new();
                shape.write(u64::MAX >> 11, &mut key);
                key.len()
            }
            KeyGenerator::Uuid => 16,
            KeyGenerator::Constant(bytes) => bytes.len(),
            KeyGenerator::Lines(lines) => {
                lines.lines.iter().map(|line| line.len()).max().unwrap_or(0)
            }
            KeyGenerator::Base64(inner) => inner.bytes_max().div_ceil(3) * 4,
            KeyGenerator::Digest(Digest::Md5, _) => 16,
            KeyGenerator::Digest(Digest::Sha1, _) => 20,
            KeyGenerator::Joined(parts) => parts.iter().map(KeyGenerator::bytes_max).sum(),
            KeyGenerator::Value(value) => value.bytes_max(),
        }
    }
}

/// One client's keys.
#[derive(Clone, Debug)]
pub struct ClientKeys {
    source: KeySource,
}

#[derive(Clone, Debug)]
enum KeySource {
    Numbers(KeyStream),
    Uuid,
    Constant(Arc<[u8]>),
    Lines(Lines),
    Base64(Box<NestedKeys>),
    Digest(Digest, Box<NestedKeys>),
    Joined(Box<[NestedKeys; 2]>),
    Value(ValueGenerator),
}

/// A nested generator, with its keys.
#[derive(Clone, Debug)]
struct NestedKeys {
    generator: KeyGenerator,
    keys: ClientKeys,
}

impl NestedKeys {
    fn new(generator: &KeyGenerator, client: usize, clients: usize) -> NestedKeys {
        let keys = ClientKeys::new(generator, client, clients);
        NestedKeys { generator: generator.clone(), keys }
    }

    fn bytes(&mut self, rng: &mut SeededRng, blob: &Blob) -> Option<Vec<u8>> {
        let key = self.keys.next(rng, blob)?;
        let mut bytes = Vec::new();
        self.generator.write(&key, &mut bytes);
        Some(bytes)
    }
}

impl ClientKeys {
    /// Returns the keys of client `client` of `clients`.
    pub fn new(generator: &KeyGenerator, client: usize, clients: usize) -> ClientKeys {
        let nested =
            |generator: &KeyGenerator| Box::new(NestedKeys::new(generator, client, clients));
        let source = match generator {
            KeyGenerator::Number { numbers, .. } => {
                KeySource::Numbers(KeyStream::new(numbers, client, clients))
            }
            KeyGenerator::Uuid => KeySource::Uuid,
            KeyGenerator::Constant(bytes) => KeySource::Constant(bytes.clone()),
            KeyGenerator::Lines(lines) => KeySource::Lines(lines.clone()),
            KeyGenerator::Base64(inner) => KeySource::Base64(nested(inner)),
            KeyGenerator::Digest(digest, inner) => KeySource::Digest(*digest, nested(inner)),
            KeyGenerator::Joined(parts) => KeySource::Joined(Box::new(
                [0, 1].map(|index| NestedKeys::new(&parts[index], client, clients)),
            )),
            KeyGenerator::Value(value) => KeySource::Value(value.clone()),
        };
        ClientKeys { source }
    }

    /// Draws the next key. `None`: the client has finished.
    #[inline]
    pub fn next(&mut self, rng: &mut SeededRng, blob: &Blob) -> Option<DrawnKey> {
        match &mut self.source {
            KeySource::Numbers(stream) => stream.next(rng).map(DrawnKey::Number),
            other => other.bytes(rng, blob).map(|bytes| DrawnKey::Bytes(bytes.into())),
        }
    }

    /// Returns the number of keys that are left. `None`: the generator never ends.
    pub fn remaining(&self) -> Option<u64> {
        match &self.source {
            KeySource::Numbers(stream) => stream.remaining(),
            KeySource::Lines(lines) => lines.remaining(),
            KeySource::Base64(nested) | KeySource::Digest(_, nested) => nested.keys.remaining(),
            KeySource::Joined(parts) => {
                parts.iter().filter_map(|nested| nested.keys.remaining()).min()
            }
            KeySource::Uuid | KeySource::Constant(_) | KeySource::Value(_) => None,
        }
    }
}

impl KeySource {
    fn bytes(&mut self, rng: &mut SeededRng, blob: &Blob) -> Option<Vec<u8>> {
        Some(match self {
            KeySource::Numbers(stream) => {
                let mut bytes = Vec::new();
                KeyShape::Decimal.write(stream.next(rng)?, &mut bytes);
                bytes
            }
            KeySource::Uuid => uuid(rng).to_vec(),
            KeySource::Constant(bytes) => bytes.to_vec(),
            KeySource::Lines(lines) => lines.next()?.into(),
            KeySource::Base64(nested) => STANDARD.encode(nested.bytes(rng, blob)?).into_bytes(),
            KeySource::Digest(digest, nested) => {
                let bytes = nested.bytes(rng, blob)?;
                match digest {
                    Digest::Md5 => md5::compute(bytes).to_vec(),
                    Digest::Sha1 => sha1_smol::Sha1::from(bytes).digest().bytes().to_vec(),
                }
            }
            KeySource::Joined(parts) => {
                let mut bytes = parts[0].bytes(rng, blob)?;
                bytes.extend(parts[1].bytes(rng, blob)?);
                bytes
            }
            KeySource::Value(value) => {
                let mut scratch = Vec::new();
                value.next_value(rng, blob, &mut scratch).to_vec()
            }
        })
    }
}

/// Draws a UUID of version 4: 122 random bits.
fn uuid(rng: &mut SeededRng) -> [u8; 16] {
    let random = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
    let versioned = random & !(0xF000 << 64) & !(0xC000 << 48) | 0x4000 << 64 | 0x8000 << 48;
    versioned.to_be_bytes()
}
