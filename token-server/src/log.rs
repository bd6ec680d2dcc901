//! The process's log: to stderr, with a filter that can change at run time.

use std::{
    io::IsTerminal,
    sync::{Arc, Mutex, PoisonError},
};

use dashboard_api::LogControl;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt,
};

use crate::config::{LogDirectives, LogFormat};

/// The filter in force.
#[derive(Debug)]
pub struct LogFilter {
    handle: reload::Handle<EnvFilter, Registry>,
    directives: Mutex<LogDirectives>,
}

/// Makes this process log to stderr.
///
/// # Panics
///
/// When the process logs already: there is one log.
pub fn install(directives: &LogDirectives, format: LogFormat) -> Arc<LogFilter> {
    let (filter, handle) = reload::Layer::new(EnvFilter::new(directives.as_str()));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry().with(filter).with(lines).init();
    Arc::new(LogFilter { handle, directives: Mutex::new(directives.clone()) })
}

impl LogControl for LogFilter {
    fn filter(&self) -> String {
        self.directives.lock().unwrap_or_else(PoisonError::into_inner).as_str().into()
    }

    fn set_filter(&self, directives: &str) -> Result<(), String> {
        let directives = LogDirectives::parse(directives)?;
        let mut kept = self.directives.lock().unwrap_or_else(PoisonError::into_inner);
        self.handle
            .reload(EnvFilter::new(directives.as_str()))
            .map_err(|error| error.to_string())?;
        *kept = directives;
        Ok(())
    }
}

/// A log that is not ours to change: the server runs inside another program.
#[derive(Debug)]
pub(crate) struct HostsLog;

impl LogControl for HostsLog {
    fn filter(&self) -> String {
        String::new()
    }

    fn set_filter(&self, _directives: &str) -> Result<(), String> {
        Err("the program that embeds this server owns the log".into())
    }
}
