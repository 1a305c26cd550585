//! Encoding of updates and reads as the JSON that the front-end reads.

use crate::native::json::write::append_bytes;
use base::range::Direction;
use base::request::{ExpireWhen, Expiry, OnMissing, SequenceMode, When};
use base::{Bound, Key, Range, Read, RowContent, Update, Value};

/// Appends an update as a step.
pub fn append_update(out: &mut Vec<u8>, update: &Update) {
    match update {
        Update::Set { key, value, expiry } => {
            ObjectFields::begin(out, "set")
                .bytes("key", key)
                .bytes("value", value)
                .expiry(*expiry)
                .end();
        }
        Update::SetIf { key, value, expiry, when } => {
            append_set_if(out, key, value, *expiry, *when)
        }
        Update::Delete { key, missing } => {
            let fields = ObjectFields::begin(out, "delete").bytes("key", key);
            match missing {
                OnMissing::Fail => fields.raw("missing", "\"fails\"").end(),
                OnMissing::Skip => fields.end(),
            }
        }
        Update::TestAndSet { key, expected, wanted } => {
            let fields = ObjectFields::begin(out, "test_and_set").bytes("key", key);
            fields.optional_bytes("expected", expected).optional_bytes("wanted", wanted).end();
        }
        Update::Replace { key, wanted } => {
            ObjectFields::begin(out, "replace")
                .bytes("key", key)
                .optional_bytes("wanted", wanted)
                .end();
        }
        Update::Confirm { key, value } => {
            ObjectFields::begin(out, "confirm").bytes("key", key).bytes("value", value).end();
        }
        Update::Assert { key, expected } => {
            ObjectFields::begin(out, "assert")
                .bytes("key", key)
                .optional_bytes("expected", expected)
                .end();
        }
        Update::AssertExists { key } => {
            ObjectFields::begin(out, "assert_exists").bytes("key", key).end()
        }
        Update::AssertRange { prefix, keys } => {
            ObjectFields::begin(out, "assert_range")
                .bytes("prefix", prefix)
                .keys("keys", keys)
                .end();
        }
        Update::AssertVersion { key, version } => {
            let fields = ObjectFields::begin(out, "assert_version").bytes("key", key);
            match version {
                Some(version) => fields.raw("version", version).end(),
                None => fields.raw("version", "null").end(),
            }
        }
        Update::DeletePrefix { prefix } => {
            ObjectFields::begin(out, "delete_prefix").bytes("prefix", prefix).end();
        }
        Update::Read(read) => append_read(out, read),
        Update::Nop => ObjectFields::begin(out, "nop").end(),
        Update::Sequence { steps, mode } => append_sequence(out, steps, *mode),
        other => append_change(out, other),
    }
}

/// Appends an update that depends on the current value.
fn append_change(out: &mut Vec<u8>, update: &Update) {
    match update {
        Update::Add { key, delta } => {
            ObjectFields::begin(out, "add").bytes("key", key).raw("delta", delta).end();
        }
        Update::AddFloat { key, delta } => {
            let delta = format!("{delta:?}");
            ObjectFields::begin(out, "add_float").bytes("key", key).raw("delta", delta).end();
        }
        Update::Append { key, value } => {
            ObjectFields::begin(out, "append").bytes("key", key).bytes("value", value).end();
        }
        Update::SetRange { key, offset, value } => {
            let fields = ObjectFields::begin(out, "set_range").bytes("key", key);
            fields.raw("offset", offset).bytes("value", value).end();
        }
        Update::Rename { from, to, when } => {
            let fields = ObjectFields::begin(out, "rename").bytes("from", from).bytes("to", to);
            fields.when_absent(*when).end();
        }
        Update::Copy { from, to, when } => {
            let fields = ObjectFields::begin(out, "copy").bytes("from", from).bytes("to", to);
            fields.when_absent(*when).end();
        }
        Update::Expire { key, expiry, when } => {
            let when = match when {
                ExpireWhen::Always => "\"always\"",
                ExpireWhen::HasNone => "\"has_none\"",
                ExpireWhen::HasOne => "\"has_one\"",
                ExpireWhen::Later => "\"later\"",
                ExpireWhen::Sooner => "\"sooner\"",
                ExpireWhen::HasLater => "\"has_later\"",
            };
            // The front-end requires the time to live in this step, even the default one.
            let fields = match expiry {
                Expiry::Default => ObjectFields::begin(out, "expire")
                    .bytes("key", key)
                    .raw("ttl_ms", "\"default\""),
                expiry => ObjectFields::begin(out, "expire").bytes("key", key).expiry(*expiry),
            };
            fields.raw("only_when", when).end();
        }
        other => unreachable!("{other:?} is written by its caller"),
    }
}

fn append_set_if(out: &mut Vec<u8>, key: &Key, value: &Value, expiry: Expiry, when: When) {
    let name_json = match when {
        When::Unchanged(version) => {
            let fields = ObjectFields::begin(out, "set_if_version").bytes("key", key);
            fields.bytes("value", value).raw("version", version).expiry(expiry).end();
            return;
        }
        When::Always => "\"always\"",
        When::Absent => "\"absent\"",
        When::Present => "\"present\"",
    };
    let fields = ObjectFields::begin(out, "set_if").bytes("key", key).bytes("value", value);
    fields.raw("when", name_json).expiry(expiry).end();
}

