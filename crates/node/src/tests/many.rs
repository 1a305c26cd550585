//! Nodes that join one another as real ones do, and make groups while they live.

use super::test_cluster::{own_address, wait};
use super::{Place, bytes, request};
use crate::{Node, NodeSettings, PeerAddresses, PendingJoin};
use base::{
    Body, BucketDescription, BucketId, BucketName, Call, ClusterCall, DirectoryCall, GroupId, Part,
    Placement, Properties, Read, ReadLevel, Reply, Request, Result, Update,
};
use bytes::Bytes;
use metadata::rows::{bucket_key, set, write_bucket};
use replication::bucket::Bucket;
use replication::group::Group;
use std::net::SocketAddr;
use std::sync::Arc;

/// Founders and joiners, by their place: `n0` founds, the others join.
pub(crate) struct Cluster {
    pub places: Vec<Place>,
    pub nodes: Vec<Option<Node>>,
    addresses: Vec<SocketAddr>,
    /// Limit of the log of nodes that start from here on, in bytes.
    pub log_bytes_max: u64,
    /// Limit of the rate at which nodes that start from here on receive partitions. 0: none.
    pub handoff_bytes_per_second: u64,
}

/// Changes a row of the directory past all of its checks, at its master.
pub(super) async fn update_rows(directory: &Group, update: &Update) {
    let rows = Bucket::new(BucketId(0), GroupId(0), Properties::default());
    let (ticket, _, outcome) = directory.submit(&rows, update, None).expect("it is master");
    outcome.expect("the rows allow it");
    directory.wait_applied(ticket.expect("an update is a value")).await.expect("applied");
}

impl Cluster {
    /// Starts so many nodes, each a voter of groups 0 and 1.
    pub(crate) async fn new(count: usize) -> Cluster {
        Cluster::with_log(count, NodeSettings::default().log_bytes_max).await
    }

    /// Starts nodes with a limit of the log.
    pub(crate) async fn with_log(count: usize, log_bytes_max: u64) -> Cluster {
        let (places, nodes, addresses) = (Vec::new(), Vec::new(), Vec::new());
        let handoff_bytes_per_second = 0;
        let mut cluster =
            Cluster { places, nodes, addresses, log_bytes_max, handoff_bytes_per_second };
        for _ in 0..count {
            cluster.join().await;
        }
        cluster
    }

    /// Adds a node as a voter.
    pub(crate) async fn join(&mut self) -> usize {
        self.join_as(Part::Voter).await
    }

    /// Adds a node with this part, and waits for its votes.
    pub(crate) async fn join_as(&mut self, part: Part) -> usize {
        let nth = self.admit(part).await;
        self.start(nth).await;
        let voters = || [0, 1].map(|group| self.group(nth, group).configuration());
        let part = |node: &Node| node.cluster.links.node;
        let own = part(self.node(nth));
        wait("its votes", || voters().iter().all(|found| found.is_voter(own)).then_some(())).await;
        nth
    }

    /// Adds a node to the cluster, and does not start it.
    pub(crate) async fn admit(&mut self, part: Part) -> usize {
        let nth = self.places.len();
        self.addresses.push(own_address());
        self.places.push(Place::new());
        self.nodes.push(None);
        if nth > 0 {
            let joining = PendingJoin::open(&self.settings(nth), part).expect("a directory");
            let joining = joining.expect("a fresh one");
            let (known, secret) = match self.directory(joining.call()).await.body {
                Body::Joined(known, secret) => (known, Some(secret)),
                Body::Cluster(known) => (known, None),
                other => panic!("a joiner is told whom it joins, not {other:?}"),
            };
            joining.finish(&known, secret.as_ref()).expect("it joins");
        }
        nth
    }

    pub(crate) fn settings(&self, which: usize) -> NodeSettings {
        let listen = self.addresses[which];
        NodeSettings {
            name: format!("n{which}"),
            peers: Some(PeerAddresses { listen, advertise: listen.to_string() }),
            client_address: "127.0.0.1:7711".into(),
            log_bytes_max: self.log_bytes_max,
            ring_grace_ms: 300,
            handoff_bytes_per_second: self.handoff_bytes_per_second,
            ..self.places[which].settings()
        }
    }

    pub(crate) async fn start(&mut self, nth: usize) {
        let node = Node::start(self.settings(nth)).await.expect("it starts");
        self.nodes[nth] = Some(node);
    }

    pub(crate) async fn stop(&mut self, nth: usize) {
        self.nodes[nth].take().expect("it runs").stop().await.expect("it stops");
    }

