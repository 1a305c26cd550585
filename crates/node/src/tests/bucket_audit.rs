//! Audited buckets: which operations on keys are recorded, where, with which outcome; and who may
//! change that.

use super::access::{ROLE, change, role, with_access};
use super::audit_records::{at, facts, lines, user};
use super::available::store_call;
use super::many::Cluster;
use super::test_cluster::wait;
use super::{Place, bytes, reason, request, set};
use crate::{Flow, Node, SubmitResult};
use base::access::UserQuota;
use base::range::Range;
use base::request::{OnMissing, SequenceMode};
use base::{
    AccessCall, AvailableCall, BucketName, Call, DirectoryCall, FetchOptions, Principal, Read,
    ReadLevel, Reason, Reply, Request, Result, Update,
};

fn anonymous() -> Principal {
    Principal::Anonymous(at(false))
}

fn available() -> BucketName {
    BucketName::new(BucketName::AVAILABLE, "b").expect("a name")
}

fn of(bucket: &BucketName, call: Call) -> Request {
    Request { bucket: bucket.clone(), ..request(call) }
}

fn altering(audit: &str) -> Call {
    Call::Directory(DirectoryCall::AlterBucket(vec![("audit".into(), audit.into())]))
}

/// Sets the property of a bucket by the node itself, which is not recorded.
async fn set_audit(node: &Node, bucket: &BucketName, audit: &str) {
    node.handle(&Principal::Node, of(bucket, altering(audit))).await.expect("altered");
}

fn get(key: &str) -> Call {
    Call::Read(Read::Get(bytes(key)), ReadLevel::Consistent)
}

async fn ask(node: &Node, call: Call) -> Result<Reply> {
    node.handle(&anonymous(), request(call)).await
}

