//! `credenza cert`: the certificate authority of an operator, in a folder on that operator's
//! machine.
//!
//! Promises: keys are readable by their owner only; a file is replaced as a whole, so that no
//! reader finds half of one.
//! Never: sends anything to a node; puts the authority's key anywhere but into its folder.
//! Read next: `folder.rs`.

mod folder;
mod passphrase;
#[cfg(test)]
mod tests;

use crate::output;
use base::Alarm;
use base::utc_time::UtcTime;
use folder::{CertificateFolder, IssuedRecord};
use passphrase::PassphraseSource;
use program::{Failure, Outcome};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tls::authority::Authority;
use tls::{
    CertificateDemand, CertificateFacts, ListenerMode, Purpose, Tls, TlsSettings, TlsWarning,
};

pub const EXAMPLES: &str = "\
Examples:
  credenza cert init ca --cluster shop             a new authority in the folder ca
  credenza cert node n1 --host db1.example.org,10.0.0.1
  credenza cert client alice
  credenza cert renew ca/n1.node.crt               same names, new key, another year
  credenza cert revoke ca/alice.client.crt         then give ca/crl.pem to every node
  credenza cert show                               all that were made, and until when
  credenza cert check --cert n1.node.crt --key n1.node.key --ca ca.crt

The folder of the authority stays with the operator: whoever has its key can make any node and any
user. A node gets its certificate, its key, ca.crt and crl.pem.";

/// Folder of the authority, unless another is named.
const DEFAULT_FOLDER: &str = "ca";

/// Actions on certificates.
#[derive(clap::Subcommand)]
pub enum CertCommand {
    /// Make a certificate authority for a cluster
    Init(CertInit),
    /// Make the certificate of a node
    Node(CertNode),
    /// Make the certificate of a user
    Client(CertClient),
    /// Make a certificate anew: same names, new key
    Renew(CertRenew),
    /// Revoke a certificate
    Revoke(CertRevoke),
    /// Show a certificate, or all that were made
    Show(CertShow),
    /// Check the files of a node as the node would
    Check(CertCheck),
}

/// Arguments: a new authority.
#[derive(clap::Args)]
pub struct CertInit {
    /// The new folder
    #[arg(default_value = DEFAULT_FOLDER)]
    dir: PathBuf,
    /// Name of the cluster, which stands in every certificate
    #[arg(long, default_value = "credenza")]
    cluster: String,
    /// Keep the authority's key unencrypted
    #[arg(long, conflicts_with = "passphrase_file")]
    plain: bool,
    #[command(flatten)]
    passphrase: PassphraseSource,
}

/// Arguments: an existing authority.
#[derive(clap::Args)]
pub struct AuthorityArguments {
    /// Folder of the authority
    #[arg(long, default_value = DEFAULT_FOLDER, env = "CREDENZA_CA_DIR")]
    dir: PathBuf,
    #[command(flatten)]
    passphrase: PassphraseSource,
}

impl AuthorityArguments {
    fn open(&self) -> Outcome<(CertificateFolder, Authority)> {
        let folder = CertificateFolder::open(&self.dir)?;
        let (certificate, key) = (folder.read("ca.crt")?, folder.read("ca.key")?);
        let passphrase = match Authority::needs_passphrase(&key) {
            true => Some(self.passphrase.read("passphrase of the authority")?),
            false => None,
        };
        let passphrase = passphrase.as_ref().map(|text| text.as_str());
        let authority = Authority::open(&certificate, &key, passphrase);
        Ok((folder, authority.map_err(invalid)?))
    }
}

/// Arguments: a node's certificate.
#[derive(clap::Args)]
pub struct CertNode {
    /// The node's name, as its setting `name`
    name: String,
    /// Names and addresses at which clients reach it
    #[arg(long, value_delimiter = ',', required = true)]
    host: Vec<String>,
    /// Days for which it is valid
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    #[command(flatten)]
    authority: AuthorityArguments,
}

/// Arguments: a user's certificate.
#[derive(clap::Args)]
pub struct CertClient {
    /// The user's name
    user: String,
    /// Days for which it is valid
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    #[command(flatten)]
    authority: AuthorityArguments,
}

