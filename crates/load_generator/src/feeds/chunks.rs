//! Decoder of a chunked body, piece by piece as it arrives.

use base::limits::FRAME_BYTES_MAX;

/// Decoder of one body.
#[derive(Debug, Default)]
pub struct ChunkDecoder {
    state: ChunkState,
}

/// Part of the body that comes next.
#[derive(Debug)]
enum ChunkState {
    /// The line with the size of a chunk. `None`: no digit was read yet.
    Size(Option<usize>),
    /// So many bytes of a chunk, at least one.
    Data(usize),
    /// Nothing: the last chunk, which has no bytes, was read.
    End,
}

impl Default for ChunkState {
    fn default() -> ChunkState {
        ChunkState::Size(None)
    }
}

/// Malformed input: no size of a chunk stands where one must.
#[derive(Debug, PartialEq, Eq)]
pub struct MalformedChunk;

impl ChunkDecoder {
    /// Decodes the next piece of the body, and hands the bytes of its chunks to `sink`. What
    /// follows the last chunk is ignored.
    pub fn decode(
        &mut self,
        mut input: &[u8],
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), MalformedChunk> {
        while let Some((byte, rest)) = input.split_first() {
            match self.state {
                ChunkState::End => return Ok(()),
                ChunkState::Data(left) => {
                    let (data, behind) = input.split_at(left.min(input.len()));
                    sink(data);
                    input = behind;
                    self.state = match left - data.len() {
                        0 => ChunkState::Size(None),
                        left => ChunkState::Data(left),
                    };
                    continue;
                }
                ChunkState::Size(size) => self.state = next_state(size, *byte)?,
            }
            input = rest;
        }
        Ok(())
    }

    /// Returns true once the last chunk was read.
    pub fn is_at_end(&self) -> bool {
        matches!(self.state, ChunkState::End)
    }
}

/// Returns the state behind a byte of a line with a size. A line without digits is the line end
/// behind the bytes of a chunk.
fn next_state(size: Option<usize>, byte: u8) -> Result<ChunkState, MalformedChunk> {
    let digit = (byte as char).to_digit(16);
    match (digit, byte) {
        (Some(digit), _) => {
            let size = size.unwrap_or(0) * 16 + digit as usize;
            (size <= FRAME_BYTES_MAX).then_some(ChunkState::Size(Some(size))).ok_or(MalformedChunk)
        }
        (None, b'\r') => Ok(ChunkState::Size(size)),
        (None, b'\n') => Ok(match size {
            None => ChunkState::Size(None),
            Some(0) => ChunkState::End,
            Some(size) => ChunkState::Data(size),
        }),
        _ => Err(MalformedChunk),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<(String, bool), MalformedChunk> {
        let (mut decoder, mut data) = (ChunkDecoder::default(), Vec::new());
        for piece in pieces {
            decoder.decode(piece, |bytes| data.extend_from_slice(bytes))?;
        }
        Ok((String::from_utf8(data).expect("text"), decoder.is_at_end()))
    }

    #[test]
    fn chunks_decode_wherever_the_body_is_cut() {
        let body = b"00000006\r\none\ntw\r\n0000000a\r\no\nthree\r\n!\r\n";
        let whole = "one\ntwo\nthree\r\n!";
        assert_eq!(decode(&[body]), Ok((whole.into(), false)));
        for cut in 0..body.len() {
            let (first, second) = body.split_at(cut);
            assert_eq!(decode(&[first, second]), Ok((whole.into(), false)), "{cut}");
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(decode(&bytes), Ok((whole.into(), false)));
    }

    #[test]
    fn last_chunk_ends_the_body_and_what_follows_is_ignored() {
        assert_eq!(decode(&[b"1\r\na\r\n0\r\n\r\n"]), Ok(("a".into(), true)));
        assert_eq!(decode(&[b"0\r\n", b"\r\nHTTP/1.1"]), Ok((String::new(), true)));
    }

    #[test]
    fn size_that_is_none_or_too_large_is_malformed() {
        assert_eq!(decode(&[b"{\"event\""]), Err(MalformedChunk));
        assert_eq!(decode(&[b"1\r\na\r\n;\r\n"]), Err(MalformedChunk));
        assert_eq!(decode(&[b"fffffffff\r\n"]), Err(MalformedChunk));
    }
}
