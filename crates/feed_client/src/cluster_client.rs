//! Client of a cluster: asks one node after the other until one answers.

use api::Members;
use base::Kind;
use client::{Address, Client, HttpCall};
use program::Outcome;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Pause before the second attempt in milliseconds; each further one doubles.
const PAUSE_MS: u64 = 50;
/// Longest pause between two attempts in milliseconds.
const PAUSE_MS_MAX: u64 = 5_000;

/// Time for which a client goes on to ask nodes of which none answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Until one answers.
    Endless,
    /// For so long; then the last failure counts.
    Limited(Duration),
}

impl Patience {
    fn is_over(self, since: Instant) -> bool {
        match self {
            Patience::Endless => false,
            Patience::Limited(longest) => since.elapsed() >= longest,
        }
    }
}

/// Client of a cluster, of which it knows one node or all of them.
pub struct ClusterClient {
    /// Addresses of nodes; never empty.
    addresses: Vec<Address>,
    /// Number of the address that is asked.
    current: usize,
    /// Client of that address. `None`: it is made for the next request.
    client: Option<Client>,
    patience: Patience,
    /// Function that tells the user that no node answers, and that one answers again.
    notify: fn(&str),
}

impl ClusterClient {
    /// Returns a client that asks this node first. Fails on an invalid address or login.
    pub fn new(address: &Address, patience: Patience, notify: fn(&str)) -> Outcome<ClusterClient> {
        let client = Some(Client::new(address)?);
        Ok(ClusterClient { addresses: vec![address.clone()], current: 0, client, patience, notify })
    }

    /// Learns the addresses of the other nodes, if the login may know them: so the client goes on
    /// when its node does not answer.
    pub async fn learn_nodes(&mut self) -> Outcome {
        let first = self.addresses[0].clone();
        if first.url.starts_with("unix:") {
            return Ok(());
        }
        let members = self.call(&HttpCall::new(hyper::Method::GET, "/v1/cluster/members")).await;
        let members: Members = match members {
            Ok(answer) => answer.read()?,
            // Only an operator may know them.
            Err(failure) if failure.kind() == Some(Kind::Denied) => return Ok(()),
            Err(failure) => return Err(failure),
        };
        // A node that the login must not be sent to, because it would go there unencrypted, is no
        // other way.
        let others = other_addresses(&first, &members).into_iter();
        self.addresses.extend(others.filter(|address| Client::new(address).is_ok()));
        Ok(())
    }

    /// Sends a request again and again until a node answers it, or refuses it for good.
    pub async fn call(&mut self, call: &HttpCall) -> Outcome<client::HttpResponse> {
        self.attempt(async |client| client.call(call.clone()).await).await
    }

    /// Makes attempts until one succeeds, or fails for good. After one that time may mend, another
    /// node is tried after a pause. An attempt whose outcome is unknown is repeated, too: it must
    /// be harmless to do it twice.
    pub async fn attempt<T>(
        &mut self,
        mut request: impl AsyncFnMut(&mut Client) -> Outcome<T>,
    ) -> Outcome<T> {
        let (since, mut pause, mut is_reported) = (Instant::now(), PAUSE_MS, false);
        loop {
            let mut client = match self.client.take() {
                Some(client) => client,
                None => Client::new(&self.addresses[self.current])?,
            };
            let failure = match request(&mut client).await {
                Ok(answer) => {
                    self.client = Some(client);
                    if is_reported {
                        (self.notify)("a node answers again");
                    }
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let is_transient = matches!(failure.kind(), Some(Kind::Unavailable | Kind::Unknown));
            if !is_transient || self.patience.is_over(since) {
                self.client = Some(client);
                return Err(failure);
            }
            // The first attempts find another node, or the new master, unnoticed.
            if !is_reported && pause > PAUSE_MS * 8 {
                is_reported = true;
                (self.notify)(&format!("{failure}: trying again"));
            }
            self.current = (self.current + 1) % self.addresses.len();
            sleep(Duration::from_millis(pause)).await;
            pause = (pause * 2).min(PAUSE_MS_MAX);
        }
    }

    /// Returns the longest wait for an answer.
    pub fn timeout(&self) -> Duration {
        self.addresses[0].timeout
    }
}

/// Returns the addresses of the members beside the first one, reached as it is: with or without
/// encryption, with its login.
fn other_addresses(first: &Address, members: &Members) -> Vec<Address> {
    let scheme = if first.url.starts_with("https://") { "https://" } else { "http://" };
    let urls = members.members.iter().filter(|member| !member.client.is_empty());
    let urls = urls.map(|member| format!("{scheme}{}", member.client));
    let is_other = |url: &String| first.url.trim_end_matches('/') != url;
    urls.filter(is_other).map(|url| Address { url, ..first.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::MemberReply;
    use program::Failure;

    #[test]
    fn other_nodes_are_reached_as_the_first_one_is() {
        let member = |client: &str| MemberReply { client: client.into(), ..MemberReply::default() };
        let members = ["127.0.0.1:7711", "127.0.0.1:7712", ""].map(member).to_vec();
        let members = Members { members, ..Members::default() };
        for (first, other) in [
            ("http://127.0.0.1:7711", "http://127.0.0.1:7712"),
            ("https://127.0.0.1:7711/", "https://127.0.0.1:7712"),
        ] {
            let first = Address::plain(first.into(), Duration::from_secs(1));
            let others = other_addresses(&first, &members);
            let urls: Vec<_> = others.iter().map(|address| &*address.url).collect();
            assert_eq!(urls, [other]);
        }
    }

    fn client(patience: Patience) -> ClusterClient {
        let address = Address::plain("http://127.0.0.1:1".into(), Duration::from_secs(1));
        ClusterClient::new(&address, patience, |_| {}).expect("an address")
    }

    #[tokio::test]
    async fn attempts_go_on_until_a_refusal() {
        let mut attempts = 0;
        let refused: Outcome = client(Patience::Endless)
            .attempt(async |_| {
                attempts += 1;
                Err(match attempts {
                    1 => Failure::new(Kind::Unavailable, "later"),
                    2 => Failure::new(Kind::Unknown, "perhaps"),
                    _ => Failure::invalid("wrong"),
                })
            })
            .await;
        assert_eq!((attempts, refused.expect_err("it is wrong").to_string()), (3, "wrong".into()));
    }

    #[tokio::test]
    async fn attempts_end_when_patience_is_over() {
        let failing = async |_: &mut Client| Err(Failure::new(Kind::Unavailable, "later"));
        let patience = Patience::Limited(Duration::from_millis(100));
        let given_up: Outcome = client(patience).attempt(failing).await;
        assert_eq!(given_up.expect_err("nobody answers").to_string(), "later");
    }
}
