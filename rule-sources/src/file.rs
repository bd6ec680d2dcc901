//! Rules in files: one file, or the files of a directory.
//!
//! In a directory `<namespace>-flow-rules.json` and `<namespace>-param-rules.json` count, hidden
//! ones not; everything else is somebody else's. A single file may have any name: it is read as in
//! a directory if its name has that form, and as both kinds of rules of `default` if not.

mod look;
mod name;
mod read;
mod watch;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use limiter::rule::{self, Finding, Parsed, RuleErrors};

use self::{look::Look, name::RuleFile, watch::Pace};
use crate::{Changes, Loaded, RuleSource, WatchError};

pub use read::FILE_LEN_MAX;

/// Rules in one file, or in the files of a directory.
///
/// A file that is removed keeps its rules, with a warning at each load: a deployment that loses a
/// file must not open a limit. An empty list in the file takes its rules away, and so does a new
/// start without it.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    cluster_only: bool,
    memory: Mutex<Memory>,
}

/// What the loads so far leave behind.
#[derive(Debug, Default)]
struct Memory {
    /// The text of each file as it stood in the last load that succeeded.
    good: BTreeMap<PathBuf, String>,
    /// How the files looked just before the last load read them.
    seen: Option<Look>,
}

impl FileSource {
    /// A source that reads `path`, a file or a directory; which of them it is is looked at anew by
    /// each load. With `cluster_only`, rules with `clusterMode: false` are counted and left out.
    pub fn new(path: impl Into<PathBuf>, cluster_only: bool) -> Self {
        Self { path: path.into(), cluster_only, memory: Mutex::default() }
    }

    fn watch_at(&self, pace: Pace) -> io::Result<Changes> {
        let seen = self.memory.lock().unwrap_or_else(PoisonError::into_inner).seen.clone();
        watch::start(self.path.clone(), seen.unwrap_or_else(|| Look::at(&self.path)), pace)
    }

    fn parse(&self, file: &RuleFile, text: &str, source: &str) -> Result<Parsed, RuleErrors> {
        rule::parse(text, source, &file.namespace, file.contents, self.cluster_only)
    }
}

impl RuleSource for FileSource {
    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn load(&self) -> Result<Loaded, RuleErrors> {
        // Held throughout: two loads at once would each remember half.
        let memory = &mut *self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.seen = Some(Look::at(&self.path));
        let listing = name::list(&self.path)
            .map_err(|e| RuleErrors(vec![finding(&self.path, None, &read::refused(&e))]))?;

        let mut loaded = Loaded::default();
        let mut errors = Vec::new();
        let mut parsed = Vec::new();
        let mut texts = BTreeMap::new();
        let mut unreadable = Vec::new();
        for file in &listing.files {
            match read::text(&file.path) {
                Ok(Some(text)) => {
                    match self.parse(file, &text, &file.path.display().to_string()) {
                        Ok(rules) => parsed.push(rules),
                        Err(found) => errors.extend(found.0),
                    }
                    texts.insert(file.path.clone(), text);
                }
                Ok(None) if memory.good.contains_key(&file.path) => {}
                Ok(None) => errors.push(finding(&file.path, None, NO_FILE)),
                Err(found) => {
                    errors.push(found);
                    unreadable.push(&file.path);
                }
            }
        }
        loaded.files = texts.len();
        for (path, text) in &memory.good {
            if texts.contains_key(path) || unreadable.contains(&path) {
                continue;
            }
            loaded.warnings.push(finding(path, None, REMOVED));
            let source = format!("{} (removed)", path.display());
            match self.parse(&RuleFile::new(path.clone()), text, &source) {
                Ok(rules) => parsed.push(rules),
                Err(found) => errors.extend(found.0),
            }
        }

        for rules in &mut parsed {
            loaded.warnings.append(&mut rules.warnings);
            loaded.skipped += rules.skipped;
        }
        loaded.warnings.extend(listing.unknown.iter().map(|path| finding(path, None, NO_FORM)));
        match rule::merge(parsed) {
            Ok(rules) => loaded.rules = rules,
            Err(found) => errors.extend(found.0),
        }
        if !errors.is_empty() {
            return Err(RuleErrors(errors));
        }
        memory.good.extend(texts);
        Ok(loaded)
    }

    fn watch(&self) -> Result<Changes, WatchError> {
        let at = self.watch_at(Pace::default());
        at.map_err(|cause| WatchError { source_name: self.describe(), cause })
    }
}

const NO_FILE: &str = "no such file or directory; create it, an empty list [] is enough";
const REMOVED: &str = "the file is gone, its rules stay in force; \
                       to drop them, put the file back with an empty list []";
const NO_FORM: &str = "not read: the name must be <namespace>-flow-rules.json or \
                       <namespace>-param-rules.json";

/// A mistake of a whole file, in no one rule.
fn finding(path: &Path, line: Option<u32>, remedy: &str) -> Finding {
    Finding {
        source: path.display().to_string().into(),
        line,
        index: None,
        field: "".into(),
        value: "".into(),
        remedy: remedy.into(),
    }
}

#[cfg(test)]
mod tests;
