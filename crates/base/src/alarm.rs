//! Alarms: states that an operator should know of, each with a stable code, a severity and a
//! remedy.
//!
//! [`ALARMS`] is the only table. A node finds out which alarms hold; its status, its metrics, the
//! command line and the page `docs/run/alarms.md` show them. A new alarm is a new row. A code never
//! changes its meaning, and is never used again.

/// Severity of an alarm, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Requests fail, or data are in danger: act now.
    Critical,
    /// The node serves, but tolerates less than it should: act soon.
    Warning,
    /// A state that may be intended.
    Notice,
}

impl Severity {
    /// All severities, the gravest first.
    pub const ALL: [Severity; 3] = [Severity::Critical, Severity::Warning, Severity::Notice];

    /// Returns the name in answers and documents.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Critical => "critical",
            Severity::Warning => "warning",
            Severity::Notice => "notice",
        }
    }
}

/// Row of the table of alarms.
#[derive(Debug)]
pub struct AlarmRow {
    /// Code of the alarm.
    pub code: AlarmCode,
    /// Name of the code, as programs read it.
    pub name: &'static str,
    /// Severity of the alarm.
    pub severity: Severity,
    /// Kind of thing that the alarm is about.
    pub subject: &'static str,
    /// Text; `{subject}` and `{detail}` stand for those of one alarm.
    pub text: &'static str,
    /// Remedy; `{subject}` stands for that of one alarm.
    pub remedy: &'static str,
}

/// Alarm that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Code of the alarm.
    pub code: AlarmCode,
    /// Thing that the alarm is about: a member, a group, a task.
    pub subject: String,
    /// Time since which it has held, in milliseconds since 1970.
    pub since_ms: u64,
    /// Description in one sentence.
    pub text: String,
    /// Action that clears it.
    pub remedy: String,
}

impl Alarm {
    /// Builds an alarm from its row.
    pub fn new(code: AlarmCode, subject: &str, detail: &str, since_ms: u64) -> Alarm {
        let fill = |text: &str| text.replace("{subject}", subject).replace("{detail}", detail);
        let row = code.row();
        Alarm {
            code,
            subject: subject.into(),
            since_ms,
            text: fill(row.text),
            remedy: fill(row.remedy),
        }
    }
}

impl AlarmCode {
    /// Returns the row of the code.
    pub fn row(self) -> &'static AlarmRow {
        &ALARMS[self as usize]
    }

    /// Returns the name of the code.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the severity of its alarms.
    pub fn severity(self) -> Severity {
        self.row().severity
    }
}

/// Defines the codes and their table from rows: code, name, severity, subject, text, remedy.
macro_rules! alarms {
    ($($code:ident, $name:literal, $severity:ident, $subject:literal, $text:literal,
        $remedy:literal;)+) => {
        /// Code of an alarm, in the order of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum AlarmCode {
            $(#[doc = $text] $code,)+
        }

        /// Table of all alarms.
        pub const ALARMS: &[AlarmRow] = &[$(AlarmRow {
            code: AlarmCode::$code,
            name: $name,
            severity: Severity::$severity,
            subject: $subject,
            text: $text,
            remedy: $remedy,
        },)+];
    };
}

