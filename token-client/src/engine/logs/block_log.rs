//! Writes the block log (`EagleEyeRollingFileAppender.java`): one file for all processes that share
//! a folder, `sentinel-block.log`, with those before as `.1` to `.3`, the oldest last.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::{blocks::Refusals, line::push, local_time::Stamp};

pub(super) const FILE: &str = "sentinel-block.log";
/// Text is written in pieces of about this size.
const PIECE: usize = 64 << 10;

/// The log, which is opened anew for each second, since others may have renamed or removed the file.
#[derive(Debug)]
pub(super) struct BlockLog {
    path: PathBuf,
    /// Size from which on the file is renamed.
    file_bytes: u64,
    /// Older files that are kept.
    older: usize,
}

#[derive(Debug)]
struct Open {
    file: File,
    len: u64,
}

impl BlockLog {
    pub(super) fn new(dir: &Path, (file_bytes, older): (u64, usize)) -> Self {
        Self { path: dir.join(FILE), file_bytes, older }
    }

    /// Writes the refusals of a second that began at `stamp`.
    ///
    /// # Errors
    ///
    /// What the system says. Some of the lines may have been written.
    pub(super) fn write(&self, stamp: &Stamp, refusals: &Refusals) -> io::Result<()> {
        let mut lines: Vec<_> = refusals.counts.iter().collect();
        lines.sort_unstable();
        let mut open = self.open()?;
        let mut text = String::new();
        for (key, tokens) in lines {
            push(&mut text, format_args!("{stamp}|1|{key}|{tokens},0\r\n"));
            if open.len + text.len() as u64 >= self.file_bytes {
                open.append(&mut text)?;
                drop(open);
                self.roll()?;
                open = self.open()?;
            } else if text.len() >= PIECE {
                open.append(&mut text)?;
            }
        }
        open.append(&mut text)
    }

    /// The file under the name, ready for whole lines.
    fn open(&self) -> io::Result<Open> {
        self.path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let file = OpenOptions::new().read(true).append(true).create(true).open(&self.path)?;
        let len = file.metadata()?.len();
        let mut open = Open { file, len };
        if !open.ends_with_a_line()? {
            // The disk was full, or a process was killed.
            open.append(&mut "\r\n".to_owned())?;
        }
        Ok(open)
    }

    /// Renames the files, unless another process is about to.
    fn roll(&self) -> io::Result<()> {
        let lock_path = self.name(".lock");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).open(&lock_path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The lock's file stays: who takes one away may take it from another who waits for it.
        self.roll_locked()
    }

    fn roll_locked(&self) -> io::Result<()> {
        // Another process may have been here just before.
        if fs::metadata(&self.path)?.len() < self.file_bytes {
            return Ok(());
        }
        if self.older == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.older).rev() {
            rename(&self.name(&format!(".{number}")), &self.name(&format!(".{}", number + 1)))?;
        }
        rename(&self.path, &self.name(".1"))
    }

    fn name(&self, ending: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(ending);
        name.into()
    }
}

