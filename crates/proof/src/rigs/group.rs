//! A memory group of the test's own: a process in it may use so much and no more.

use std::path::{Path, PathBuf};
use std::time::Duration;

const HOME: &str = "/sys/fs/cgroup/memory";

/// A memory group. Dropped, it is taken away.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// Why there can be none, in words.
    pub fn missing() -> Option<String> {
        let there = Path::new(HOME).join("memory.limit_in_bytes").exists();
        (!there).then(|| format!("needs memory groups (v1) at {HOME}"))
    }

    /// A group with this limit.
    pub fn new(name: &str, bytes: u64) -> MemoryGroup {
        let path = Path::new(HOME).join(format!("credenza-proof-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("root may make groups");
        std::fs::write(path.join("memory.limit_in_bytes"), bytes.to_string())
            .expect("the group is ours");
        MemoryGroup { path }
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path.join(file)).unwrap_or_default()
    }

    /// The words that run a command inside from its start.
    pub fn wrapper(&self) -> Vec<String> {
        let script = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", self.path.display());
        ["sh", "-c", &script, "sh"].iter().map(|word| word.to_string()).collect()
    }

    /// The most that was used, page cache counted.
    pub fn peak(&self) -> u64 {
        self.read("memory.max_usage_in_bytes").trim().parse().unwrap_or(0)
    }

    /// How often the kernel killed for lack of memory.
    pub fn kills(&self) -> u64 {
        let text = self.read("memory.oom_control");
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        for _ in 0..100 {
            if std::fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
