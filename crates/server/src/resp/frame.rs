//! Incremental parser from bytes to requests: arrays of bulk strings, and inline lines.
//!
//! It checks a claimed length against the limits as soon as it is read, and never allocates for it:
//! memory grows only with bytes that have arrived. It never parses a byte twice when the rest of a
//! request arrives.

use super::inline;
use base::limits::FRAME_BYTES_MAX;
use bytes::Bytes;

/// Longest inline line.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Most words of one request.
pub const WORDS_MAX: usize = 1024 * 1024;
/// Most bytes of a number in front of words or of a word.
const NUMBER_BYTES_MAX: usize = 20;
/// Number of word positions for which memory is kept between requests.
const SPANS_KEPT: usize = 4 * 1024;

/// Position of a word in the bytes of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordSpan {
    start: u32,
    end: u32,
}

impl WordSpan {
    /// Returns the span from `start` to before `end`. Both fit a `u32`, since a request is far
    /// smaller.
    #[inline]
    pub fn new(start: usize, end: usize) -> WordSpan {
        WordSpan { start: start as u32, end: end as u32 }
    }
}

/// Progress of the parser in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseProgress {
    /// The request is incomplete: it has at least this many bytes in all.
    More(usize),
    /// The request is complete after this many bytes.
    Frame(usize),
}

/// Reason why bytes are not a request. The connection ends with its text as the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// The number of words is not a number, or too large.
    Words,
    /// The length of a word is not a number, or too large.
    Length,
    /// A word does not begin with `$` but with this byte.
    Dollar(u8),
    /// A word does not end where its length says.
    End,
    /// A number has too many digits.
    Number,
    /// An inline line is too long.
    Inline,
    /// An inline line has an open quote.
    Quotes,
    /// The request is larger than `FRAME_BYTES_MAX`.
    Size,
}

impl FrameFault {
    /// Returns the error in Redis' words.
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

/// Incremental parser of one request after another. Its input always begins at a request.
#[derive(Debug, Default)]
pub struct Parser {
    spans: Vec<WordSpan>,
    expected: usize,
    at: usize,
    rewritten: Option<Bytes>,
}

impl Parser {
    /// Continues to parse the request at the beginning of `input`, which must hold at least the
    /// bytes of the last call.
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

    /// Parses the request's first line. Returns `None` if words follow.
    #[inline]
    fn begin(&mut self, input: &[u8]) -> Result<Option<ParseProgress>, FrameFault> {
        let Some((number, next)) = number(input, 1, FrameFault::Words)? else {
            return Ok(Some(ParseProgress::More(input.len() + 1)));
        };
        self.at = next;
        match number {
            // A request without words gets no answer, as in Redis.
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

    /// Parses one word. Returns the number of bytes needed if they are not there yet.
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

    /// Returns the words of the request that just ended; `frame` holds the request's bytes.
    #[inline]
    pub fn words(&mut self, frame: Bytes) -> Words<'_> {
        let bytes = self.rewritten.take().unwrap_or(frame);
        Words { bytes, spans: &self.spans }
    }

    /// Returns the first word of the request that just ended, before its words are taken. `frame`
    /// holds the request's bytes.
    pub fn command<'a>(&'a self, frame: &'a [u8]) -> &'a [u8] {
        let bytes = self.rewritten.as_deref().unwrap_or(frame);
        let first = self.spans.first();
        first.map_or(&[], |span| &bytes[span.start as usize..span.end as usize])
    }

    /// Prepares for the next request. Frees memory that an unusually large one used.
    #[inline]
    pub fn reset(&mut self) {
        self.at = 0;
        if self.spans.capacity() > SPANS_KEPT {
            self.spans = Vec::new();
        }
    }

    /// Returns the memory of the word positions in bytes.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<WordSpan>()
    }
}

/// Parses a decimal number at `from`. Returns it with the end of its line, or `None` if it is
/// incomplete.
#[inline]
fn number(
    input: &[u8],
    from: usize,
    fault: FrameFault,
) -> Result<Option<(i64, usize)>, FrameFault> {
    // Nearly all numbers have one or two digits.
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

/// Words of one request: slices of the request's bytes.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    bytes: Bytes,
    spans: &'a [WordSpan],
}

impl<'a> Words<'a> {
    /// Returns the number of words.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns true if there are no words.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns a word, or an empty slice if there are fewer words.
    #[inline]
    pub fn get(&self, at: usize) -> &[u8] {
        match self.spans.get(at) {
            Some(span) => &self.bytes[span.start as usize..span.end as usize],
            None => &[],
        }
    }

    /// Returns a word that shares the buffer it arrived in.
    #[inline]
    pub fn keep(&self, at: usize) -> Bytes {
        match self.spans.get(at) {
            Some(span) => self.bytes.slice(span.start as usize..span.end as usize),
            None => Bytes::new(),
        }
    }

    /// Returns the words from `from` to before `to`.
    pub fn part(&self, from: usize, to: usize) -> Words<'a> {
        let to = to.min(self.spans.len());
        Words { bytes: self.bytes.clone(), spans: &self.spans[from.min(to)..to] }
    }

    /// Returns a copy that outlives the parser: the bytes, and the positions of the words.
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

/// Words that outlive their request, such as those of a queued command.
#[derive(Clone, Debug)]
pub struct Detached {
    bytes: Bytes,
    spans: Box<[WordSpan]>,
}

impl Detached {
    /// Returns their memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<WordSpan>()
    }

    /// Returns them as words of a request.
    pub fn words(&self) -> Words<'_> {
        Words { bytes: self.bytes.clone(), spans: &self.spans }
    }
}
