//! Routes of join tokens, and of nodes that present one to join or to be repaired; route of the
//! feature level that admits programs.
//!
//! Operators need no token. On listeners that are not for operators, a joining node presents one as
//! `Authorization: Bearer TOKEN` (RFC 6750).

use super::errors::malformed;
use super::json::bodies::read_plain;
use super::parameters::Parameter;
use super::render::json_answer;
use super::routes::{Admission, HttpRoute, RequestBody, ResponseBody, RouteName, cluster};
use crate::http::{HttpAnswer, Method, StatusCode};
use crate::shared::Shared;
use base::limits::{JOIN_TOKEN_MS_DEFAULT, JOIN_TOKEN_MS_MAX, JOIN_TOKEN_USES_MAX};
use base::{Error, JoinToken, JoinTokenTerms, Principal, Reason, TokenDigest};

const TOKENS: &str = "/v1/cluster/tokens";
const SCHEME: &[u8] = b"bearer ";

pub const RAISE_LEVEL: HttpRoute = cluster(
    (RouteName::RaiseLevel, Method::Post, "/v1/cluster/level"),
    (RequestBody::Json("RaiseLevel"), ResponseBody::Nothing),
    "Raises the feature level, for good, once every member's program knows it.",
);

pub const LIST_MEMBERS: HttpRoute = HttpRoute {
    admission: Admission::JoinToken,
    ..cluster(
        (RouteName::ListMembers, Method::Get, "/v1/cluster/members"),
        (RequestBody::Nothing, ResponseBody::Json("Members")),
        "Lists the members of the cluster and the placement of each group.",
    )
};

pub const ADD_MEMBER: HttpRoute = HttpRoute {
    admission: Admission::JoinToken,
    ..cluster(
        (RouteName::AddMember, Method::Post, "/v1/cluster/members"),
        (RequestBody::Json("NewMember"), ResponseBody::Json("Joined")),
        "Adds a node to the cluster and returns the members; remote callers need a join token.",
    )
};

pub const REPLACE_MEMBER: HttpRoute = HttpRoute {
    admission: Admission::JoinToken,
    query: &[Parameter::Confirm],
    ..cluster(
        (RouteName::ReplaceMember, Method::Post, "/v1/cluster/members/{name}/replace"),
        (RequestBody::MaybeJson("Replacement"), ResponseBody::Nothing),
        "Replaces a member by another member, or by the next new node with its name.",
    )
};

pub const DECIDED_VALUE: HttpRoute = HttpRoute {
    admission: Admission::JoinToken,
    ..cluster(
        (RouteName::DecidedValue, Method::Get, "/v1/cluster/groups/{group}/values/{index}"),
        (RequestBody::Nothing, ResponseBody::Text("application/octet-stream")),
        "Returns a decided entry of a group's log, for a member that lost it.",
    )
};

pub const CREATE: HttpRoute = cluster(
    (RouteName::MakeToken, Method::Post, TOKENS),
    (RequestBody::MaybeJson("NewToken"), ResponseBody::CreatedJson("JoinToken")),
    "Creates a join token for one node on another machine, or for several; the token is returned \
     only once.",
);

pub const REVOKE: HttpRoute = cluster(
    (RouteName::RevokeTokens, Method::Delete, TOKENS),
    (RequestBody::Nothing, ResponseBody::Nothing),
    "Revokes all join tokens created so far.",
);

pub const CREATE_SECRET: HttpRoute = cluster(
    (RouteName::MakeSecret, Method::Post, "/v1/cluster/secret"),
    (RequestBody::Nothing, ResponseBody::Nothing),
    "Creates the cluster secret that authenticates peer connections, in a cluster founded by an \
     older version; returns 503 until every member has it.",
);

/// Returns the digest of the token that a request presents.
pub fn token_digest(header: Option<&[u8]>) -> Result<TokenDigest, Error> {
    let token = header.and_then(|header| {
        let (scheme, token) = header.split_at_checked(SCHEME.len())?;
        scheme.eq_ignore_ascii_case(SCHEME).then_some(token)
    });
    let token = token.ok_or_else(|| {
        let text = "a remote node needs a join token: create one with `credenza cluster token` on \
                    a member's machine and pass it to the joining node with `join_token_file`";
        Error::new(Reason::Forbidden, text)
    })?;
    JoinToken::parse(token).map(|token| token.digest())
}

