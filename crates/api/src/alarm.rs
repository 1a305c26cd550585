//! Alarms of a node, as its status shows them.

use crate::schema::one_of;
use base::alarm::{ALARMS, Severity};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Alarm: a state that an operator should know of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Alarm {
    /// Code of the alarm; it never changes its meaning. Later versions have more codes.
    #[schemars(schema_with = "code")]
    pub code: String,
    /// Severity of the alarm.
    #[schemars(schema_with = "severity")]
    pub severity: String,
    /// Thing that the alarm is about: a member, a group, the disk.
    pub subject: String,
    /// Time since which the alarm has held, in milliseconds since 1970 (UTC).
    pub since_ms: u64,
    /// Description in one sentence.
    pub text: String,
    /// Action that clears the alarm.
    pub remedy: String,
}

impl From<&base::Alarm> for Alarm {
    fn from(alarm: &base::Alarm) -> Alarm {
        Alarm {
            code: alarm.code.name().into(),
            severity: alarm.code.severity().name().into(),
            subject: alarm.subject.clone(),
            since_ms: alarm.since_ms,
            text: alarm.text.clone(),
            remedy: alarm.remedy.clone(),
        }
    }
}

fn code(_: &mut SchemaGenerator) -> Schema {
    one_of(&ALARMS.iter().map(|row| row.name).collect::<Vec<_>>())
}

fn severity(_: &mut SchemaGenerator) -> Schema {
    one_of(&Severity::ALL.map(Severity::name))
}
