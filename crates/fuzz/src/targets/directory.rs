//! Rows of the directory, as every member applies them.

use crate::input::InputReader;

/// Rows in any order, with any keys.
pub fn rows(input: &[u8]) {
    let mut input = InputReader::new(input);
    let mut rows = Vec::new();
    while !input.is_empty() && rows.len() < 16 {
        let key = [input.choose(metadata::fuzzing::PREFIXES), input.block()].concat();
        let value = (input.below(8) > 0).then(|| input.block().to_vec());
        rows.push((key, value));
    }
    metadata::fuzzing::rows(&rows);
}
