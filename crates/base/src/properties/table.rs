//! The table of properties.

use super::{CONSISTENCY, Consistency, DataType, Properties, Property, PropertyShape, SyncPolicy};
use crate::limits::{KEY_BYTES_MAX, REPLICAS_MAX, SIBLINGS_HARD_MAX, TTL_MS_MAX, VALUE_BYTES_MAX};
use crate::quorum::Quorum;

/// All properties of a bucket; new ones are appended.
pub const PROPERTIES: [Property; 21] = [
    Property {
        name: CONSISTENCY,
        doc: "`consistent` (never a wrong answer) or `available` (always takes the write); fixed \
              when the bucket is made",
        of: None,
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
              synced a little later)",
        of: None,
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
        doc: "largest key in bytes, 1 to 32768",
        of: None,
        shape: PropertyShape::Number(1, KEY_BYTES_MAX as u64),
        get: |p| p.key_bytes_max.to_string(),
        set: |p, text| number(text, 1, KEY_BYTES_MAX as u64).map(|n| p.key_bytes_max = n as usize),
    },
    Property {
        name: "value_bytes_max",
        doc: "largest value in bytes, 1 to 8388608",
        of: None,
        shape: PropertyShape::Number(1, VALUE_BYTES_MAX as u64),
        get: |p| p.value_bytes_max.to_string(),
        set: |p, text| {
            number(text, 1, VALUE_BYTES_MAX as u64).map(|n| p.value_bytes_max = n as usize)
        },
    },
    Property {
        name: "ttl_ms",
        doc: "time to live in milliseconds of rows written without one; 0: for ever",
        of: None,
        shape: PropertyShape::Number(0, TTL_MS_MAX),
        get: |p| p.ttl_ms.to_string(),
        set: |p, text| number(text, 0, TTL_MS_MAX).map(|n| p.ttl_ms = n),
    },
    count(
        "n_val",
        "replicas of a key, 1 to 16",
        (1, REPLICAS_MAX as u64),
        |p| p.replication.n_val.to_string(),
        |p, text| number(text, 1, REPLICAS_MAX as u64).map(|n| p.replication.n_val = n as u8),
    ),
    quorum(
        "r",
        "replicas that must answer a read: one, quorum, all or a number",
        |p| p.replication.r.to_string(),
        |p, text| take(text).map(|quorum| p.replication.r = quorum),
    ),
    quorum(
        "pr",
        "of those that answer a read, how many must be owners of the key",
        |p| p.replication.pr.to_string(),
        |p, text| take(text).map(|quorum| p.replication.pr = quorum),
    ),
    quorum(
        "w",
        "replicas that must take a write",
        |p| p.replication.w.to_string(),
        |p, text| take(text).map(|quorum| p.replication.w = quorum),
    ),
    quorum(
        "dw",
        "replicas that must have synced a write",
        |p| p.replication.dw.to_string(),
        |p, text| take(text).map(|quorum| p.replication.dw = quorum),
    ),
    quorum(
        "pw",
        "of those that take a write, how many must be owners of the key",
        |p| p.replication.pw.to_string(),
        |p, text| take(text).map(|quorum| p.replication.pw = quorum),
    ),
    quorum(
        "rw",
        "what a delete takes for r and w, where they are not said",
        |p| p.replication.rw.to_string(),
        |p, text| take(text).map(|quorum| p.replication.rw = quorum),
    ),
    count(
        "node_confirms",
        "nodes that must answer, or take a write; 0: as many as it happens",
        (0, REPLICAS_MAX as u64),
        |p| p.replication.node_confirms.to_string(),
        |p, text| {
            number(text, 0, REPLICAS_MAX as u64).map(|n| p.replication.node_confirms = n as u8)
        },
    ),
    flag(
        "basic_quorum",
        "a read gives up as soon as more than half of the replicas have nothing",
        |p| p.replication.basic_quorum.to_string(),
        |p, text| truth(text).map(|yes| p.replication.basic_quorum = yes),
    ),
    flag(
        "notfound_ok",
        "a replica that has nothing counts towards r",
        |p| p.replication.notfound_ok.to_string(),
        |p, text| truth(text).map(|yes| p.replication.notfound_ok = yes),
    ),
    flag(
        "allow_mult",
        "concurrent writes are all kept, as siblings; false keeps the newest and LOSES the others",
        |p| p.replication.allow_mult.to_string(),
        |p, text| truth(text).map(|yes| p.replication.allow_mult = yes),
    ),
    flag(
        "last_write_wins",
        "the newest write replaces everything, whatever it has seen: LOSES concurrent writes",
        |p| p.replication.last_write_wins.to_string(),
        |p, text| truth(text).map(|yes| p.replication.last_write_wins = yes),
    ),
    count(
        "siblings_max",
        "most siblings of a key, 1 to 1000; a write that would make one more is refused",
        (1, SIBLINGS_HARD_MAX as u64),
        |p| p.replication.siblings_max.to_string(),
        |p, text| {
            let most = number(text, 1, SIBLINGS_HARD_MAX as u64)?;
            p.replication.siblings_max = most as u16;
            Some(())
        },
    ),
    Property {
        name: "datatype",
        doc: "what values are: none (any bytes), counter, set, gset, map or hll",
        of: Some(Consistency::Available),
        shape: PropertyShape::Word(&["none", "counter", "set", "gset", "map", "hll"]),
        get: |p| p.replication.datatype.word().into(),
        set: |p, text| DataType::parse(text).map(|kind| p.replication.datatype = kind),
    },
    count(
        "hll_precision",
        "how exact hll is, 4 to 16: 2 to the power of so many registers",
        (4, 16),
        |p| p.replication.hll_precision.to_string(),
        |p, text| number(text, 4, 16).map(|n| p.replication.hll_precision = n as u8),
    ),
    flag(
        "write_once",
        "keys are meant to be written once: never siblings, of several values the newest is kept; \
         fixed when the type is made",
        |p| p.replication.write_once.to_string(),
        |p, text| truth(text).map(|yes| p.replication.write_once = yes),
    ),
];

