//! Watches the files of a source from a thread of its own: file systems can hang, and a runtime's
//! workers must not hang with them.
//!
//! Events of the directories wake the thread, and so does a slow look, for what gives no events: a
//! network file system, a link that changes elsewhere, no event queue left. Whether something
//! changed is decided by how the files look, not by the event: the directory may be a busy one.

mod links;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use notify::{
    ErrorKind, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use tokio::sync::Notify;

use super::look::Look;
use crate::Changes;

/// How often to look, and how long to wait for more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Time between two looks when no event comes.
    pub(super) look: Duration,
    /// Time without an event about a rule file after which it is taken to be written.
    pub(super) quiet: Duration,
    /// Whether to ask for events at all.
    pub(super) events: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { look: Duration::from_secs(1), quiet: Duration::from_millis(200), events: true }
    }
}

/// A file that is written on and on is told of after this many times [`Pace::quiet`].
const QUIET_ROUNDS_MAX: u32 = 4;

/// Starts a thread that tells every change from `seen` on, until the changes are dropped, and
/// tells one at each look after `again` was set.
pub(super) fn start(
    path: PathBuf,
    seen: Look,
    again: Arc<AtomicBool>,
    pace: Pace,
) -> io::Result<Changes> {
    let desk = Arc::new(Desk::default());
    let watch = Watch {
        desk: Arc::clone(&desk),
        path,
        again,
        pace,
        events: None,
        watched: BTreeSet::new(),
    };
    thread::Builder::new().name("rule-watch".into()).spawn(move || watch.run(seen))?;
    Ok(Changes::new(Arc::clone(&desk.signal), StopOnDrop(desk)))
}

/// Where the watching thread, the event queue and the owner of the changes meet.
#[derive(Debug, Default)]
struct Desk {
    state: Mutex<State>,
    wake: Condvar,
    signal: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    /// Something happened in a watched directory.
    woken: bool,
    /// It happened to a file of one of `names`.
    touched: bool,
    /// Names of the rule files, and of what they link to.
    names: BTreeSet<OsString>,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `time`, or less when `enough`.
    fn wait(&self, time: Duration, enough: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.wake.wait_timeout_while(self.state(), time, |state| !enough(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until there is a reason to look and rule files have been quiet for a while. Says
    /// whether one was touched; `None` when it is time to stop.
    fn next(&self, pace: Pace) -> Option<bool> {
        drop(self.wait(pace.look, |state| state.stopped || state.woken));
        let mut touched = false;
        for _ in 0..QUIET_ROUNDS_MAX {
            let state = &mut *self.wait(pace.quiet, |state| state.stopped);
            if state.stopped {
                return None;
            }
            state.woken = false;
            if !std::mem::take(&mut state.touched) {
                break;
            }
            touched = true;
        }
        Some(touched)
    }

    /// Takes one event in. Runs on the event queue's thread.
    fn event(&self, event: notify::Result<notify::Event>) {
        let state = &mut *self.state();
        let touched = match event {
            // Reading a file is an event as well, ours included; only the end of a write counts.
            Ok(event)
                if matches!(event.kind, EventKind::Access(access)
                    if access != AccessKind::Close(AccessMode::Write)) =>
            {
                return;
            }
            Ok(event) => {
                let is_ours = |path: &PathBuf| {
                    path.file_name().is_some_and(|name| state.names.contains(name))
                };
                event.need_rescan() || event.paths.iter().any(is_ours)
            }
            Err(_) => true,
        };
        state.woken = true;
        state.touched |= touched;
        self.wake.notify_all();
    }
}

/// Ends the thread when the changes are dropped.
struct StopOnDrop(Arc<Desk>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.state().stopped = true;
        self.0.wake.notify_all();
    }
}

/// What the watching thread owns.
struct Watch {
    desk: Arc<Desk>,
    path: PathBuf,
    /// The last load is worth another.
    again: Arc<AtomicBool>,
    pace: Pace,
    events: Option<RecommendedWatcher>,
    /// Directories whose events come.
    watched: BTreeSet<PathBuf>,
}

impl Watch {
    fn run(mut self, mut seen: Look) {
        if self.pace.events {
            self.open_events();
        }
        self.follow(&seen);
        // What changed before the directories were watched is found by a look at once.
        self.desk.state().woken = true;
        while let Some(touched) = self.desk.next(self.pace) {
            let look = Look::at(&self.path);
            // Relaxed: the flag is the whole state.
            let again = self.again.swap(false, Ordering::Relaxed);
            if touched || look != seen || again {
                self.follow(&look);
                seen = look;
                self.desk.signal.notify_one();
            }
        }
    }

    fn open_events(&mut self) {
        let desk = Arc::clone(&self.desk);
        match notify::recommended_watcher(move |event| desk.event(event)) {
            Ok(events) => self.events = Some(events),
            Err(error) => self.no_events(&self.path, &error),
        }
    }

    /// Watches the directories that matter now, in place of those that did.
    fn follow(&mut self, look: &Look) {
        let Some(events) = &mut self.events else { return };
        let mut directories = BTreeSet::new();
        let mut names = BTreeSet::new();
        if self.path.is_dir() {
            directories.insert(self.path.clone());
        }
        for path in look.paths().chain([self.path.as_path()]) {
            links::follow(path, &mut directories, &mut names);
        }
        self.desk.state().names = names;
        // One directory by two names would be one watch, and forgotten with the first of them.
        let directories: BTreeSet<PathBuf> =
            directories.iter().filter_map(|path| path.canonicalize().ok()).collect();
        for old in self.watched.difference(&directories) {
            // An error means that it is not watched any more, since it was removed.
            let _ = events.unwatch(old);
        }
        let mut failed = Vec::new();
        for directory in &directories {
            // Again, also if it was watched: a directory that was made anew has the same name.
            match events.watch(directory, RecursiveMode::NonRecursive) {
                Err(error) if !matches!(error.kind, ErrorKind::PathNotFound) => {
                    failed.push((directory.clone(), error));
                }
                _ => {}
            }
        }
        self.watched = directories;
        for (directory, error) in &failed {
            self.no_events(directory, error);
        }
    }

    fn no_events(&self, path: &Path, error: &notify::Error) {
        let every = self.pace.look;
        tracing::warn!(path = %path.display(), %error, ?every, "no file events, looking regularly");
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
