//! Text form of contexts, in JSON answers and in the requests that send them back.
//!
//! A context is opaque to clients. It is written in URL-safe base64 without padding, so a query may
//! contain it unencoded. The standard alphabet with padding, an earlier form, is read as well.

use base::Context;
use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};

/// Decoder of URL-safe base64, with padding or without.
const DECODER: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns a context as text.
pub(crate) fn encode(context: &Context) -> String {
    URL_SAFE_NO_PAD.encode(&context.0)
}

/// Parses a context in either alphabet. Returns `None` if the text is not base64.
pub(crate) fn read(text: &[u8]) -> Option<Context> {
    let url_safe = |byte: &u8| match byte {
        // A `+` that a client did not percent-encode arrives as a blank. Base64 has no blanks, so
        // the meaning is certain.
        b'+' | b' ' => b'-',
        b'/' => b'_',
        other => *other,
    };
    let text: Vec<u8> = text.iter().map(url_safe).collect();
    DECODER.decode(text).ok().map(|bytes| Context(bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};

    #[test]
    fn context_is_decoded_from_every_base64_alphabet() {
        for length in 0..40 {
            // 0xfb 0xef 0xbe is `++++`, 0xff is `/`.
            let bytes: Vec<u8> = [0xfb, 0xef, 0xbe, 0xff, 0xff].repeat(8)[..length].to_vec();
            let context = Context(bytes.clone().into());
            let text = encode(&context);
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
            let standard = STANDARD.encode(&bytes);
            let unescaped = standard.replace('+', " ");
            let others = [STANDARD_NO_PAD.encode(&bytes), URL_SAFE.encode(&bytes)];
            for text in [text, standard, unescaped].into_iter().chain(others) {
                assert_eq!(read(text.as_bytes()), Some(context.clone()), "{text}");
            }
        }
    }

    #[test]
    fn context_with_invalid_base64_is_rejected() {
        for text in ["A", "AB", "A===", "AA=A", "?", "\u{e9}", "AQ%3D"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
