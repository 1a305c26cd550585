//! Replies to bytes: everything one batch of requests says, written eagerly, sent once.
//!
//! An answer that rests on an undecided update is written like any other, and its place is
//! remembered with its ticket: if the update's fate stays unknown, an error takes that place.

use crate::writer::Pieces;
use bytes::Bytes;
use node::Ticket;

/// Values from this size on are not copied but sent from where they are.
const LARGE_BYTES: usize = 16 * 1024;

/// Room for places of large values that is kept between batches.
const LARGE_KEPT: usize = 64;

/// Which version of the protocol a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, until a `HELLO 3`.
    #[default]
    Two,
    /// RESP3.
    Three,
}

impl Protocol {
    /// Its number.
    pub fn number(self) -> i64 {
        match self {
            Protocol::Two => 2,
            Protocol::Three => 3,
        }
    }
}

/// A place in the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputPosition {
    bytes: usize,
    large: usize,
}

/// A large value that stands before `at` of the copied bytes.
#[derive(Clone, Debug)]
struct Large {
    at: usize,
    value: Bytes,
}

/// An answer that must not be shown before its ticket is decided.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    from: OutputPosition,
    to: OutputPosition,
    /// What it waits for.
    pub ticket: Ticket,
}

/// The answers of one batch.
#[derive(Debug, Default)]
pub struct Output {
    /// Which version of the protocol is spoken.
    pub protocol: Protocol,
    bytes: Vec<u8>,
    large: Vec<Large>,
    large_bytes: usize,
    pending: Vec<Pending>,
}

impl Pieces for Output {
    fn len(&self) -> usize {
        Output::len(self)
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> + Send {
        Output::pieces(self)
    }
}

impl Output {
    /// An empty output.
    pub fn new(protocol: Protocol) -> Output {
        Output { protocol, ..Output::default() }
    }

    /// Bytes of all answers.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.large_bytes
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.large.is_empty()
    }

    /// Where the next answer begins.
    #[inline]
    pub fn place(&self) -> OutputPosition {
        OutputPosition { bytes: self.bytes.len(), large: self.large.len() }
    }

    /// Everything from `from` on waits for this ticket.
    #[inline]
    pub fn wait_for(&mut self, from: OutputPosition, ticket: Ticket) {
        self.pending.push(Pending { from, to: self.place(), ticket });
    }

    /// The answers that wait, in order.
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// Takes back everything said from `from` on.
    pub fn truncate(&mut self, from: OutputPosition) {
        self.bytes.truncate(from.bytes);
        self.large_bytes -= self.large[from.large..].iter().map(|l| l.value.len()).sum::<usize>();
        self.large.truncate(from.large);
        self.pending.retain(|pending| pending.from.bytes < from.bytes);
    }

    /// Everything is sent; begins anew with the same memory, unless it grew unusually.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pending.clear();
        self.large.clear();
        self.large_bytes = 0;
        if self.large.capacity() > LARGE_KEPT {
            self.large = Vec::new();
        }
        if self.bytes.capacity() > 4 * LARGE_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Says the waiting answers again, those for which `verdict` gives a text as that error.
    pub fn judge(&mut self, verdicts: &[Option<String>]) {
        let old = std::mem::take(self);
        self.protocol = old.protocol;
        let mut seen = OutputPosition::default();
        for (pending, verdict) in old.pending.iter().zip(verdicts) {
            if let Some(text) = verdict {
                self.copy(&old, seen, pending.from);
                self.error(text);
                seen = pending.to;
            }
        }
        let end = old.place();
        self.copy(&old, seen, end);
    }

    fn copy(&mut self, from: &Output, begin: OutputPosition, end: OutputPosition) {
        let mut at = begin.bytes;
        for large in &from.large[begin.large..end.large] {
            self.bytes.extend_from_slice(&from.bytes[at..large.at]);
            self.push_large(large.value.clone());
            at = large.at;
        }
        self.bytes.extend_from_slice(&from.bytes[at..end.bytes]);
    }

