//! Routes of join tokens, and of nodes that present one to join or to be repaired.
//!
//! Operators need no token. On listeners that are not for operators, a joining node presents one as
//! `Authorization: Bearer TOKEN` (RFC 6750).

use super::errors::{self, malformed};
use super::json::bodies::read_plain;
use super::render::json_answer;
use super::routes::{For, Gives, HttpRoute, RouteName, Takes, cluster};
use crate::http::{HttpAnswer, Method, StatusCode};
use crate::shared::Shared;
use base::limits::{JOIN_TOKEN_MS_DEFAULT, JOIN_TOKEN_MS_MAX};
use base::{Error, JoinToken, Reason, TokenDigest};

const TOKENS: &str = "/v1/cluster/tokens";
const SCHEME: &[u8] = b"bearer ";

pub const ADD_MEMBER: HttpRoute = HttpRoute {
    audience: For::Joining,
    ..cluster(
        (RouteName::AddMember, Method::Post, "/v1/cluster/members"),
        (Takes::Json("NewMember"), Gives::Json("Joined")),
        "A node joins; it is told whom it joins. Beyond loopback it shows a join token.",
    )
};

pub const REPLACE_MEMBER: HttpRoute = HttpRoute {
    audience: For::Joining,
    ..cluster(
        (RouteName::ReplaceMember, Method::Post, "/v1/cluster/members/{name}/replace"),
        (Takes::MaybeJson("Replacement"), Gives::Nothing),
        "A member's place is taken: by another, or by the next fresh node of its name.",
    )
};

pub const DECIDED_VALUE: HttpRoute = HttpRoute {
    audience: For::Joining,
    ..cluster(
        (RouteName::DecidedValue, Method::Get, "/v1/cluster/groups/{group}/values/{index}"),
        (Takes::Nothing, Gives::Text("application/octet-stream")),
        "A decided value of a group's log, as it stands there: for a member that lost it.",
    )
};

pub const MAKE: HttpRoute = cluster(
    (RouteName::MakeToken, Method::Post, TOKENS),
    (Takes::MaybeJson("NewToken"), Gives::CreatedJson("JoinToken")),
    "Makes a join token, which lets nodes in from beyond loopback; it is told once.",
);

pub const REVOKE: HttpRoute = cluster(
    (RouteName::RevokeTokens, Method::Delete, TOKENS),
    (Takes::Nothing, Gives::Nothing),
    "No join token that was made so far lets anybody in any more.",
);

pub const MAKE_SECRET: HttpRoute = cluster(
    (RouteName::MakeSecret, Method::Post, "/v1/cluster/secret"),
    (Takes::Nothing, Gives::Nothing),
    "Gives a cluster founded by an older version the secret that its members sign their greetings \
     with; asked again it is 503 until every member has it.",
);

/// Returns the digest of the token that a request presents.
pub fn shown(header: Option<&[u8]>) -> Result<TokenDigest, Error> {
    let token = header.and_then(|header| {
        let (scheme, token) = header.split_at_checked(SCHEME.len())?;
        scheme.eq_ignore_ascii_case(SCHEME).then_some(token)
    });
    let token = token.ok_or_else(|| {
        let text = "whoever is no operator shows a join token here: `credenza cluster token` on a \
                    member's machine makes one, and `join_token_file` gives it to the node that \
                    joins";
        Error::new(Reason::Forbidden, text)
    })?;
    JoinToken::parse(token).map(|token| token.digest())
}

/// Returns the requested lifetime of a token in milliseconds. `None`: until all tokens are revoked.
pub fn lifetime(json: &[u8]) -> Result<Option<u64>, Error> {
    let body = if json.is_empty() { api::NewToken::default() } else { read_plain(json)? };
    match (body.standing.unwrap_or(false), body.lifetime_ms) {
        (true, None) => Ok(None),
        (true, Some(_)) => Err(malformed("a standing token has no lifetime: say one of the two")),
        (false, lifetime) => {
            let lifetime_ms = lifetime.map_or(JOIN_TOKEN_MS_DEFAULT, |lifetime| lifetime.0);
            if !(1..=JOIN_TOKEN_MS_MAX).contains(&lifetime_ms) {
                let text = format!("a token's lifetime is 1 to {JOIN_TOKEN_MS_MAX} milliseconds");
                return Err(malformed(text));
            }
            Ok(Some(lifetime_ms))
        }
    }
}

/// Makes a token and returns it in the answer.
pub async fn make(shared: &Shared, lifetime_ms: Option<u64>) -> HttpAnswer {
    match shared.node.make_join_token(lifetime_ms).await {
        Ok(token) => {
            let cluster = shared.node.cluster().cluster.into();
            let token = token.text().to_string();
            let made = api::JoinTokenReply { token, lifetime_ms, cluster };
            json_answer(StatusCode::Created, &made)
        }
        Err(error) => errors::answer(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_from_a_bearer_s_header_alone() {
        let token = JoinToken::of([9; 20]);
        let text = token.text();
        for good in [format!("Bearer {text}"), format!("bearer  {text} ")] {
            assert_eq!(shown(Some(good.as_bytes())), Ok(token.digest()), "{good}");
        }
        let basic = format!("Basic {text}");
        for bad in [None, Some(&b""[..]), Some(b"Bearer"), Some(basic.as_bytes())] {
            let refused = shown(bad).expect_err("no token");
            assert_eq!(refused.reason, Reason::Forbidden, "{refused:?}");
            assert!(refused.text().contains("credenza cluster token"), "{refused:?}");
        }
        assert_eq!(shown(Some(b"Bearer short")).map_err(|e| e.reason), Err(Reason::Malformed));
    }

    #[test]
    fn a_token_stands_only_if_that_is_said() {
        assert_eq!(lifetime(b""), Ok(Some(JOIN_TOKEN_MS_DEFAULT)));
        assert_eq!(lifetime(b"{}"), Ok(Some(JOIN_TOKEN_MS_DEFAULT)));
        assert_eq!(lifetime(b"{\"standing\":false}"), Ok(Some(JOIN_TOKEN_MS_DEFAULT)));
        assert_eq!(lifetime(b"{\"standing\":true}"), Ok(None));
        assert_eq!(lifetime(b"{\"lifetime_ms\":5}"), Ok(Some(5)));
        let bad = ["{\"standing\":true,\"lifetime_ms\":5}", "{\"lifetime_ms\":0}", "{\"for\":1}"];
        let long = format!("{{\"lifetime_ms\":{}}}", JOIN_TOKEN_MS_MAX + 1);
        for bad in bad.into_iter().chain([long.as_str()]) {
            assert!(lifetime(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
