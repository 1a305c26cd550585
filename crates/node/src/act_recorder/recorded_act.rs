//! Act or operation that was allowed, until its outcome is in the audit log.

use super::ActRecorder;
use audit_log::{AuditOutcome, AuditRecord};
use base::rights::AuditClass;
use base::{BucketAudit, BucketName, Result};
use std::fmt;
use std::sync::Arc;

/// Act or operation that was allowed, until its outcome is in the audit log. Dropped without an
/// outcome, it is recorded as allowed: its caller has gone, and nobody knows what became of it.
#[must_use = "its outcome belongs in the audit log"]
pub struct RecordedAct {
    /// `None`: nothing is recorded.
    open: Option<Box<OpenRecord>>,
}

struct OpenRecord {
    recorder: Arc<ActRecorder>,
    record: AuditRecord,
    class: AuditClass,
    /// True if a line on disk says already that it is allowed.
    is_announced: bool,
    /// Bucket that was unknown when the operation began: whether it is recorded shows later.
    unknown_bucket: Option<BucketName>,
}

impl RecordedAct {
    /// Act of which nothing is recorded.
    pub const UNRECORDED: RecordedAct = RecordedAct { open: None };

    /// Returns an act with its record, which has no outcome yet.
    pub(crate) fn new(
        recorder: &Arc<ActRecorder>,
        record: AuditRecord,
        class: AuditClass,
    ) -> RecordedAct {
        let (recorder, is_announced, unknown_bucket) = (recorder.clone(), false, None);
        let open = OpenRecord { recorder, record, class, is_announced, unknown_bucket };
        RecordedAct { open: Some(Box::new(open)) }
    }

    /// Returns an operation on a bucket that is unknown here as yet.
    pub(crate) fn of_unknown_bucket(mut self, bucket: &BucketName) -> RecordedAct {
        if let Some(open) = &mut self.open {
            open.unknown_bucket = Some(bucket.clone());
        }
        self
    }

    /// Returns true if the act needs `secure`: it waits until it is in the audit log.
    pub(crate) fn is_secure(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.class == AuditClass::Secure)
    }

    /// Returns the record that says that the act is allowed. From then on it has a line of its own
    /// for its outcome.
    pub(crate) fn announcement(&mut self) -> Option<AuditRecord> {
        let open = self.open.as_mut()?;
        open.is_announced = true;
        Some(AuditRecord { outcome: AuditOutcome::Allowed, ..open.record.clone() })
    }

    /// Resolves when the act may be done: one that needs `secure` is in the audit log, on disk.
    /// Errors: `OutOfSpace`, the act must not be done.
    pub async fn confirm(&self) -> Result<()> {
        match &self.open {
            Some(open) if open.class == AuditClass::Secure => open.recorder.trail.sync().await,
            _ => Ok(()),
        }
    }

    /// Records nothing: it is not done, or what was to be recorded is recorded elsewhere.
    pub fn withdraw(mut self) {
        self.open = None;
    }

    /// Records that it is done.
    pub fn done(self) {
        self.finish(&Ok(()));
    }

    /// Records the outcome.
    pub fn finish<T>(mut self, result: &Result<T>) {
        let Some(open) = self.open.take() else { return };
        if open.is_to_be_recorded() {
            let OpenRecord { recorder, record, class, .. } = *open;
            recorder.finish(class, record, result.as_ref().map(|_| ()));
        }
    }
}

impl OpenRecord {
    fn is_to_be_recorded(&self) -> bool {
        let audit = |bucket| self.recorder.audit_of(bucket).unwrap_or(BucketAudit::Off);
        self.unknown_bucket.as_ref().is_none_or(|bucket| self.class.is_recorded(audit(bucket)))
    }
}

impl Drop for RecordedAct {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        if !open.is_announced && open.is_to_be_recorded() {
            let OpenRecord { recorder, record, class, .. } = *open;
            recorder.write(class, AuditRecord { outcome: AuditOutcome::Allowed, ..record });
        }
    }
}

impl fmt::Debug for RecordedAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = self.open.as_ref().map(|open| open.record.operation);
        f.debug_tuple("RecordedAct").field(&operation).finish()
    }
}
