//! Revocation: a right that is taken at one node ends on connections that are open at the others.

use super::{REVOCATION_SECONDS, log_in, seconds_until, turn_on};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use systest::access::{AccessAdmin, AccessVerdict, basic};
use systest::client::{Arakoon, ArakoonCluster, Http, Resp};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, experiment};
use systest::report::{BoundChecks, Figures};

const PASSWORD: &str = "first-password";
const NEXT_PASSWORD: &str = "second-password";
const KEY_PATH: &str = "/v1/buckets/default/default/keys/k";
const ARAKOON_PORT: u16 = 7714;
/// Rows that are streamed: more than all buffers between a node and its client hold.
const ROWS: usize = 64;
const ROW_BYTES: usize = 512 << 10;

/// Connections that are open at one node: of ada by password, of bob by token, of the user of
/// Arakoon's listener.
struct OpenConnections {
    node: usize,
    resp: Resp,
    /// Connection with the header of ada's first password.
    password: (Http, String),
    /// Connection with the header of bob's token.
    token: (Http, String),
    arakoon: Arakoon,
}

impl OpenConnections {
    fn open(cluster: &Cluster, node: usize, token: &str) -> OpenConnections {
        let address = cluster.client_address(node);
        let mut resp = Resp::connect(address).expect("it listens");
        log_in(&mut resp, "ada", PASSWORD);
        let web = || Http::connect(address).expect("it listens");
        let arakoon = SocketAddr::new(address.ip(), ARAKOON_PORT);
        let mut arakoon = Arakoon::connect(arakoon, "ricky").expect("it listens");
        arakoon.read_level = 1; // served by every node from its own rows
        OpenConnections {
            node,
            resp,
            password: (web(), basic("ada", PASSWORD)),
            token: (web(), format!("Bearer {token}")),
            arakoon,
        }
    }

    fn resp(&mut self, line: &str) -> AccessVerdict {
        AccessVerdict::of_resp(&self.resp.call_line(line).expect("it answers"))
    }

    fn arakoon(&mut self) -> AccessVerdict {
        AccessVerdict::of_arakoon(&self.arakoon.exists(b"k"))
    }
}

/// Reads or writes a key over HTTP.
fn http((client, header): &mut (Http, String), method: &str) -> AccessVerdict {
    let headers =
        [("authorization", header.as_str()), ("content-type", "application/octet-stream")];
    let body: &[u8] = if method == "PUT" { b"v" } else { b"" };
    let answer = client.request_with_headers(method, KEY_PATH, &headers, body);
    AccessVerdict::of_http(&answer.expect("it answers"))
}

/// Open connections of all other nodes, and the longest times of changes.
struct RevocationTrial {
    connections: Vec<OpenConnections>,
    bounds: BoundChecks,
    figures: Figures,
}

impl RevocationTrial {
    /// Makes a change; from then on each connection must get this verdict soon.
    fn change(
        &mut self,
        what: &str,
        wanted: &AccessVerdict,
        change: impl FnOnce(),
        mut ask: impl FnMut(&mut OpenConnections) -> AccessVerdict,
    ) {
        change();
        let changed_at = Instant::now();
        let mut longest: f64 = 0.0;
        for open in &mut self.connections {
            let what = format!("{what}, node {}", open.node);
            longest = longest.max(seconds_until((&what, wanted), changed_at, || ask(open)));
        }
        self.bounds.check(&format!("S7 {what}, s"), longest, REVOCATION_SECONDS);
        self.figures.ok += 1;
    }
}

/// Starts a cluster with the users of the experiment; returns bob's token.
fn start(scratch: &Scratch) -> (Cluster, AccessAdmin, String) {
    let mut options = Options::new(3);
    let listener = format!("@ADDRESS:{ARAKOON_PORT}");
    let args = ["--arakoon-listen", &listener, "--arakoon-clusters", "ricky"];
    options.args.extend(args.map(String::from));
    options.args.extend(["--arakoon-user", "ark"].map(String::from));
    let mut cluster = Cluster::start(scratch, options);
    cluster.must_serve();
    let arakoon = |node| SocketAddr::new(cluster.client_address(node).ip(), ARAKOON_PORT);
    let nodes = cluster.nodes().map(|node| (format!("n{node}"), arakoon(node))).collect();
    let ricky = ArakoonCluster { id: "ricky".into(), nodes };
    // The first client creates the bucket, which nobody could while access is on.
    wait_until("Arakoon's bucket", || {
        let mut client = Arakoon::master(&ricky).map_err(|error| error.message())?;
        client.set(b"k", b"v").map_err(|error| error.message())
    });
    let admin = AccessAdmin::new(&cluster.setup_mut(1).data);
    admin.set_role("web", &["read,write,list:default/default"]);
    admin.set_role("books", &["read:arakoon/ricky"]);
    admin.set_role("nothing", &[]);
    admin.add_user("ada", PASSWORD, "web");
    admin.add_user("bob", PASSWORD, "web");
    admin.run(&["user", "add", "ark", "--role", "books"]);
    let token = admin.add_token("bob", "ci");
    turn_on(&mut cluster);
    (cluster, admin, token)
}