/// Returns the facts of the lines behind the first `begin` ones, in order of their text, once there
/// are so many: that of an update may follow its answer.
async fn facts_of(node: &Node, place: &Place, begin: usize, count: usize) -> Vec<String> {
    let mut found = lines(node, place).await;
    for _ in 0..500 {
        if found.len() >= begin + count {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        found = lines(node, place).await;
    }
    let mut facts = facts(&found[begin..]);
    facts.sort();
    facts
}

/// Returns the operations and outcomes of facts.
fn outcomes(facts: &[String]) -> Vec<String> {
    let part = |fact: &String, name: &str| {
        let rest = fact.split_once(&format!("{name}:")).expect("each line has it").1;
        rest.split(',').next().unwrap_or_default().to_string()
    };
    let outcome = |fact: &String| format!("{} {}", part(fact, "operation"), part(fact, "outcome"));
    let mut all: Vec<_> = facts.iter().map(outcome).collect();
    all.sort();
    all
}

#[tokio::test]
async fn operations_are_recorded_by_the_property_of_their_bucket() {
    let place = Place::new();
    let node = place.start().await;
    let bucket = BucketName::default();
    let delete = || Update::Delete { key: bytes("secret-k"), missing: OnMissing::Fail };
    let prefix = || Update::DeletePrefix { prefix: bytes("secret-") };
    let range = || Read::Range(Range::prefix(bytes("secret-")));
    let steps = || vec![set("secret-k", "secret-v"), Update::Nop, prefix()];
    let sequence = || Update::Sequence { steps: steps(), mode: SequenceMode::AllOrNothing };
    let writes = || [set("secret-k", "secret-v"), delete(), delete(), prefix(), sequence()];
    let reads = || [Read::Get(bytes("secret-k")), range(), Read::KeyCount];
    let of_writes =
        ["delete done", "delete failed", "delete_prefix done", "sequence done", "set done"];
    let of_reads = ["get done", "key_count done", "range done"];
    for (audit, expected) in [
        ("off", Vec::new()),
        ("writes", of_writes.to_vec()),
        ("all", [&of_writes[..], &of_reads[..]].concat()),
        ("off", Vec::new()),
    ] {
        set_audit(&node, &bucket, audit).await;
        let begin = lines(&node, &place).await.len();
        for write in writes() {
            let _ = ask(&node, Call::Update(write)).await;
        }
        for read in reads() {
            ask(&node, Call::Read(read, ReadLevel::Consistent)).await.expect("answered");
        }
        let mut expected: Vec<_> = expected.into_iter().map(String::from).collect();
        expected.sort();
        let found = facts_of(&node, &place, begin, expected.len()).await;
        assert_eq!(outcomes(&found), expected, "{audit}");
        if audit == "all" {
            let digest = |key: &[u8]| node.router.recorder.trail.key_digest(bucket.full(), key);
            let (key, prefix) = (digest(b"secret-k"), digest(b"secret-"));
            let from = "who:(anonymous),protocol:http,address:198.18.0.7";
            let place = "scope:default/default";
            for line in [
                format!("{from},operation:get,{place},keys:[{key}],outcome:done"),
                format!(
                    "{from},operation:delete,{place},keys:[{key}],outcome:failed,reason:not_found"
                ),
                format!("{from},operation:key_count,{place},outcome:done"),
                format!("{from},operation:delete_prefix,{place},keys:[{prefix}],outcome:done"),
                format!(
                    "{from},operation:sequence,{place},keys:[{key},{prefix}],\
                     steps:{{delete_prefix:1,nop:1,set:1}},outcome:done"
                ),
            ] {
                assert!(found.contains(&line), "{line}: {found:#?}");
            }
        }
    }
    assert!(!lines(&node, &place).await.join("\n").contains("secret"), "keys are digests");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn available_buckets_and_those_of_an_audited_type_are_recorded() {
    let place = Place::new();
    let node = place.start().await;
    set_audit(&node, &available(), "writes").await;
    let begin = lines(&node, &place).await.len();
    let fetch = || AvailableCall::Fetch { key: bytes("k"), options: FetchOptions::default() };
    let calls = || [store_call("k", "v", None), fetch()];
    for call in calls() {
        let asked = of(&available(), Call::Available(call));
        node.handle(&anonymous(), asked).await.expect("answered");
    }
    let found = facts_of(&node, &place, begin, 1).await;
    assert_eq!(outcomes(&found), ["store done"]);
    assert!(found[0].contains("scope:available/b,keys:["), "{found:?}");
    // The type's property is that of its buckets without properties of their own.
    let audit = vec![("audit".to_string(), "all".to_string())];
    let alter = Call::Directory(DirectoryCall::AlterType(audit));
    node.handle(&Principal::Node, of(&available(), alter)).await.expect("altered");
    let other = BucketName::new(BucketName::AVAILABLE, "other").expect("a name");
    let begin = lines(&node, &place).await.len();
    for bucket in [&available(), &other] {
        for call in calls() {
            let asked = of(bucket, Call::Available(call));
            node.handle(&anonymous(), asked).await.expect("answered");
        }
    }
    let list = AvailableCall::Buckets { after: None, rows_max: 10 };
    let listed = node.handle(&anonymous(), of(&other, Call::Available(list))).await;
    listed.expect("listed");
    let found = facts_of(&node, &place, begin, 3).await;
    assert_eq!(outcomes(&found), ["fetch done", "store done", "store done"]);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn pipelined_requests_of_an_audited_bucket_stay_tickets_and_are_recorded_in_order() {
    let place = Place::new();
    let node = place.start().await;
    let bucket = BucketName::default();
    set_audit(&node, &bucket, "all").await;
    let begin = lines(&node, &place).await.len();
    let mut flow = Flow::of(anonymous());
    let submitted: Vec<_> = (0..20)
        .map(|number| {
            let call = Call::Update(set(&format!("k{number}"), "v"));
            node.submit(&mut flow, request(call))
        })
        .collect();
    let pending = |it: &SubmitResult| matches!(it, SubmitResult::Pending(..));
    assert!(submitted.iter().all(pending), "no later request waits for an earlier one");
    assert!(node.begin_sets(&flow, &bucket).is_none(), "a run has one line for many");
    for result in submitted {
        node.router.wait_reply(result).await.expect("written");
    }
    assert!(node.begin_gets(&mut flow, &bucket).is_none());
    set_audit(&node, &bucket, "writes").await;
    let warm = node.submit(&mut flow, request(get("k1")));
    node.router.wait_reply(warm).await.expect("read");
    assert!(
        node.begin_gets(&mut flow, &bucket).is_some() && node.begin_sets(&flow, &bucket).is_none()
    );
    facts_of(&node, &place, begin, 20).await;
    let found = facts(&lines(&node, &place).await[begin..]);
    let line = |number: usize| {
        let key = format!("k{number}");
        let digest = node.router.recorder.trail.key_digest(bucket.full(), key.as_bytes());
        format!(
            "who:(anonymous),protocol:http,address:198.18.0.7,operation:set,\
             scope:default/default,keys:[{digest}],outcome:done"
        )
    };
    assert_eq!(found, (0..20).map(line).collect::<Vec<_>>(), "in the order of the log");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn request_whose_caller_has_gone_is_recorded_as_allowed() {
    let place = Place::new();
    let node = place.start().await;
    set_audit(&node, &available(), "all").await;
    let begin = lines(&node, &place).await.len();
    let mut flow = Flow::of(anonymous());
    let submitted =
        node.submit(&mut flow, of(&available(), Call::Available(store_call("k", "v", None))));
    assert!(!matches!(submitted, SubmitResult::Ready(_)));
    drop(submitted);
    let found = facts_of(&node, &place, begin, 1).await;
    assert_eq!(outcomes(&found), ["store allowed"]);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn outcome_of_the_last_request_before_a_stop_is_recorded() {
    let place = Place::new();
    let node = place.start().await;
    set_audit(&node, &BucketName::default(), "writes").await;
    let mut flow = Flow::of(anonymous());
    let submitted: Vec<_> =
        (0..50).map(|_| node.submit(&mut flow, request(Call::Update(set("k", "v"))))).collect();
    drop(submitted);
    node.stop().await.expect("it stops");
    let found = super::audit_records::read_lines(place.path());
    let sets = found.iter().filter(|line| line.contains("\"operation\":\"set\""));
    assert_eq!(sets.count(), 50, "{found:#?}");
}

#[tokio::test]
async fn refused_operations_are_recorded_and_those_beyond_a_quota_are_bounded() {
    let place = Place::new();
    let (node, _) = with_access(&place).await;
    let ada = user(&node, "ada");
    set_audit(&node, &BucketName::default(), "all").await;
    let begin = lines(&node, &place).await.len();
    assert_eq!(reason(node.handle(&ada, request(get("k"))).await), Reason::Forbidden);
    let found = facts_of(&node, &place, begin, 1).await;
    assert_eq!(outcomes(&found), ["get denied"], "once");
    change(&node, role(ROLE, &["read:default/*"])).await.expect("granted");
    let quota = UserQuota { operations: Some(2), ..UserQuota::default() };
    change(&node, AccessCall::SetQuota { user: "ada".into(), quota }).await.expect("set");
    let begin = lines(&node, &place).await.len();
    let mut refused = 0;
    for _ in 0..200 {
        refused += u32::from(node.handle(&ada, request(get("k"))).await.is_err());
    }
    assert!(refused > 100, "{refused}");
    let found = outcomes(&facts_of(&node, &place, begin, 2).await);
    let count = |outcome: &str| found.iter().filter(|line| *line == outcome).count();
    assert_eq!(count("get done"), 200 - refused as usize);
    assert!((1..16).contains(&count("get failed")), "{found:?}");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn audit_is_changed_with_secure_alone_and_the_change_is_on_disk_before() {
    let place = Place::new();
    let (node, _) = with_access(&place).await;
    let ada = user(&node, "ada");
    let alter = |audit: &str| request(altering(audit));
    change(&node, role(ROLE, &["own,read:default/*", "own:available/*"])).await.expect("granted");
    assert_eq!(reason(node.handle(&ada, alter("all")).await), Reason::Forbidden);
    let sync = Call::Directory(DirectoryCall::AlterBucket(vec![("sync".into(), "sync".into())]));
    node.handle(&ada, request(sync)).await.expect("another property");
    change(&node, role(ROLE, &["secure:cluster"])).await.expect("granted");
    assert_eq!(reason(node.handle(&ada, alter("all")).await), Reason::Forbidden, "`own`, too");
    change(&node, role(ROLE, &["own:default/*", "secure:cluster"])).await.expect("granted");
    let begin = lines(&node, &place).await.len();
    for audit in ["all", "off"] {
        node.handle(&ada, alter(audit)).await.expect("both");
    }
    // Without a wait: it was written before.
    let found = facts(&super::audit_records::read_lines(place.path())[begin..]);
    let line = |audit: &str, outcome: &str| {
        format!(
            "who:ada,protocol:http,address:198.18.0.7,operation:alter_bucket,\
             scope:default/default,target:audit={audit},outcome:{outcome}"
        )
    };
    let expected = [("all", "allowed"), ("all", "done"), ("off", "allowed"), ("off", "done")];
    assert_eq!(found, expected.map(|(audit, outcome)| line(audit, outcome)));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn reset_of_an_available_bucket_leaves_its_audit() {
    let place = Place::new();
    let node = place.start().await;
    let bucket = available();
    let reset = || of(&bucket, Call::Directory(DirectoryCall::ResetBucket));
    let properties = || node.router.locator.catalog.available.find(&bucket).expect("available");
    let changes = vec![("audit".into(), "writes".into()), ("n_val".into(), "2".into())];
    let alter = Call::Directory(DirectoryCall::AlterBucket(changes));
    node.handle(&Principal::Node, of(&bucket, alter)).await.expect("altered");
    assert_eq!(properties().replication.n_val, 2);
    for _ in 0..2 {
        node.handle(&Principal::Node, reset()).await.expect("reset");
        assert_eq!(properties().replication.n_val, 3, "its type's");
        assert_eq!(properties().audit, base::BucketAudit::Writes);
    }
    set_audit(&node, &bucket, "off").await;
    node.handle(&Principal::Node, reset()).await.expect("reset");
    assert_eq!(*properties(), base::Properties::available(), "nothing is left");
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forwarded_operation_is_recorded_where_it_entered_and_nowhere_else() {
    let cluster = Cluster::new(3).await;
    let bucket = BucketName::default();
    let master = cluster.master(1).await;
    cluster.surely(bucket.clone(), altering("all")).await.expect("altered");
    let is_audited = |nth: usize| {
        let found = cluster.node(nth).router.locator.catalog.find(&bucket).expect("there");
        found.properties.audit == base::BucketAudit::All
    };
    wait("it is everywhere", || (0..3).all(is_audited).then_some(())).await;
    let begin = |nth: usize| lines(cluster.node(nth), &cluster.places[nth]);
    let before = [begin(0).await, begin(1).await, begin(2).await].map(|lines| lines.len());
    let other = (master + 1) % 3;
    for call in [Call::Update(set("k", "v")), get("k")] {
        let answer = cluster.node(other).handle(&anonymous(), request(call)).await;
        answer.expect("the master answers");
    }
    let (node, place) = (cluster.node(other), &cluster.places[other]);
    let found = facts_of(node, place, before[other], 2).await;
    assert_eq!(outcomes(&found), ["get done", "set done"]);
    for nth in (0..3).filter(|nth| *nth != other) {
        assert_eq!(begin(nth).await.len(), before[nth], "{nth}");
    }
}
