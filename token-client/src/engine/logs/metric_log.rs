//! Writes a metric log (`MetricWriter.java`): a file a day and size, an index beside each.
//!
//! Where Sentinel's index leaves a second out, so that a search for it finds nothing, this one has
//! it: the second of a file's making, and the first of a day, which Sentinel notes in the file of
//! the day before.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use limiter::local::Second;
use tracing::warn;

use super::{
    index,
    line::push_fat,
    local_time::{LocalTime, Stamp},
    names::{BaseName, index_of},
};

/// Text is written in pieces of about this size.
const PIECE: usize = 1 << 20;
/// Names that are tried for a new file when others take them at the same time.
const NAMES_TRIED: u32 = 10;

/// What one resource counted in a second: name, classification, counts.
pub(super) type Counted<'a> = (&'a str, u8, &'a Second);

#[derive(Debug)]
pub(super) struct MetricLog {
    dir: PathBuf,
    base: BaseName,
    zone: LocalTime,
    /// Size from which on a file is not written to any more.
    file_bytes: u64,
    /// Files that are kept.
    files: usize,
    open: Option<Open>,
}

/// The file that is written.
#[derive(Debug)]
struct Open {
    path: PathBuf,
    log: File,
    index: File,
    len: u64,
    index_len: u64,
    date: String,
    /// The last second in it.
    last: u64,
}

impl MetricLog {
    pub(super) const fn new(
        dir: PathBuf,
        base: BaseName,
        zone: LocalTime,
        (file_bytes, files): (u64, usize),
    ) -> Self {
        Self { dir, base, zone, file_bytes, files, open: None }
    }

    /// Writes the lines of a second, all of them or none. A second that is not behind the last
    /// begins a new file: the clock was set back.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(super) fn write(&mut self, second: u64, lines: &[Counted<'_>]) -> io::Result<()> {
        let stamp = self.zone.at(second);
        let date = stamp.date();
        let open = match self.open.take() {
            Some(open) if open.goes_on(second, &date, self.file_bytes) => open,
            _ => self.create(date)?,
        };
        let open = self.open.insert(open);
        let written = open.write(&stamp, lines);
        if written.is_err() && !open.cut_off() {
            // What stands there is not whole, so nothing may follow it.
            self.open = None;
        }
        written
    }

    /// Makes the next file, and takes away the oldest.
    fn create(&self, date: String) -> io::Result<Open> {
        fs::create_dir_all(&self.dir)?;
        let mut tried = 0;
        let (path, log) = loop {
            let path = self.base.next(&self.dir, &date)?;
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(log) => break (path, log),
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && tried < NAMES_TRIED =>
                {
                    tried += 1;
                }
                Err(error) => return Err(error),
            }
        };
        let index = match File::create(index_of(&path)) {
            Ok(index) => index,
            Err(error) => {
                // Or each try would leave an empty file, and push out an old one.
                remove(&path)?;
                return Err(error);
            }
        };
        if let Err(error) = self.remove_oldest() {
            // Nothing that keeps this one from being written, or each try would make a further file.
            warn!(dir = %self.dir.display(), %error, "an old metric log can not be removed");
        }
        Ok(Open { path, log, index, len: 0, index_len: 0, date, last: 0 })
    }

    fn remove_oldest(&self) -> io::Result<()> {
        let files = self.base.files(&self.dir)?;
        let more = files.len().saturating_sub(self.files.max(1));
        for file in files.iter().take(more) {
            remove(&file.path)?;
            remove(&index_of(&file.path))?;
        }
        Ok(())
    }
}

impl Open {
    fn goes_on(&self, second: u64, date: &str, file_bytes: u64) -> bool {
        let is_first = self.index_len == 0;
        (is_first || self.last < second)
            && self.date == date
            && self.len < file_bytes
            // Somebody may have taken it away.
            && self.path.exists()
            && index_of(&self.path).exists()
    }

