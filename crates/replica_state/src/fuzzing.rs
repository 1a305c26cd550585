//! Fuzzing: what must hold of kept rows, snapshots and comparisons, whatever their bytes are. Only
//! the crate `fuzz` builds this.

use crate::comparison::message::{ComparisonAnswer, ComparisonQuestion};
use crate::layout::{self, Mark, RowHead, StoredRow, StoredSession};
use bytes::Bytes;

pub use crate::snapshot::fuzzing::{message as snapshot_message, parts as snapshot_parts};

/// Decodes bytes as a row.
pub fn row(bytes: &Bytes) {
    let Ok(row) = StoredRow::read(bytes) else { return };
    let mut again = Vec::new();
    let tags = row.tags.map(|tags| tags.encode()).unwrap_or_default();
    RowHead { version: row.version, expires: row.expires, tags: &tags }.write(&mut again);
    again.extend_from_slice(&row.value);
    assert_eq!(again, bytes[..], "a row has one form");
}

/// Decodes bytes as a session.
pub fn session(bytes: &Bytes) {
    let Ok(session) = StoredSession::read(bytes) else { return };
    assert_eq!(StoredSession::read(&session.write()), Ok(session));
    assert!(session.expires() >= session.used);
}

/// Decodes bytes as a configuration.
pub fn configuration(bytes: &Bytes) {
    let Ok((base, configuration)) = layout::read_configuration(bytes) else { return };
    let again = layout::write_configuration(base, &configuration);
    assert_eq!(layout::read_configuration(&again), Ok((base, configuration)));
}

/// Decodes bytes as an applied mark, and as keys.
pub fn mark_and_keys(bytes: &Bytes) {
    if let Ok(mark) = Mark::read(bytes) {
        assert_eq!(Mark::read(&mark.write()), Ok(mark));
    }
    let _ = (layout::read_expiry_key(bytes), layout::read_witness_entry_key(bytes));
}

/// Decodes bytes as a question and as an answer about replicas.
pub fn comparison(bytes: &Bytes) {
    if let Ok(question) = ComparisonQuestion::read(bytes) {
        assert_eq!(question.write(), bytes, "a question has one form");
    }
    if let Ok(answer) = ComparisonAnswer::read(bytes) {
        assert_eq!(ComparisonAnswer::read(&answer.write()), Ok(answer));
    }
}