impl Open {
    /// Writes the text and clears it.
    fn append(&mut self, text: &mut String) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.len += text.len() as u64;
        text.clear();
        Ok(())
    }

    fn ends_with_a_line(&mut self) -> io::Result<bool> {
        let Some(last) = self.len.checked_sub(1) else { return Ok(true) };
        let mut byte = [0];
        self.file.seek(SeekFrom::Start(last))?;
        // Somebody may have cut it off meanwhile.
        Ok(self.file.read(&mut byte)? == 0 || byte == *b"\n")
    }
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::local_time::LocalTime, *};

    fn refusals(counts: &[(&str, u64)]) -> Refusals {
        let mut refusals = Refusals::default();
        refusals.counts = counts.iter().map(|(key, n)| ((*key).into(), *n)).collect();
        refusals
    }

    fn stamp() -> Stamp {
        LocalTime::utc().at(1_700_000_000)
    }

    fn read(dir: &Path, ending: &str) -> String {
        fs::read_to_string(dir.join(format!("{FILE}{ending}"))).unwrap()
    }

    #[test]
    fn a_second_is_a_line_for_each_of_its_texts() {
        let dir = tempfile::tempdir().unwrap();
        let log = BlockLog::new(&dir.path().join("made"), (1_000, 3));
        let two = [("db,FlowException,default,app-a,", 1), ("api,DegradeException,default,,", 7)];
        log.write(&stamp(), &refusals(&two)).unwrap();
        let expected = "2023-11-14 22:13:20|1|api,DegradeException,default,,|7,0\r\n\
                        2023-11-14 22:13:20|1|db,FlowException,default,app-a,|1,0\r\n";
        assert_eq!(read(&dir.path().join("made"), ""), expected);
    }

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let log = BlockLog::new(dir.path(), (60, 3));
        for n in 1..=11 {
            // 31 bytes a line, two in a file.
            log.write(&stamp(), &refusals(&[("a,b,c", 100 + n)])).unwrap();
        }
        let line = |n: u64| format!("2023-11-14 22:13:20|1|a,b,c|{n},0\r\n");
        let files = ["", ".1", ".2", ".3"].map(|ending| read(dir.path(), ending));
        let pair = |n| line(n) + &line(n + 1);
        assert_eq!(files, [line(111), pair(109), pair(107), pair(105)]);
        assert!(!dir.path().join(format!("{FILE}.4")).exists());
    }

    #[test]
    fn a_second_that_fills_several_files_is_split_between_lines() {
        let dir = tempfile::tempdir().unwrap();
        let log = BlockLog::new(dir.path(), (60, 9));
        log.write(&stamp(), &refusals(&[("a,b,c", 111), ("d,e,f", 222), ("g,h,i", 333)])).unwrap();
        assert_eq!(read(dir.path(), ".1").matches("\r\n").count(), 2);
        assert_eq!(read(dir.path(), ""), "2023-11-14 22:13:20|1|g,h,i|333,0\r\n");
    }

    #[test]
    fn two_processes_write_one_log() {
        let dir = tempfile::tempdir().unwrap();
        let logs = [(); 2].map(|()| BlockLog::new(dir.path(), (100, 9)));
        for n in 0..20 {
            logs[n % 2].write(&stamp(), &refusals(&[("a,b,c", 100 + n as u64)])).unwrap();
        }
        let mut lines: Vec<String> = Vec::new();
        for entry in fs::read_dir(dir.path()).unwrap() {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            assert!(text.len() <= 140, "{text}");
            lines.extend(text.lines().map(str::to_owned));
        }
        lines.sort();
        let all: Vec<String> =
            (100..120).map(|n| format!("2023-11-14 22:13:20|1|a,b,c|{n},0")).collect();
        assert_eq!(lines, all);
    }

    #[test]
    fn it_goes_on_behind_what_stands_there_and_in_a_new_file_when_that_is_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "half a li").unwrap();
        let log = BlockLog::new(dir.path(), (1_000, 3));
        let line = "2023-11-14 22:13:20|1|a,b,c|1,0\r\n";
        let one = refusals(&[("a,b,c", 1)]);
        log.write(&stamp(), &one).unwrap();
        assert_eq!(read(dir.path(), ""), format!("half a li\r\n{line}"));
        fs::rename(dir.path().join(FILE), dir.path().join("elsewhere")).unwrap();
        log.write(&stamp(), &one).unwrap();
        log.write(&stamp(), &one).unwrap();
        assert_eq!(read(dir.path(), ""), line.repeat(2));
    }

    #[test]
    fn a_folder_that_can_not_be_made_is_an_error_until_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("logs");
        fs::write(&place, "a file").unwrap();
        let log = BlockLog::new(&place, (1_000, 3));
        let one = refusals(&[("a,b,c", 1)]);
        log.write(&stamp(), &one).unwrap_err();
        fs::remove_file(&place).unwrap();
        log.write(&stamp(), &one).unwrap();
        assert_eq!(read(&place, "").len(), 33);
    }
}