    fn write(&mut self, stamp: &Stamp, lines: &[Counted<'_>]) -> io::Result<()> {
        self.index.write_all(&index::record(stamp.second, self.len))?;
        let (mut text, mut len) = (String::new(), self.len);
        let mut lines = lines.iter().peekable();
        while let Some((resource, classification, counted)) = lines.next() {
            push_fat(&mut text, stamp, resource, *classification, counted);
            if text.len() >= PIECE || lines.peek().is_none() {
                self.log.write_all(text.as_bytes())?;
                len += text.len() as u64;
                text.clear();
            }
        }
        self.len = len;
        self.index_len += 16;
        self.last = stamp.second;
        Ok(())
    }

    /// Takes away what a write has left that failed; whether that was possible.
    fn cut_off(&mut self) -> bool {
        let cut = |file: &mut File, len| {
            file.set_len(len)?;
            io::Seek::seek(file, io::SeekFrom::Start(len))
        };
        cut(&mut self.log, self.len).is_ok() && cut(&mut self.index, self.index_len).is_ok()
    }
}

/// Removes a file that may be gone.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(dir: &Path, file_bytes: u64, files: usize) -> MetricLog {
        let base = BaseName::new("my.app", None);
        MetricLog::new(dir.into(), base, LocalTime::utc(), (file_bytes, files))
    }

    fn counted(n: u64) -> Second {
        Second { pass: n, success: n, exception: 1, rt_ms: 12 * n, ..Second::default() }
    }

    fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                (
                    name.trim_start_matches("my-app-metrics.log.").to_owned(),
                    fs::read(&path).unwrap(),
                )
            })
            .collect();
        files.sort();
        files
    }

    fn names(dir: &Path) -> Vec<String> {
        files(dir).into_iter().map(|(name, _)| name).collect()
    }

    fn index_of_records(records: &[(u64, u64)]) -> Vec<u8> {
        records.iter().flat_map(|(second, offset)| index::record(*second, *offset)).collect()
    }

    /// The seconds of a day's turn that were recorded of Sentinel, whose index has the first second
    /// of the second day in the file of the first.
    #[test]
    fn each_second_has_its_lines_and_its_place_in_the_index_of_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(dir.path(), 50 << 20, 6);
        let n = [1, 2, 3, 4, 7].map(counted);
        log.write(1_700_000_001, &[("a", 1, &n[0]), ("b", 1, &n[1]), ("c", 1, &n[2])]).unwrap();
        log.write(1_700_000_002, &[("a", 1, &n[3])]).unwrap();
        log.write(1_700_006_400, &[("nextday", 1, &n[4])]).unwrap();
        let first = "1700000001000|2023-11-14 22:13:21|a|1|0|1|1|12|0|0|1\n\
                     1700000001000|2023-11-14 22:13:21|b|2|0|2|1|12|0|0|1\n\
                     1700000001000|2023-11-14 22:13:21|c|3|0|3|1|12|0|0|1\n\
                     1700000002000|2023-11-14 22:13:22|a|4|0|4|1|12|0|0|1\n";
        let second = "1700006400000|2023-11-15 00:00:00|nextday|7|0|7|1|12|0|0|1\n";
        let expected = [
            ("2023-11-14".into(), first.into()),
            (
                "2023-11-14.idx".into(),
                index_of_records(&[(1_700_000_001, 0), (1_700_000_002, 159)]),
            ),
            ("2023-11-15".into(), second.into()),
            ("2023-11-15.idx".into(), index_of_records(&[(1_700_006_400, 0)])),
        ];
        assert_eq!(files(dir.path()), expected);
    }

    #[test]
    fn a_full_file_is_followed_by_the_next_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("unrelated"), "").unwrap();
        let mut log = log(dir.path(), 100, 2);
        let one = counted(1);
        for second in 1_700_000_000..1_700_000_009 {
            // 53 bytes a line.
            log.write(second, &[("a", 1, &one)]).unwrap();
        }
        let kept =
            ["2023-11-14.3", "2023-11-14.3.idx", "2023-11-14.4", "2023-11-14.4.idx", "unrelated"];
        assert_eq!(names(dir.path()), kept);
        assert_eq!(files(dir.path())[0].1.len(), 106);
    }

    #[test]
    fn a_log_never_appends_and_begins_anew_when_its_file_is_gone_or_the_clock_was_set_back() {
        let dir = tempfile::tempdir().unwrap();
        let one = counted(1);
        let mut first = log(dir.path(), 1_000, 6);
        first.write(1_700_000_000, &[("a", 1, &one)]).unwrap();
        let mut second = log(dir.path(), 1_000, 6);
        second.write(1_700_000_000, &[("a", 1, &one)]).unwrap();
        assert_eq!(names(dir.path()).len(), 4);
        second.write(1_700_000_000, &[("a", 1, &one)]).unwrap();
        assert_eq!(names(dir.path()).len(), 6, "the same second again");
        second.write(1_699_999_000, &[("a", 1, &one)]).unwrap();
        assert_eq!(names(dir.path()).len(), 8, "an earlier one");
        fs::remove_file(dir.path().join("my-app-metrics.log.2023-11-14.3")).unwrap();
        second.write(1_699_999_001, &[("a", 1, &one)]).unwrap();
        let files = files(dir.path());
        let again = files.iter().find(|(name, _)| name == "2023-11-14.3").unwrap();
        assert_eq!(again.1.len(), 53);
    }

    #[test]
    fn what_a_failed_write_has_left_is_cut_off_and_the_file_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(dir.path(), 1_000, 6);
        let one = counted(1);
        log.write(1_700_000_000, &[("a", 1, &one)]).unwrap();
        // As of a disk that is full before the lines are written.
        let open = log.open.as_mut().unwrap();
        open.index.write_all(&index::record(1_700_000_001, open.len)).unwrap();
        open.log.write_all(b"17000000").unwrap();
        assert!(open.cut_off());
        log.write(1_700_000_001, &[("a", 1, &one)]).unwrap();
        let text = "1700000000000|2023-11-14 22:13:20|a|1|0|1|1|12|0|0|1\n\
                    1700000001000|2023-11-14 22:13:21|a|1|0|1|1|12|0|0|1\n";
        let expected = [
            ("2023-11-14".into(), text.into()),
            ("2023-11-14.idx".into(), index_of_records(&[(1_700_000_000, 0), (1_700_000_001, 53)])),
        ];
        assert_eq!(files(dir.path()), expected);
    }

    #[test]
    fn what_can_not_be_cut_off_is_followed_by_a_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(dir.path(), 1_000, 6);
        let one = counted(1);
        log.write(1_700_000_000, &[("a", 1, &one)]).unwrap();
        let whole = files(dir.path());
        // A file that takes nothing and can not be cut.
        let open = log.open.as_mut().unwrap();
        open.log = File::open(&open.path).unwrap();
        log.write(1_700_000_001, &[("a", 1, &one)]).unwrap_err();
        log.write(1_700_000_001, &[("a", 1, &one)]).unwrap();
        let files = files(dir.path());
        assert_eq!(files[0], whole[0]);
        assert_eq!(names(dir.path())[..2], ["2023-11-14", "2023-11-14.1"]);
        assert_eq!(files[1].1.len(), 53);
    }

    #[test]
    fn a_folder_that_can_not_be_made_is_an_error_until_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("logs");
        fs::write(&place, "a file").unwrap();
        let mut log = log(&place, 1_000, 6);
        let one = counted(1);
        log.write(1_700_000_000, &[("a", 1, &one)]).unwrap_err();
        fs::remove_file(&place).unwrap();
        log.write(1_700_000_000, &[("a", 1, &one)]).unwrap();
        assert_eq!(names(&place).len(), 2);
    }
}
