//! One pass over a client's JSON before it is read: how deep does it nest?
//!
//! The reader behind it goes down one call per level, so the depth is bounded here, without a
//! stack.

/// Levels of JSON that one level of sequences takes (an object, a list), and a few for what stands
/// in a step.
pub const DEPTH_MAX: usize = 2 * base::limits::SEQUENCE_DEPTH_MAX + 4;

/// Whether brackets never nest deeper than [`DEPTH_MAX`]. Says nothing about the rest.
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
