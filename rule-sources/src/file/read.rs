//! One file's text, bounded and checked.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read},
    path::Path,
};

use limiter::rule::Finding;

use super::finding;

/// Longest rule file in bytes: 1 GiB, some millions of rules. A file that is longer is a mistake,
/// and is not read into memory to find out.
pub const FILE_LEN_MAX: u64 = 1 << 30;

/// Why a file gave no text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unread {
    pub(super) finding: Finding,
    /// Whether it can be another time, with the file as it is: no file descriptor was left, say.
    pub(super) passing: bool,
}

impl Unread {
    pub(super) fn because(path: &Path, line: Option<u32>, remedy: &str) -> Self {
        Self { finding: finding(path, line, remedy), passing: false }
    }

    /// What the system said when it did not let us read `path`.
    pub(super) fn refused(path: &Path, error: &io::Error) -> Self {
        Self {
            finding: finding(path, None, &format!("cannot be read: {error}")),
            passing: !matches!(
                error.kind(),
                ErrorKind::PermissionDenied | ErrorKind::NotADirectory | ErrorKind::IsADirectory
            ),
        }
    }
}

/// The text of `path`; `None` when there is no such file, or a link to none.
pub(super) fn text(path: &Path) -> Result<Option<String>, Unread> {
    // Looked at before it is opened: opening a pipe that nobody writes to would never return.
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Unread::refused(path, &e)),
    };
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "a pipe or a device" };
        return Err(Unread::because(path, None, &format!("is {what}; must be a file")));
    }
    let too_long = || {
        let remedy = format!("is longer than {FILE_LEN_MAX} bytes; split it by namespace");
        Unread::because(path, None, &remedy)
    };
    if metadata.len() > FILE_LEN_MAX {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| {
        bytes.reserve(usize::try_from(metadata.len()).unwrap_or(0));
        file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes)
    });
    match read {
        Ok(len) if len as u64 > FILE_LEN_MAX => return Err(too_long()),
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Unread::refused(path, &e)),
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let good = e.as_bytes().get(..e.utf8_error().valid_up_to()).unwrap_or_default();
        let breaks = good.iter().filter(|&&b| b == b'\n').count();
        let line = u32::try_from(breaks + 1).unwrap_or(u32::MAX);
        let remedy = format!("byte {} is not UTF-8; save the file as UTF-8", good.len());
        Unread::because(path, Some(line), &remedy)
    })?;
    // Sentinel's parser (fastjson's `JSONScanner`) skips a byte order mark, too.
    Ok(Some(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.into(),
        None => text,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(path: &Path) -> String {
        text(path).unwrap_err().finding.to_string().replace(&path.display().to_string(), "FILE")
    }

    #[test]
    fn a_file_is_text_without_its_byte_order_mark() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "\u{feff}[]").unwrap();
        assert_eq!(text(file.path()), Ok(Some("[]".into())));
    }

    #[test]
    fn no_file_and_a_link_to_none_are_no_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rules.json");
        assert_eq!(text(&path), Ok(None));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("nowhere", &path).unwrap();
            assert_eq!(text(&path), Ok(None));
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused_with_their_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), b"[\n\n \"caf\xe9\"]").unwrap();
        assert_eq!(remedy(file.path()), "FILE:3: byte 8 is not UTF-8; save the file as UTF-8");
    }

    #[test]
    fn a_directory_is_no_file() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(remedy(dir.path()), "FILE: is a directory; must be a file");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_is_no_file() {
        let path = Path::new("/dev/null");
        assert_eq!(remedy(path), "FILE: is a pipe or a device; must be a file");
    }

    #[test]
    fn a_file_over_the_bound_is_refused_unread() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Sparse: it has the length without the bytes.
        file.as_file().set_len(FILE_LEN_MAX + 1).unwrap();
        let remedy = remedy(file.path());
        assert_eq!(remedy, "FILE: is longer than 1073741824 bytes; split it by namespace");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_the_system_refuses_is_said_as_it_says_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let below = file.path().join("rules.json");
        assert_eq!(remedy(&below), "FILE: cannot be read: Not a directory (os error 20)");
    }
}
