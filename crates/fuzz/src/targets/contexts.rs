//! Causal contexts, rows of siblings, data types and vnodes' records.

use crate::input::InputReader;
use base::codec::Reader;
use base::dots::DotContext;
use base::properties::Properties;
use base::{Actor, BucketName, ClusterSecret, JoinToken, Part, Quorum};
use bytes::Bytes;
use logic::causal::Minter;
use logic::types::Typed;

/// Contexts, rows, data types and records.
pub fn run(input: &[u8]) {
    let mut input = InputReader::new(input);
    let kind = input.below(4);
    match kind {
        0 => context(input.rest()),
        1 => dynamo::fuzzing::row(
            &Bytes::copy_from_slice(input.block()),
            &Bytes::copy_from_slice(input.rest()),
        ),
        2 => data_types(
            &Bytes::copy_from_slice(input.block()),
            &Bytes::copy_from_slice(input.rest()),
        ),
        _ => {
            let bytes = input.rest();
            let Ok(minter) = Minter::from_record(bytes) else { return };
            assert_eq!(minter.record(), bytes, "a record has one form");
        }
    }
}

/// The entries of a context, which a client may have made up; the seal around them is tried by the
/// targets of the front-ends.
fn context(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let Ok(context) = DotContext::<Actor>::take(&mut reader) else { return };
    let used = &bytes[..bytes.len() - reader.rest().len()];
    let mut again = Vec::new();
    context.put(&mut again);
    assert_eq!(again, used, "a context has one form");
    assert!(context.covers(&context) && context.clone().join(&context) == context);
    for (actor, seen) in context.entries() {
        assert!(seen.contains(seen.highest()) && context.contains(actor, seen.highest()));
    }
    let shortened = context.clone().shorten(|_| false);
    assert!(context.covers(&shortened), "shortening adds nothing");
}

/// Two data types, merged in both orders.
fn data_types(one: &Bytes, other: &Bytes) {
    let read = |bytes: &Bytes| {
        let typed = Typed::<Actor>::decode(bytes).ok()?;
        assert_eq!(encoded(&typed), bytes[..], "a data type has one form");
        let _ = typed.value();
        // Merging carries out removes that wait for nothing, which no replica writes.
        let merged = typed.clone().merge(typed);
        let twice = merged.clone().merge(merged.clone());
        assert_eq!(encoded(&twice), encoded(&merged), "merging twice adds nothing");
        Some(merged)
    };
    let (Some(one), Some(other)) = (read(one), read(other)) else { return };
    if one.kind() == other.kind() {
        let merged = one.clone().merge(other.clone());
        let _ = merged.value();
        assert_eq!(encoded(&merged), encoded(&other.merge(one)), "merging has no order");
        assert!(
            Typed::<Actor>::decode(&encoded(&merged).into()).is_ok(),
            "a merged one reads back"
        );
    }
}

fn encoded(typed: &Typed<Actor>) -> Vec<u8> {
    let mut out = Vec::new();
    typed.encode(&mut out);
    out
}

/// Words of operators and clients: join tokens, secrets, names of buckets, properties, quorums.
pub fn names(input: &[u8]) {
    let mut input = InputReader::new(input);
    let kind = input.below(6);
    if kind == 0 {
        let bytes = input.rest();
        if let Ok(token) = JoinToken::parse(bytes) {
            assert_eq!(token.text().as_bytes(), bytes.trim_ascii());
            let again = JoinToken::parse(token.text().as_bytes()).map(|token| token.digest());
            assert_eq!(again, Ok(token.digest()));
        }
        return;
    }
    let (name, text) = (String::from_utf8_lossy(input.block()), input.rest());
    let text = String::from_utf8_lossy(text);
    match kind {
        1 => {
            if let Ok(secret) = ClusterSecret::from_hex(&text) {
                assert!(secret.to_hex().eq_ignore_ascii_case(&text));
            }
        }
        2 => {
            if let Ok(name) = BucketName::parse(&text) {
                assert_eq!(BucketName::parse(&name.to_string()), Ok(name.clone()));
                assert_eq!(BucketName::from_full(name.full()), Ok(name));
            }
        }
        3 => {
            if let Ok(name) = BucketName::from_full(&text) {
                assert_eq!(BucketName::from_full(name.full()), Ok(name));
            }
        }
        4 => {
            let changes = vec![(name.into_owned(), text.into_owned())];
            for properties in [Properties::default(), Properties::available()] {
                let Ok(changed) = properties.with(&changes) else { continue };
                let texts = changed.texts();
                let texts = texts.into_iter().map(|(name, text)| (name.to_string(), text));
                assert_eq!(Properties::default().with(&texts.collect()), Ok(changed));
            }
        }
        _ => {
            if let Ok(part) = Part::parse(&text) {
                assert_eq!(Part::parse(part.name()), Ok(part));
            }
            if let Some(quorum) = Quorum::parse(&text) {
                assert_eq!(Quorum::parse(&quorum.to_string()), Some(quorum));
            }
        }
    }
}
