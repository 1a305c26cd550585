//! Recorder of acts: what of requests, acts of operators and logins goes into the audit log.
//! `recorded_requests.rs` asks it.
//!
//! A client's request is recorded where it enters, with its outcome: an act always, an operation on
//! keys if the bucket's property `audit` says so. A refusal is recorded by the node that decided
//! it, which may be another one. What a node does for itself is not recorded.
//!
//! Promises: an act that needs `secure` is written to the disk before it is done, as allowed, and
//! once more with its outcome; whatever began has a line, also if its caller has gone.
//! Never: makes anything else wait for the audit log; writes a key or a value.
//! Read next: `recorded_act.rs`, `pending_records.rs`, `key_list.rs`.

mod key_list;
mod pending_records;
mod recorded_act;

pub(crate) use pending_records::{PendingRecord, PendingRecords};
pub use recorded_act::RecordedAct;

use crate::flow::Flow;
use crate::settings::NodeSettings;
use audit_log::{AuditOutcome, AuditRecord, AuditTrail, FloodKind};
use base::access::{Login, Origin, Verb};
use base::rights::{AuditClass, Need, Operate};
use base::{
    BucketAudit, BucketName, Call, ClusterCall, DirectoryCall, Error, Kind, Principal, Reason,
    Request, Result,
};
use key_list::KeyList;
use metadata::catalog::Catalog;
use replica_host::OpenDataDir;
use std::net::IpAddr;
use std::sync::Arc;

/// Name of the audit log's folder in the data directory.
const FOLDER: &str = "audit";

/// Name of whoever presents a join token.
const TOKEN_HOLDER: &str = "(join token)";

/// See the head of this file.
pub(crate) struct ActRecorder {
    pub trail: AuditTrail,
    catalog: Arc<Catalog>,
}

impl ActRecorder {
    /// Returns the recorder of a node. Without a data directory it records nothing.
    pub(crate) fn new(
        settings: &NodeSettings,
        catalog: &Arc<Catalog>,
        data: &OpenDataDir,
    ) -> Arc<ActRecorder> {
        let folder = data.get().as_ref().map(|data| data.path.join(FOLDER));
        let trail = AuditTrail::new(folder, settings.audit_log);
        Arc::new(ActRecorder { trail, catalog: catalog.clone() })
    }

    /// Returns what is to be recorded of a client's call to the directory. `None`: nothing, or it
    /// is an operation on keys, whose bucket is not looked up yet.
    #[inline]
    pub(crate) fn recorded(
        self: &Arc<ActRecorder>,
        principal: &Principal,
        request: &Request,
    ) -> Option<RecordedAct> {
        match &request.call {
            Call::Directory(call) => self.recorded_act(principal, request, call),
            _ => None,
        }
    }

    fn recorded_act(
        self: &Arc<ActRecorder>,
        principal: &Principal,
        request: &Request,
        call: &DirectoryCall,
    ) -> Option<RecordedAct> {
        let class = request.audit_class();
        if class < AuditClass::Act || *principal == Principal::Node || self.trail.is_off() {
            return None;
        }
        let mut record = self.record_of(principal, request);
        record.target = call.audit_target();
        if let DirectoryCall::Cluster(ClusterCall::WithToken { .. }) = call {
            record.who = TOKEN_HOLDER.into();
        }
        Some(RecordedAct::new(self, record, class))
    }

    /// Returns what is to be recorded of a request for keys of a bucket with this property. `None`:
    /// nothing, or it has entered the cluster elsewhere.
    #[cold]
    pub(crate) fn recorded_operation(
        self: &Arc<ActRecorder>,
        flow: &Flow,
        request: &Request,
        audit: BucketAudit,
    ) -> Option<RecordedAct> {
        let class = self.operation_class(flow, request, audit)?;
        Some(RecordedAct::new(self, self.record_of(flow.principal(), request), class))
    }

    /// Returns the class of a request for keys that is to be recorded.
    fn operation_class(
        &self,
        flow: &Flow,
        request: &Request,
        audit: BucketAudit,
    ) -> Option<AuditClass> {
        let is_of_client = flow.enters_here() && *flow.principal() != Principal::Node;
        if !is_of_client || self.trail.is_off() {
            return None;
        }
        Some(request.audit_class()).filter(|class| class.is_recorded(audit))
    }

