//! Input as a sequence of choices: structured targets take their numbers and bytes from it.
//!
//! An input that has ended goes on as zeros, so every input is a valid one.

/// Reader of an input.
pub struct InputReader<'a> {
    rest: &'a [u8],
}

impl<'a> InputReader<'a> {
    /// Returns a reader of these bytes.
    pub fn new(bytes: &'a [u8]) -> InputReader<'a> {
        InputReader { rest: bytes }
    }

    /// Returns true if nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes a byte.
    pub fn u8(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// Takes a number of four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Takes a number of eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.u8())
    }

    /// Takes a number below `end`, from one byte.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.u8()) % end.max(1)
    }

    /// Takes a boolean.
    pub fn bool(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// Takes one of these values.
    pub fn choose<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Takes as many of the next bytes as two bytes before them say, or as are left.
    pub fn block(&mut self) -> &'a [u8] {
        let length = usize::from(u16::from_le_bytes(self.array()));
        self.take(length)
    }

    /// Takes this many bytes, or as many as are left.
    pub fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(length.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Takes all that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}
