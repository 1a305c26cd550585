//! Bytes to requests: arrays of bulk strings and inline lines, taken apart as they arrive.
//!
//! A claimed length is compared with the house's limits the moment it is read, and nothing is ever
//! allocated for it: room grows only with bytes that have arrived. What was taken apart before is
//! not looked at again when the rest comes.

use super::inline;
use base::limits::FRAME_BYTES_MAX;
use bytes::Bytes;

/// Longest inline line.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Most words of one request.
pub const WORDS_MAX: usize = 1024 * 1024;
/// Most bytes of a number in front of words or of a word.
const NUMBER_BYTES_MAX: usize = 20;
/// Room for the places of words that is kept between requests.
const SPANS_KEPT: usize = 4 * 1024;

/// Where a word stands in its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordSpan {
    start: u32,
    end: u32,
}

impl WordSpan {
    /// From one place to before another; a request is far smaller than what a `u32` counts.
    #[inline]
    pub fn new(start: usize, end: usize) -> WordSpan {
        WordSpan { start: start as u32, end: end as u32 }
    }
}

/// How far the parser came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseProgress {
    /// The request is not all there; it has at least this many bytes in all.
    More(usize),
    /// A request ends after this many bytes.
    Frame(usize),
}

/// Bytes that are no request; the connection ends with these words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// The number of words is none, or too large.
    Words,
    /// The length of a word is none, or too large.
    Length,
    /// A word does not begin with `$`.
    Dollar(u8),
    /// A word does not end where it said.
    End,
    /// A number of too many digits.
    Number,
    /// An inline line without an end.
    Inline,
    /// An inline line with an open quote.
    Quotes,
    /// All words together are larger than a request may be.
    Size,
}

impl FrameFault {
    /// In Redis' words.
    pub fn text(self) -> String {
        let what = match self {
            FrameFault::Words => "invalid multibulk length",
            FrameFault::Length => "invalid bulk length",
            FrameFault::Dollar(found) => {
                let shown = if found.is_ascii_graphic() { char::from(found) } else { ' ' };
                return format!("ERR Protocol error: expected '$', got '{shown}'");
            }
            FrameFault::End => "expected CRLF after a bulk string",
            FrameFault::Number => "too big count string",
            FrameFault::Inline => "too big inline request",
            FrameFault::Quotes => "unbalanced quotes in request",
            FrameFault::Size => {
                return format!(
                    "ERR Protocol error: a request has at most {FRAME_BYTES_MAX} bytes"
                );
            }
        };
        format!("ERR Protocol error: {what}")
    }
}

/// Takes one request after the other apart. The input always begins where the request begins.
#[derive(Debug, Default)]
pub struct Parser {
    spans: Vec<WordSpan>,
    expected: usize,
    at: usize,
    rewritten: Option<Bytes>,
}

impl Parser {
    /// Goes on with the request at the beginning of `input`, which holds at least what it held
    /// before. After `Frame(bytes)` the caller takes the words and moves `input` on by `bytes`.
    #[inline]
    pub fn parse(&mut self, input: &[u8]) -> Result<ParseProgress, FrameFault> {
        if self.expected == 0 {
            match input.first() {
                None => return Ok(ParseProgress::More(1)),
                Some(b'*') => match self.begin(input)? {
                    Some(progress) => return Ok(progress),
                    None => self.spans.clear(),
                },
                Some(_) => return self.inline(input),
            }
        }
        while self.spans.len() < self.expected {
            if let Some(needed) = self.word(input)? {
                return Ok(ParseProgress::More(needed));
            }
        }
        self.expected = 0;
        Ok(ParseProgress::Frame(self.at))
    }

    /// The request's first line; `None` when its words follow.
    #[inline]
    fn begin(&mut self, input: &[u8]) -> Result<Option<ParseProgress>, FrameFault> {
        let Some((number, next)) = number(input, 1, FrameFault::Words)? else {
            return Ok(Some(ParseProgress::More(input.len() + 1)));
        };
        self.at = next;
        match number {
            // No words: nothing was asked, nothing is answered.
            ..=0 => {
                self.spans.clear();
                Ok(Some(ParseProgress::Frame(next)))
            }
            count => {
                self.expected = usize::try_from(count).map_err(|_| FrameFault::Words)?;
                if self.expected > WORDS_MAX {
                    return Err(FrameFault::Words);
                }
                Ok(None)
            }
        }
    }

    /// One word; `Some(bytes)` when that much is needed and not yet there.
    #[inline]
    fn word(&mut self, input: &[u8]) -> Result<Option<usize>, FrameFault> {
        match input.get(self.at) {
            None => return Ok(Some(self.at + 1)),
            Some(b'$') => {}
            Some(&other) => return Err(FrameFault::Dollar(other)),
        }
        let Some((length, start)) = number(input, self.at + 1, FrameFault::Length)? else {
            return Ok(Some(input.len() + 1));
        };
        let length = usize::try_from(length).map_err(|_| FrameFault::Length)?;
        if length > FRAME_BYTES_MAX {
            return Err(FrameFault::Length);
        }
        let end = start + length;
        if end + 2 > FRAME_BYTES_MAX {
            return Err(FrameFault::Size);
        }
        match input.get(end..end + 2) {
            None => Ok(Some(end + 2)),
            Some(b"\r\n") => {
                self.spans.push(WordSpan::new(start, end));
                self.at = end + 2;
                Ok(None)
            }
            Some(_) => Err(FrameFault::End),
        }
    }

