//! Percent-encoding of bytes in paths and queries.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_encode};

/// Bytes that are encoded: all but the unreserved ones of RFC 3986, section 2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Encodes bytes as part of a path or a query.
pub fn percent(bytes: &[u8]) -> PercentEncode<'_> {
    percent_encode(bytes, RESERVED)
}