/// Arguments: a certificate to make anew.
#[derive(clap::Args)]
pub struct CertRenew {
    /// The certificate; its key, beside it, is replaced, too
    certificate: PathBuf,
    /// Days for which it is valid
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    #[command(flatten)]
    authority: AuthorityArguments,
}

/// Arguments: a certificate to revoke.
#[derive(clap::Args)]
pub struct CertRevoke {
    /// The certificate's file, or its serial number
    certificate: String,
    #[command(flatten)]
    authority: AuthorityArguments,
}

/// Arguments: a certificate to show.
#[derive(clap::Args)]
pub struct CertShow {
    /// The certificate. Without it: all that the authority made
    certificate: Option<PathBuf>,
    /// Folder of the authority
    #[arg(long, default_value = DEFAULT_FOLDER, env = "CREDENZA_CA_DIR")]
    dir: PathBuf,
}

/// Arguments: the files of a node.
#[derive(clap::Args)]
pub struct CertCheck {
    /// The node's certificate
    #[arg(long, value_name = "FILE")]
    cert: PathBuf,
    /// Its key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The authorities that it trusts
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,
    /// The list of revoked certificates
    #[arg(long, value_name = "FILE")]
    crl: Option<PathBuf>,
}

impl CertCommand {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self {
            CertCommand::Init(init) => init.run(),
            CertCommand::Node(CertNode { name, host, days, authority }) => {
                let (folder, authority) = authority.open()?;
                issue(&folder, &authority, (Purpose::Node, &name), &host, days)
            }
            CertCommand::Client(CertClient { user, days, authority }) => {
                let (folder, authority) = authority.open()?;
                issue(&folder, &authority, (Purpose::Client, &user), &[], days)
            }
            CertCommand::Renew(renew) => renew.run(),
            CertCommand::Revoke(revoke) => revoke.run(),
            CertCommand::Show(show) => show.run(),
            CertCommand::Check(check) => check.run(),
        }
    }
}

impl CertInit {
    fn run(self) -> Outcome {
        let authority = Authority::create(&self.cluster, SystemTime::now()).map_err(invalid)?;
        let passphrase = match self.plain {
            true => None,
            false => Some(self.passphrase.choose("passphrase of the new authority")?),
        };
        let folder = CertificateFolder::create(&self.dir)?;
        folder.create_authority(&authority, passphrase.as_ref().map(|text| text.as_str()))?;
        output::text(&format!(
            "{}: an authority for the cluster {}; its key stays here\n",
            self.dir.display(),
            self.cluster
        ))
    }
}

/// Makes an authority with an unencrypted key in a folder, and the certificates of these nodes and
/// of one user, all for this machine. Does nothing if the folder exists.
pub fn make_local(dir: &Path, nodes: &[String], user: &str) -> Outcome {
    if dir.exists() {
        return Ok(());
    }
    let authority = Authority::create("dev", SystemTime::now()).map_err(invalid)?;
    let folder = CertificateFolder::create(dir)?;
    folder.create_authority(&authority, None)?;
    let hosts = ["127.0.0.1".to_string(), "localhost".into()];
    for node in nodes {
        issue(&folder, &authority, (Purpose::Node, node), &hosts, 365)?;
    }
    issue(&folder, &authority, (Purpose::Client, user), &[], 365)
}

/// Makes a certificate and writes it into the folder of the authority.
fn issue(
    folder: &CertificateFolder,
    authority: &Authority,
    (purpose, name): (Purpose, &str),
    hosts: &[String],
    days: u32,
) -> Outcome {
    let path = folder.path(&format!("{name}.{}.crt", purpose.label()));
    if path.exists() {
        let text = format!("{} exists: `credenza cert renew` replaces it", path.display());
        return Err(Failure::invalid(text));
    }
    write_issued(folder, authority, (purpose, name), hosts, (days, &path))
}

fn write_issued(
    folder: &CertificateFolder,
    authority: &Authority,
    (purpose, name): (Purpose, &str),
    hosts: &[String],
    (days, path): (u32, &Path),
) -> Outcome {
    let now = SystemTime::now();
    let validity = now..now + Duration::from_secs(u64::from(days) * 24 * 3_600);
    let issued = authority.issue(purpose, name, hosts, validity).map_err(invalid)?;
    // Recorded first: what is not on record can't be revoked by its number.
    let facts = &issued.facts;
    folder.record(IssuedRecord {
        serial: facts.serial.clone(),
        subject: format!("{name}.{}", purpose.label()),
        not_after_s: facts.not_after_s,
        revoked_s: None,
    })?;
    folder::write_pair(path, &issued)?;
    let until = utc(facts.not_after_s);
    output::text(&format!("{}: valid until {until}, its key is beside it\n", path.display()))
}

