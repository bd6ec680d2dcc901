//! The files of a metric log: how they are called, and in which order they were written
//! (`MetricWriter.java`).
//!
//! ```text
//! orders-metrics.log.2023-11-14       orders-metrics.log.2023-11-14.idx
//! orders-metrics.log.2023-11-14.1     the next of the same day
//! orders-metrics.log.pid77.2023-11-14 with the process id
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

const INDEX: &str = ".idx";

/// What the names of all files of one log begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BaseName(String);

/// One file. In the order of `(date, length, name)`, which is that of their numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogFile {
    date: String,
    name_len: usize,
    pub(super) path: PathBuf,
}

impl BaseName {
    /// Of an application. What would make another folder of it is replaced as its dots are, on
    /// which the order of files depends in Sentinel.
    pub(super) fn new(app: &str, pid: Option<u32>) -> Self {
        let app = app.replace(['.', '/', '\\', '\0'], "-");
        let pid = pid.map(|pid| format!(".pid{pid}")).unwrap_or_default();
        Self(format!("{app}-metrics.log{pid}"))
    }

    /// The files in `dir`, oldest first; none when there is no such folder.
    pub(super) fn files(&self, dir: &Path) -> io::Result<Vec<LogFile>> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some((date, _)) = self.split(name)
                && entry.path().is_file()
            {
                let (date, name_len) = (date.to_owned(), name.len());
                files.push(LogFile { date, name_len, path: entry.path() });
            }
        }
        files.sort();
        Ok(files)
    }

    /// A name for a new file in `dir`: behind all others of the day.
    pub(super) fn next(&self, dir: &Path, date: &str) -> io::Result<PathBuf> {
        let files = self.files(dir)?;
        let of_day = files.iter().filter(|file| file.date == date);
        let name = format!("{}.{date}", self.0);
        let last = of_day.filter_map(|file| {
            let (_, number) = self.split(file.path.file_name()?.to_str()?)?;
            Some(number.parse::<u32>().unwrap_or(0))
        });
        Ok(dir.join(match last.max() {
            None => name,
            Some(last) => format!("{name}.{}", last.saturating_add(1)),
        }))
    }

    /// Day and number of a file; the number is empty for the first of a day.
    fn split<'a>(&self, name: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = name.strip_prefix(&self.0)?.strip_prefix('.')?;
        let (date, number) = match rest.split_once('.') {
            None => (rest, ""),
            Some((date, number)) => (date, number),
        };
        let is_date = date.len() == 10
            && date.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        (is_date && number.bytes().all(|byte| byte.is_ascii_digit())).then_some((date, number))
    }
}

/// The index beside a file.
pub(super) fn index_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(INDEX);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &Path) -> String {
        path.file_name().unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn files_are_found_in_the_order_in_which_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let base = BaseName::new("my.app", None);
        let written = [
            "my-app-metrics.log.2018-03-06",
            "my-app-metrics.log.2018-03-06.2",
            "my-app-metrics.log.2018-03-06.100",
            "my-app-metrics.log.2018-03-07",
            "my-app-metrics.log.2018-03-07.10",
        ];
        let others = [
            "my-app-metrics.log.2018-03-06.idx",
            "my-app-metrics.log.2018-03-06.lck",
            "my-app-metrics.log.pid7.2018-03-06",
            "my-app-metrics.log.2018-03-6",
            "my-app-metrics.log.2018-03-06x",
            "your-app-metrics.log.2018-03-06",
        ];
        for file in written.iter().rev().chain(&others) {
            fs::write(dir.path().join(file), "").unwrap();
        }
        fs::create_dir(dir.path().join("my-app-metrics.log.2018-03-08")).unwrap();
        let files = base.files(dir.path()).unwrap();
        let found: Vec<String> = files.iter().map(|file| name(&file.path)).collect();
        assert_eq!(found, written);
        let next = |date| name(&base.next(dir.path(), date).unwrap());
        assert_eq!(next("2018-03-06"), "my-app-metrics.log.2018-03-06.101");
        assert_eq!(next("2018-03-07"), "my-app-metrics.log.2018-03-07.11");
        assert_eq!(next("2018-03-09"), "my-app-metrics.log.2018-03-09");
        let of_process = BaseName::new("my.app", Some(7));
        assert_eq!(of_process.files(dir.path()).unwrap().len(), 1);
        assert_eq!(name(&index_of(&files[1].path)), "my-app-metrics.log.2018-03-06.2.idx");
    }

    #[test]
    fn no_application_leaves_its_folder_and_no_folder_is_no_files() {
        assert_eq!(BaseName::new("../a\\b", None).0, "---a-b-metrics.log");
        let gone = Path::new("no such folder");
        assert!(BaseName::new("a", None).files(gone).unwrap().is_empty());
    }
}
