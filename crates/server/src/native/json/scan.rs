//! Check of the nesting depth of a client's JSON, in one pass before it is parsed.
//!
//! The parser recurses once per level, so this check bounds the depth first, without a stack of its
//! own.

/// Maximum depth of JSON: two levels (an object, a list) for each level of sequences, and a few for
/// the fields of a step.
pub const DEPTH_MAX: usize = 2 * base::limits::SEQUENCE_DEPTH_MAX + 4;

/// Returns true if brackets never nest deeper than [`DEPTH_MAX`]. Does not check the rest of the
/// syntax.
pub fn is_shallow(json: &[u8]) -> bool {
    let mut depth = 0usize;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return false;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => {
                            bytes.next();
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    true
}