alarms! {
    NodeFailed, "node_failed", Critical, "node",
        "the node has failed and must be restarted: {detail}",
        "restart it; the log and the crash log (`DIR/crash`) name the cause";
    NoQuorum, "no_quorum", Critical, "groups",
        "{detail}",
        "start the members that are not reached, or restore the network (see `credenza cluster \
         status`); if the voters are connected and elect no master, read their logs";
    LogTorn, "log_torn", Critical, "group",
        "{detail}",
        "start the members that are down: their logs decide what the torn one held \
         (`docs/run/cluster.md`)";
    DiskFull, "disk_full", Critical, "disk",
        "{detail}: writes are refused, reads and deletes continue",
        "free some space, or lower `disk_reserve_bytes`; the node then continues by itself";
    DiskHangs, "disk_hangs", Critical, "log",
        "the disk hangs: {detail}; other nodes take over the groups that this node leads",
        "check the disk (`dmesg`)";
    ReplicasDiffer, "replicas_differ", Critical, "group",
        "replicas of {subject} differ: {detail}",
        "keep the logs, take a checkpoint, then run `credenza cluster replace` for the member that \
         differs from the others";
    WitnessFull, "witness_full", Critical, "group",
        "{detail}",
        "start the voter that is down, or run `credenza cluster replace` for it";
    NotMember, "not_member", Critical, "node",
        "this node was removed from the cluster",
        "stop it";
    Stalled, "stalled", Critical, "task",
        "the task {subject} stands still: {detail}",
        "check the disk (`dmesg`) and the load of the machine; if it does not go on, keep the log \
         and \
         the output of `credenza status --json`, and restart the node";
    AuditFailed, "audit_failed", Critical, "audit log",
        "the audit log can't be written: {detail}; changes of users, roles, tokens and access are \
         refused until it can, all other requests are served, and their records wait in memory as \
         long as there is room",
        "free space on the disk, or correct the folder `audit` of the data directory: it must be a \
         folder of this node's user with mode 0700; the node tries again each second";
    MemberDown, "member_down", Warning, "member",
        "{subject} is not reached ({detail})",
        "start it, or if its disk is lost, run `credenza cluster replace {subject}` and start a \
         new \
         node named {subject} with `--join` on an empty data directory";
    MemberBehind, "member_behind", Warning, "member",
        "{subject} lags behind the master by {detail}",
        "wait: it catches up (`credenza cluster status` shows its index); if it does not, raise \
         `catch_up_bytes_per_second`, or check its disk and its network";
    DiskFilling, "disk_filling", Warning, "disk",
        "the disk fills up: {detail}",
        "free some space";
    DiskSlow, "disk_slow", Warning, "log",
        "the disk is slow: {detail}; a node with a faster disk takes over the groups that this \
         node \
         leads, unless masters are set",
        "check what else uses the disk";
    LogHeld, "log_held", Warning, "log",
        "the log can't be truncated: {detail}",
        "check the disk of the store and the members that lag (`credenza status` shows the flushed \
         index of each group); restart the node if that index stands still";
    BallotsUsed, "ballots_used", Warning, "group",
        "this node can't be elected master of {subject} any more: a member used the last ballot of \
         this configuration",
        "if there is a master, change the group's members once to get new ballots (`credenza \
         cluster demote`, then `promote`); if there is none, see `credenza cluster recover`";
    MemberUnsound, "member_unsound", Warning, "member",
        "{subject} sends messages for {detail} that violate the protocol",
        "run the same version everywhere, and run `credenza cluster replace {subject}` if this \
         continues";
    HintsOld, "hints_old", Warning, "member",
        "writes for {subject} have been waiting here for {detail}",
        "start {subject}, or if its disk is lost, run `credenza cluster replace {subject}`";
    WritesWait, "writes_wait", Warning, "store",
        "writes wait for memory: rows are written to the store's files more slowly than they come",
        "if this lasts, check the disk, and what else uses it";
    MergesWait, "merges_wait", Warning, "store",
        "merges of the store wait for free space on the disk: until then deleted and overwritten \
         rows take theirs, reads get slower, and writes may be slowed",
        "free some space";
    WritesSlowed, "writes_slowed", Warning, "store",
        "writes are slowed, because merges of the store lag: {detail}",
        "none if it ends by itself (an import, a peak); if it lasts, the disk or the processors \
         are too slow for these writes: write less, or add nodes";
    TlsReloadFailed, "tls_reload_failed", Warning, "files of TLS",
        "the changed files of TLS can't be used, and the former ones stay in force: {detail}",
        "correct the files, then run `credenza reload`";
    TlsExpires, "tls_expires", Warning, "certificate",
        "{subject} {detail}",
        "renew it with `credenza cert renew`, then run `credenza reload`";
    PeersPlain, "peers_plain", Notice, "members",
        "the connections to {subject} are not encrypted",
        "set `peer_tls = accept` there, too; once no node has this alarm, set `peer_tls = \
         required` everywhere";
    SiblingsMany, "siblings_many", Warning, "available buckets",
        "a key of an available bucket has many siblings (the log names the bucket); at \
         `siblings_max`, writes are refused",
        "clients must send the context that they read";
    ClockJump, "clock_jump", Warning, "wall clock",
        "the wall clock jumped by {detail}",
        "let a time service slew the clock (chrony, systemd-timesyncd); last-write-wins buckets \
         order their writes by it";
    Exposed, "exposed", Warning, "listeners",
        "open to the network without encryption or login: {detail}",
        "set `tls` and `peer_tls` to `required`, or listen on loopback or on a private network";
    HotKey, "hot_key", Notice, "reads or writes",
        "one key takes most {subject} of this node: {detail}",
        "`credenza hot` shows the key; spread its data over several keys, or let clients keep what \
         they read: more nodes do not help one key";
    ClientsRefused, "clients_refused", Warning, "listeners",
        "{detail}",
        "correct the client, or raise the limit that the text names";
    LevelMixed, "level_mixed", Notice, "member",
        "the program of {subject} is older than this one: {detail}",
        "upgrade it; what needs the newer version is refused until then";
    TwoVoters, "two_voters", Notice, "group",
        "{subject} has two voters, and stops if either voter stops",
        "add a third";
    UnsyncedWrites, "unsynced_writes", Notice, "buckets",
        "a power cut may lose up to {detail} of updates of buckets with sync=interval",
        "set sync=sync if that is too much";
}

#[cfg(test)]
mod tests;
