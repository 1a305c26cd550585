//! The table of properties.

use super::{
    AUDIT, BYTES_MAX, BYTES_MAX_MOST, BucketAudit, CONSISTENCY, COUNTED, Consistency, DataType,
    Properties, Property, PropertyShape, SyncPolicy, feed,
};
use crate::limits::{KEY_BYTES_MAX, REPLICAS_MAX, SIBLINGS_HARD_MAX, TTL_MS_MAX, VALUE_BYTES_MAX};
use crate::quorum::Quorum;

/// All properties of a bucket; new ones are appended.
pub const PROPERTIES: [Property; 27] = [
    Property {
        name: CONSISTENCY,
        doc: "`consistent` (linearizable) or `available` (accepts writes during failures); fixed \
              when the bucket is created",
        consistency: None,
        shape: PropertyShape::Word(&["consistent", "available"]),
        get: |p| match p.consistency {
            Consistency::Consistent => "consistent".into(),
            Consistency::Available => "available".into(),
        },
        set: |p, text| {
            p.consistency = match text {
                "consistent" => Consistency::Consistent,
                "available" => Consistency::Available,
                _ => return None,
            };
            Some(())
        },
    },
    Property {
        name: "sync",
        doc: "`sync` (acknowledged after fdatasync) or `interval` (acknowledged when written, \
              synced shortly after)",
        consistency: None,
        shape: PropertyShape::Word(&["sync", "interval"]),
        get: |p| match p.sync {
            SyncPolicy::Sync => "sync".into(),
            SyncPolicy::Interval => "interval".into(),
        },
        set: |p, text| {
            p.sync = match text {
                "sync" => SyncPolicy::Sync,
                "interval" => SyncPolicy::Interval,
                _ => return None,
            };
            Some(())
        },
    },
    Property {
        name: "key_bytes_max",
        doc: "maximum size of a key in bytes, 1 to 32768",
        consistency: None,
        shape: PropertyShape::Number(1, KEY_BYTES_MAX as u64),
        get: |p| p.key_bytes_max.to_string(),
        set: |p, text| number(text, 1, KEY_BYTES_MAX as u64).map(|n| p.key_bytes_max = n as usize),
    },
    Property {
        name: "value_bytes_max",
        doc: "maximum size of a value in bytes, 1 to 8388608",
        consistency: None,
        shape: PropertyShape::Number(1, VALUE_BYTES_MAX as u64),
        get: |p| p.value_bytes_max.to_string(),
        set: |p, text| {
            number(text, 1, VALUE_BYTES_MAX as u64).map(|n| p.value_bytes_max = n as usize)
        },
    },
    Property {
        name: "ttl_ms",
        doc: "default time to live of rows in milliseconds; 0: no expiry",
        consistency: None,
        shape: PropertyShape::Number(0, TTL_MS_MAX),
        get: |p| p.ttl_ms.to_string(),
        set: |p, text| number(text, 0, TTL_MS_MAX).map(|n| p.ttl_ms = n),
    },
    count(
        "n_val",
        "number of replicas of a key, 1 to 16",
        (1, REPLICAS_MAX as u64),
        |p| p.replication.n_val.to_string(),
        |p, text| number(text, 1, REPLICAS_MAX as u64).map(|n| p.replication.n_val = n as u8),
    ),
    quorum(
        "r",
        "replicas that must answer a read: one, quorum, all or a number",
        |p| p.replication.r.to_string(),
        |p, text| parse_quorum(text).map(|quorum| p.replication.r = quorum),
    ),
    quorum(
        "pr",
        "owners of the key that must answer a read (primary read quorum)",
        |p| p.replication.pr.to_string(),
        |p, text| parse_quorum(text).map(|quorum| p.replication.pr = quorum),
    ),
    quorum(
        "w",
        "replicas that must accept a write",
        |p| p.replication.w.to_string(),
        |p, text| parse_quorum(text).map(|quorum| p.replication.w = quorum),
    ),
    quorum(
        "dw",
        "replicas that must have synced a write to disk (durable write quorum)",
        |p| p.replication.dw.to_string(),
        |p, text| parse_quorum(text).map(|quorum| p.replication.dw = quorum),
    ),
    quorum(
        "pw",
        "owners of the key that must accept a write (primary write quorum)",
        |p| p.replication.pw.to_string(),
        |p, text| parse_quorum(text).map(|quorum| p.replication.pw = quorum),
    ),
    quorum(
        "rw",
        "default of r and w for deletes",
        |p| p.replication.rw.to_string(),
        |p, text| parse_quorum(text).map(|quorum| p.replication.rw = quorum),
    ),
    count(
        "node_confirms",
        "distinct nodes that must answer a read or accept a write; 0: no minimum",
        (0, REPLICAS_MAX as u64),
        |p| p.replication.node_confirms.to_string(),
        |p, text| {
            number(text, 0, REPLICAS_MAX as u64).map(|n| p.replication.node_confirms = n as u8)
        },
    ),
    flag(
        "basic_quorum",
        "a read returns not found as soon as more than half of the replicas have no value",
        |p| p.replication.basic_quorum.to_string(),
        |p, text| parse_flag(text).map(|value| p.replication.basic_quorum = value),
    ),
    flag(
        "notfound_ok",
        "a replica that has no value counts towards r",
        |p| p.replication.notfound_ok.to_string(),
        |p, text| parse_flag(text).map(|value| p.replication.notfound_ok = value),
    ),
    flag(
        "allow_mult",
        "concurrent writes are kept as siblings; false keeps the newest and LOSES the others",
        |p| p.replication.allow_mult.to_string(),
        |p, text| parse_flag(text).map(|value| p.replication.allow_mult = value),
    ),
    flag(
        "last_write_wins",
        "the newest write replaces all values, regardless of its context: LOSES concurrent writes",
        |p| p.replication.last_write_wins.to_string(),
        |p, text| parse_flag(text).map(|value| p.replication.last_write_wins = value),
    ),
    count(
        "siblings_max",
        "maximum number of siblings of a key, 1 to 1000; a write that would exceed it is refused",
        (1, SIBLINGS_HARD_MAX as u64),
        |p| p.replication.siblings_max.to_string(),
        |p, text| {
            let max = number(text, 1, SIBLINGS_HARD_MAX as u64)?;
            p.replication.siblings_max = max as u16;
            Some(())
        },
    ),
    Property {
        name: "datatype",
        doc: "data type of the values: none (any bytes), counter, set, gset, map or hll",
        consistency: Some(Consistency::Available),
        shape: PropertyShape::Word(&["none", "counter", "set", "gset", "map", "hll"]),
        get: |p| p.replication.datatype.name().into(),
        set: |p, text| DataType::parse(text).map(|kind| p.replication.datatype = kind),
    },
    count(
        "hll_precision",
        "precision of hll, 4 to 16: a sketch has 2^precision registers",
        (4, 16),
        |p| p.replication.hll_precision.to_string(),
        |p, text| number(text, 4, 16).map(|n| p.replication.hll_precision = n as u8),
    ),
    flag(
        "write_once",
        "keys are written only once: no siblings, the newest of several values is kept; fixed when \
         the type is created",
        |p| p.replication.write_once.to_string(),
        |p, text| parse_flag(text).map(|value| p.replication.write_once = value),
    ),
    Property {
        name: COUNTED,
        doc: "keeps the numbers of keys and bytes, so that counting is immediate; each write may \
              cost a read",
        consistency: Some(Consistency::Consistent),
        shape: PropertyShape::Flag,
        get: |p| p.counted.to_string(),
        set: |p, text| parse_flag(text).map(|value| p.counted = value),
    },
    Property {
        name: BYTES_MAX,
        doc: "maximum bytes of all keys and values; needs `counted`; 0: no maximum",
        consistency: Some(Consistency::Consistent),
        shape: PropertyShape::Number(0, BYTES_MAX_MOST),
        get: |p| p.bytes_max.to_string(),
        set: |p, text| number(text, 0, BYTES_MAX_MOST).map(|n| p.bytes_max = n),
    },
    Property {
        name: AUDIT,
        doc: "operations on keys that the audit log of the node that is asked records: off, writes \
              or all; to change it needs `secure` too",
        consistency: None,
        shape: PropertyShape::Word(&BucketAudit::NAMES),
        get: |p| p.audit.name().into(),
        set: |p, text| BucketAudit::parse(text).map(|audit| p.audit = audit),
    },
    feed::MODE,
    feed::KEEP_MS,
    feed::KEEP_BYTES,
];

