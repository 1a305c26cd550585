//! Bytes in paths and queries.

/// Bytes as part of a path or a query.
pub fn percent(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 8);
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            text.push(byte as char);
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}
