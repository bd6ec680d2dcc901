//! CPU time of processes, as the scheduler accounts for it: nanoseconds, system time included.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// Nanoseconds that all threads of process `pid`, and of its children to any depth, have had.
///
/// A thread that has ended no longer counts, so only differences over a time in which none ends
/// are exact.
pub(crate) fn used_ns(pid: u32) -> Result<u64> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let mut sum = 0;
    for thread in folders(&process.join("task")).context("CPU time of the server")? {
        // A thread may end between the listing and the look.
        if let Ok(text) = fs::read_to_string(thread.join("schedstat")) {
            sum += first_number(&text).context("schedstat has no number")?;
        }
        let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
        for child in children.split_ascii_whitespace() {
            sum += used_ns(child.parse()?).unwrap_or(0);
        }
    }
    Ok(sum)
}

fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

fn first_number(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_uses_more_the_longer_it_works() {
        let before = used_ns(std::process::id()).unwrap();
        // The account is brought up to date by the scheduler, some milliseconds later at most.
        while used_ns(std::process::id()).unwrap() <= before {}
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        assert!(used_ns(u32::MAX).is_err());
    }
}