type PropertyGetter = fn(&Properties) -> String;
type PropertySetter = fn(&mut Properties, &str) -> Option<()>;

const fn count(
    name: &'static str,
    doc: &'static str,
    (min, max): (u64, u64),
    get: PropertyGetter,
    set: PropertySetter,
) -> Property {
    let shape = PropertyShape::Number(min, max);
    Property { name, doc, consistency: Some(Consistency::Available), shape, get, set }
}

const fn quorum(
    name: &'static str,
    doc: &'static str,
    get: PropertyGetter,
    set: PropertySetter,
) -> Property {
    let shape = PropertyShape::Quorum;
    Property { name, doc, consistency: Some(Consistency::Available), shape, get, set }
}

const fn flag(
    name: &'static str,
    doc: &'static str,
    get: PropertyGetter,
    set: PropertySetter,
) -> Property {
    let shape = PropertyShape::Flag;
    Property { name, doc, consistency: Some(Consistency::Available), shape, get, set }
}

fn number(text: &str, min: u64, max: u64) -> Option<u64> {
    text.parse().ok().filter(|number| (min..=max).contains(number))
}

fn parse_quorum(text: &str) -> Option<Quorum> {
    Quorum::parse(text)
}

fn parse_flag(text: &str) -> Option<bool> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::Replication;
    use crate::{Reason, Result};

    fn with(properties: &Properties, name: &str, text: &str) -> Result<Properties> {
        properties.with(&vec![(name.into(), text.into())])
    }

    fn texts(properties: &Properties) -> Vec<(String, String)> {
        properties.texts().into_iter().map(|(name, text)| (name.to_string(), text)).collect()
    }

    #[test]
    fn property_texts_round_trip_in_any_order() {
        let properties =
            Properties { ttl_ms: 5, sync: SyncPolicy::Interval, ..Properties::default() };
        assert_eq!(Properties::default().with(&texts(&properties)), Ok(properties));
        let replication = Replication {
            n_val: 5,
            r: Quorum::One,
            pr: Quorum::Number(1),
            w: Quorum::All,
            dw: Quorum::Number(2),
            pw: Quorum::Number(3),
            rw: Quorum::Number(4),
            node_confirms: 2,
            basic_quorum: true,
            notfound_ok: false,
            allow_mult: false,
            last_write_wins: true,
            siblings_max: 7,
            datatype: DataType::None,
            hll_precision: 4,
            write_once: true,
        };
        let mut available = Properties { replication, ..Properties::available() };
        assert_eq!(Properties::default().with(&texts(&available)), Ok(available.clone()));
        // The order does not matter: neither for `consistency`, nor for `n_val` and the properties
        // that refer to it.
        let mut backwards = texts(&available);
        backwards.reverse();
        assert_eq!(Properties::default().with(&backwards), Ok(available.clone()));
        available.replication = Replication { datatype: DataType::Map, ..Replication::default() };
        assert_eq!(Properties::default().with(&texts(&available)), Ok(available));
    }

    #[test]
    fn unknown_property_or_invalid_value_is_rejected() {
        let change =
            |name: &str, text: &str| with(&Properties::default(), name, text).map_err(|e| e.text());
        assert!(change("colour", "red").expect_err("unknown").contains("unknown bucket property"));
        assert!(
            change("value_bytes_max", "8388609")
                .expect_err("too large")
                .contains("not a valid value")
        );
        assert!(change("value_bytes_max", "8388608").is_ok());
    }

    #[test]
    fn available_only_property_is_rejected_on_consistent_bucket() {
        let refused = with(&Properties::default(), "n_val", "3").expect_err("consistent");
        assert_eq!(refused.reason, Reason::NotSupported);
        assert!(refused.text().contains("available buckets"), "{refused}");
        assert!(with(&Properties::available(), "n_val", "3").is_ok());
        let consistent =
            with(&Properties::available(), "consistency", "consistent").expect("plain");
        assert_eq!(consistent, Properties::default(), "nothing stays behind");
        assert_eq!(Properties::default().stored_texts().len(), 5, "rows of old stay as they were");
    }

    #[test]
    fn promise_is_input_alias_of_consistency_and_never_listed() {
        let available = with(&Properties::default(), "promise", "available");
        assert_eq!(available, Ok(Properties::available()));
        assert!(Properties::available().texts().iter().all(|(name, _)| *name != "promise"));
        let both = [("promise", "available"), ("consistency", "available")]
            .map(|(name, text)| (name.to_string(), text.to_string()));
        let refused = Properties::default().with(&both.to_vec()).expect_err("one of two spellings");
        assert_eq!(
            refused.text(),
            "`promise` and `consistency` are the same property: set one of them"
        );
    }

    #[test]
    fn invalid_or_conflicting_replication_properties_are_rejected() {
        let available = Properties::available();
        for (name, text, fits) in [
            ("r", "3", true),
            ("r", "4", false),
            ("pw", "4", false),
            ("node_confirms", "4", false),
            ("n_val", "0", false),
            ("n_val", "17", false),
            ("siblings_max", "0", false),
            ("siblings_max", "1000", true),
            ("hll_precision", "3", false),
            ("allow_mult", "yes", false),
            ("datatype", "list", false),
        ] {
            assert_eq!(with(&available, name, text).is_ok(), fits, "{name} {text}");
        }
        let typed = with(&available, "datatype", "set").expect("a type");
        assert!(with(&typed, "allow_mult", "false").is_err());
        assert!(with(&typed, "last_write_wins", "true").is_err());
    }

    #[test]
    fn write_once_disables_siblings_and_rejects_conflicts() {
        let once = with(&Properties::available(), "write_once", "true").expect("a type");
        assert_eq!((once.replication.write_once, once.replication.allow_mult), (true, false));
        assert_eq!(with(&once, "n_val", "2").map(|it| it.replication.allow_mult), Ok(false));
        for (name, text) in [("allow_mult", "true"), ("datatype", "set")] {
            let error = with(&once, name, text).expect_err("both can't be");
            assert!(error.text().contains("write_once"), "{error}");
        }
        assert!(with(&Properties::default(), "write_once", "true").is_err(), "consistent");
        // Rows written before the property existed.
        let mut old = texts(&Properties::available());
        old.retain(|(name, _)| name != "write_once");
        assert_eq!(Properties::default().with(&old), Ok(Properties::available()));
    }
}
