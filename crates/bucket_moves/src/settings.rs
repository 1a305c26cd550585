//! Sizes and pauses of bucket moves.

/// Sizes and pauses of bucket moves.
#[derive(Clone, Copy, Debug)]
pub struct MoveSettings {
    /// Bytes of one part; a larger row forms a part of its own.
    pub part_bytes: usize,
    /// Pause before a failed move is retried, in milliseconds.
    pub retry_ms: u64,
}

impl Default for MoveSettings {
    fn default() -> MoveSettings {
        MoveSettings { part_bytes: 256 << 10, retry_ms: 1_000 }
    }
}