    /// Returns the property `audit` of a bucket. `None`: there is no such bucket here.
    pub(crate) fn audit_of(&self, bucket: &BucketName) -> Option<BucketAudit> {
        match self.catalog.find(bucket) {
            Some(bucket) => Some(bucket.properties.audit),
            None => self.catalog.available.find(bucket).map(|properties| properties.audit),
        }
    }

    /// Records a request for keys that was not admitted, for a reason other than its rights. It has
    /// cost its caller nothing, so such lines are bounded like refusals.
    #[cold]
    pub(crate) fn on_unadmitted(&self, flow: &Flow, request: &Request, error: &Error) {
        if matches!(request.call, Call::Directory(_)) {
            return;
        }
        let audit = self.audit_of(&request.bucket).unwrap_or(BucketAudit::Off);
        if self.operation_class(flow, request, audit).is_some() {
            let outcome = AuditOutcome::Failed(error.reason);
            let record = AuditRecord { outcome, ..self.record_of(flow.principal(), request) };
            self.trail.record_bounded(FloodKind::Refusal, record);
        }
    }

    /// Returns the record of a request, without its outcome.
    fn record_of(&self, principal: &Principal, request: &Request) -> AuditRecord {
        let mut record = self.record_by(principal);
        record.operation = request.operation_name();
        record.scope = request.audit_scope();
        record.steps = request.step_counts();
        let mut list = KeyList::new(&self.trail);
        // The visitor never fails.
        let _ = request.needs(&mut |need| {
            list.add(&need);
            Ok(())
        });
        (record.keys, record.more_keys) = (list.digests, list.more);
        record
    }

    /// Returns a record of a principal.
    fn record_by(&self, principal: &Principal) -> AuditRecord {
        let Origin { protocol, address } = principal.listener().origin;
        let protocol = match principal {
            Principal::LocalOperator => "local",
            // Another node has passed it on.
            _ if protocol.is_empty() => "peer",
            _ => protocol,
        };
        let who = match principal {
            Principal::Node => "(node)",
            Principal::LocalOperator => "(local)",
            Principal::Anonymous(_) => "(anonymous)",
            Principal::User(login, _) => login.user.as_str(),
        };
        let token = match principal {
            Principal::User(login, _) => self.token_label(login),
            _ => None,
        };
        AuditRecord { who: who.into(), token, protocol, address, ..AuditRecord::default() }
    }

    fn token_label(&self, login: &Login) -> Option<String> {
        let digest = login.token.as_ref()?;
        let account = self.catalog.access.token(digest);
        Some(account.map_or_else(|| "(revoked)".into(), |account| account.label))
    }

    /// Records that a request was refused.
    #[cold]
    pub(crate) fn on_refusal(&self, principal: &Principal, request: &Request, error: &Error) {
        if self.trail.is_off() {
            return;
        }
        let outcome = AuditOutcome::Denied(error.reason);
        let record = AuditRecord { outcome, ..self.record_of(principal, request) };
        self.trail.record_bounded(FloodKind::Refusal, record);
    }

    /// Records that a request was refused before it was known whole: what it needed at least.
    /// `operation`: `None`, if only its body says what it asks.
    #[cold]
    pub(crate) fn on_need_refused(
        &self,
        principal: &Principal,
        operation: Option<&'static str>,
        need: &Need<'_>,
        error: &Error,
    ) {
        if self.trail.is_off() {
            return;
        }
        let verb = || need.verb().map_or("member", Verb::name);
        let (operation, scope) = (operation.unwrap_or_else(verb), need.scope());
        let outcome = AuditOutcome::Denied(error.reason);
        let mut list = KeyList::new(&self.trail);
        list.add(need);
        let record = self.record_by(principal);
        let record = AuditRecord { operation, scope, keys: list.digests, outcome, ..record };
        self.trail.record_bounded(FloodKind::Refusal, record);
    }

    /// Records that a front-end refused what never became a request. `scope`: empty, if it is about
    /// nothing in particular.
    #[cold]
    pub(crate) fn on_front_end_refusal(
        &self,
        principal: &Principal,
        operation: &'static str,
        scope: String,
        reason: Reason,
    ) {
        if self.trail.is_off() {
            return;
        }
        let outcome = AuditOutcome::Denied(reason);
        let record = AuditRecord { operation, scope, outcome, ..self.record_by(principal) };
        self.trail.record_bounded(FloodKind::Refusal, record);
    }

