//! Greetings of nodes, and frames of their connections, as `transport` decodes them.

use crate::input::InputReader;

/// A greeting: an envelope and a body, or a body in a valid envelope.
pub fn greeting(input: &[u8]) {
    let mut input = InputReader::new(input);
    let is_sealed = input.bool();
    transport::fuzzing::greeting(is_sealed, input.rest());
}

/// Frames of one connection, of which most have a valid checksum.
pub fn frames(input: &[u8]) {
    let mut input = InputReader::new(input);
    let chunk_bytes = usize::from(input.u8()).max(1);
    let mut frames = Vec::new();
    while !input.is_empty() && frames.len() < 64 {
        frames.push(transport::fuzzing::FuzzedFrame {
            is_sealed: input.below(8) > 0,
            lane: u32::from(input.u8() % 7),
            group: input.choose(&[0, 1, 2, 3, 4, u32::MAX]),
            // Mostly what is left of a message; sometimes anything.
            total: (input.below(4) == 0).then(|| input.u32()),
            is_next: input.below(16) > 0,
            piece: input.block().to_vec(),
        });
    }
    transport::fuzzing::frames(&frames, chunk_bytes);
}