type PropertyGetter = fn(&Properties) -> String;
type Set = fn(&mut Properties, &str) -> Option<()>;

const fn count(
    name: &'static str,
    doc: &'static str,
    (least, most): (u64, u64),
    get: PropertyGetter,
    set: Set,
) -> Property {
    let shape = PropertyShape::Number(least, most);
    Property { name, doc, of: Some(Consistency::Available), shape, get, set }
}

const fn quorum(name: &'static str, doc: &'static str, get: PropertyGetter, set: Set) -> Property {
    Property { name, doc, of: Some(Consistency::Available), shape: PropertyShape::Quorum, get, set }
}

const fn flag(name: &'static str, doc: &'static str, get: PropertyGetter, set: Set) -> Property {
    Property { name, doc, of: Some(Consistency::Available), shape: PropertyShape::Flag, get, set }
}

fn number(text: &str, min: u64, max: u64) -> Option<u64> {
    text.parse().ok().filter(|number| (min..=max).contains(number))
}

fn take(text: &str) -> Option<Quorum> {
    Quorum::parse(text)
}

fn truth(text: &str) -> Option<bool> {
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
    fn every_property_reads_back_what_it_shows() {
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
        // The position of `consistency` does not matter, nor that of `n_val` for properties that
        // refer to it.
        let mut backwards = texts(&available);
        backwards.reverse();
        assert_eq!(Properties::default().with(&backwards), Ok(available.clone()));
        available.replication = Replication { datatype: DataType::Map, ..Replication::default() };
        assert_eq!(Properties::default().with(&texts(&available)), Ok(available));
    }

    #[test]
    fn unknown_properties_and_bad_texts_are_refused_in_words() {
        let change =
            |name: &str, text: &str| with(&Properties::default(), name, text).map_err(|e| e.text());
        assert!(change("colour", "red").expect_err("unknown").contains("no bucket property"));
        assert!(change("value_bytes_max", "8388609").expect_err("too large").contains("no value"));
        assert!(change("value_bytes_max", "8388608").is_ok());
    }

    #[test]
    fn consistent_buckets_refuse_in_words_what_only_available_ones_have() {
        let refused = with(&Properties::default(), "n_val", "3").expect_err("consistent");
        assert_eq!(refused.reason, Reason::NotSupported);
        assert!(refused.text().contains("available buckets"), "{refused}");
        assert!(with(&Properties::available(), "n_val", "3").is_ok());
        let consistent =
            with(&Properties::available(), "consistency", "consistent").expect("plain");
        assert_eq!(consistent, Properties::default(), "nothing stays behind");
        assert_eq!(Properties::default().texts().len(), 5, "rows of old stay as they were");
    }

    #[test]
    fn promise_is_read_as_another_spelling_of_consistency_and_never_shown() {
        let available = with(&Properties::default(), "promise", "available");
        assert_eq!(available, Ok(Properties::available()));
        assert!(Properties::available().texts().iter().all(|(name, _)| *name != "promise"));
        let both = [("promise", "available"), ("consistency", "available")]
            .map(|(name, text)| (name.to_string(), text.to_string()));
        let refused = Properties::default().with(&both.to_vec()).expect_err("one of two spellings");
        assert_eq!(refused.text(), "`promise` and `consistency` are one property: set one of them");
    }

    #[test]
    fn more_replicas_than_there_are_can_not_be_asked_for() {
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
    fn what_is_written_once_has_no_siblings_and_is_plain() {
        let once = with(&Properties::available(), "write_once", "true").expect("a type");
        assert_eq!((once.replication.write_once, once.replication.allow_mult), (true, false));
        assert_eq!(with(&once, "n_val", "2").map(|it| it.replication.allow_mult), Ok(false));
        for (name, text) in [("allow_mult", "true"), ("datatype", "set")] {
            let error = with(&once, name, text).expect_err("both can't be");
            assert!(error.text().contains("write_once"), "{error}");
        }
        assert!(with(&Properties::default(), "write_once", "true").is_err(), "consistent");
        // A text from before the property existed.
        let mut old = texts(&Properties::available());
        old.retain(|(name, _)| name != "write_once");
        assert_eq!(Properties::default().with(&old), Ok(Properties::available()));
    }
}
