//! Answers of one batch of requests as bytes, collected eagerly and sent once.
//!
//! An answer that depends on an undecided update is written like any other, and its position is
//! recorded with its ticket. If the update's outcome stays unknown, an error replaces that answer.

use crate::writer::Pieces;
use bytes::Bytes;
use node::Ticket;

/// Size in bytes from which values are sent from their own buffer instead of copied.
const LARGE_BYTES: usize = 16 * 1024;

/// Number of large values whose memory is retained between batches.
const LARGE_VALUES_RETAINED: usize = 64;

/// Version of the protocol that a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, the default until `HELLO 3`.
    #[default]
    Two,
    /// RESP3.
    Three,
}

impl Protocol {
    /// Returns the version number.
    pub fn number(self) -> i64 {
        match self {
            Protocol::Two => 2,
            Protocol::Three => 3,
        }
    }
}

/// Position in the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputPosition {
    bytes: usize,
    large: usize,
}

/// Large value, sent before byte `at` of the copied bytes.
#[derive(Clone, Debug)]
struct LargeValue {
    at: usize,
    value: Bytes,
}

/// Answers that must not be sent before their ticket is decided: one answer, or those of a run.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    from: OutputPosition,
    to: OutputPosition,
    /// Number of answers.
    pub answers: usize,
    /// Ticket of the update that they depend on.
    pub ticket: Ticket,
}

/// Answers of one batch.
#[derive(Debug, Default)]
pub struct Output {
    /// Version of the protocol.
    pub protocol: Protocol,
    bytes: Vec<u8>,
    large: Vec<LargeValue>,
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
    /// Returns an empty output.
    pub fn new(protocol: Protocol) -> Output {
        Output { protocol, ..Output::default() }
    }

