//! Naive model of rights: what the documents say that an operation needs, as samples of keys, and a
//! filter over the grants of a user. It shares nothing with the product's table.

/// Key within the granted prefix, and a second one.
pub const INSIDE: &str = "p-1";
pub const INSIDE_TOO: &str = "p-2";
/// Key outside of it.
pub const OUTSIDE: &str = "q-1";
/// Granted prefix.
pub const PREFIX: &str = "p-";
/// Bucket that never exists, so that whoever may drop it destroys nothing.
pub const DROPPED: &str = "default/dropped";

/// Scope of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantScope {
    Cluster,
    Type(&'static str),
    Bucket(&'static str),
    Prefix(&'static str, &'static str),
}

/// Grant of a role: verbs, separated by commas, on a scope.
pub type RoleGrant = (&'static str, GrantScope);

/// User of the matrix, named after its role, with the grants that the role has. Roles without
/// grants of their own here are built in.
pub struct MatrixUser {
    pub name: &'static str,
    pub is_built_in: bool,
    pub grants: &'static [RoleGrant],
}

use GrantScope::{Bucket, Cluster, Prefix, Type};

const ALL: &str = "read,write,list,call,own,watch,operate,place,secure";
const DATA: &str = "read,write,list,call,own";

const fn built_in(name: &'static str, grants: &'static [RoleGrant]) -> MatrixUser {
    MatrixUser { name, is_built_in: true, grants }
}

const fn custom(name: &'static str, grants: &'static [RoleGrant]) -> MatrixUser {
    MatrixUser { name, is_built_in: false, grants }
}

/// All users; the administrator is last.
pub static USERS: [MatrixUser; 13] = [
    custom("nobody", &[]),
    built_in("monitor", &[("watch", Cluster)]),
    built_in("operator", &[("watch,operate,place", Cluster)]),
    built_in("reader", &[("read,list", Cluster)]),
    built_in("writer", &[("read,write,list,call", Cluster)]),
    custom("keeper", &[("secure", Cluster)]),
    custom("type-owner", &[(DATA, Type("default")), (DATA, Type("available"))]),
    custom(
        "owner",
        &[
            (DATA, Bucket("default/default")),
            (DATA, Bucket("available/m")),
            (DATA, Bucket("arakoon/m")),
            ("own", Bucket(DROPPED)),
        ],
    ),
    custom(
        "prefix",
        &[
            ("read,write,list", Prefix("default/default", PREFIX)),
            ("read,write,list", Prefix("available/m", PREFIX)),
            ("read,write,list", Prefix("arakoon/m", PREFIX)),
        ],
    ),
    custom("only-read", &[("read", Bucket("default/default")), ("read", Bucket("available/m"))]),
    custom("only-write", &[("write", Bucket("default/default")), ("write", Bucket("available/m"))]),
    custom("only-list", &[("list", Bucket("default/default")), ("list", Bucket("available/m"))]),
    built_in("admin", &[(ALL, Cluster)]),
];

/// Place that an operation is tried at.
#[derive(Clone, Copy, Debug)]
pub struct MatrixTarget {
    /// `TYPE/BUCKET`.
    pub bucket: &'static str,
    pub key: &'static str,
    /// Prefix of ranges.
    pub prefix: &'static str,
}

/// Returns the three places of a bucket that users have rights in, and of another one: a key and a
/// range within the granted prefix, both beyond it, and the other bucket.
pub fn targets(granted: &'static str, other: &'static str) -> [MatrixTarget; 3] {
    [
        MatrixTarget { bucket: granted, key: INSIDE, prefix: PREFIX },
        MatrixTarget { bucket: granted, key: OUTSIDE, prefix: "p" },
        MatrixTarget { bucket: other, key: INSIDE, prefix: PREFIX },
    ]
}

/// Need of an operation: `VERB:WHAT`, as the tables of operations spell it.
#[derive(Clone, Copy, Debug)]
pub struct NamedNeed {
    verb: &'static str,
    what: &'static str,
}

impl NamedNeed {
    pub fn parse(text: &'static str) -> NamedNeed {
        let (verb, what) = text.split_once(':').expect("VERB:WHAT");
        NamedNeed { verb, what }
    }

    /// Returns true if one of the grants covers the need at this place.
    fn is_covered(&self, grants: &[RoleGrant], target: &MatrixTarget) -> bool {
        grants.iter().any(|(verbs, scope)| {
            verbs.split(',').any(|verb| verb == self.verb) && self.is_within(scope, target)
        })
    }

    fn is_within(&self, scope: &GrantScope, target: &MatrixTarget) -> bool {
        let bucket = if self.what == "dropped" { DROPPED } else { target.bucket };
        let kind = bucket.split('/').next().unwrap_or_default();
        match scope {
            GrantScope::Cluster => true,
            GrantScope::Type(granted) => self.what != "cluster" && *granted == kind,
            GrantScope::Bucket(granted) => {
                !matches!(self.what, "cluster" | "type") && *granted == bucket
            }
            GrantScope::Prefix(granted, prefix) => {
                let keys = match self.samples(target) {
                    Some(keys) => keys,
                    None => return self.what == "any" && *granted == bucket,
                };
                *granted == bucket && keys.iter().all(|key| key.starts_with(prefix.as_bytes()))
            }
        }
    }

    /// Returns keys of which the need is about each: all of a range must be within a grant. `None`:
    /// it is about no keys, or about any part of the bucket.
    fn samples(&self, target: &MatrixTarget) -> Option<Vec<Vec<u8>>> {
        let one = |key: &str| Some(vec![key.as_bytes().to_vec()]);
        match self.what {
            "key" => one(target.key),
            "second" => one(INSIDE_TOO),
            "outside" => one(OUTSIDE),
            "random" => one("5GvaDzzrBTOqvBIVPBXnUt"),
            "range" => {
                let ends: [&[u8]; 4] = [b"", b"-", b"a", b"\xff\xff"];
                let prefix = target.prefix.as_bytes();
                Some(ends.iter().map(|end| [prefix, end].concat()).collect())
            }
            "all" | "dropped" => {
                Some([&b""[..], b"a", b"p-1", b"q-1", b"\xff\xff"].map(<[u8]>::to_vec).to_vec())
            }
            "any" | "cluster" | "type" => None,
            other => panic!("no need is about `{other}`"),
        }
    }
}

/// Returns true if a user may make an operation with these needs at this place.
pub fn may(user: &MatrixUser, needs: &[NamedNeed], target: &MatrixTarget) -> bool {
    needs.iter().all(|need| need.is_covered(user.grants, target))
}

/// Returns true if a user has any right on data of a bucket.
pub fn may_enter(user: &MatrixUser, target: &MatrixTarget) -> bool {
    DATA.split(',').any(|verb| NamedNeed { verb, what: "any" }.is_covered(user.grants, target))
}

/// Returns a role's grants as the tool takes them.
pub fn grant_texts(user: &MatrixUser) -> Vec<String> {
    let text = |(verbs, scope): &RoleGrant| match scope {
        GrantScope::Cluster => format!("{verbs}:cluster"),
        GrantScope::Type(kind) => format!("{verbs}:{kind}/*"),
        GrantScope::Bucket(bucket) => format!("{verbs}:{bucket}"),
        GrantScope::Prefix(bucket, prefix) => format!("{verbs}:{bucket}/{prefix}"),
    };
    user.grants.iter().map(text).collect()
}

#[test]
fn model_covers_a_range_only_by_a_grant_of_all_of_it() {
    let user = |name: &str| USERS.iter().find(|user| user.name == name).expect("a user");
    let [inside, outside, other] = targets("default/default", "default/o");
    let needs = |text: &'static str| text.split(' ').map(NamedNeed::parse).collect::<Vec<_>>();
    for (name, need, place, expected) in [
        ("prefix", "read:key", inside, true),
        ("prefix", "read:key", outside, false),
        ("prefix", "list:range", inside, true),
        ("prefix", "list:range", outside, false),
        ("prefix", "list:all", inside, false),
        ("prefix", "write:any", outside, true),
        ("prefix", "write:any", other, false),
        ("owner", "own:dropped", other, true),
        ("owner", "own:type", inside, false),
        ("owner", "list:all write:key", inside, true),
        ("type-owner", "own:type", other, true),
        ("type-owner", "list:cluster", inside, false),
        ("only-read", "read:key write:key", inside, false),
        ("admin", "secure:cluster", inside, true),
        ("operator", "secure:cluster", inside, false),
        ("nobody", "read:any", inside, false),
    ] {
        assert_eq!(may(user(name), &needs(need), &place), expected, "{name} {need} {place:?}");
    }
    assert!(may_enter(user("prefix"), &inside) && !may_enter(user("monitor"), &inside));
}
