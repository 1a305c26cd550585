//! Incremental parser from bytes to requests: arrays of bulk strings, and inline lines.
//!
//! It checks a claimed length against the limits as soon as it is read, and never allocates for it:
//! memory grows only with bytes that have arrived. It never parses a byte twice when the rest of a
//! request arrives.

use super::inline;
use crate::wiping::move_to_wiped;
use base::limits::FRAME_BYTES_MAX;
use bytes::{Bytes, BytesMut};
use zeroize::Zeroizing;

/// Longest inline line.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of arguments of one request.
pub const ARGS_MAX: usize = 1024 * 1024;
/// Longest request of a client that must log in first.
pub const STRANGER_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of arguments of such a request.
pub const STRANGER_ARGS_MAX: usize = 10;
/// Longest number in bytes: the count of arguments, or the length of one.
const NUMBER_BYTES_MAX: usize = 20;
/// Number of argument positions whose memory is retained between requests.
const SPANS_RETAINED: usize = 4 * 1024;

/// Position of an argument in the bytes of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgSpan {
    start: u32,
    end: u32,
}

impl ArgSpan {
    /// Returns the span from `start` to before `end`. Both fit a `u32`, since a request is far
    /// smaller.
    #[inline]
    pub fn new(start: usize, end: usize) -> ArgSpan {
        ArgSpan { start: start as u32, end: end as u32 }
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
    /// The number of arguments is not a number, or too large.
    ArgCount,
    /// The length of an argument is not a number, or too large.
    Length,
    /// An argument does not begin with `$` but with this byte.
    Dollar(u8),
    /// An argument does not end where its length says.
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
            FrameFault::ArgCount => "invalid multibulk length",
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
    spans: Vec<ArgSpan>,
    expected_args: usize,
    at: usize,
    unquoted: Option<Bytes>,
    /// True if the client must log in before anything else.
    is_stranger: bool,
}

impl Parser {
    /// Sets whether the client must log in before anything else: then only small requests are read.
    #[inline]
    pub fn set_stranger(&mut self, is_stranger: bool) {
        self.is_stranger = is_stranger;
    }

    fn bytes_max(&self) -> usize {
        if self.is_stranger { STRANGER_BYTES_MAX } else { FRAME_BYTES_MAX }
    }

    /// Continues to parse the request at the beginning of `input`, which must hold at least the
    /// bytes of the last call.
    #[inline]
    pub fn parse(&mut self, input: &[u8]) -> Result<ParseProgress, FrameFault> {
        if self.expected_args == 0 {
            match input.first() {
                None => return Ok(ParseProgress::More(1)),
                Some(b'*') => match self.first_line(input)? {
                    Some(progress) => return Ok(progress),
                    None => self.spans.clear(),
                },
                Some(_) => return self.inline(input),
            }
        }
        while self.spans.len() < self.expected_args {
            if let Some(needed) = self.arg(input)? {
                return Ok(ParseProgress::More(needed));
            }
        }
        self.expected_args = 0;
        Ok(ParseProgress::Frame(self.at))
    }

    /// Parses the request's first line. Returns `None` if arguments follow.
    #[inline]
    fn first_line(&mut self, input: &[u8]) -> Result<Option<ParseProgress>, FrameFault> {
        let Some((number, next)) = number(input, 1, FrameFault::ArgCount)? else {
            return Ok(Some(ParseProgress::More(input.len() + 1)));
        };
        self.at = next;
        match number {
            // A request without arguments gets no answer, as in Redis.
            ..=0 => {
                self.spans.clear();
                Ok(Some(ParseProgress::Frame(next)))
            }
            count => {
                self.expected_args = usize::try_from(count).map_err(|_| FrameFault::ArgCount)?;
                let args_max = if self.is_stranger { STRANGER_ARGS_MAX } else { ARGS_MAX };
                if self.expected_args > args_max {
                    return Err(FrameFault::ArgCount);
                }
                Ok(None)
            }
        }
    }

    /// Parses one argument. Returns the number of bytes needed if it is incomplete.
    #[inline]
    fn arg(&mut self, input: &[u8]) -> Result<Option<usize>, FrameFault> {
        match input.get(self.at) {
            None => return Ok(Some(self.at + 1)),
            Some(b'$') => {}
            Some(&other) => return Err(FrameFault::Dollar(other)),
        }
        let Some((length, start)) = number(input, self.at + 1, FrameFault::Length)? else {
            return Ok(Some(input.len() + 1));
        };
        let length = usize::try_from(length).map_err(|_| FrameFault::Length)?;
        if length > self.bytes_max() {
            return Err(FrameFault::Length);
        }
        let end = start + length;
        if end + 2 > self.bytes_max() {
            return Err(FrameFault::Size);
        }
        match input.get(end..end + 2) {
            None => Ok(Some(end + 2)),
            Some(b"\r\n") => {
                self.spans.push(ArgSpan::new(start, end));
                self.at = end + 2;
                Ok(None)
            }
            Some(_) => Err(FrameFault::End),
        }
    }

