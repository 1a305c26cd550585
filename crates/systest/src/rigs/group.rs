//! Groups of the test's own: a process in one may use so much memory, or write so often, and no
//! more.

use std::path::{Path, PathBuf};
use std::time::Duration;

const HOME: &str = "/sys/fs/cgroup/memory";
const DISKS: &str = "/sys/fs/cgroup/blkio";

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
        let path = Path::new(HOME).join(format!("credenza-systest-{}-{name}", std::process::id()));
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
        take_away(&self.path);
    }
}

/// A group whose processes write to one disk only so often. Dropped, it is taken away.
#[derive(Debug)]
pub struct DiskGroup {
    path: PathBuf,
    device: String,
}

impl DiskGroup {
    const LIMIT: &str = "blkio.throttle.write_iops_device";

    /// Why there can be none, in words.
    pub fn missing() -> Option<String> {
        let there = Path::new(DISKS).join(DiskGroup::LIMIT).exists();
        (!there).then(|| format!("needs disk groups (v1) at {DISKS}"))
    }

    /// A group for a disk, named `MAJOR:MINOR`; nothing is limited yet.
    pub fn new(name: &str, device: &str) -> DiskGroup {
        let path = Path::new(DISKS).join(format!("credenza-systest-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("root may make groups");
        DiskGroup { path, device: device.into() }
    }

    /// Takes a process in, with all its threads.
    pub fn hold(&self, pid: u32) {
        std::fs::write(self.path.join("cgroup.procs"), pid.to_string()).expect("it runs");
    }

    /// So many writes a second pass from now on; 0: any number.
    pub fn writes_a_second(&self, count: u32) {
        let words = format!("{} {count}", self.device);
        std::fs::write(self.path.join(DiskGroup::LIMIT), words).expect("the group is ours");
    }
}

impl Drop for DiskGroup {
    fn drop(&mut self) {
        take_away(&self.path);
    }
}

/// A group can go once its last process is gone.
fn take_away(path: &Path) {
    for _ in 0..100 {
        if std::fs::remove_dir(path).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
