//! Certificates of an experiment, made by the tool's own commands.

use crate::environment::path_str;
use crate::server::tool;
use std::path::{Path, PathBuf};

/// Authority in a folder.
pub struct TestAuthority {
    folder: PathBuf,
}

impl TestAuthority {
    /// Makes an authority in a new folder.
    pub fn create(folder: &Path) -> TestAuthority {
        let authority = TestAuthority { folder: folder.into() };
        run(&["cert", "init", path_str(folder), "--cluster", "shop", "--plain"]);
        authority
    }

    /// Makes the certificate of a node on this machine.
    pub fn node(&self, name: &str) {
        let hosts = "127.0.0.1,localhost";
        run(&["cert", "node", name, "--host", hosts, "--dir", path_str(&self.folder)]);
    }

    /// Makes the certificate of a user.
    pub fn client(&self, user: &str) {
        run(&["cert", "client", user, "--dir", path_str(&self.folder)]);
    }

    /// Makes a certificate anew.
    pub fn renew(&self, file: &str) {
        let file = self.file(file);
        run(&["cert", "renew", &file, "--dir", path_str(&self.folder)]);
    }

    /// Revokes a certificate.
    pub fn revoke(&self, file: &str) {
        let file = self.file(file);
        run(&["cert", "revoke", &file, "--dir", path_str(&self.folder)]);
    }

    /// Returns the path of a file in its folder.
    pub fn file(&self, name: &str) -> String {
        path_str(&self.folder.join(name)).to_string()
    }

    /// Returns the flags of a node's files; `@NODE` stands for its name.
    pub fn node_args(&self) -> Vec<String> {
        let words = [
            ("--tls-cert-file", self.file("@NODE.node.crt")),
            ("--tls-key-file", self.file("@NODE.node.key")),
            ("--tls-ca-file", self.file("ca.crt")),
            ("--tls-crl-file", self.file("crl.pem")),
        ];
        words.into_iter().flat_map(|(flag, value)| [flag.to_string(), value]).collect()
    }
}

fn run(args: &[&str]) {
    let output = tool(args).output().expect("the tool runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "credenza {}: {stderr}", args.join(" "));
}
