//! Key generators: numbers, lines of a file, random bytes, and what transforms or joins them.

use super::{Blob, Dice, KeyShape, KeyStream, Numbers, ValueGenerator};
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
    Same(Arc<[u8]>),
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

/// Lines of a file, which all clients share: each takes the next one.
#[derive(Clone, Debug)]
pub struct Lines {
    /// The file.
    pub path: PathBuf,
    /// True if the first line follows the last; otherwise the clients finish after the last line.
    pub repeats: bool,
    lines: Arc<[Box<[u8]>]>,
    taken: Arc<AtomicUsize>,
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
        Lines { path, repeats, lines, taken: Arc::default() }
    }

    fn next(&self) -> Option<Box<[u8]>> {
        let at = self.taken.fetch_add(1, Ordering::Relaxed);
        if self.repeats {
            return self.lines.get(at % self.lines.len()).cloned();
        }
        self.lines.get(at).cloned()
    }

    fn left(&self) -> Option<u64> {
        let left = self.lines.len().saturating_sub(self.taken.load(Ordering::Relaxed));
        (!self.repeats).then_some(left as u64)
    }
}

/// A key that was drawn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DrawnKey {
    /// A number; the generator's shape says how it is written.
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
            KeyGenerator::Same(bytes) => bytes.len(),
            KeyGenerator::Lines(lines) => {
                lines.lines.iter().map(|line| line.len()).max().unwrap_or(0)
            }
            KeyGenerator::Base64(inner) => inner.bytes_max().div_ceil(3) * 4,
            KeyGenerator::Digest(Digest::Md5, _) => 16,
            KeyGenerator::Digest(Digest::Sha1, _) => 20,
            KeyGenerator::Joined(both) => both.iter().map(KeyGenerator::bytes_max).sum(),
            KeyGenerator::Value(value) => value.bytes_max(),
        }
    }
}

/// One client's keys.
#[derive(Clone, Debug)]
pub struct ClientKeys {
    making: Making,
}

#[derive(Clone, Debug)]
enum Making {
    Numbers(KeyStream),
    Uuid,
    Same(Arc<[u8]>),
    Lines(Lines),
    Base64(Box<InnerRecipe>),
    Digest(Digest, Box<InnerRecipe>),
    Joined(Box<[InnerRecipe; 2]>),
    Value(ValueGenerator),
}

/// A nested generator, with its keys.
#[derive(Clone, Debug)]
struct InnerRecipe {
    generator: KeyGenerator,
    keys: ClientKeys,
}

impl InnerRecipe {
    fn new(generator: &KeyGenerator, client: usize, clients: usize) -> InnerRecipe {
        let keys = ClientKeys::new(generator, client, clients);
        InnerRecipe { generator: generator.clone(), keys }
    }

    fn bytes(&mut self, dice: &mut Dice, blob: &Blob) -> Option<Vec<u8>> {
        let key = self.keys.next(dice, blob)?;
        let mut bytes = Vec::new();
        self.generator.write(&key, &mut bytes);
        Some(bytes)
    }
}

impl ClientKeys {
    /// Returns the keys of client `client` of `clients`.
    pub fn new(generator: &KeyGenerator, client: usize, clients: usize) -> ClientKeys {
        let part =
            |generator: &KeyGenerator| Box::new(InnerRecipe::new(generator, client, clients));
        let making = match generator {
            KeyGenerator::Number { numbers, .. } => {
                Making::Numbers(KeyStream::new(numbers, client, clients))
            }
            KeyGenerator::Uuid => Making::Uuid,
            KeyGenerator::Same(bytes) => Making::Same(bytes.clone()),
            KeyGenerator::Lines(lines) => Making::Lines(lines.clone()),
            KeyGenerator::Base64(inner) => Making::Base64(part(inner)),
            KeyGenerator::Digest(digest, inner) => Making::Digest(*digest, part(inner)),
            KeyGenerator::Joined(both) => Making::Joined(Box::new(
                [0, 1].map(|at| InnerRecipe::new(&both[at], client, clients)),
            )),
            KeyGenerator::Value(value) => Making::Value(value.clone()),
        };
        ClientKeys { making }
    }

    /// Draws the next key. `None`: the client has finished.
    #[inline]
    pub fn next(&mut self, dice: &mut Dice, blob: &Blob) -> Option<DrawnKey> {
        match &mut self.making {
            Making::Numbers(stream) => stream.next(dice).map(DrawnKey::Number),
            other => other.bytes(dice, blob).map(|bytes| DrawnKey::Bytes(bytes.into())),
        }
    }

    /// Returns the number of keys that are left. `None`: the generator never ends.
    pub fn left(&self) -> Option<u64> {
        match &self.making {
            Making::Numbers(stream) => stream.left(),
            Making::Lines(lines) => lines.left(),
            Making::Base64(part) | Making::Digest(_, part) => part.keys.left(),
            Making::Joined(both) => both.iter().filter_map(|part| part.keys.left()).min(),
            Making::Uuid | Making::Same(_) | Making::Value(_) => None,
        }
    }
}

impl Making {
    fn bytes(&mut self, dice: &mut Dice, blob: &Blob) -> Option<Vec<u8>> {
        Some(match self {
            Making::Numbers(stream) => {
                let mut bytes = Vec::new();
                KeyShape::Decimal.write(stream.next(dice)?, &mut bytes);
                bytes
            }
            Making::Uuid => uuid(dice).to_vec(),
            Making::Same(bytes) => bytes.to_vec(),
            Making::Lines(lines) => lines.next()?.into(),
            Making::Base64(part) => STANDARD.encode(part.bytes(dice, blob)?).into_bytes(),
            Making::Digest(digest, part) => {
                let bytes = part.bytes(dice, blob)?;
                match digest {
                    Digest::Md5 => md5::compute(bytes).to_vec(),
                    Digest::Sha1 => sha1_smol::Sha1::from(bytes).digest().bytes().to_vec(),
                }
            }
            Making::Joined(both) => {
                let mut bytes = both[0].bytes(dice, blob)?;
                bytes.extend(both[1].bytes(dice, blob)?);
                bytes
            }
            Making::Value(value) => {
                let mut scratch = Vec::new();
                value.take(dice, blob, &mut scratch).to_vec()
            }
        })
    }
}

/// Draws a UUID of version 4: 122 random bits.
fn uuid(dice: &mut Dice) -> [u8; 16] {
    let random = u128::from(dice.next_u64()) << 64 | u128::from(dice.next_u64());
    let marked = random & !(0xF000 << 64) & !(0xC000 << 48) | 0x4000 << 64 | 0x8000 << 48;
    marked.to_be_bytes()
}
