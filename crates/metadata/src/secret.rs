//! The cluster's secret in the directory, and the requirement to sign greetings with it.
//!
//! A cluster has a secret from its founding on. An operator gives one to a cluster of an earlier
//! version while it runs, in two steps: the secret is *offered* (members sign, and still accept
//! unsigned greetings); once each member reports that it has stored it, it is *required*.
//!
//! Promises: it is required only after every member of that moment has it on its disk; a node that
//! joins later gets it with the answer that admits it.
//! Never: gives the secret in any other answer; changes it.

use super::rows::{
    CLUSTER, ROW_VERSION, SECRET, assert, bad_row, check_version, read_cluster, set,
};
use super::{CallPlan, Directory};
use base::codec::Reader;
use base::{Body, ClusterSecret, Error, Reason, Result, Update, Value};
use bytes::Bytes;
use runtime::world;
use std::sync::PoisonError;

/// The row `n/secret`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRow {
    /// Secret with which members sign their greetings.
    pub secret: ClusterSecret,
    /// True if every connection must be signed with it. False: it is offered.
    pub is_required: bool,
}

impl Directory {
    /// Returns the cluster's secret and its state. `None`: the cluster has none.
    pub fn secret(&self) -> Result<Option<SecretRow>> {
        self.get(&Bytes::from_static(SECRET))?.map(|value| read(&value)).transpose()
    }

    /// Plans a secret if there is none. Fails while an existing one is offered and not yet
    /// required.
    pub(super) fn plan_secret(&self) -> Result<CallPlan> {
        let Some(row) = self.secret()? else {
            let row = SecretRow { secret: random_secret(), is_required: false };
            let steps = vec![assert(&Bytes::from_static(SECRET), None), set_row(&row)];
            return Ok(CallPlan::Change(steps));
        };
        match row.is_required {
            true => Ok(CallPlan::Answer(Body::Done)),
            false => Err(self.distribution_error()),
        }
    }

    /// Requires an offered secret from now on, because every member has it. No effect unless the
    /// directory is still at `changes`: a node that has joined since may lack it.
    pub async fn require_secret(&self, changes: u64) -> Result<()> {
        let plan = || {
            let key = Bytes::from_static(CLUSTER);
            let cluster = self.get(&key)?;
            let cluster_row = cluster.as_deref().map(read_cluster).transpose()?;
            let is_same = cluster_row.is_some_and(|row| row.changes == changes);
            let Some(row) = self.secret()?.filter(|row| !row.is_required && is_same) else {
                return Ok(CallPlan::Answer(Body::Done));
            };
            let before = assert(&Bytes::from_static(SECRET), Some(write(&row)));
            let after = set_row(&SecretRow { is_required: true, ..row });
            Ok(CallPlan::Change(vec![assert(&key, cluster), before, after]))
        };
        self.change(plan).await.map(|_| ())
    }

    /// Records the names of members that have not stored an offered secret.
    pub fn record_lacking(&self, names: Vec<String>) {
        *self.members_without_secret.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    fn distribution_error(&self) -> Error {
        let names =
            self.members_without_secret.lock().unwrap_or_else(PoisonError::into_inner).join(", ");
        let text = match names.is_empty() {
            true => {
                "the cluster secret is being distributed to the members: repeat the request".into()
            }
            false => format!(
                "these members do not have the cluster secret yet: {names}; start them with this \
                 version, or remove them, and repeat the request: until then peer connections \
                 without the secret are accepted"
            ),
        };
        Error::new(Reason::NoQuorum, text)
    }
}

/// Returns the step that gives a new cluster its secret: required from the start, because no member
/// can lack it.
pub(super) fn founding_secret() -> Update {
    set_row(&SecretRow { secret: random_secret(), is_required: true })
}

fn random_secret() -> ClusterSecret {
    ClusterSecret::new(world::secret())
}

fn set_row(row: &SecretRow) -> Update {
    set(Bytes::from_static(SECRET), write(row))
}

fn write(row: &SecretRow) -> Value {
    let mut bytes = vec![ROW_VERSION, u8::from(row.is_required)];
    bytes.extend_from_slice(row.secret.bytes());
    Bytes::from(bytes)
}

/// Decodes the row.
pub fn read(value: &[u8]) -> Result<SecretRow> {
    let read = || {
        let mut reader = Reader::new(value);
        check_version(&mut reader, "secret")?;
        let is_required = reader.u8("secret")? != 0;
        let bytes = reader.take(ClusterSecret::BYTES, "secret")?;
        let bytes = bytes.try_into().map_err(|_| base::codec::Malformed("secret"))?;
        reader.end("secret")?;
        Ok(SecretRow { secret: ClusterSecret::new(bytes), is_required })
    };
    read().map_err(bad_row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_row_round_trips_and_decode_errors_hide_the_secret() {
        let row = |is_required| SecretRow { secret: ClusterSecret::new([7; 32]), is_required };
        assert_eq!(write(&row(true)), [&[1, 1][..], &[7; 32]].concat());
        for row in [row(true), row(false)] {
            assert_eq!(read(&write(&row)), Ok(row));
        }
        for bad in [&[][..], &[1, 1], &[1; 33], &[1; 35], &[2; 34]] {
            let refused = read(bad).expect_err("no such row");
            assert!(!format!("{refused:?}").contains("7, 7"), "{refused:?}");
        }
    }
}