fn append_sequence(out: &mut Vec<u8>, steps: &[Update], mode: SequenceMode) {
    let name_json = match mode {
        SequenceMode::AllOrNothing => "\"all_or_nothing\"",
        SequenceMode::Synced => "\"synced\"",
        SequenceMode::EachAlone => "\"each_alone\"",
        SequenceMode::Batch => "\"batch\"",
    };
    let mut fields = ObjectFields::begin(out, "sequence").raw("mode", name_json);
    fields.name("steps");
    fields.0.push(b'[');
    for (index, step) in steps.iter().enumerate() {
        if index > 0 {
            fields.0.push(b',');
        }
        append_update(fields.0, step);
    }
    fields.0.push(b']');
    fields.end();
}

/// Appends a read as a step.
pub fn append_read(out: &mut Vec<u8>, read: &Read) {
    match read {
        Read::Get(key) => ObjectFields::begin(out, "get").bytes("key", key).end(),
        Read::Exists(keys) => ObjectFields::begin(out, "exists").keys("keys", keys).end(),
        Read::MultiGet(keys) => ObjectFields::begin(out, "multi_get").keys("keys", keys).end(),
        Read::MultiGetAll(keys) => {
            let fields = ObjectFields::begin(out, "multi_get").keys("keys", keys);
            fields.raw("require_all", true).end();
        }
        Read::Range(range) => append_range(out, range),
        Read::KeyCount => ObjectFields::begin(out, "key_count").end(),
        Read::Assert { key, expected } => {
            ObjectFields::begin(out, "assert")
                .bytes("key", key)
                .optional_bytes("expected", expected)
                .end();
        }
        Read::AssertExists(key) => {
            ObjectFields::begin(out, "assert_exists").bytes("key", key).end()
        }
        // No sequence has such steps.
        Read::Index(_) => ObjectFields::begin(out, "index").end(),
        Read::Feed(_) => ObjectFields::begin(out, "feed").end(),
        Read::KeyVersions(_) => ObjectFields::begin(out, "key_versions").end(),
    }
}

fn append_range(out: &mut Vec<u8>, range: &Range) {
    let mut fields = ObjectFields::begin(out, "range");
    match &range.low {
        Bound::Open => {}
        Bound::Included(low) => fields = fields.bytes("from", low),
        Bound::Excluded(low) => fields = fields.bytes("from", low).raw("from_exclusive", true),
    }
    match &range.high {
        Bound::Open => {}
        Bound::Included(high) => fields = fields.bytes("to", high).raw("to_inclusive", true),
        Bound::Excluded(high) => fields = fields.bytes("to", high),
    }
    if range.direction == Direction::Descending {
        fields = fields.raw("reverse", true);
    }
    if let Some(limit) = range.rows_max {
        fields = fields.raw("limit", limit);
    }
    if range.want == RowContent::Keys {
        fields = fields.raw("want", "\"keys\"");
    }
    fields.end();
}

/// Writer of the fields of one JSON object.
struct ObjectFields<'a>(&'a mut Vec<u8>);

impl<'a> ObjectFields<'a> {
    fn begin(out: &'a mut Vec<u8>, operation: &str) -> ObjectFields<'a> {
        out.extend_from_slice(b"{\"op\":\"");
        out.extend_from_slice(operation.as_bytes());
        out.push(b'"');
        ObjectFields(out)
    }

    fn name(&mut self, name: &str) {
        self.0.extend_from_slice(b",\"");
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn bytes(mut self, name: &str, bytes: &[u8]) -> Self {
        self.name(name);
        append_bytes(self.0, bytes);
        self
    }

    fn optional_bytes(mut self, name: &str, bytes: &Option<Value>) -> Self {
        match bytes {
            Some(bytes) => self.bytes(name, bytes),
            None => {
                self.name(name);
                self.0.extend_from_slice(b"null");
                self
            }
        }
    }

    /// Appends a number, `true`, or a string that is quoted already.
    fn raw(mut self, name: &str, text: impl std::fmt::Display) -> Self {
        self.name(name);
        self.0.extend_from_slice(text.to_string().as_bytes());
        self
    }

    fn keys(mut self, name: &str, keys: &[Key]) -> Self {
        self.name(name);
        self.0.push(b'[');
        for (index, key) in keys.iter().enumerate() {
            if index > 0 {
                self.0.push(b',');
            }
            append_bytes(self.0, key);
        }
        self.0.push(b']');
        self
    }

    fn expiry(self, expiry: Expiry) -> Self {
        match expiry {
            Expiry::Default => self,
            Expiry::Keep => self.raw("ttl_ms", "\"keep\""),
            Expiry::Never => self.raw("ttl_ms", "\"never\""),
            Expiry::After(ms) => self.raw("ttl_ms", ms),
        }
    }

    fn when_absent(self, when: When) -> Self {
        if when == When::Absent { self.raw("when", "\"absent\"") } else { self }
    }

    fn end(self) {
        self.0.push(b'}');
    }
}
