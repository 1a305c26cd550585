//! Reader of the end of an audit log, which goes on while the log is written.

use crate::folder::{self, LogFile};
use crate::line::LINE_BYTES_MAX;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Largest piece of a file that is read at a time, in bytes.
const PIECE_BYTES: usize = 1 << 20;

/// Position in an audit log.
pub struct AuditFollower {
    folder: PathBuf,
    /// Number of the file. 0: before the first one.
    number: u64,
    offset: u64,
}

impl AuditFollower {
    /// Returns a reader that begins with the last `lines` lines.
    pub fn open(folder: &Path, lines: u64) -> io::Result<AuditFollower> {
        let files = folder::files(folder)?;
        let mut wanted = lines;
        let mut follower = AuditFollower { folder: folder.into(), number: 0, offset: 0 };
        for file in files.iter().rev() {
            let open = file.open_to_read()?;
            let mut begin = folder::line_begin(&open, open.metadata()?.len())?;
            while wanted > 0 && begin > 0 {
                begin = folder::line_begin(&open, begin - 1)?;
                wanted -= 1;
            }
            (follower.number, follower.offset) = (file.number, begin);
            if wanted == 0 {
                break;
            }
        }
        Ok(follower)
    }

    /// Passes the whole lines that follow to `visit`, and goes behind them.
    pub fn read(&mut self, visit: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        loop {
            let files = folder::files(&self.folder)?;
            // A file that was removed meanwhile is left out.
            let current = files.iter().find(|file| file.number >= self.number);
            let Some(current) = current else { return Ok(()) };
            if current.number != self.number {
                (self.number, self.offset) = (current.number, 0);
            }
            self.read_file(current, visit)?;
            if files.iter().all(|file| file.number <= current.number) {
                return Ok(());
            }
            // Written to its end before the next one began.
            (self.number, self.offset) = (current.number + 1, 0);
        }
    }

    fn read_file(
        &mut self,
        file: &LogFile,
        visit: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        let open = match file.open_to_read() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            open => open?,
        };
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = open.read_at(&mut piece, self.offset)?;
            let Some(last) = piece[..read].iter().rposition(|byte| *byte == b'\n') else {
                // Bytes that are no line are skipped, if they are too many for one.
                if read <= LINE_BYTES_MAX {
                    return Ok(());
                }
                self.offset += read as u64;
                continue;
            };
            for line in piece[..last].split(|byte| *byte == b'\n') {
                visit(&String::from_utf8_lossy(line))?;
            }
            self.offset += last as u64 + 1;
        }
    }
}