    /// Records an act of an operator that was decided, as far as that is known before it is done.
    /// Fails if it was refused, or must not be done unrecorded.
    pub(crate) fn on_act(
        self: &Arc<ActRecorder>,
        principal: &Principal,
        act: Operate,
        decided: Result<()>,
    ) -> Result<RecordedAct> {
        if *principal == Principal::Node || self.trail.is_off() {
            return decided.map(|()| RecordedAct::UNRECORDED);
        }
        let verb = act.needs().verb();
        // Those that read status and metrics ask each second; and of calls that follow, each has
        // its own line.
        if decided.is_ok() && (verb == Some(Verb::Watch) || act == Operate::ChangeAccess) {
            return Ok(RecordedAct::UNRECORDED);
        }
        self.record_act(self.record_by(principal), act, decided)
    }

    /// Does the same for an act of a caller with a join token, which was checked.
    pub(crate) fn on_act_with_token(
        self: &Arc<ActRecorder>,
        caller: &Principal,
        act: Operate,
        checked: Result<()>,
    ) -> Result<RecordedAct> {
        if self.trail.is_off() {
            return checked.map(|()| RecordedAct::UNRECORDED);
        }
        let by = AuditRecord { who: TOKEN_HOLDER.into(), ..self.record_by(caller) };
        self.record_act(by, act, checked)
    }

    fn record_act(
        self: &Arc<ActRecorder>,
        by: AuditRecord,
        act: Operate,
        decided: Result<()>,
    ) -> Result<RecordedAct> {
        let (operation, scope) = (act.operation_name(), "cluster".into());
        let record = AuditRecord { operation, scope, ..by };
        if let Err(error) = decided {
            let record = AuditRecord { outcome: AuditOutcome::Denied(error.reason), ..record };
            self.trail.record_bounded(FloodKind::Refusal, record);
            return Err(error);
        }
        if act.needs().verb() != Some(Verb::Secure) {
            return Ok(RecordedAct::new(self, record, AuditClass::Act));
        }
        self.trail.check()?;
        let mut act = RecordedAct::new(self, record, AuditClass::Secure);
        if let Some(allowed) = act.announcement() {
            self.trail.record(allowed);
        }
        Ok(act)
    }

    /// Records a login. `presented`: the name that the caller presented. A name of no user may be a
    /// password in the wrong place, and is not written.
    pub(crate) fn on_login(
        &self,
        presented: &[u8],
        address: Option<IpAddr>,
        login: &Result<Arc<Login>>,
    ) {
        let record = |who: &str, token, outcome| {
            let (who, operation) = (who.into(), "login");
            AuditRecord { who, token, address, operation, outcome, ..AuditRecord::default() }
        };
        match login {
            Ok(login) => {
                let record = record(&login.user, self.token_label(login), AuditOutcome::Done);
                self.trail.record_bounded(FloodKind::Login, record);
            }
            Err(error) if error.reason == base::Reason::Overloaded => {}
            Err(error) => {
                let name = std::str::from_utf8(presented).ok();
                let name = name.filter(|name| self.catalog.access.user(name).is_some());
                let outcome = AuditOutcome::Denied(error.reason);
                let record = record(name.unwrap_or("(unknown)"), None, outcome);
                self.trail.record_bounded(FloodKind::Refusal, record);
            }
        }
    }

    /// Records the outcome of an act or operation.
    pub(crate) fn finish(
        &self,
        class: AuditClass,
        record: AuditRecord,
        result: std::result::Result<(), &Error>,
    ) {
        match result {
            // The node that this one passed it on to refused it, or its join token is wrong.
            Err(error) if error.kind() == Kind::Denied => {
                let record = AuditRecord { outcome: AuditOutcome::Denied(error.reason), ..record };
                self.trail.record_bounded(FloodKind::Refusal, record);
            }
            Err(error) => {
                let outcome = AuditOutcome::Failed(error.reason);
                self.write(class, AuditRecord { outcome, ..record });
            }
            Ok(()) => self.write(class, AuditRecord { outcome: AuditOutcome::Done, ..record }),
        }
    }

    pub(crate) fn write(&self, class: AuditClass, record: AuditRecord) {
        match class {
            AuditClass::Act | AuditClass::Secure => self.trail.record(record),
            AuditClass::View | AuditClass::Read | AuditClass::Write => {
                self.trail.record_operation(record);
            }
        }
    }
}
