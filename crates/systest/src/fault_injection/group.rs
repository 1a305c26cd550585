//! Control groups of a test, which limit the memory or the write rate of processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

const MEMORY_CGROUP_ROOT: &str = "/sys/fs/cgroup/memory";
const BLKIO_CGROUP_ROOT: &str = "/sys/fs/cgroup/blkio";

/// A memory group, removed on drop.
#[derive(Debug)]
pub struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// Returns the reason why no group can be made. `None`: it can.
    pub fn missing() -> Option<String> {
        let exists = Path::new(MEMORY_CGROUP_ROOT).join("memory.limit_in_bytes").exists();
        (!exists).then(|| format!("needs memory groups (v1) at {MEMORY_CGROUP_ROOT}"))
    }

    /// Creates a group with this limit.
    pub fn new(name: &str, bytes: u64) -> MemoryGroup {
        let path = Path::new(MEMORY_CGROUP_ROOT)
            .join(format!("credenza-systest-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("root may make groups");
        std::fs::write(path.join("memory.limit_in_bytes"), bytes.to_string())
            .expect("the group is ours");
        MemoryGroup { path }
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path.join(file)).unwrap_or_default()
    }

    /// Returns the arguments of a command that runs another command inside the group from its
    /// start.
    pub fn wrapper(&self) -> Vec<String> {
        let script = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", self.path.display());
        ["sh", "-c", &script, "sh"].iter().map(|word| word.to_string()).collect()
    }

    /// Returns the most memory that was used, with the page cache, in bytes.
    pub fn peak(&self) -> u64 {
        self.read("memory.max_usage_in_bytes").trim().parse().unwrap_or(0)
    }

    /// Returns the number of processes that the kernel killed for lack of memory.
    pub fn kills(&self) -> u64 {
        let text = self.read("memory.oom_control");
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        remove_group(&self.path);
    }
}

/// A group that limits the write rate of its processes to one disk, removed on drop.
#[derive(Debug)]
pub struct DiskGroup {
    path: PathBuf,
    device: String,
}

impl DiskGroup {
    const LIMIT: &str = "blkio.throttle.write_iops_device";

    /// Returns the reason why no group can be made. `None`: it can.
    pub fn missing() -> Option<String> {
        let exists = Path::new(BLKIO_CGROUP_ROOT).join(DiskGroup::LIMIT).exists();
        (!exists).then(|| format!("needs disk groups (v1) at {BLKIO_CGROUP_ROOT}"))
    }

    /// Creates a group for a disk, named `MAJOR:MINOR`, without a limit.
    pub fn new(name: &str, device: &str) -> DiskGroup {
        let path = Path::new(BLKIO_CGROUP_ROOT)
            .join(format!("credenza-systest-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("root may make groups");
        DiskGroup { path, device: device.into() }
    }

    /// Adds a process with all its threads.
    pub fn add_process(&self, pid: u32) {
        std::fs::write(self.path.join("cgroup.procs"), pid.to_string()).expect("it runs");
    }

    /// Limits the writes a second from now on; 0: no limit.
    pub fn limit_writes_per_second(&self, count: u32) {
        let limit = format!("{} {count}", self.device);
        std::fs::write(self.path.join(DiskGroup::LIMIT), limit).expect("the group is ours");
    }
}

impl Drop for DiskGroup {
    fn drop(&mut self) {
        remove_group(&self.path);
    }
}

/// Removes a group; that succeeds only after its last process has ended.
fn remove_group(path: &Path) {
    for _ in 0..100 {
        if std::fs::remove_dir(path).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
