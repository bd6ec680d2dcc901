//! Finds lines in a metric log (`MetricSearcher.java`, `MetricsReader.java`).

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use super::{
    MetricLine, index,
    line::spelled,
    names::{BaseName, index_of},
};

/// Lines of any answer, as Sentinel's `MAX_LINES_RETURN`.
const LINES_MAX: usize = 100_000;
/// Bytes of all lines of an answer.
const BYTES_MAX: usize = 64 << 20;
/// A longer line is none.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Finds lines in the metric log of an application, by whomever it was written: by
/// [`Engine::write_logs`](crate::Engine::write_logs) or by Sentinel.
///
/// It holds nothing open and may search while the log is written. Reading blocks. What is no line is
/// skipped, as is one at the end of a file that is not whole; a wrong index makes it slower. An
/// answer has at most 100 000 lines, and 64 MiB of them.
#[derive(Clone, Debug)]
pub struct MetricSearch {
    dir: PathBuf,
    base: BaseName,
}

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    lines: Vec<MetricLine>,
    bytes: usize,
}

impl MetricSearch {
    /// Lines that Sentinel's `metric` command answers when nobody says how many.
    pub const LINES: usize = 6_000;
    /// Lines that it answers at most, unless asked for a span of time.
    pub const LINES_MAX: usize = 12_000;

    /// Searches the log of an application in a folder; with the process id that is in the names of
    /// its files, if any is.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, app: &str, pid: Option<u32>) -> Self {
        Self { dir: dir.into(), base: BaseName::new(app, pid) }
    }

    /// The first lines from a second on, which need not be in the log: `lines` of them, at most
    /// [`Self::LINES_MAX`], and those that the last second has more.
    ///
    /// # Errors
    ///
    /// When a file can not be read; one that is not there is no error.
    pub fn find(&self, begin_ms: u64, lines: usize) -> io::Result<Vec<MetricLine>> {
        let most = lines.min(Self::LINES_MAX);
        let mut found = Found::default();
        self.visit(begin_ms / 1_000, |line| {
            let is_same = found.lines.last().is_some_and(|last| last.second() == line.second());
            if found.lines.len() >= most && !is_same {
                return ControlFlow::Break(End::All);
            }
            found.add(line)
        })?;
        Ok(found.lines)
    }

    /// The lines of a span of seconds, both included; those of one resource, or all.
    ///
    /// # Errors
    ///
    /// As [`Self::find`].
    pub fn find_between(
        &self,
        begin_ms: u64,
        end_ms: u64,
        resource: Option<&str>,
    ) -> io::Result<Vec<MetricLine>> {
        let resource = resource.map(spelled);
        let mut found = Found::default();
        self.visit(begin_ms / 1_000, |line| {
            if line.second() > end_ms / 1_000 {
                return ControlFlow::Break(End::File);
            }
            if resource.as_ref().is_some_and(|resource| *line.resource != **resource) {
                return ControlFlow::Continue(());
            }
            found.add(line)
        })?;
        Ok(found.lines)
    }

    /// Reads all lines that are not before a second, file after file.
    fn visit(
        &self,
        begin: u64,
        mut visit: impl FnMut(MetricLine) -> ControlFlow<End>,
    ) -> io::Result<()> {
        for file in self.base.files(&self.dir)? {
            match read(&file.path, begin, &mut visit) {
                Ok(ControlFlow::Break(End::All)) => break,
                Ok(_) => {}
                // The oldest file goes when a new one comes.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What needs not be read any more.
#[derive(Clone, Copy, Debug)]
enum End {
    File,
    All,
}

impl Found {
    fn add(&mut self, line: MetricLine) -> ControlFlow<End> {
        self.bytes += size_of::<MetricLine>() + line.resource.len();
        if self.lines.len() >= LINES_MAX || self.bytes > BYTES_MAX {
            return ControlFlow::Break(End::All);
        }
        self.lines.push(line);
        ControlFlow::Continue(())
    }
}

fn read(
    path: &Path,
    begin: u64,
    visit: &mut impl FnMut(MetricLine) -> ControlFlow<End>,
) -> io::Result<ControlFlow<End>> {
    let mut file = File::open(path)?;
    let from = index::begin(&index_of(path), begin, file.metadata()?.len());
    // With the byte before, which ends a line if the index is right.
    let skip_first = from > 0;
    file.seek(SeekFrom::Start(from.saturating_sub(1)))?;
    let mut lines = Lines { file: BufReader::new(file), line: Vec::new() };
    if skip_first {
        lines.next()?;
    }
    while let Some(line) = lines.next()? {
        let Some(line) = MetricLine::parse(line.trim_end_matches('\r')) else { continue };
        if line.second() >= begin
            && let ControlFlow::Break(end) = visit(line)
        {
            return Ok(ControlFlow::Break(end));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The whole lines of a file.
struct Lines {
    file: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    /// The next one without its end; empty for one that is too long or no UTF-8. `None` at the end
    /// of the file, also when what stands there has no end yet.
    fn next(&mut self) -> io::Result<Option<&str>> {
        self.line.clear();
        (&mut self.file).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
        if self.line.pop_if(|last| *last == b'\n').is_some() {
            return Ok(Some(std::str::from_utf8(&self.line).unwrap_or_default()));
        }
        if (self.line.len() as u64) < LINE_BYTES_MAX {
            return Ok(None);
        }
        let ended = self.file.skip_until(b'\n')?;
        Ok((ended > 0).then_some(""))
    }
}

#[cfg(test)]
mod tests;
