//! Test server: a real node behind real front-ends on loopback.

use crate::{FrontEnds, ServerSettings};
use base::access::{ApiToken, Grant, Password, PasswordHash, UserQuota};
use base::{AccessCall, BucketName, Call, DirectoryCall, Reply, Request};
use node::{Node, NodeSettings, SlowEntry, SlowRequest};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Prologue of an Arakoon client.
pub const ARAKOON_HELLO: &[u8] = b"\0\0\xff\xb1\x01\0\0\0\x05\0\0\0ricky";
/// Arakoon's request whether the key `k` exists.
pub const ARAKOON_EXISTS: &[u8] = b"\x07\x00\xff\xb1\x00\x01\x00\x00\x00k";

/// Node with its front-ends; stopped and removed when dropped.
pub struct TestServer {
    runtime: Runtime,
    folder: PathBuf,
    node: Option<Node>,
    front_ends: Option<FrontEnds>,
    /// Address of the clients' listener.
    pub address: SocketAddr,
    /// Addresses of all listeners.
    pub addresses: Vec<SocketAddr>,
}

impl TestServer {
    /// Starts a new test server.
    pub fn build() -> TestServer {
        TestServer::with_settings(ServerSettings::default())
    }

    /// Starts a new test server with these settings of its front-ends.
    pub fn with_settings(settings: ServerSettings) -> TestServer {
        TestServer::with_name("node1", settings)
    }

    /// Starts a new test server with these settings, whose node has this name.
    pub fn with_name(node: &str, settings: ServerSettings) -> TestServer {
        TestServer::start(node, settings, None)
    }

    /// Starts a new test server whose last listener is Arakoon's, with `ada` as the user of its
    /// clients.
    pub fn with_arakoon_user() -> TestServer {
        let settings = ServerSettings {
            arakoon_listen: vec!["127.0.0.1:0".parse().expect("an address")],
            arakoon_clusters: vec!["ricky".into()],
            arakoon_user: Some("ada".into()),
            ..ServerSettings::default()
        };
        TestServer::with_name("arakoon_0", settings)
    }

    /// Starts a new test server whose slow log keeps requests from this time on.
    pub fn with_slow_log(threshold: Duration) -> TestServer {
        TestServer::start("node1", ServerSettings::default(), Some(threshold))
    }

    /// Records a request in the slow log.
    pub fn record_slow(&self, request: SlowRequest) {
        self.node.as_ref().expect("it runs until it is dropped").record_slow(request);
    }

    /// Returns the slow log.
    pub fn slow_requests(&self) -> Vec<SlowEntry> {
        self.node.as_ref().expect("it runs until it is dropped").slow_requests()
    }

    fn start(node: &str, settings: ServerSettings, slow: Option<Duration>) -> TestServer {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("credenza-server-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let data = NodeSettings {
            data_dir: folder.clone(),
            name: node.into(),
            segment_bytes: 8 << 20,
            disk_reserve_bytes: 0,
            ..NodeSettings::default()
        };
        let listen = "127.0.0.1:0".parse().expect("an address");
        let settings = ServerSettings { listen, ..settings };
        let (node, front_ends) = runtime.block_on(async {
            let node = Node::start(data).await.expect("a node");
            if let Some(threshold) = slow {
                node.set_slow_threshold(threshold);
            }
            let front_ends =
                FrontEnds::open(node.clone(), settings).await.expect("the ports are free");
            (node, front_ends)
        });
        let addresses = front_ends.addresses().to_vec();
        let address = addresses[0];
        TestServer {
            runtime,
            folder,
            node: Some(node),
            front_ends: Some(front_ends),
            address,
            addresses,
        }
    }