    pub(crate) fn node(&self, nth: usize) -> &Node {
        self.nodes[nth].as_ref().expect("it runs")
    }

    pub(crate) fn group(&self, nth: usize, group: u32) -> Arc<Group> {
        self.node(nth).router.locator.groups.find(GroupId(group)).expect("it is here")
    }

    /// Calls the directory until it answers, whichever node is its master.
    pub(crate) async fn directory(&self, call: DirectoryCall) -> Reply {
        self.surely(BucketName::default(), Call::Directory(call)).await.expect("it goes")
    }

    /// Calls some node, and retries while nothing was executed or the outcome is in doubt.
    pub(crate) async fn surely(&self, bucket: BucketName, call: Call) -> Result<Reply> {
        loop {
            let node = self.nodes.iter().flatten().next().expect("one runs");
            match ask(node, &bucket, call.clone()).await {
                Err(error)
                    if matches!(error.kind(), base::Kind::Unavailable | base::Kind::Unknown) => {}
                answer => return answer,
            }
        }
    }

    /// Makes a group.
    pub(crate) async fn create(&self, replicas: Option<u32>, members: &[&str]) -> Placement {
        let members = members.iter().map(|name| name.to_string()).collect();
        let call = ClusterCall::CreateGroup { replicas, members };
        match self.directory(DirectoryCall::Cluster(call)).await.body {
            Body::Group(made) => *made,
            other => panic!("a group is made, not {other:?}"),
        }
    }

    /// Changes a row of the directory past all of its checks, as its master.
    pub(crate) async fn update_directory(&self, update: &Update) {
        let master = wait("the directory's master", || {
            let running = self.nodes.iter().flatten();
            running.map(|node| &node.router.directory.group).find(|directory| leads(directory))
        })
        .await;
        update_rows(master, update).await;
    }

    /// Makes a bucket in a group.
    pub(crate) async fn bucket(&self, name: &str, group: GroupId) -> BucketName {
        let name = BucketName::parse(name).expect("a name");
        let make = Call::Directory(DirectoryCall::CreateBucket(Vec::new()));
        self.surely(name.clone(), make).await.expect("made");
        let describe = Call::Directory(DirectoryCall::DescribeBucket);
        let described = self.surely(name.clone(), describe).await.expect("described");
        let Body::Buckets(buckets) = described.body else { panic!("a bucket is described") };
        let bucket = BucketDescription { group, ..buckets[0].clone() };
        let place = set(bucket_key(&name), write_bucket(&bucket));
        self.update_directory(&place).await;
        let is_present = |node: &Node| {
            node.router.locator.catalog.find(&name).is_some_and(|bucket| bucket.group == group)
        };
        wait("the bucket's place", || self.nodes.iter().flatten().all(is_present).then_some(()))
            .await;
        name
    }

    /// Puts by one node.
    pub(crate) async fn put(&self, nth: usize, bucket: &BucketName, key: &str, value: &str) {
        let call = Call::Update(super::set(key, value));
        loop {
            match ask(self.node(nth), bucket, call.clone()).await {
                Err(error) if error.kind() == base::Kind::Unavailable => {}
                Err(error) if error.kind() == base::Kind::Unknown => {} // Twice does no harm.
                answer => return drop(answer.expect("it goes")),
            }
        }
    }

    /// Reads a key consistently through one node. `None`: it is absent.
    pub(crate) async fn get(&self, nth: usize, bucket: &BucketName, key: &str) -> Option<Bytes> {
        let call = Call::Read(Read::Get(bytes(key)), ReadLevel::Consistent);
        loop {
            match ask(self.node(nth), bucket, call.clone()).await {
                Err(error) if error.kind() == base::Kind::Unavailable => {}
                answer => match answer.expect("it goes").body {
                    Body::Row(row) => return row.map(|row| row.value),
                    other => panic!("a get is answered with a row, not {other:?}"),
                },
            }
        }
    }

    /// Waits until one of the running nodes is master of a group.
    pub(crate) async fn master(&self, group: u32) -> usize {
        wait("a master", || {
            let running = (0..self.nodes.len()).filter(|nth| self.nodes[*nth].is_some());
            running.into_iter().find(|nth| {
                let group = self.node(*nth).router.locator.groups.get(GroupId(group));
                group.is_some_and(|group| leads(&group))
            })
        })
        .await
    }
}

pub(crate) fn leads(group: &Group) -> bool {
    group.leadership.is_master()
}

pub(crate) async fn ask(node: &Node, bucket: &BucketName, call: Call) -> Result<Reply> {
    node.handle(&base::Principal::Node, Request { bucket: bucket.clone(), ..request(call) }).await
}