impl CertRenew {
    fn run(self) -> Outcome {
        let (folder, authority) = self.authority.open()?;
        let facts = read_facts(&self.certificate)?;
        let identity = facts.identities().next().ok_or_else(|| {
            Failure::invalid(format!("{}: it names no node or user", self.certificate.display()))
        })?;
        if identity.cluster != authority.cluster() {
            let text = format!("{}: it is of another cluster", self.certificate.display());
            return Err(Failure::invalid(text));
        }
        let hosts = facts.dns_names.iter().filter(|name| **name != identity.to_string()).cloned();
        let hosts: Vec<_> = hosts.chain(facts.addresses.iter().map(ToString::to_string)).collect();
        let who = (identity.purpose, identity.name.as_str());
        write_issued(&folder, &authority, who, &hosts, (self.days, &self.certificate))
    }
}

impl CertRevoke {
    fn run(self) -> Outcome {
        let (folder, authority) = self.authority.open()?;
        let path = Path::new(&self.certificate);
        let serial = match path.exists() {
            true => read_facts(path)?.serial,
            false => self.certificate.clone(),
        };
        let subject = folder.revoke(&serial, &authority, now_s())?;
        output::text(&format!(
            "{subject} ({serial}) is revoked: give {} to every node (tls_crl_file)\n",
            folder.path("crl.pem").display()
        ))
    }
}

impl CertShow {
    fn run(self) -> Outcome {
        if let Some(path) = &self.certificate {
            return output::text(&describe(&read_facts(path)?));
        }
        let mut rows = Vec::new();
        for record in CertificateFolder::open(&self.dir)?.records()? {
            let state = match record.revoked_s {
                Some(revoked_s) => format!("revoked {}", utc(revoked_s)),
                None if record.not_after_s <= now_s() => "expired".into(),
                None => "valid".into(),
            };
            rows.push(vec![record.subject, utc(record.not_after_s), state, record.serial]);
        }
        output::table(&["certificate", "until", "state", "serial"], rows)
    }
}

impl CertCheck {
    fn run(self) -> Outcome {
        let settings = TlsSettings {
            listeners: ListenerMode::Required,
            client_certificates: CertificateDemand::Asked,
            certificate: Some(self.cert.clone()),
            key: Some(self.key),
            authorities: Some(self.ca),
            revoked: self.crl,
            ..TlsSettings::default()
        };
        let tls = Tls::open(settings).map_err(invalid)?;
        output::text(&describe(&read_facts(&self.cert)?))?;
        let warnings = tls.warnings(now_s());
        match warnings.is_empty() {
            true => output::text("a node can start with these files\n"),
            false => {
                let texts = warnings.iter().map(|warning| {
                    let TlsWarning { code, subject, detail } = warning;
                    let alarm = Alarm::new(*code, subject, detail, 0);
                    format!("{}: {}", alarm.text, alarm.remedy)
                });
                Err(Failure::negative(texts.collect::<Vec<_>>().join("; ")))
            }
        }
    }
}

fn read_facts(path: &Path) -> Outcome<CertificateFacts> {
    CertificateFacts::read_file(path).map_err(invalid)
}

fn describe(facts: &CertificateFacts) -> String {
    let addresses = facts.addresses.iter().map(ToString::to_string);
    let names: Vec<_> = facts.dns_names.iter().cloned().chain(addresses).collect();
    format!(
        "subject  {}\nserial   {}\nfrom     {}\nuntil    {}\nnames    {}\n",
        output::printable_text(&facts.subject),
        facts.serial,
        utc(facts.not_before_s),
        utc(facts.not_after_s),
        output::printable_text(&names.join(", "))
    )
}

fn invalid(error: base::Error) -> Failure {
    Failure::invalid(error.text())
}

/// Returns a time as text: date and time of day, UTC.
fn utc(seconds: u64) -> String {
    let UtcTime { year, month, day, hour, minute, .. } = UtcTime::from_unix(seconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
