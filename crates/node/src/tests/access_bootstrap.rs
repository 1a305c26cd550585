//! First users and roles of a cluster: when they are written, and when they are not.

use super::access::{change, role, user};
use super::{Place, bytes, reason, request};
use crate::{Node, NodeSettings};
use base::access::{AccessBootstrap, BootstrapUser, Grant, ListenerRights, PasswordHash};
use base::{Call, Principal, Read, ReadLevel, Reason};

fn bootstrap(administrator: &str) -> AccessBootstrap {
    let text = format!("{}{}${}", PasswordHash::PREFIX, "c".repeat(22), "H".repeat(43));
    let hash = PasswordHash::parse(&text).expect("it has the form");
    let user = |password: Option<PasswordHash>, role: &str, certificates: bool| BootstrapUser {
        password,
        roles: vec![role.into()],
        certificates,
    };
    AccessBootstrap {
        is_on: true,
        roles: [("web".into(), vec![Grant::parse("read:logs/*").expect("a grant")])].into(),
        users: [
            (administrator.into(), user(Some(hash), "admin", false)),
            ("ci".into(), user(None, "web", true)),
        ]
        .into(),
    }
}

async fn start_with(place: &Place, bootstrap: &AccessBootstrap) -> base::Result<Node> {
    let access_bootstrap = Some(bootstrap.clone());
    Node::start(NodeSettings { access_bootstrap, ..place.settings() }).await
}

fn user_names(node: &Node) -> Vec<String> {
    node.user_accounts().into_iter().map(|(name, _)| name).collect()
}

#[tokio::test]
async fn first_users_are_applied_once_and_as_a_whole() {
    let place = Place::new();
    let node = start_with(&place, &bootstrap("ada")).await.expect("it starts");
    assert!(node.is_access_on());
    assert_eq!(user_names(&node), ["ada", "ci"]);
    let ci = node.user_account("ci").expect("a user");
    assert!(ci.is_enabled && ci.certificates && ci.password.is_none());
    assert_eq!(node.grants_of("ci").len(), 1);
    let anonymous = Principal::Anonymous(ListenerRights::default());
    let get = Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent);
    assert_eq!(reason(node.handle(&anonymous, request(get)).await), Reason::Unauthenticated);
    let audit = place.path().join("audit/audit-0000000001.jsonl");
    let audit = std::fs::read_to_string(audit).expect("there is one");
    assert!(audit.contains("bootstrap_access") && !audit.contains("argon2id"), "{audit}");
    // What an operator changed stays, whatever the file says at a later start.
    change(&node, user("bob", &["web"])).await.expect("created");
    let version = node.access_version();
    node.stop().await.expect("it stops");
    let node = start_with(&place, &bootstrap("eve")).await.expect("it starts");
    assert_eq!(
        (user_names(&node), node.access_version()),
        (vec!["ada".into(), "bob".into(), "ci".into()], version)
    );
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn first_users_are_not_applied_to_a_cluster_that_has_had_roles_or_with_an_error() {
    let place = Place::new();
    let node = place.start().await;
    change(&node, role("web", &["read:logs/*"])).await.expect("created");
    change(&node, base::AccessCall::RemoveRole { name: "web".into() }).await.expect("removed");
    node.stop().await.expect("it stops");
    let node = start_with(&place, &bootstrap("ada")).await.expect("it starts");
    assert!(!node.is_access_on() && user_names(&node).is_empty());
    node.stop().await.expect("it stops");

    let (other, mut wrong) = (Place::new(), bootstrap("ada"));
    wrong.users.remove("ada");
    let refused = start_with(&other, &wrong).await.map(|_| ()).expect_err("nobody could log in");
    assert!(refused.text().contains("access_bootstrap_file"), "{refused}");
    // A cluster that was founded without users gets them at its next start.
    let node = start_with(&other, &bootstrap("ada")).await.expect("it starts");
    assert_eq!(user_names(&node), ["ada", "ci"]);
    node.stop().await.expect("it stops");
}