    /// Says what was said apart, behind everything else.
    pub fn append(&mut self, said: Output) {
        let begin = self.place();
        self.copy(&said, OutputPosition::default(), said.place());
        let behind = |place: OutputPosition| OutputPosition {
            bytes: begin.bytes + place.bytes,
            large: begin.large + place.large,
        };
        let pending = said.pending.iter();
        self.pending.extend(pending.map(|Pending { from, to, ticket }| Pending {
            from: behind(*from),
            to: behind(*to),
            ticket: *ticket,
        }));
    }

    fn push_large(&mut self, value: Bytes) {
        self.large_bytes += value.len();
        self.large.push(Large { at: self.bytes.len(), value });
    }

    /// What is to be sent, in pieces; one piece as long as no value is large.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.large.iter().map(|large| large.at).chain([self.bytes.len()]);
        let mut begin = 0;
        let mut values = self.large.iter();
        ends.flat_map(move |end| {
            let copied = &self.bytes[begin..end];
            begin = end;
            [copied, values.next().map_or(&[][..], |large| &large.value)]
        })
        .filter(|piece| !piece.is_empty())
    }

    /// All bytes in one, for tests and for transactions.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.pieces().collect::<Vec<_>>().concat()
    }

    /// Bytes that are frames already.
    pub fn raw(&mut self, frames: &[u8]) {
        self.bytes.extend_from_slice(frames);
    }

    /// Frames that may be large, shared.
    pub fn frames(&mut self, frames: Bytes) {
        match frames.len() {
            ..LARGE_BYTES => self.raw(&frames),
            _ => self.push_large(frames),
        }
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// A short text without line ends.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error: a code word, a blank, a sentence. Line ends become blanks.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text);
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.bytes.push(kind);
        let plain = |byte: u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte };
        self.bytes.extend(text.bytes().map(plain));
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn headed(&mut self, kind: u8, number: i64) {
        if let 0..=9 = number {
            self.bytes.extend_from_slice(&[kind, b'0' + number as u8, b'\r', b'\n']);
            return;
        }
        let mut digits = [0; 24];
        let text = decimal(number, &mut digits);
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A whole number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.headed(b':', number);
    }

    /// A count; more than an `i64` holds does not exist.
    pub fn count(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Bytes, copied.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.headed(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Text, as bytes.
    pub fn text(&mut self, text: impl AsRef<str>) {
        self.bulk(text.as_ref().as_bytes());
    }

    /// A value: copied when small, shared when large.
    #[inline]
    pub fn value(&mut self, value: &Bytes) {
        if value.len() < LARGE_BYTES {
            return self.bulk(value);
        }
        self.headed(b'$', value.len() as i64);
        self.push_large(value.clone());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Text for people: in RESP3 marked as such.
    pub fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Two => self.bulk(text.as_bytes()),
            Protocol::Three => {
                self.headed(b'=', text.len() as i64 + 4);
                self.bytes.extend_from_slice(b"txt:");
                self.bytes.extend_from_slice(text.as_bytes());
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Nothing, where a string could be.
    #[inline]
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Two => b"$-1\r\n",
            Protocol::Three => b"_\r\n",
        });
    }

    /// Nothing, where an array could be.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Two => b"*-1\r\n",
            Protocol::Three => b"_\r\n",
        });
    }

    /// The next `count` answers belong together.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.headed(b'*', count as i64);
    }

    /// The next `count` pairs of answers belong together; flat in RESP2.
    pub fn map(&mut self, count: usize) {
        match self.protocol {
            Protocol::Two => self.headed(b'*', 2 * count as i64),
            Protocol::Three => self.headed(b'%', count as i64),
        }
    }

    /// The next `count` answers are a set; an array in RESP2.
    pub fn set(&mut self, count: usize) {
        match self.protocol {
            Protocol::Two => self.headed(b'*', count as i64),
            Protocol::Three => self.headed(b'~', count as i64),
        }
    }
}

/// A number as text, written from the end of `digits`.
#[inline]
pub fn decimal(number: i64, digits: &mut [u8; 24]) -> &[u8] {
    let mut rest = number.unsigned_abs();
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}
