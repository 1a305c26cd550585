//! File system of a test, in a file: it can be filled, made read-only, frozen, and lose its power.

use crate::environment::{compile_helper, path_str, run, run_ok};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4 on a loop device.
    Ext4,
    /// XFS on a loop device; never smaller than 300 MiB.
    Xfs,
    /// tmpfs, with a limit on the number of files.
    Memory {
        /// Number of files and folders.
        files: usize,
    },
}

impl FileSystem {
    /// Returns its name for `mount`.
    pub fn mount_type(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Memory { .. } => "tmpfs",
        }
    }

    /// Returns the tools that it needs.
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            FileSystem::Ext4 => &["mkfs.ext4", "mount", "findmnt", "cc"],
            FileSystem::Xfs => &["mkfs.xfs", "mount", "cc"],
            FileSystem::Memory { .. } => &["mount"],
        }
    }
}

/// A mounted file system. A drop unmounts it and deletes its file.
#[derive(Debug)]
pub struct Mount {
    system: FileSystem,
    image: PathBuf,
    point: PathBuf,
    mib: usize,
    mounted: bool,
}

impl Mount {
    /// Makes and mounts a file system of `mib` MiB in the folder.
    pub fn new(folder: &Path, system: FileSystem, mib: usize) -> Mount {
        let image = folder.join(format!("{}.img", system.mount_type()));
        let point = folder.join(format!("{}.mount", system.mount_type()));
        std::fs::create_dir_all(&point).expect("the scratch folder can be written");
        let mut mount = Mount { system, image, point, mib, mounted: false };
        if !matches!(system, FileSystem::Memory { .. }) {
            let file = std::fs::File::create(&mount.image).expect("the image can be made");
            file.set_len((mib as u64) << 20).expect("a sparse file costs nothing");
            // No blocks are reserved for root: a full file system is full for every user.
            let mkfs_options: &[&str] =
                if system == FileSystem::Xfs { &["-f"] } else { &["-F", "-m", "0"] };
            let mkfs = format!("mkfs.{}", system.mount_type());
            run_ok(&[&[mkfs.as_str(), "-q"], mkfs_options, &[path_str(&mount.image)]].concat());
        }
        mount.mount();
        mount
    }

    /// Returns the mount point.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Mounts it (again).
    pub fn mount(&mut self) {
        let (image, point) = (path_str(&self.image), path_str(&self.point));
        match self.system {
            FileSystem::Memory { files } => {
                let options = format!("size={}m,nr_inodes={files}", self.mib);
                run_ok(&["mount", "-t", "tmpfs", "-o", &options, "credenza-proof", point])
            }
            FileSystem::Ext4 => {
                run_ok(&["mount", "-t", "ext4", "-o", "loop,errors=remount-ro", image, point])
            }
            FileSystem::Xfs => run_ok(&["mount", "-t", "xfs", "-o", "loop", image, point]),
        };
        self.mounted = true;
    }

    /// Unmounts it. Fails the test if processes still hold files.
    pub fn unmount(&mut self) {
        let mut last = String::new();
        for _ in 0..100 {
            let output = run(&["umount", path_str(&self.point)]);
            if output.status.success() {
                self.mounted = false;
                return;
            }
            last = String::from_utf8_lossy(&output.stderr).into_owned();
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{} stays mounted: {last}", self.point.display());
    }

    /// Cuts its power: unsynced data is lost, and every later call fails.
    pub fn cut_power(&self) {
        run_ok(&[path_str(&compile_helper("godown")), path_str(&self.point)]);
    }

    /// Makes every write and sync of it wait until the guard is dropped, as a hanging disk does: no
    /// call fails, none returns.
    pub fn freeze(&self) -> Frozen {
        run_ok(&["fsfreeze", "-f", path_str(&self.point)]);
        Frozen { point: self.point.clone() }
    }

    /// Restores the power after a cut.
    pub fn restore_power(&mut self) {
        self.unmount();
        self.mount();
    }

    /// Returns its device, as `MAJOR:MINOR`.
    pub fn device(&self) -> String {
        run_ok(&["findmnt", "-n", "-o", "MAJ:MIN", path_str(&self.point)]).trim().into()
    }

    /// Makes ext4 find an error, upon which it becomes read-only by itself.
    pub fn inject_error(&self) {
        let device = run_ok(&["findmnt", "-n", "-o", "SOURCE", path_str(&self.point)]);
        let name = device.rsplit('/').next().unwrap_or("");
        let switch = format!("/sys/fs/ext4/{name}/trigger_fs_error");
        std::fs::write(&switch, "planted by the test").expect("ext4 has this switch");
    }

    /// Writes or extends a file until only `leave` bytes are free; returns the file.
    pub fn fill(&self, leave: u64) -> PathBuf {
        use std::io::Write as _;
        let path = self.point.join("filler");
        let file = std::fs::File::options().create(true).append(true).open(&path);
        let mut file = file.expect("the filler can be made");
        let block = vec![0x55_u8; 64 * 1024];
        while self.free_bytes() > leave + block.len() as u64 && file.write_all(&block).is_ok() {}
        let _ = file.sync_all();
        while self.free_bytes() > leave && file.write_all(&block[..4096]).is_ok() {}
        path
    }

    /// Returns the bytes that a process may still write.
    pub fn free_bytes(&self) -> u64 {
        let all = rustix::fs::statvfs(&self.point).expect("it is mounted");
        all.f_bavail * all.f_frsize
    }
}

/// A file system whose writes wait. A process that waits for one can't even be killed, so the guard
/// must be dropped before the process is waited for, also when a test panics.
#[derive(Debug)]
pub struct Frozen {
    point: PathBuf,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let thawed = run(&["fsfreeze", "-u", path_str(&self.point)]).status.success();
        assert!(thawed || std::thread::panicking(), "{} stays frozen", self.point.display());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.mounted && !run(&["umount", path_str(&self.point)]).status.success() {
            let _ = run(&["umount", "-l", path_str(&self.point)]);
        }
        let _ = std::fs::remove_file(&self.image);
    }
}
