//! Decoder of a chunked body. Pure and incremental.

use super::answer::StatusCode;
use super::head::RequestRefusal;

/// Longest chunk-size line with its extensions.
const SIZE_LINE_BYTES_MAX: usize = 256;
/// Longest trailer section without its last, empty line; trailers are read and forgotten.
const TRAILER_BYTES_MAX: usize = 4 * 1024;

/// Position of the decoder in a chunked body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ChunkPosition {
    /// Before the size of a chunk.
    #[default]
    Size,
    /// Inside a chunk, this many bytes before its end.
    Data(u64),
    /// Behind a chunk, before its line end.
    DataEnd,
    /// Behind the last chunk, in lines up to an empty one: number of bytes read of them.
    Trailer(usize),
    /// Behind the body.
    End,
}

/// Decoder of a chunked body.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    position: ChunkPosition,
}

/// Result of one decoding step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// Bytes of the body, and the number of input bytes consumed.
    Data(&'a [u8], usize),
    /// No bytes of the body: number of input bytes consumed. The caller calls again.
    Skip(usize),
    /// The input is incomplete. The caller calls again with more bytes.
    More,
    /// The body has ended.
    End,
}

impl Chunks {
    /// Decodes one step of the input. Fails if the bytes are not a chunked body.
    pub fn step<'a>(&mut self, input: &'a [u8]) -> Result<Decoded<'a>, RequestRefusal> {
        match self.position {
            ChunkPosition::Size => self.size(input),
            ChunkPosition::Data(remaining) => {
                if input.is_empty() {
                    return Ok(Decoded::More);
                }
                let consumed = usize::try_from(remaining).unwrap_or(usize::MAX).min(input.len());
                let remaining = remaining - consumed as u64;
                self.position = if remaining == 0 {
                    ChunkPosition::DataEnd
                } else {
                    ChunkPosition::Data(remaining)
                };
                Ok(Decoded::Data(&input[..consumed], consumed))
            }
            ChunkPosition::DataEnd => match input {
                [] | [b'\r'] => Ok(Decoded::More),
                [b'\r', b'\n', ..] => {
                    self.position = ChunkPosition::Size;
                    Ok(Decoded::Skip(2))
                }
                _ => refused("a chunk holds more bytes than its size says"),
            },
            ChunkPosition::Trailer(read) => self.trailer(input, read),
            ChunkPosition::End => Ok(Decoded::End),
        }
    }

    fn size(&mut self, input: &[u8]) -> Result<Decoded<'static>, RequestRefusal> {
        let Some(line) = line(input, SIZE_LINE_BYTES_MAX)? else { return Ok(Decoded::More) };
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let rest = &line[digits..];
        let is_extension = rest.first().is_none_or(|&byte| byte == b';');
        let plain = rest.iter().all(|&byte| byte == b'\t' || (0x20..0x7f).contains(&byte));
        if digits == 0 || digits > 15 || !is_extension || !plain {
            return refused("a chunk size is not a hexadecimal number");
        }
        let mut size = 0u64;
        for &digit in &line[..digits] {
            size = size * 16 + u64::from((digit as char).to_digit(16).unwrap_or(0));
        }
        self.position =
            if size == 0 { ChunkPosition::Trailer(0) } else { ChunkPosition::Data(size) };
        Ok(Decoded::Skip(line.len() + 2))
    }

    fn trailer(&mut self, input: &[u8], read: usize) -> Result<Decoded<'static>, RequestRefusal> {
        let Some(line) = line(input, TRAILER_BYTES_MAX - read.min(TRAILER_BYTES_MAX))? else {
            return Ok(Decoded::More);
        };
        if line.is_empty() {
            self.position = ChunkPosition::End;
        } else if line.iter().any(|&byte| byte != b'\t' && !(0x20..0x7f).contains(&byte)) {
            return refused("a trailer contains a forbidden byte");
        } else if read + line.len() + 2 > TRAILER_BYTES_MAX {
            return refused("the trailers are too long");
        } else {
            self.position = ChunkPosition::Trailer(read + line.len() + 2);
        }
        Ok(Decoded::Skip(line.len() + 2))
    }
}

/// Returns the first line without its end, or `None` if it is incomplete.
fn line(input: &[u8], max: usize) -> Result<Option<&[u8]>, RequestRefusal> {
    match input.iter().take(max + 2).position(|&byte| byte == b'\n') {
        Some(end) if end > 0 && input[end - 1] == b'\r' => Ok(Some(&input[..end - 1])),
        Some(_) => refused("a line of the chunked body ends without a carriage return"),
        None if input.len() > max + 1 => refused("a line of the chunked body is too long"),
        None => Ok(None),
    }
}

fn refused<T>(detail: &'static str) -> Result<T, RequestRefusal> {
    Err(RequestRefusal { status: StatusCode::BadRequest, detail })
}
