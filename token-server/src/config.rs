//! Configuration: a TOML file, then `TOKEN_SERVER_*` variables, then flags; the later wins.
//!
//! All keys stand in one table ([`keys`]), which reads a value, shows it, and explains it; the
//! file, the variables, the flags, `--print-config` and `configuration.md` are made from it.
//! Everything is read before anything is done, and every mistake is reported.
//!
#![doc = include_str!("../configuration.md")]

mod error;
mod file;
mod flags;
mod keys;
mod show;
mod value;

use std::{num::NonZeroUsize, path::PathBuf};

use limiter::Settings;
use tracing_subscriber::EnvFilter;

pub use error::{ConfigError, Origin};
pub use flags::Flags;
pub use show::{show, table};

use crate::Options;
use keys::{KEYS, Key};
use value::Given;

/// A variable of this process's environment; bytes that are not UTF-8 are read as U+FFFD.
#[must_use]
pub fn environment(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Everything that the process is started with.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// File or directory with the rules; `None`: no rules.
    pub rules: Option<PathBuf>,
    /// Threads that serve connections; `None`: one for each core.
    pub workers: Option<NonZeroUsize>,
    /// What is logged, as `tracing` filter directives.
    pub log: LogDirectives,
    /// How a log line looks.
    pub log_format: LogFormat,
    /// How the server serves.
    pub options: Options,
    /// How the engine decides.
    pub settings: Settings,
}

/// Filter directives that were found to be valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDirectives(String);

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for LogDirectives {
    fn default() -> Self {
        Self("info".into())
    }
}

impl LogDirectives {
    /// Directives as `tracing-subscriber` reads them, such as `info,token_server=debug`.
    ///
    /// # Errors
    ///
    /// What is wrong with them, and what would do.
    pub fn parse(text: &str) -> Result<Self, String> {
        match EnvFilter::try_new(text) {
            Ok(_) if !text.is_empty() => Ok(Self(text.into())),
            Ok(_) => Err("a level such as info".into()),
            Err(error) => Err(format!("{error}; a level such as info, or target=level")),
        }
    }

    /// The directives as they were given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Config {
    /// Reads file, variables and flags. What is mistaken keeps its default, so that the rest can
    /// be checked too; the server is not to be started then.
    ///
    /// `variable` is asked for the names in `configuration.md` and for `TOKEN_SERVER_CONFIG`, the
    /// file's path. Other variables of the same prefix are not looked at, since Kubernetes makes
    /// some for a service of that name.
    #[must_use]
    pub fn load(
        flags: &Flags,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> (Self, Vec<ConfigError>) {
        let mut config = Self::default();
        let mut errors = Vec::new();
        let (path, origin) = match &flags.config {
            Some(path) => (Some(path.clone()), Origin::Flag("config")),
            None => (
                variable("TOKEN_SERVER_CONFIG").map(PathBuf::from),
                Origin::Variable("TOKEN_SERVER_CONFIG".into()),
            ),
        };
        if let Some(path) = path {
            file::read(&path, origin, &mut config, &mut errors);
        }
        for key in KEYS {
            let name = key.variable();
            if let Some(value) = variable(&name) {
                config.set(key, &Given::Text(&value), || Origin::Variable(name), &mut errors);
            }
        }
        for (flag, value) in flags.values() {
            let key = KEYS.iter().find(|key| key.flag == Some(flag));
            if let (Some(key), Some(value)) = (key, value) {
                config.set(key, &Given::Text(value), || Origin::Flag(flag), &mut errors);
            }
        }
        (config, errors)
    }

    /// The keys that have another value in `other` and take effect at a start only.
    #[must_use]
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let changed = KEYS.iter().filter(|key| (key.show)(self) != (key.show)(other));
        changed.map(|key| key.name).filter(|name| *name != "log").collect()
    }

    fn set(
        &mut self,
        key: &Key,
        given: &Given<'_>,
        origin: impl FnOnce() -> Origin,
        errors: &mut Vec<ConfigError>,
    ) {
        if let Err(remedy) = (key.read)(self, given) {
            errors.push(ConfigError::new(origin(), key.name, &given.to_string(), remedy));
        }
    }
}
