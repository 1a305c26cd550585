//! Canaries: secrets that a scenario uses, and the search for them in what a program shows or
//! keeps.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// Bytes of a secret that are looked for, its last ones: a shorter piece could come up by chance,
/// and the beginning of a token tells only what kind it is.
const MARKER_BYTES: usize = 12;

/// Secrets by name.
#[derive(Clone, Debug, Default)]
pub struct Canaries(Vec<Canary>);

#[derive(Clone, Debug)]
struct Canary {
    name: String,
    /// Forms in which a program may print or store the secret.
    forms: Vec<Vec<u8>>,
}

impl Canaries {
    /// Adds a secret.
    pub fn plant(&mut self, name: &str, secret: &[u8]) {
        assert!(secret.len() >= MARKER_BYTES, "the secret {name} is too short to be looked for");
        let marker = &secret[secret.len() - MARKER_BYTES..];
        let joined = |write: fn(&u8) -> String, separator: &str| {
            marker.iter().map(write).collect::<Vec<_>>().join(separator).into_bytes()
        };
        // In base64 a piece looks different at each of three offsets; its ends depend on the
        // neighbours.
        let encoded = (0..3).map(|offset| {
            let text = STANDARD_NO_PAD.encode(&marker[offset..]);
            text.as_bytes()[..text.len() - 2].to_vec()
        });
        let forms = [
            marker.to_vec(),
            joined(|byte| byte.to_string(), ", "),
            joined(|byte| format!("{byte:02x}"), ""),
            joined(|byte| format!("{byte:02X}"), ""),
        ];
        let forms = forms.into_iter().chain(encoded).collect();
        self.0.push(Canary { name: name.into(), forms });
    }

    /// Returns the number of secrets.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the names of the secrets that these bytes contain.
    pub fn found_in(&self, bytes: &[u8]) -> Vec<&str> {
        // First two bytes of any form: files are long, and few places begin so.
        let pair = |bytes: &[u8]| usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
        let mut begins = vec![false; 1 << 16];
        for form in self.0.iter().flat_map(|canary| &canary.forms) {
            begins[pair(form)] = true;
        }
        let mut found = vec![false; self.0.len()];
        for (at, _) in bytes.windows(2).enumerate().filter(|(_, window)| begins[pair(window)]) {
            for (canary, found) in self.0.iter().zip(&mut found) {
                *found |= canary.forms.iter().any(|form| bytes[at..].starts_with(form));
            }
        }
        let names = self.0.iter().zip(found).filter(|(_, found)| *found);
        names.map(|(canary, _)| canary.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_found_in_every_form_and_its_beginning_is_not() {
        let mut canaries = Canaries::default();
        let secret = b"token-0123456789abcdef";
        canaries.plant("token", secret);
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let with_pad = base64::engine::general_purpose::STANDARD;
        for text in [
            String::from_utf8_lossy(secret).into_owned(),
            format!("{secret:?}"),
            hex.to_uppercase(),
            hex,
            with_pad.encode(secret),
            with_pad.encode([b"a", &secret[..]].concat()),
            with_pad.encode([b"ab", &secret[..], b"z"].concat()),
        ] {
            let text = format!("info  node  said {text} here");
            assert_eq!(canaries.found_in(text.as_bytes()), ["token"], "{text}");
        }
        assert!(canaries.found_in(b"token-0123456789").is_empty());
        assert!(canaries.found_in(b"").is_empty());
    }
}
