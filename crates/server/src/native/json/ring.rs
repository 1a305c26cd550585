//! Parsing of requests about the ring.

use super::bodies::read_plain;
use base::{Error, RingChange};

/// Parses a change of the ring.
pub fn change(body: &[u8]) -> Result<RingChange, Error> {
    read_plain::<api::RingChange>(body).map(RingChange::from)
}

/// Parses the ring's epoch for which a plan is committed. An empty body means any epoch.
pub fn epoch(body: &[u8]) -> Result<Option<u64>, Error> {
    let commit = if body.is_empty() { api::RingEpoch::default() } else { read_plain(body)? };
    Ok(commit.epoch.map(|epoch| epoch.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_change_with_missing_or_extra_field_is_refused() {
        for good in [
            r#"{"change":"join","node":"n5"}"#,
            r#"{"change":"rack","node":"n5","rack":""}"#,
            r#"{"change":"double"}"#,
        ] {
            assert!(change(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            r#"{"change":"join"}"#,
            r#"{"change":"leave","node":"n5","by":"n6"}"#,
            r#"{"change":"double","node":"n5"}"#,
            r#"{"change":"grow"}"#,
            r#"{"node":"n5"}"#,
        ] {
            assert!(change(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
