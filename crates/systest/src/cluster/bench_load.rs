//! Load on a cluster by the product's own load tool, from the clients' host.

use super::Cluster;
use crate::environment::path_str;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running load.
pub struct Bench {
    child: Child,
}

impl Cluster {
    /// Starts `credenza bench` with these settings against a node, on the clients' host.
    pub fn bench(&self, folder: &Path, name: &str, node: usize, settings: &str) -> Bench {
        let file = folder.join(format!("{name}.toml"));
        let address = self.client_address(node);
        let config = format!(
            "driver = \"resp\"\nresp_address = \"{address}\"\ntest_dir = \"{}\"\n{settings}\n",
            path_str(folder)
        );
        std::fs::write(&file, config).expect("the scratch folder can be written");
        let mut args = self
            .network
            .as_ref()
            .map_or(Vec::new(), |network| network.wrapper(self.options.nodes + 1));
        args.extend(
            [crate::server::binary(), Path::new("bench"), &file].map(|word| path_str(word).into()),
        );
        args.extend(["-n", name, "--json"].map(String::from));
        let mut command = Command::new(&args[0]);
        command.args(&args[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Bench { child: command.spawn().expect("the tool runs") }
    }
}

impl Bench {
    /// Returns true if the load still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the end of the load; returns its report.
    pub fn report(self) -> Value {
        let output = self.child.wait_with_output().expect("a child can be waited for");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the load failed: {stderr}");
        serde_json::from_slice(&output.stdout).expect("the report is JSON")
    }
}
