//! Admission of nodes: rows with the digests of the join tokens in force, and the check of a token
//! that a caller presents.
//!
//! A token expires after its lifetime in group time, or when all tokens are revoked. A call with an
//! expired token is refused, whichever node forwarded it.
//!
//! Promises: a caller without a token in force changes nothing; a token admits nodes and gives no
//! other right.
//! Never: stores or sees a token itself.

use super::rows::{TOKENS, assert, set, token_key, token_of};
use super::{CallPlan, Directory};
use base::limits::JOIN_TOKENS_MAX;
use base::request::{Expiry, OnMissing};
use base::{Body, ClusterCall, Error, Key, Reason, Result, TokenDigest, Update, Value};
use bytes::Bytes;

/// Value of a token's row: a form byte, behind which later versions may append fields.
const ROW: &[u8] = &[1];

impl Directory {
    /// Plans a call of a client that presents a join token.
    pub(super) fn plan_with_token(
        &self,
        digest: &TokenDigest,
        call: &ClusterCall,
    ) -> Result<CallPlan> {
        let is_allowed = matches!(
            call,
            // A member whose data are damaged asks whether the others are a majority.
            ClusterCall::AddMember { .. }
                | ClusterCall::ReplaceMember { by: None, .. }
                | ClusterCall::Describe
        );
        if !is_allowed {
            let text = "a join token only allows a node to join: use the operators' address for \
                        other requests";
            return Err(Error::new(Reason::Forbidden, text));
        }
        let found = self
            .tokens()?
            .into_iter()
            .find(|(key, _)| token_of(key).is_some_and(|stored| stored.constant_time_eq(digest)));
        let (key, row) = found.ok_or_else(not_in_force)?;
        Ok(match self.plan_members(call)? {
            CallPlan::Change(mut steps) => {
                steps.insert(0, assert(&key, Some(row)));
                CallPlan::Change(steps)
            }
            other => other,
        })
    }

    /// Checks that a token is in force by the rows that are applied here.
    pub fn check_join_token(&self, digest: &TokenDigest) -> Result<()> {
        let tokens = self.tokens()?;
        let is_valid = tokens
            .iter()
            .any(|(key, _)| token_of(key).is_some_and(|stored| stored.constant_time_eq(digest)));
        if is_valid { Ok(()) } else { Err(not_in_force()) }
    }

    pub(super) fn plan_token(
        &self,
        digest: &TokenDigest,
        lifetime_ms: Option<u64>,
    ) -> Result<CallPlan> {
        if self.tokens()?.len() >= JOIN_TOKENS_MAX {
            let text = format!(
                "{JOIN_TOKENS_MAX} join tokens are valid already, the maximum: revoke all with \
                 `credenza cluster token --revoke`"
            );
            return Err(Error::new(Reason::TooMany, text));
        }
        let expiry = lifetime_ms.map_or(Expiry::Never, Expiry::After);
        Ok(CallPlan::Change(vec![set_token_row(digest, expiry)]))
    }

    pub(super) fn plan_revocation(&self) -> Result<CallPlan> {
        let delete_token = |(key, _)| Update::Delete { key, missing: OnMissing::Skip };
        let deletes: Vec<_> = self.tokens()?.into_iter().map(delete_token).collect();
        Ok(if deletes.is_empty() {
            CallPlan::Answer(Body::Done)
        } else {
            CallPlan::Change(deletes)
        })
    }

    /// Returns the rows of the tokens in force.
    fn tokens(&self) -> Result<Vec<(Key, Value)>> {
        let mut tokens = Vec::new();
        self.for_each_row(TOKENS, |key, value| {
            tokens.push((key.clone(), value.clone()));
            Ok(())
        })?;
        Ok(tokens)
    }
}

/// Returns the step that writes the row of a join token.
pub(super) fn set_token_row(digest: &TokenDigest, expiry: Expiry) -> Update {
    let mut step = set(token_key(digest), Bytes::from_static(ROW));
    if let Update::Set { expiry: row_expiry, .. } = &mut step {
        *row_expiry = expiry;
    }
    step
}

fn not_in_force() -> Error {
    let text = "this join token is not valid, or no longer valid: create another with `credenza \
                cluster token` on a member's machine";
    Error::new(Reason::Forbidden, text)
}