#[test]
fn revoked_rights_end_on_open_connections_of_other_nodes_within_seconds() {
    use AccessVerdict::{Forbidden, Granted, Unauthenticated};
    let _permit = experiment();
    let scratch = Scratch::new("revocation");
    let (cluster, admin, token) = start(&scratch);
    let connections = [2, 3].map(|node| OpenConnections::open(&cluster, node, &token));
    let mut trial = RevocationTrial {
        connections: connections.into(),
        bounds: BoundChecks::default(),
        figures: Figures::start("S7 revocation"),
    };
    for open in &mut trial.connections {
        let node = open.node;
        let verdicts = [
            open.resp("SET k v"),
            open.resp("GET k"),
            http(&mut open.password, "PUT"),
            http(&mut open.token, "PUT"),
            open.arakoon(),
        ];
        assert_eq!(verdicts, [(); 5].map(|()| Granted), "before any change, node {node}");
    }
    let reads = || admin.set_role("web", &["read,list:default/default"]);
    trial.change("grants of a role", &Forbidden, reads, |open| open.resp("SET k v"));
    for open in &mut trial.connections {
        assert_eq!(http(&mut open.password, "PUT"), Forbidden);
        assert_eq!(http(&mut open.token, "PUT"), Forbidden);
        assert_eq!((open.resp("GET k"), http(&mut open.token, "GET")), (Granted, Granted));
    }
    let revoke = || drop(admin.run(&["user", "token", "bob", "--label", "ci", "--revoke"]));
    trial.change("a token", &Unauthenticated, revoke, |open| http(&mut open.token, "GET"));
    let set = |user: &str, role: &str| drop(admin.run(&["user", "set", user, "--role", role]));
    let ark = || set("ark", "nothing");
    trial.change("roles of a listener's user", &Forbidden, ark, OpenConnections::arakoon);
    let ada = || set("ada", "nothing");
    trial.change("roles of a user", &Forbidden, ada, |open| open.resp("GET k"));
    let back = || set("ada", "web");
    trial.change("roles given back", &Granted, back, |open| open.resp("GET k"));
    let password = || drop(admin.run_with(&["user", "password", "ada"], NEXT_PASSWORD));
    trial.change("a password", &Unauthenticated, password, |open| open.resp("GET k"));
    for open in &mut trial.connections {
        assert_eq!(http(&mut open.password, "GET"), Unauthenticated, "it is not remembered");
        log_in(&mut open.resp, "ada", NEXT_PASSWORD);
    }
    let disable = || drop(admin.run(&["user", "disable", "ada"]));
    trial.change("a disabled user", &Unauthenticated, disable, |open| open.resp("GET k"));
    admin.run(&["user", "enable", "ada"]);
    for open in &mut trial.connections {
        // Few attempts: ten failed logins a minute are all that an address has.
        let mut enabled = (0..8).map(|_| {
            let reply = open.resp.call_line(&format!("AUTH ada {NEXT_PASSWORD}"));
            let is_refused = reply.expect("it answers").error().is_some();
            std::thread::sleep(Duration::from_millis(if is_refused { 500 } else { 0 }));
            open.resp("GET k")
        });
        assert!(enabled.any(|verdict| verdict == Granted), "an enabled user logs in");
    }
    let remove = || drop(admin.run(&["user", "remove", "ada", "--confirm", "ada"]));
    trial.change("a removed user", &Unauthenticated, remove, |open| open.resp("GET k"));
    let disable = || drop(admin.run(&["user", "disable", "ark"]));
    let end = OpenConnections::arakoon;
    trial.change("a listener's user, disabled", &Unauthenticated, disable, end);
    trial.figures.print();
    trial.bounds.assert_bounds();
}

/// Starts a stream of the default bucket, and waits until nothing more fits between the node and
/// this client, which reads nothing.
fn start_stream(address: SocketAddr, header: &str) -> TcpStream {
    let mut client = Http::connect(address).expect("it listens");
    let path = "/v1/buckets/default/default/stream";
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: {header}\r\n\r\n",
        client.host()
    );
    client.send(request.as_bytes()).expect("it is taken");
    let stream = client.sender().expect("a descriptor is free");
    std::thread::sleep(Duration::from_secs(1));
    stream
}

#[test]
fn stream_in_progress_ends_when_its_right_is_revoked() {
    let _permit = experiment();
    let scratch = Scratch::new("revoked-stream");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    cluster.must_serve();
    let value = vec![b'x'; ROW_BYTES];
    let mut writer = Resp::connect(cluster.client_address(1)).expect("it listens");
    for row in 0..ROWS {
        let reply = writer.call(&[b"SET", format!("row{row}").as_bytes(), &value]);
        assert_eq!(reply.expect("it answers").error(), None);
    }
    let admin = AccessAdmin::new(&cluster.setup_mut(1).data);
    admin.set_role("web", &["read,write,list:default/default"]);
    admin.add_user("ada", PASSWORD, "web");
    turn_on(&mut cluster);
    let address = cluster.client_address(2);
    let mut stream = start_stream(address, &basic("ada", PASSWORD));
    let mut resp = Resp::connect(address).expect("it listens");
    log_in(&mut resp, "ada", PASSWORD);
    admin.set_role("web", &["write:default/default"]);
    let ask = || AccessVerdict::of_resp(&resp.call_line("GET k").expect("it answers"));
    seconds_until(("the right to read", &AccessVerdict::Forbidden), Instant::now(), ask);
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("the node ends the answer");
    let text = String::from_utf8_lossy(&received);
    let rows = text.matches("{\"key\":\"row").count();
    assert!(text.starts_with("HTTP/1.1 200 ") && rows > 0, "{} bytes", text.len());
    assert!(rows < ROWS, "all rows were sent");
    let last = &text[text.len().saturating_sub(400)..];
    assert!(last.contains("{\"error\"") && last.contains("forbidden"), "{last}");
}