    fn inline(&mut self, input: &[u8]) -> Result<ParseProgress, FrameFault> {
        let seen = self.at.min(input.len());
        let Some(found) = input[seen..].iter().position(|&byte| byte == b'\n') else {
            if input.len() > INLINE_BYTES_MAX.min(self.bytes_max()) {
                return Err(FrameFault::Inline);
            }
            self.at = input.len();
            return Ok(ParseProgress::More(input.len() + 1));
        };
        let end = seen + found;
        if end > INLINE_BYTES_MAX.min(self.bytes_max()) {
            return Err(FrameFault::Inline);
        }
        self.spans.clear();
        self.at = 0;
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        // Wiped whatever the command is: few clients quote, and one may quote its password.
        let unquoted = inline::parse_args(line, &mut self.spans)?;
        self.unquoted = unquoted.map(|bytes| Bytes::from_owner(Zeroizing::new(bytes)));
        Ok(ParseProgress::Frame(end + 1))
    }

    /// Takes the bytes of the request that just ended from the input, this many. Those with a
    /// password are wiped there, and once they are dropped.
    #[inline]
    pub fn take_frame(&self, input: &mut BytesMut, bytes: usize) -> Bytes {
        let mut frame = input.split_to(bytes);
        let command = self.command(&frame);
        // Two comparisons of lengths for nearly all requests.
        let has_password = (command.len() == 4 && command.eq_ignore_ascii_case(b"AUTH"))
            || (command.len() == 5 && command.eq_ignore_ascii_case(b"HELLO"));
        if has_password { move_to_wiped(&mut frame) } else { frame.freeze() }
    }

    /// Returns the arguments of the request that just ended; `frame` holds the request's bytes.
    #[inline]
    pub fn args(&mut self, frame: Bytes) -> Args<'_> {
        let bytes = self.unquoted.take().unwrap_or(frame);
        Args { bytes, spans: &self.spans }
    }

    /// Returns the command name of the request that just ended, before `args` is called. `frame`
    /// holds the request's bytes.
    #[inline]
    pub fn command<'a>(&'a self, frame: &'a [u8]) -> &'a [u8] {
        let bytes = self.unquoted.as_deref().unwrap_or(frame);
        let first = self.spans.first();
        first.map_or(&[], |span| &bytes[span.start as usize..span.end as usize])
    }

    /// Prepares for the next request. Frees memory that an unusually large one used.
    #[inline]
    pub fn reset(&mut self) {
        self.at = 0;
        if self.spans.capacity() > SPANS_RETAINED {
            self.spans = Vec::new();
        }
    }

    /// Forgets a request that may have begun: the input begins at another one.
    #[inline]
    pub fn restart(&mut self) {
        (self.expected_args, self.at, self.unquoted) = (0, 0, None);
    }

    /// Returns the memory of the argument positions in bytes.
    #[cfg(test)]
    pub fn memory_bytes(&self) -> usize {
        self.spans.capacity() * size_of::<ArgSpan>()
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
        let is_malformed =
            rest.iter().take(NUMBER_BYTES_MAX).any(|byte| !matches!(byte, b'-' | b'0'..=b'9'));
        return match (is_malformed, rest.len() > NUMBER_BYTES_MAX) {
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

/// Arguments of one request, the command name first: slices of the request's bytes.
#[derive(Clone, Debug)]
pub struct Args<'a> {
    bytes: Bytes,
    spans: &'a [ArgSpan],
}

impl<'a> Args<'a> {
    /// Returns the number of arguments.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns true if there are no arguments.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns an argument, or an empty slice if there are fewer arguments.
    #[inline]
    pub fn get(&self, at: usize) -> &[u8] {
        match self.spans.get(at) {
            Some(span) => &self.bytes[span.start as usize..span.end as usize],
            None => &[],
        }
    }

    /// Returns an argument that shares the buffer it arrived in.
    #[inline]
    pub fn get_bytes(&self, at: usize) -> Bytes {
        match self.spans.get(at) {
            Some(span) => self.bytes.slice(span.start as usize..span.end as usize),
            None => Bytes::new(),
        }
    }

    /// Returns the arguments from `from` to before `to`.
    pub fn subrange(&self, from: usize, to: usize) -> Args<'a> {
        let to = to.min(self.spans.len());
        Args { bytes: self.bytes.clone(), spans: &self.spans[from.min(to)..to] }
    }

    /// Returns a copy that outlives the parser: the bytes, and the positions of the arguments.
    pub fn to_owned_args(&self) -> OwnedArgs {
        let mut bytes = Vec::with_capacity((0..self.len()).map(|at| self.get(at).len()).sum());
        let mut spans = Vec::with_capacity(self.len());
        for at in 0..self.len() {
            let start = bytes.len();
            bytes.extend_from_slice(self.get(at));
            spans.push(ArgSpan::new(start, bytes.len()));
        }
        OwnedArgs { bytes: bytes.into(), spans: spans.into() }
    }
}

/// Arguments that outlive their request, such as those of a queued command.
#[derive(Clone, Debug)]
pub struct OwnedArgs {
    bytes: Bytes,
    spans: Box<[ArgSpan]>,
}

impl OwnedArgs {
    /// Returns their memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.spans.len() * size_of::<ArgSpan>()
    }

    /// Returns them as the arguments of a request.
    pub fn args(&self) -> Args<'_> {
        Args { bytes: self.bytes.clone(), spans: &self.spans }
    }
}