    /// Sends requests to an address, ends the input, and returns all that is answered.
    pub fn exchange(&self, address: SocketAddr, requests: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        stream.write_all(requests).expect("sent");
        stream.shutdown(Shutdown::Write).expect("it is connected");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer, and an end");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Returns the node's audit log, once everything so far is in it.
    pub fn audit_log(&self) -> String {
        let node = self.node.as_ref().expect("it runs until it is dropped");
        self.runtime.block_on(node.sync_audit_log()).expect("it is written");
        let file = self.folder.join("audit/audit-0000000001.jsonl");
        std::fs::read_to_string(file).expect("it is there")
    }

    /// Submits a request to the node itself.
    pub fn call(&self, request: Request) -> base::Result<Reply> {
        let node = self.node.as_ref().expect("it runs until it is dropped");
        self.runtime.block_on(node.handle(&base::Principal::Node, request))
    }

    /// Changes users and roles.
    pub fn change_access(&self, call: AccessCall) {
        let call = Call::Directory(DirectoryCall::Access(call));
        self.call(Request { bucket: BucketName::default(), call, retry: None }).expect("changed");
    }

    /// Turns access on, and creates a user with this password and a role with one grant.
    pub fn turn_access_on(&self, user: &str, password: &str, grant: &str) {
        let (role, grants) = ("tried", vec![Grant::parse(grant).expect("a grant")]);
        self.change_access(AccessCall::SetRole { name: role.into(), grants });
        self.add_user(user, password, role);
        self.change_access(AccessCall::Init { password: self.hash("unknown to clients") });
    }

    fn hash(&self, password: &str) -> PasswordHash {
        let logins = &self.front_ends.as_ref().expect("they are open").shared().logins;
        let password = Password::new(password.as_bytes()).expect("a password");
        self.runtime.block_on(logins.hash(&password)).expect("hashed")
    }

    /// Creates a user with this password and role.
    pub fn add_user(&self, user: &str, password: &str, role: &str) {
        let (name, password) = (user.into(), Some(self.hash(password)));
        self.change_access(AccessCall::AddUser { name, password, roles: vec![role.into()] });
    }

    /// Sets the quota of a user.
    pub fn set_quota(&self, user: &str, quota: UserQuota) {
        self.change_access(AccessCall::SetQuota { user: user.into(), quota });
    }

    /// Creates an API token of a user, with all its roles.
    pub fn add_api_token(&self, user: &str, token: &ApiToken) {
        let (user, label, digest) = (user.into(), "ci".into(), token.digest());
        let (roles, lifetime_ms) = (Vec::new(), None);
        self.change_access(AccessCall::AddApiToken { digest, user, label, roles, lifetime_ms });
    }

    /// Revokes the API token of a user.
    pub fn revoke_api_token(&self, user: &str) {
        let (user, label) = (user.into(), "ci".into());
        self.change_access(AccessCall::RevokeApiToken { user, label });
    }

    /// Returns the number of passwords that were verified.
    pub fn verifications(&self) -> u64 {
        self.front_ends.as_ref().expect("they are open").shared().logins.verifications()
    }

    /// Returns a metric of the node.
    pub fn sample(&self, name: &str) -> f64 {
        let node = self.node.as_ref().expect("it runs until it is dropped");
        let samples = node.samples();
        samples.iter().find(|sample| sample.name == name).expect("it is known").value
    }

    /// Ends the connection that has been idle for longest, however short that is.
    pub fn end_idlest(&self) {
        let front_ends = self.front_ends.as_ref().expect("they are open");
        front_ends.shared().idle.end_idlest(u64::MAX, 60_000);
    }

    /// Returns the number of bytes free for concurrent requests.
    pub fn window_free(&self) -> usize {
        let front_ends = self.front_ends.as_ref().expect("they are open");
        front_ends.window_free()
    }

    /// Returns the TLS of its listeners.
    pub fn tls(&self) -> Option<std::sync::Arc<tls::Tls>> {
        let front_ends = self.front_ends.as_ref().expect("they are open");
        front_ends.shared().settings.tls.clone()
    }

    /// Closes the front-ends.
    pub fn close_front_ends(&mut self) {
        if let Some(front_ends) = self.front_ends.take() {
            self.runtime.block_on(front_ends.close());
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.close_front_ends();
        if let Some(node) = self.node.take() {
            let _ = self.runtime.block_on(node.stop());
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
