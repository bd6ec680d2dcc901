//! A mistake in the configuration, said so that an operator can mend it without reading code.

use std::{fmt, path::PathBuf};

/// Longest part of a value that is repeated in a message.
const VALUE_LEN_MAX: usize = 60;

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In the configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// In an environment variable of that name.
    Variable(String),
    /// In the flag of that name.
    Flag(&'static str),
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Where it is.
    pub origin: Origin,
    /// The key; empty when the file as a whole is at fault.
    pub key: String,
    /// The value as it was written, cut to 60 characters.
    pub value: String,
    /// What is wrong with it, or what would do.
    pub remedy: String,
}

impl ConfigError {
    pub(crate) fn new(origin: Origin, key: &str, value: &str, remedy: String) -> Self {
        let value = value.chars().take(VALUE_LEN_MAX).collect();
        Self { origin, key: key.into(), value, remedy }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, key, value, remedy } = self;
        match origin {
            Origin::File { path, line } if key.is_empty() => {
                write!(f, "{}:{line}: {remedy}", path.display())
            }
            Origin::File { path, line } => {
                write!(f, "{}:{line}: {key} = {value}: {remedy}", path.display())
            }
            Origin::Variable(name) => write!(f, "{name} = {value}: {remedy}"),
            Origin::Flag(name) => write!(f, "--{name} {value}: {remedy}"),
        }
    }
}