/// Returns the requested terms of a token: by default it lets in one node within a day.
pub fn terms(json: &[u8]) -> Result<JoinTokenTerms, Error> {
    let body = if json.is_empty() { api::NewToken::default() } else { read_plain(json)? };
    let api::NewToken { lifetime_ms, uses, standing } = body;
    if standing.unwrap_or(false) {
        return match (lifetime_ms, uses) {
            (None, None) => Ok(JoinTokenTerms::STANDING),
            _ => Err(malformed(
                "a standing token has no end: set `standing`, or `lifetime_ms` and `uses`",
            )),
        };
    }
    let lifetime_ms = lifetime_ms.map_or(JOIN_TOKEN_MS_DEFAULT, |lifetime| lifetime.0);
    if !(1..=JOIN_TOKEN_MS_MAX).contains(&lifetime_ms) {
        return Err(malformed(format!("`lifetime_ms` must be 1 to {JOIN_TOKEN_MS_MAX}")));
    }
    let uses = uses.map_or(Some(1), |uses| u32::try_from(uses.0).ok());
    let uses = uses.filter(|uses| (1..=JOIN_TOKEN_USES_MAX).contains(uses));
    let wrong = || malformed(format!("`uses` must be 1 to {JOIN_TOKEN_USES_MAX}"));
    Ok(JoinTokenTerms { lifetime_ms: Some(lifetime_ms), uses: Some(uses.ok_or_else(wrong)?) })
}

/// Makes a token and returns it in the answer.
pub async fn create(
    shared: &Shared,
    principal: &Principal,
    terms: JoinTokenTerms,
) -> Result<HttpAnswer, Error> {
    let (token, terms) = shared.node.make_join_token(principal, terms).await?;
    let JoinTokenTerms { lifetime_ms, uses } = terms;
    let (token, cluster) = (token.text().into(), shared.node.cluster().cluster.into());
    let made = api::JoinTokenReply { token, lifetime_ms, uses, cluster };
    Ok(json_answer(StatusCode::Created, &made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_token_is_read_only_from_a_bearer_header() {
        let token = JoinToken::from_secret([9; 20]);
        let text = token.text();
        for good in [format!("Bearer {text}"), format!("bearer  {text} ")] {
            assert_eq!(token_digest(Some(good.as_bytes())), Ok(token.digest()), "{good}");
        }
        let basic = format!("Basic {text}");
        for bad in [None, Some(&b""[..]), Some(b"Bearer"), Some(basic.as_bytes())] {
            let refused = token_digest(bad).expect_err("no token");
            assert_eq!(refused.reason, Reason::Forbidden, "{refused:?}");
            assert!(refused.text().contains("credenza cluster token"), "{refused:?}");
        }
        assert_eq!(
            token_digest(Some(b"Bearer short")).map_err(|e| e.reason),
            Err(Reason::Malformed)
        );
    }

    #[test]
    fn join_token_has_no_expiry_only_if_standing_is_true() {
        let lifetime = |json: &[u8]| terms(json).map(|terms| terms.lifetime_ms);
        assert_eq!(lifetime(b""), Ok(Some(JOIN_TOKEN_MS_DEFAULT)));
        assert_eq!(lifetime(b"{}"), Ok(Some(JOIN_TOKEN_MS_DEFAULT)));
        assert_eq!(lifetime(b"{\"standing\":false}"), Ok(Some(JOIN_TOKEN_MS_DEFAULT)));
        assert_eq!(lifetime(b"{\"standing\":true}"), Ok(None));
        assert_eq!(lifetime(b"{\"lifetime_ms\":5}"), Ok(Some(5)));
        let bad = ["{\"standing\":true,\"lifetime_ms\":5}", "{\"lifetime_ms\":0}", "{\"for\":1}"];
        let long = format!("{{\"lifetime_ms\":{}}}", JOIN_TOKEN_MS_MAX + 1);
        for bad in bad.into_iter().chain([long.as_str()]) {
            assert!(terms(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn join_token_is_for_one_node_unless_its_number_of_uses_is_given() {
        let uses = |json: &str| terms(json.as_bytes()).map(|terms| terms.uses);
        assert_eq!(uses(""), Ok(Some(1)));
        assert_eq!(uses("{\"lifetime_ms\":5}"), Ok(Some(1)));
        assert_eq!(uses("{\"uses\":3}"), Ok(Some(3)));
        let largest = format!("{{\"uses\":{JOIN_TOKEN_USES_MAX}}}");
        assert_eq!(uses(&largest), Ok(Some(JOIN_TOKEN_USES_MAX)));
        assert_eq!(uses("{\"standing\":true}"), Ok(None));
        let larger = format!("{{\"uses\":{}}}", JOIN_TOKEN_USES_MAX + 1);
        for bad in ["{\"uses\":0}", &larger, "{\"standing\":true,\"uses\":2}"] {
            assert!(uses(bad).is_err(), "{bad}");
        }
    }
}