    /// Returns the number of bytes of all answers.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.large_bytes
    }

    /// Returns true if there are no answers.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.large.is_empty()
    }

    /// Returns the position of the next answer.
    #[inline]
    pub fn position(&self) -> OutputPosition {
        OutputPosition { bytes: self.bytes.len(), large: self.large.len() }
    }

    /// Marks everything from `from` on as dependent on this ticket.
    #[inline]
    pub fn attach_ticket(&mut self, from: OutputPosition, ticket: Ticket) {
        self.pending.push(Pending { from, to: self.position(), answers: 1, ticket });
    }

    /// Marks everything from `from` on, which is one answer of a run, as dependent on this ticket.
    /// Answers of a run are never dropped, so those in a row with one ticket are marked together.
    #[inline]
    pub fn attach_run_ticket(&mut self, from: OutputPosition, ticket: Ticket) {
        let to = self.position();
        match self.pending.last_mut() {
            Some(last) if last.ticket == ticket && last.to == from => {
                last.to = to;
                last.answers += 1;
            }
            _ => self.attach_ticket(from, ticket),
        }
    }

    /// Returns the answers that depend on a ticket, in order.
    pub fn pending(&self) -> &[Pending] {
        &self.pending
    }

    /// Drops everything from `from` on.
    pub fn truncate(&mut self, from: OutputPosition) {
        self.bytes.truncate(from.bytes);
        self.large_bytes -= self.large[from.large..].iter().map(|l| l.value.len()).sum::<usize>();
        self.large.truncate(from.large);
        self.pending.retain(|pending| pending.from.bytes < from.bytes);
    }

    /// Empties the output after it was sent. Keeps its memory unless that grew unusually large.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pending.clear();
        self.large.clear();
        self.large_bytes = 0;
        if self.large.capacity() > LARGE_VALUES_RETAINED {
            self.large = Vec::new();
        }
        if self.bytes.capacity() > 4 * LARGE_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Rewrites the answers, with an error in place of each dependent answer whose ticket failed.
    /// `errors` has one entry per item of `pending`; `None`: its update is decided.
    pub fn replace_failed(&mut self, errors: &[Option<String>]) {
        let old = std::mem::take(self);
        self.protocol = old.protocol;
        let mut copied_to = OutputPosition::default();
        for (pending, error) in old.pending.iter().zip(errors) {
            if let Some(text) = error {
                self.copy(&old, copied_to, pending.from);
                (0..pending.answers).for_each(|_| self.error(text));
                copied_to = pending.to;
            }
        }
        let end = old.position();
        self.copy(&old, copied_to, end);
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

    /// Appends answers that were written to another output.
    pub fn append(&mut self, other: Output) {
        let begin = self.position();
        self.copy(&other, OutputPosition::default(), other.position());
        let shifted = |position: OutputPosition| OutputPosition {
            bytes: begin.bytes + position.bytes,
            large: begin.large + position.large,
        };
        let pending = other.pending.iter();
        self.pending.extend(pending.map(|pending| Pending {
            from: shifted(pending.from),
            to: shifted(pending.to),
            ..*pending
        }));
    }

    fn push_large(&mut self, value: Bytes) {
        self.large_bytes += value.len();
        self.large.push(LargeValue { at: self.bytes.len(), value });
    }

    /// Returns the bytes to send, in pieces. Without large values there is one piece.
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

    /// Returns all bytes in one vector, for tests and transactions.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.pieces().collect::<Vec<_>>().concat()
    }

    /// Appends bytes that are frames already.
    pub fn raw(&mut self, frames: &[u8]) {
        self.bytes.extend_from_slice(frames);
    }

    /// Appends frames; large ones are shared, not copied.
    pub fn frames(&mut self, frames: Bytes) {
        match frames.len() {
            ..LARGE_BYTES => self.raw(&frames),
            _ => self.push_large(frames),
        }
    }

    /// Appends `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    /// Appends a simple string, which must not contain line ends.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// Appends an error: a code, a blank, a sentence. Line ends become blanks.
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
    fn write_header(&mut self, kind: u8, number: i64) {
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

    /// Appends an integer.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.write_header(b':', number);
    }

    /// Appends a count. A count beyond an `i64` becomes its maximum.
    pub fn count(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Appends a bulk string, copied.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.write_header(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends text as a bulk string.
    pub fn text(&mut self, text: impl AsRef<str>) {
        self.bulk(text.as_ref().as_bytes());
    }

    /// Appends a value as a bulk string: copied if small, shared if large.
    #[inline]
    pub fn value(&mut self, value: &Bytes) {
        if value.len() < LARGE_BYTES {
            return self.bulk(value);
        }
        self.write_header(b'$', value.len() as i64);
        self.push_large(value.clone());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Appends a value that was lent, like `value`. `share` returns it with its buffer.
    #[inline]
    pub fn lent_value(&mut self, value: &[u8], share: impl FnOnce() -> Bytes) {
        match value.len() {
            ..LARGE_BYTES => self.bulk(value),
            _ => self.value(&share()),
        }
    }

    /// Appends text for people: a verbatim string in RESP3, a bulk string in RESP2.
    pub fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Two => self.bulk(text.as_bytes()),
            Protocol::Three => {
                self.write_header(b'=', text.len() as i64 + 4);
                self.bytes.extend_from_slice(b"txt:");
                self.bytes.extend_from_slice(text.as_bytes());
                self.bytes.extend_from_slice(b"\r\n");
            }
        }
    }

    /// Appends a null in place of a string.
    #[inline]
    pub fn null(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Two => b"$-1\r\n",
            Protocol::Three => b"_\r\n",
        });
    }

    /// Appends a null in place of an array.
    pub fn null_array(&mut self) {
        self.bytes.extend_from_slice(match self.protocol {
            Protocol::Two => b"*-1\r\n",
            Protocol::Three => b"_\r\n",
        });
    }

    /// Begins an array of the next `count` answers.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.write_header(b'*', count as i64);
    }

    /// Begins a map of the next `count` pairs of answers; in RESP2 a flat array.
    pub fn map(&mut self, count: usize) {
        match self.protocol {
            Protocol::Two => self.write_header(b'*', 2 * count as i64),
            Protocol::Three => self.write_header(b'%', count as i64),
        }
    }

    /// Begins a set of the next `count` answers; in RESP2 an array.
    pub fn set(&mut self, count: usize) {
        match self.protocol {
            Protocol::Two => self.write_header(b'*', count as i64),
            Protocol::Three => self.write_header(b'~', count as i64),
        }
    }
}

/// Formats a number as decimal text, written from the end of `digits`.
#[inline]
pub fn decimal(number: i64, digits: &mut [u8; 24]) -> &[u8] {
    let mut remaining = number.unsigned_abs();
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (remaining % 10) as u8;
        remaining /= 10;
        if remaining == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}
