//! Audit log of a node: which acts it records, that `secure` acts wait for it and are refused
//! without it, and that no secret gets into it.

use super::access::with_access;
use super::{Place, bytes, reason, request, set};
use crate::Node;
use base::access::{AccessCall, Grant, ListenerRights, Login, Origin, PasswordHash};
use base::rights::Operate;
use base::{
    AlarmCode, BucketName, Call, ClusterCall, DirectoryCall, Error, Principal, Read, ReadLevel,
    Reason, Reply, Request, Result, TokenDigest,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Returns all lines of a node's audit log, once they are synced.
pub(super) async fn lines(node: &Node, place: &Place) -> Vec<String> {
    node.router.recorder.trail.sync().await.expect("written");
    read_lines(place.path())
}

pub(super) fn read_lines(data: &Path) -> Vec<String> {
    let file = data.join("audit/audit-0000000001.jsonl");
    let text = std::fs::read_to_string(file).expect("there");
    text.lines().map(String::from).collect()
}

/// Returns the parts of lines between `who` and the hash, without times and hashes.
pub(super) fn facts(lines: &[String]) -> Vec<String> {
    let fact = |line: &String| {
        let begin = line.find("\"who\"").expect("a line");
        let end = line.find(",\"hash\"").expect("a line");
        line[begin..end].replace('"', "")
    };
    lines.iter().map(fact).collect()
}

pub(super) fn at(operates: bool) -> ListenerRights {
    let origin = Origin { protocol: "http", address: Some([198, 18, 0, 7].into()) };
    ListenerRights { operates, origin }
}

pub(super) fn user(node: &Node, name: &str) -> Principal {
    let since = node.user_account(name).expect("a user").since;
    Principal::User(Arc::new(Login { user: name.into(), since, token: None }), at(false))
}

fn access(call: AccessCall) -> Request {
    request(Call::Directory(DirectoryCall::Access(call)))
}

async fn ask(node: &Node, principal: &Principal, call: DirectoryCall) -> Result<Reply> {
    node.handle(principal, request(Call::Directory(call))).await
}

#[tokio::test]
async fn acts_are_recorded_with_who_where_and_outcome_and_reads_are_not() {
    let place = Place::new();
    let (node, ada) = with_access(&place).await;
    let Principal::User(login, _) = ada else { panic!("a user") };
    let ada = Principal::User(login, at(false));
    let local = Principal::LocalOperator;
    let before = lines(&node, &place).await.len();
    // A user without rights is refused, an operator is not.
    let drop = || DirectoryCall::DropBucket;
    assert_eq!(reason(ask(&node, &ada, drop()).await), Reason::Forbidden);
    let get = Call::Read(Read::Get(bytes("secret-key")), ReadLevel::Consistent);
    assert_eq!(reason(node.handle(&ada, request(get)).await), Reason::Forbidden);
    ask(&node, &local, DirectoryCall::AlterBucket(Vec::new())).await.expect("altered");
    let name = "eve".into();
    let failed = node.handle(&local, access(AccessCall::RemoveUser { name })).await;
    assert_eq!(reason(failed), Reason::NotFound);
    // Reads, lists, writes of keys, and what only watches.
    ask(&node, &local, DirectoryCall::ListTypes).await.expect("listed");
    ask(&node, &local, DirectoryCall::DescribeBucket).await.expect("described");
    let write = request(Call::Update(set("secret-key", "secret-value")));
    node.handle(&local, write).await.expect("written");
    node.authorize(&local, Operate::ShowStatus).expect("allowed").done();
    // Acts of operators, with their outcomes; that of the last one is never known.
    node.authorize(&local, Operate::Reload).expect("allowed").done();
    let checkpoint = node.authorize(&local, Operate::MakeCheckpoint).expect("allowed");
    checkpoint.finish::<()>(&Err(Error::new(Reason::OutOfSpace, "no space")));
    let read = node.authorize(&local, Operate::ShowAccess).expect("allowed");
    read.confirm().await.expect("on disk");
    read.done();
    std::mem::drop(node.authorize(&local, Operate::EndClients).expect("allowed"));
    assert_eq!(reason(node.authorize(&ada, Operate::ShowMetrics)), Reason::Forbidden);
    let found = lines(&node, &place).await;
    let digest = node.router.recorder.trail.key_digest("default/default", b"secret-key");
    let from = "protocol:http,address:198.18.0.7";
    let expected = [
        format!(
            "who:ada,{from},operation:drop_bucket,scope:default/default,outcome:denied,\
             reason:forbidden"
        ),
        format!(
            "who:ada,{from},operation:get,scope:default/default,keys:[{digest}],outcome:denied,\
             reason:forbidden"
        ),
        "who:(local),protocol:local,operation:alter_bucket,scope:default/default,outcome:done"
            .into(),
        "who:(local),protocol:local,operation:remove_user,scope:cluster,target:eve,outcome:allowed"
            .into(),
        "who:(local),protocol:local,operation:remove_user,scope:cluster,target:eve,outcome:failed,\
         reason:not_found"
            .into(),
        "who:(local),protocol:local,operation:reload,scope:cluster,outcome:done".into(),
        "who:(local),protocol:local,operation:make_checkpoint,scope:cluster,outcome:failed,\
         reason:out_of_space"
            .into(),
        "who:(local),protocol:local,operation:show_access,scope:cluster,outcome:allowed".into(),
        "who:(local),protocol:local,operation:show_access,scope:cluster,outcome:done".into(),
        "who:(local),protocol:local,operation:end_clients,scope:cluster,outcome:allowed".into(),
        format!(
            "who:ada,{from},operation:show_metrics,scope:cluster,outcome:denied,reason:forbidden"
        ),
    ];
    assert_eq!(facts(&found[before..]), expected);
    let all = found.join("\n");
    assert!(!all.contains("secret-key") && !all.contains("secret-value"), "{all}");
    node.stop().await.expect("it stops");
    let report = audit_log::verify(&place.path().join("audit"), None).expect("readable");
    assert_eq!(report.broken, None);
}

#[tokio::test]
async fn every_secure_act_has_its_line_on_disk_before_it_is_answered_and_no_secret_in_it() {
    let place = Place::new();
    let (node, _) = with_access(&place).await;
    let text = format!("{}{}${}", PasswordHash::PREFIX, "c".repeat(22), "S".repeat(43));
    let hash = || PasswordHash::parse(&text).expect("it has the form");
    let name = || String::from("bob");
    let grants = vec![Grant::parse("read:logs/web/secret-prefix").expect("a grant")];
    let digest = TokenDigest([0xA5; TokenDigest::BYTES]);
    let (user, label, roles) = (name(), || String::from("ci"), vec!["tried".to_string()]);
    let calls = [
        AccessCall::AddUser { name: name(), password: Some(hash()), roles: roles.clone() },
        AccessCall::SetPassword { name: name(), password: Some(hash()) },
        AccessCall::SetRole { name: "web".into(), grants },
        AccessCall::AddApiToken { digest, user, label: label(), roles, lifetime_ms: None },
        AccessCall::RevokeApiToken { user: name(), label: label() },
        AccessCall::RemoveRole { name: "web".into() },
        AccessCall::RemoveUser { name: name() },
        AccessCall::Switch { on: false },
    ];
    for call in calls {
        let request = access(call);
        let operation = format!("\"{}\"", request.operation_name());
        node.handle(&Principal::LocalOperator, request).await.expect("done");
        // Without a wait: it was written before.
        let found = read_lines(place.path());
        let of = |outcome: &str| {
            let outcome = format!("\"outcome\":\"{outcome}\"");
            let has = |line: &&String| line.contains(&operation) && line.contains(&outcome);
            found.iter().filter(has).count()
        };
        assert_eq!((of("allowed"), of("done")), (1, 1), "{operation}");
    }
    let token = ClusterCall::AddToken { digest, terms: base::JoinTokenTerms::single_use(1_000) };
    ask(&node, &Principal::LocalOperator, DirectoryCall::Cluster(token)).await.expect("made");
    // Without the hashes, which have any digits.
    let all = facts(&read_lines(place.path())).join("\n");
    assert!(all.contains("add_join_token") && all.contains("target:bob/ci"), "{all}");
    for secret in ["SSSS", "cccc", "a5a5", "argon2", "secret-prefix"] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn secure_act_is_refused_with_an_alarm_while_the_log_cannot_be_written_and_data_go_on() {
    let place = Place::new();
    let node = place.start().await;
    node.stop().await.expect("it stops");
    // A file where the folder must be.
    let folder = place.path().join("audit");
    std::fs::remove_dir_all(&folder).expect("ours");
    std::fs::write(&folder, "no folder").expect("ours");
    let node = place.start().await;
    let local = Principal::LocalOperator;
    let name = || String::from("web");
    let role = || AccessCall::SetRole { name: name(), grants: Vec::new() };
    let refused = node.handle(&local, access(role())).await.expect_err("it is refused");
    assert_eq!(refused.reason, Reason::OutOfSpace);
    assert!(refused.text().contains("audit_failed"), "{refused}");
    assert!(node.roles().is_empty(), "nothing was done");
    assert_eq!(reason(node.authorize(&local, Operate::ShowAccess)), Reason::OutOfSpace);
    let alarms = node.status().alarms;
    assert!(alarms.iter().any(|alarm| alarm.code == AlarmCode::AuditFailed), "{alarms:?}");
    // Everything else goes on.
    let write = request(Call::Update(set("k", "v")));
    node.handle(&local, write).await.expect("written");
    ask(&node, &local, DirectoryCall::AlterBucket(Vec::new())).await.expect("altered");
    node.authorize(&local, Operate::Reload).expect("allowed").done();
    std::fs::remove_file(&folder).expect("ours");
    let mut tries = 0;
    let mut healed = Err(Error::new(Reason::OutOfSpace, "not yet"));
    while healed.is_err() && tries < 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        healed = node.handle(&local, access(role())).await;
        tries += 1;
    }
    healed.expect("it is written again");
    let found = lines(&node, &place).await;
    assert!(found.iter().any(|line| line.contains("alter_bucket")), "it waited: {found:?}");
    let alarms = node.status().alarms;
    assert!(!alarms.iter().any(|alarm| alarm.code == AlarmCode::AuditFailed), "{alarms:?}");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn flood_of_denied_requests_and_wrong_logins_has_a_bounded_number_of_lines() {
    let place = Place::new();
    let (node, _) = with_access(&place).await;
    let ada = user(&node, "ada");
    let before = lines(&node, &place).await.len();
    let address = Some([198, 18, 0, 9].into());
    let wrong = Err(Error::new(Reason::Unauthenticated, "wrong"));
    for number in 0..2_000 {
        let bucket = BucketName::new("default", &format!("b{number}")).expect("a name");
        let get = Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent);
        let asked = Request { bucket, call: get, retry: None };
        assert_eq!(reason(node.handle(&ada, asked).await), Reason::Forbidden);
        node.record_login(format!("guess{number}").as_bytes(), address, &wrong);
        node.record_login(b"ada", address, &wrong);
    }
    let found = lines(&node, &place).await;
    // Sixteen lines a minute each: a user at an address, unknown names there, and a known one.
    let count = found.len() - before;
    assert!((3 * 16..500).contains(&count), "{count}");
    assert!(!found.join("\n").contains("guess"), "a name of no user may be a password");
    node.stop().await.expect("it stops");
    let right = Ok(Arc::new(Login { user: "ada".into(), since: 1, token: None }));
    let node = place.start().await;
    (0..2_000).for_each(|_| node.record_login(b"ada", address, &right));
    let found = facts(&lines(&node, &place).await);
    let logins = found.iter().filter(|fact| fact.contains("login") && fact.contains("done"));
    assert_eq!(logins.count(), 1);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn work_of_the_node_itself_is_not_recorded() {
    let place = Place::new();
    let node = place.start().await;
    ask(&node, &Principal::Node, DirectoryCall::AlterBucket(Vec::new())).await.expect("altered");
    node.authorize(&Principal::Node, Operate::Reload).expect("allowed").done();
    assert_eq!(lines(&node, &place).await.len(), 1, "the log was opened");
    node.stop().await.expect("it stops");
}