    fn inline(&mut self, input: &[u8]) -> Result<ParseProgress, FrameFault> {
        let seen = self.at.min(input.len());
        let Some(found) = input[seen..].iter().position(|&byte| byte == b'\n') else {
            if input.len() > INLINE_BYTES_MAX {
                return Err(FrameFault::Inline);
            }
            self.at = input.len();
            return Ok(ParseProgress::More(input.len() + 1));
        };
        let end = seen + found;
        if end > INLINE_BYTES_MAX {
            return Err(FrameFault::Inline);
        }
        self.spans.clear();
        self.at = 0;
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        self.rewritten = inline::words(line, &mut self.spans)?.map(Bytes::from);
        Ok(ParseProgress::Frame(end + 1))
    }

    /// The words of the request that just ended; `frame` are the bytes it stood in.
    #[inline]
    pub fn words(&mut self, frame: Bytes) -> Words<'_> {
        let bytes = self.rewritten.take().unwrap_or(frame);
        Words { bytes, spans: &self.spans }
    }

    /// The first word of the request that just ended, before its words are taken; `frame` are the
    /// bytes it stood in.
    pub fn command<'a>(&'a self, frame: &'a [u8]) -> &'a [u8] {
        let bytes = self.rewritten.as_deref().unwrap_or(frame);
        let first = self.spans.first();
        first.map_or(&[], |span| &bytes[span.start as usize..span.end as usize])
    }

    /// Makes ready for the next request, giving back room that an unusual one took.
    #[inline]
    pub fn reset(&mut self) {
        self.at = 0;
        if self.spans.capacity() > SPANS_KEPT {
            self.spans = Vec::new();
        }
    }

    /// What it holds in memory.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<WordSpan>()
    }
}

/// A decimal number from `from` on and where the line behind it ends; `None`: not all there.
#[inline]
fn number(
    input: &[u8],
    from: usize,
    fault: FrameFault,
) -> Result<Option<(i64, usize)>, FrameFault> {
    // Nearly every number has one or two digits.
    if let Some(&[one @ b'0'..=b'9', b'\r', b'\n']) = input.get(from..from + 3) {
        return Ok(Some((i64::from(one - b'0'), from + 3)));
    }
    if let Some(&[one @ b'1'..=b'9', two @ b'0'..=b'9', b'\r', b'\n']) = input.get(from..from + 4) {
        return Ok(Some((i64::from(one - b'0') * 10 + i64::from(two - b'0'), from + 4)));
    }
    long_number(input, from, fault)
}

fn long_number(
    input: &[u8],
    from: usize,
    fault: FrameFault,
) -> Result<Option<(i64, usize)>, FrameFault> {
    let rest = &input[from.min(input.len())..];
    let Some(end) = rest.iter().take(NUMBER_BYTES_MAX + 1).position(|&byte| byte == b'\r') else {
        let strange =
            rest.iter().take(NUMBER_BYTES_MAX).any(|byte| !matches!(byte, b'-' | b'0'..=b'9'));
        return match (strange, rest.len() > NUMBER_BYTES_MAX) {
            (true, _) => Err(fault),
            (false, true) => Err(FrameFault::Number),
            (false, false) => Ok(None),
        };
    };
    let value = base::codec::decimal(&rest[..end]).ok_or(fault)?;
    match rest.get(end + 1) {
        None => Ok(None),
        Some(b'\n') => Ok(Some((value, from + end + 2))),
        Some(_) => Err(fault),
    }
}

/// The words of one request: slices of the bytes it stood in.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    bytes: Bytes,
    spans: &'a [WordSpan],
}

impl<'a> Words<'a> {
    /// How many.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// A word to look at; empty when there is no such word.
    #[inline]
    pub fn get(&self, at: usize) -> &[u8] {
        match self.spans.get(at) {
            Some(span) => &self.bytes[span.start as usize..span.end as usize],
            None => &[],
        }
    }

    /// A word to keep, shared with the buffer it arrived in.
    #[inline]
    pub fn keep(&self, at: usize) -> Bytes {
        match self.spans.get(at) {
            Some(span) => self.bytes.slice(span.start as usize..span.end as usize),
            None => Bytes::new(),
        }
    }

    /// The words from `from` on, before `to`.
    pub fn part(&self, from: usize, to: usize) -> Words<'a> {
        let to = to.min(self.spans.len());
        Words { bytes: self.bytes.clone(), spans: &self.spans[from.min(to)..to] }
    }

    /// A copy that outlives the parser: the bytes, and where its words stand.
    pub fn detach(&self) -> Detached {
        let mut bytes = Vec::with_capacity((0..self.len()).map(|at| self.get(at).len()).sum());
        let mut spans = Vec::with_capacity(self.len());
        for at in 0..self.len() {
            let start = bytes.len();
            bytes.extend_from_slice(self.get(at));
            spans.push(WordSpan::new(start, bytes.len()));
        }
        Detached { bytes: bytes.into(), spans: spans.into() }
    }
}

/// Words that wait, in a transaction say.
#[derive(Clone, Debug)]
pub struct Detached {
    bytes: Bytes,
    spans: Box<[WordSpan]>,
}

impl Detached {
    /// What they hold in memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<WordSpan>()
    }

    /// The words again.
    pub fn words(&self) -> Words<'_> {
        Words { bytes: self.bytes.clone(), spans: &self.spans }
    }
}
