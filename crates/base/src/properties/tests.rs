//! Tests of the properties of counted and of audited buckets.

use super::{BucketAudit, Properties};
use crate::{Reason, Result};

fn with(properties: &Properties, name: &str, text: &str) -> Result<Properties> {
    properties.with(&vec![(name.into(), text.into())])
}

#[test]
fn counted_is_a_property_of_consistent_buckets_and_stored_only_if_true() {
    let counted = with(&Properties::default(), "counted", "true").expect("consistent");
    assert!(counted.counted && !Properties::default().counted);
    let stored = counted.stored_texts();
    assert_eq!(stored.last(), Some(&("counted", "true".to_string())));
    let stored: Vec<_> = stored.into_iter().map(|(name, text)| (name.into(), text)).collect();
    assert_eq!(Properties::default().with(&stored), Ok(counted.clone()));
    assert_eq!(with(&counted, "counted", "false"), Ok(Properties::default()));
    assert!(with(&counted, "counted", "yes").is_err());
    let refused = with(&Properties::available(), "counted", "true").expect_err("available");
    assert_eq!(refused.reason, Reason::NotSupported);
    assert!(refused.text().contains("property of consistent buckets"), "{refused}");
    let available = with(&counted, "consistency", "available").expect("plain");
    assert_eq!(available, Properties::available(), "nothing stays behind");
}

#[test]
fn bytes_max_needs_counts_and_is_stored_only_if_set() {
    let counted = with(&Properties::default(), "counted", "true").expect("consistent");
    let bounded = with(&counted, "bytes_max", "1000").expect("counted");
    assert_eq!(bounded.stored_texts().last(), Some(&("bytes_max", "1000".to_string())));
    assert!(counted.stored_texts().iter().all(|(name, _)| *name != "bytes_max"));
    let texts = bounded.texts().into_iter().map(|(name, text)| (name.into(), text)).collect();
    assert_eq!(Properties::default().with(&texts), Ok(bounded.clone()));
    assert_eq!(with(&bounded, "bytes_max", "0"), Ok(counted));
    for (properties, name, text) in
        [(Properties::default(), "bytes_max", "1"), (bounded.clone(), "counted", "false")]
    {
        let refused = with(&properties, name, text).expect_err("not counted");
        assert!(refused.text().contains("set `counted` true"), "{refused}");
    }
    assert!(with(&bounded, "bytes_max", "9007199254740993").is_err());
    assert!(with(&Properties::available(), "bytes_max", "1").is_err());
    let available = with(&bounded, "consistency", "available");
    assert_eq!(available, Ok(Properties::available()), "nothing stays behind");
}

#[test]
fn audit_is_a_property_of_all_buckets_and_stored_only_if_set() {
    for plain in [Properties::default(), Properties::available()] {
        assert_eq!(plain.audit, BucketAudit::Off);
        assert!(plain.stored_texts().iter().all(|(name, _)| *name != "audit"));
        assert!(plain.texts().contains(&("audit", "off".to_string())), "it is shown");
        for (text, audit) in [("writes", BucketAudit::Writes), ("all", BucketAudit::All)] {
            let audited = with(&plain, "audit", text).expect("a value of it");
            assert_eq!(audited, Properties { audit, ..plain.clone() });
            let stored: Vec<_> = audited.stored_texts();
            assert_eq!(stored.last(), Some(&("audit", text.to_string())));
            let stored = stored.into_iter().map(|(name, text)| (name.into(), text)).collect();
            assert_eq!(Properties::default().with(&stored), Ok(audited.clone()));
            assert_eq!(with(&audited, "audit", "off"), Ok(plain.clone()));
        }
        for wrong in ["reads", "true", "", "Writes"] {
            assert!(with(&plain, "audit", wrong).is_err(), "{wrong}");
        }
    }
}
