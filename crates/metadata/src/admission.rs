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
use base::request::{Expiry, Missing};
use base::{Body, ClusterCall, Error, Key, Reason, Result, TokenDigest, Update, Value};
use bytes::Bytes;

/// Value of a token's row: a form byte, behind which later versions may append fields.
const ROW: &[u8] = &[1];

impl Directory {
    /// Plans a call of a client that presents a join token.
    pub(super) fn plan_shown(&self, digest: &TokenDigest, call: &ClusterCall) -> Result<CallPlan> {
        let may = matches!(
            call,
            ClusterCall::AddMember { .. } | ClusterCall::ReplaceMember { by: None, .. }
        );
        if !may {
            let text = "a join token lets a node in and gives no other right: ask an operator";
            return Err(Error::new(Reason::Forbidden, text));
        }
        let found = self
            .tokens()?
            .into_iter()
            .find(|(key, _)| token_of(key).is_some_and(|known| known.is(digest)));
        let (key, row) = found.ok_or_else(not_in_force)?;
        Ok(match self.plan_members(call)? {
            CallPlan::Change(mut steps) => {
                steps.insert(0, assert(&key, Some(row)));
                CallPlan::Change(steps)
            }
            other => other,
        })
    }

    /// Checks that a token is in force, as far as this node knows.
    pub fn knows(&self, digest: &TokenDigest) -> Result<()> {
        let tokens = self.tokens()?;
        let known = tokens.iter().any(|(key, _)| token_of(key).is_some_and(|it| it.is(digest)));
        if known { Ok(()) } else { Err(not_in_force()) }
    }

    pub(super) fn plan_token(
        &self,
        digest: &TokenDigest,
        lifetime_ms: Option<u64>,
    ) -> Result<CallPlan> {
        if self.tokens()?.len() >= JOIN_TOKENS_MAX {
            let text = format!(
                "{JOIN_TOKENS_MAX} join tokens are in force already: end them all with \
                 `credenza cluster token --revoke`"
            );
            return Err(Error::new(Reason::TooMany, text));
        }
        let expiry = lifetime_ms.map_or(Expiry::Never, Expiry::After);
        Ok(CallPlan::Change(vec![lets_in(digest, expiry)]))
    }

    pub(super) fn plan_revocation(&self) -> Result<CallPlan> {
        let end = |(key, _)| Update::Delete { key, missing: Missing::Skipped };
        let ends: Vec<_> = self.tokens()?.into_iter().map(end).collect();
        Ok(if ends.is_empty() { CallPlan::Answer(Body::Done) } else { CallPlan::Change(ends) })
    }

    /// Returns the rows of the tokens in force.
    fn tokens(&self) -> Result<Vec<(Key, Value)>> {
        let mut tokens = Vec::new();
        self.each(TOKENS, |key, value| {
            tokens.push((key.clone(), value.clone()));
            Ok(())
        })?;
        Ok(tokens)
    }
}

/// Returns the step that writes the row of a join token.
pub(super) fn lets_in(digest: &TokenDigest, expiry: Expiry) -> Update {
    let mut step = set(token_key(digest), Bytes::from_static(ROW));
    if let Update::Set { expiry: until, .. } = &mut step {
        *until = expiry;
    }
    step
}

fn not_in_force() -> Error {
    let text = "this join token lets nobody in, or does no longer: make another with `credenza \
                cluster token` on a member's machine";
    Error::new(Reason::Forbidden, text)
}
