//! Memory limit of this process: the machine's memory, or the limit of its control group.

use std::fs;
use std::path::{Path, PathBuf};

/// Usual mount point of control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// Returns the maximum memory of this process in bytes, if the system reports one.
pub fn memory_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_bytes(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let read = |path: &Path| fs::read_to_string(path).ok()?.trim().parse().ok();
    limit_files(&groups).iter().filter_map(|path| read(path)).chain(machine).min()
}

/// Returns `MemTotal` of `/proc/meminfo` in bytes.
fn total_bytes(text: &str) -> Option<u64> {
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the files that may contain a limit: those of the group in `/proc/self/cgroup` and of
/// every parent group. A container often sees its own group as the root, which is one of them.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => (PathBuf::from(GROUPS), "memory.max"),
            controllers if controllers.split(',').any(|controller| controller == "memory") => {
                (Path::new(GROUPS).join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let relative = Path::new(group.trim_start_matches('/'));
        files.extend(relative.ancestors().map(|group_path| root.join(group_path).join(file)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_limit_files_cover_cgroup_v1_and_v2_up_to_the_root() {
        let text = "12:cpu,cpuacct:/a\n9:memory:/outer/inner\n0::/slice\n";
        let files: Vec<_> =
            limit_files(text).iter().map(|path| path.display().to_string()).collect();
        let expected = [
            "/sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/outer/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/slice/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(files, expected);
        assert!(limit_files("nonsense\n3:memory\n").is_empty());
    }

    #[test]
    fn total_memory_is_parsed_from_meminfo() {
        assert_eq!(total_bytes("MemTotal:       24000 kB\nMemFree: 1 kB\n"), Some(24_000 * 1024));
        assert_eq!(total_bytes("MemFree: 1 kB\n"), None);
        if Path::new("/proc/meminfo").exists() {
            assert!(memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
        }
    }
}
