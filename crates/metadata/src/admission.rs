//! Admission of nodes: rows with the digests of the join tokens in force, and the check of a token
//! that a caller presents.
//!
//! A token expires after its lifetime in group time, or when all tokens are revoked. A call with an
//! expired token is refused, whichever node forwarded it. So is a call with a token that has let in
//! as many nodes as it may (`token_uses.rs`).
//!
//! Promises: a caller without a token in force changes nothing; a token admits nodes and gives no
//! other right. A use is counted by the change that lets the node in, so it is never counted twice
//! or lost.
//! Never: stores or sees a token itself.

use super::rows::{TOKENS, assert, set, token_key, token_of};
use super::token_uses::{TokenUses, spent};
use super::{CallPlan, Directory};
use base::limits::JOIN_TOKENS_MAX;
use base::request::{Expiry, OnMissing};
use base::{
    Body, ClusterCall, ClusterDescription, Error, JoinTokenTerms, Key, NodeId, Reason, Result,
    TokenDigest, Update, Value,
};

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
        let (key, row) = self.find_token(digest)?;
        let cluster = self.describe_cluster()?;
        let uses = TokenUses::read(&row)?.after(call, &has_connected(&cluster))?;
        let use_step = uses.map(|uses| set_with_expiry(key.clone(), uses.write(), Expiry::Keep));
        Ok(match (self.plan_members(call)?, use_step) {
            (CallPlan::Change(mut steps), use_step) => {
                steps.insert(0, assert(&key, Some(row)));
                steps.extend(use_step);
                CallPlan::Change(steps)
            }
            // The member is known already, and its answer has the cluster's secret: a use, too.
            (CallPlan::Answer(Body::Done), Some(use_step)) => {
                CallPlan::Change(vec![assert(&key, Some(row)), use_step])
            }
            (plan, _) => plan,
        })
    }

    /// Checks, by the rows that are applied here, that a token is in force and has uses left.
    pub fn check_join_token(&self, digest: &TokenDigest) -> Result<()> {
        let (_, row) = self.find_token(digest)?;
        if TokenUses::read(&row)?.admits_more() { Ok(()) } else { Err(spent()) }
    }

    fn find_token(&self, digest: &TokenDigest) -> Result<(Key, Value)> {
        let is_same =
            |key: &Key| token_of(key).is_some_and(|stored| stored.constant_time_eq(digest));
        let found = self.tokens()?.into_iter().find(|(key, _)| is_same(key));
        found.ok_or_else(not_in_force)
    }

    pub(super) fn plan_token(
        &self,
        digest: &TokenDigest,
        terms: JoinTokenTerms,
    ) -> Result<CallPlan> {
        let cluster = self.describe_cluster()?;
        // Tokens that are used up say so until there is another one.
        let (mut steps, mut valid) = (Vec::new(), 0);
        for (key, row) in self.tokens()? {
            match TokenUses::read(&row)?.is_over(&has_connected(&cluster)) {
                true => steps.push(Update::Delete { key, missing: OnMissing::Skip }),
                false => valid += 1,
            }
        }
        if valid >= JOIN_TOKENS_MAX {
            let text = format!(
                "{JOIN_TOKENS_MAX} join tokens are valid already, the maximum: revoke all with \
                 `credenza cluster token --revoke`"
            );
            return Err(Error::new(Reason::TooMany, text));
        }
        steps.push(set_token_row(digest, terms));
        Ok(CallPlan::Change(steps))
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

/// Returns the step that writes the row of a new join token.
pub(super) fn set_token_row(digest: &TokenDigest, terms: JoinTokenTerms) -> Update {
    let JoinTokenTerms { lifetime_ms, uses } = terms;
    let expiry = lifetime_ms.map_or(Expiry::Never, Expiry::After);
    set_with_expiry(token_key(digest), TokenUses::new(uses).write(), expiry)
}

fn set_with_expiry(key: Key, value: Value, expiry: Expiry) -> Update {
    let mut step = set(key, value);
    if let Update::Set { expiry: row_expiry, .. } = &mut step {
        *row_expiry = expiry;
    }
    step
}

/// Returns a function that returns true for nodes that have connected to the other members, or are
/// no members any more.
fn has_connected(cluster: &ClusterDescription) -> impl Fn(NodeId) -> bool {
    move |node| cluster.member(node).is_none_or(|member| member.incarnation > 0)
}

fn not_in_force() -> Error {
    let text = "this join token is not valid, or no longer valid: create another with `credenza \
                cluster token` on a member's machine";
    Error::new(Reason::Forbidden, text)
}
