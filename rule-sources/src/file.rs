//! Rules in files: one file, or the files of a directory.
//!
//! In a directory `<namespace>-flow-rules.json` and `<namespace>-param-rules.json` count, and for a
//! service those of the kinds that it alone enforces: `<namespace>-degrade-rules.json`, `-system`,
//! `-authority` and `-gateway`. Hidden ones do not; everything else is somebody else's. A single
//! file may have any name: it is read as in a directory if its name has that form, and as flow and
//! hot-parameter rules of `default` if not.

mod look;
mod name;
mod read;
mod watch;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use limiter::rule::{self, Finding, RuleErrors, RuleList};

use self::{
    look::Look,
    name::{Kind, Local},
    read::Unread,
    watch::Pace,
};
use crate::{Changes, Loaded, LocalRules, RuleSource, WatchError};

pub use read::FILE_LEN_MAX;

/// Rules in one file, or in the files of a directory.
///
/// A file that is removed keeps its rules, with a warning at each load: a deployment that loses a
/// file must not open a limit. An empty list in the file takes its rules away, and so does a new
/// start without it.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    who: Who,
    memory: Mutex<Memory>,
    /// The last load met with something that passes: it is worth another, though nothing changed.
    again: Arc<AtomicBool>,
}

/// Whose rules are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Server,
    Service,
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
    /// The rules of a token server: what `path`, a file or a directory, holds of rules with
    /// `clusterMode`. Others are counted and left out. Which of them `path` is is looked at anew by
    /// each load.
    pub fn of_server(path: impl Into<PathBuf>) -> Self {
        Self::new(path.into(), Who::Server)
    }

    /// The rules of a service: everything that `path` holds, as in [`Self::of_server`].
    pub fn of_service(path: impl Into<PathBuf>) -> Self {
        Self::new(path.into(), Who::Service)
    }

    fn new(path: PathBuf, who: Who) -> Self {
        Self { path, who, memory: Mutex::default(), again: Arc::default() }
    }

    fn watch_at(&self, pace: Pace) -> io::Result<Changes> {
        let seen = self.memory.lock().unwrap_or_else(PoisonError::into_inner).seen.clone();
        let seen = seen.unwrap_or_else(|| Look::at(&self.path));
        watch::start(self.path.clone(), seen, Arc::clone(&self.again), pace)
    }

    /// Parses the texts and puts them together; what is wrong goes to `errors`.
    fn combine<'t>(
        &self,
        texts: impl Iterator<Item = (&'t PathBuf, &'t String, &'static str)>,
        errors: &mut Vec<Finding>,
    ) -> Loaded {
        let mut loaded = Loaded::default();
        let mut parsed = Vec::new();
        for (path, text, note) in texts {
            let source = format!("{}{note}", path.display());
            let contents = match name::meaning(path) {
                (namespace, Kind::Tokens(contents)) => (namespace, contents),
                (_, Kind::Local(kind)) => {
                    let read = loaded.local.read(kind, text, &source);
                    match read {
                        Ok(mut warnings) => loaded.warnings.append(&mut warnings),
                        Err(found) => errors.extend(found.0),
                    }
                    continue;
                }
            };
            let cluster_only = self.who == Who::Server;
            match rule::parse(text, &source, contents.0, contents.1, cluster_only) {
                Ok(mut rules) => {
                    loaded.warnings.append(&mut rules.warnings);
                    loaded.skipped += rules.skipped;
                    parsed.push(rules);
                }
                Err(found) => errors.extend(found.0),
            }
        }
        match rule::merge(parsed) {
            Ok(rules) => loaded.rules = rules,
            Err(found) => errors.extend(found.0),
        }
        loaded
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
        let Found { texts, removed, unknown, unread } =
            Found::read(&self.path, self.who, &memory.good);
        // Relaxed: the flag is the whole state; a look that misses it is followed by another.
        self.again.store(unread.iter().any(|unread| unread.passing), Ordering::Relaxed);
        let mut errors = unread.into_iter().map(|unread| unread.finding).collect();

        let present = texts.iter().map(|(path, text)| (path, text, ""));
        let kept = removed.iter().map(|(path, text)| (*path, *text, " (removed)"));
        let mut loaded = self.combine(present.chain(kept), &mut errors);
        loaded.files = texts.len();
        let gone = removed.keys().map(|path| finding(path, None, REMOVED));
        if !errors.is_empty() {
            errors.sort_by(|a, b| a.source.cmp(&b.source));
            // A file that is gone can be at the bottom of it: its rules still count.
            errors.extend(gone);
            return Err(RuleErrors(errors));
        }
        loaded.warnings.extend(gone);
        loaded.warnings.extend(unknown.iter().map(|path| finding(path, None, NO_FORM)));
        memory.good.extend(texts);
        Ok(loaded)
    }

    fn watch(&self) -> Result<Changes, WatchError> {
        let at = self.watch_at(Pace::default());
        at.map_err(|cause| WatchError { source_name: self.describe(), cause })
    }
}

impl LocalRules {
    /// Adds the rules of one text; gives what was odd.
    fn read(&mut self, kind: Local, text: &str, source: &str) -> Result<Vec<Finding>, RuleErrors> {
        fn add<R>(to: &mut Vec<R>, mut list: RuleList<R>) -> Vec<Finding> {
            to.append(&mut list.rules);
            list.warnings
        }
        Ok(match kind {
            Local::Degrade => add(&mut self.degrade, rule::parse_degrade(text, source)?),
            Local::System => add(&mut self.system, rule::parse_system(text, source)?),
            Local::Authority => add(&mut self.authority, rule::parse_authority(text, source)?),
            Local::Gateway => add(&mut self.gateway, rule::parse_gateway(text, source)?),
        })
    }
}

/// The files as one load finds them.
#[derive(Default)]
struct Found<'m> {
    texts: BTreeMap<PathBuf, String>,
    /// Files that are not there any more, with the last good text of each.
    removed: BTreeMap<&'m PathBuf, &'m String>,
    unknown: Vec<PathBuf>,
    unread: Vec<Unread>,
}

impl<'m> Found<'m> {
    fn read(path: &Path, who: Who, good: &'m BTreeMap<PathBuf, String>) -> Self {
        let mut found = Self::default();
        let listing = match name::list(path) {
            Ok(listing) => listing,
            Err(error) => {
                found.unread.push(Unread::refused(path, &error));
                return found;
            }
        };
        found.unknown = listing.unknown;
        found.removed = good.iter().collect();
        for path in listing.files {
            if who == Who::Server && matches!(name::meaning(&path), (_, Kind::Local(_))) {
                continue;
            }
            match read::text(&path) {
                Ok(None) if good.contains_key(&path) => continue,
                Ok(None) => found.unread.push(Unread::because(&path, None, NO_FILE)),
                Err(unread) => found.unread.push(unread),
                Ok(Some(text)) => drop(found.texts.insert(path.clone(), text)),
            }
            found.removed.remove(&path);
        }
        found
    }
}

const NO_FILE: &str = "no such file or directory; create it, an empty list [] is enough";
const REMOVED: &str = "the file is gone, its rules stay in force; \
                       to drop them, put the file back with an empty list []";
const NO_FORM: &str = "not read: the name must be <namespace>-flow-rules.json, or -param, \
                       -degrade, -system, -authority or -gateway in place of -flow";

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
