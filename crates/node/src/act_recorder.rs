//! Recorder of acts: what of requests, acts of operators and logins goes into the audit log.
//! `recorded_requests.rs` asks it.
//!
//! A client's request is recorded where it enters, with its outcome. A refusal is recorded by the
//! node that decided it, which may be another one. What a node does for itself is not recorded.
//!
//! An act that needs `secure` is written to the disk before it is done, as allowed, and once more
//! with its outcome. Everything else never waits for the audit log.

use crate::settings::NodeSettings;
use audit_log::{AuditOutcome, AuditRecord, AuditTrail, FloodKind, KEYS_MAX};
use base::access::{Login, Origin, Verb};
use base::rights::{AuditClass, KeySet, Need, Operate};
use base::{Call, ClusterCall, DirectoryCall, Error, Kind, Principal, Reply, Request, Result};
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

/// Request that is recorded when it is done.
pub(crate) struct RecordedRequest {
    pub record: AuditRecord,
    pub class: AuditClass,
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

    /// Returns what is to be recorded of a client's request. `None`: nothing.
    #[inline]
    pub(crate) fn recorded(
        &self,
        principal: &Principal,
        request: &Request,
    ) -> Option<RecordedRequest> {
        match &request.call {
            Call::Directory(call) => self.recorded_act(principal, request, call),
            _ => None,
        }
    }

    fn recorded_act(
        &self,
        principal: &Principal,
        request: &Request,
        call: &DirectoryCall,
    ) -> Option<RecordedRequest> {
        let class = request.audit_class();
        if class < AuditClass::Act || *principal == Principal::Node || self.trail.is_off() {
            return None;
        }
        let mut record = self.record_of(principal, request);
        record.target = call.audit_target();
        if let DirectoryCall::Cluster(ClusterCall::WithToken { .. }) = call {
            record.who = TOKEN_HOLDER.into();
        }
        Some(RecordedRequest { record, class })
    }

    /// Returns the record of a request, without its outcome.
    fn record_of(&self, principal: &Principal, request: &Request) -> AuditRecord {
        let mut record = self.record_by(principal);
        record.operation = request.operation_name();
        record.scope = request.audit_scope();
        // The visitor never fails.
        let _ = request.needs(&mut |need| {
            if let Need::Keys(_, bucket, KeySet::One(key)) = need {
                self.add_key(&mut record, bucket.full(), key);
            }
            Ok(())
        });
        record
    }

    fn add_key(&self, record: &mut AuditRecord, bucket: &str, key: &[u8]) {
        if record.keys.len() == KEYS_MAX {
            record.more_keys += 1;
            return;
        }
        // Several needs may be about one key.
        let digest = self.trail.key_digest(bucket, key);
        if !record.keys.contains(&digest) {
            record.keys.push(digest);
        }
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
    #[cold]
    pub(crate) fn on_need_refused(&self, principal: &Principal, need: &Need<'_>, error: &Error) {
        if self.trail.is_off() {
            return;
        }
        let (operation, scope) = (need.verb().map_or("member", Verb::name), need.scope());
        let outcome = AuditOutcome::Denied(error.reason);
        let mut record = AuditRecord { operation, scope, outcome, ..self.record_by(principal) };
        if let Need::Keys(_, bucket, KeySet::One(key)) = need {
            self.add_key(&mut record, bucket.full(), key);
        }
        self.trail.record_bounded(FloodKind::Refusal, record);
    }

    /// Records an act of an operator that was decided. Fails if it was refused, or must not be done
    /// unrecorded.
    pub(crate) fn on_act(
        &self,
        principal: &Principal,
        act: Operate,
        decided: Result<()>,
    ) -> Result<()> {
        if *principal == Principal::Node || self.trail.is_off() {
            return decided;
        }
        let verb = act.needs().verb();
        // Those that read status and metrics ask each second; and of calls that follow, each has
        // its own line.
        if decided.is_ok() && (verb == Some(Verb::Watch) || act == Operate::ChangeAccess) {
            return Ok(());
        }
        self.record_act(self.record_by(principal), act, decided)
    }

    /// Does the same for an act of a caller with a join token, which was checked.
    pub(crate) fn on_act_with_token(
        &self,
        caller: &Principal,
        act: Operate,
        checked: Result<()>,
    ) -> Result<()> {
        if self.trail.is_off() {
            return checked;
        }
        let by = AuditRecord { who: TOKEN_HOLDER.into(), ..self.record_by(caller) };
        self.record_act(by, act, checked)
    }

    fn record_act(&self, by: AuditRecord, act: Operate, decided: Result<()>) -> Result<()> {
        let (operation, scope) = (act.operation_name(), "cluster".into());
        let record = AuditRecord { operation, scope, ..by };
        if let Err(error) = decided {
            let record = AuditRecord { outcome: AuditOutcome::Denied(error.reason), ..record };
            self.trail.record_bounded(FloodKind::Refusal, record);
            return Err(error);
        }
        if act.needs().verb() == Some(Verb::Secure) {
            self.trail.check()?;
        }
        self.trail.record(AuditRecord { outcome: AuditOutcome::Allowed, ..record });
        Ok(())
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

    /// Records the outcome of a request.
    pub(crate) fn finish(&self, recorded: RecordedRequest, result: &Result<Reply>) {
        let RecordedRequest { record, class } = recorded;
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
            Ok(_) => self.write(class, AuditRecord { outcome: AuditOutcome::Done, ..record }),
        }
    }

    fn write(&self, class: AuditClass, record: AuditRecord) {
        match class {
            AuditClass::Act | AuditClass::Secure => self.trail.record(record),
            AuditClass::View | AuditClass::Read | AuditClass::Write => {
                self.trail.record_operation(record);
            }
        }
    }
}
