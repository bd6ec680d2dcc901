//! What stands on the command line.

use std::path::PathBuf;

use clap::Parser;

/// Sentinel-compatible cluster token server.
///
/// Every key of the configuration can be given in the file, as TOKEN_SERVER_KEY in the
/// environment, and the most used ones as flags; the later wins.
#[derive(Debug, Default, Parser)]
#[command(name = "token-server", version)]
pub struct Flags {
    /// Configuration file, TOML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// File or directory with rules; watched for changes
    #[arg(long, value_name = "FILE|DIR")]
    pub rules: Option<String>,
    /// Where the token protocol is served; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Where health, metrics and rules are served by HTTP
    #[arg(long, value_name = "ADDR:PORT|off")]
    pub http: Option<String>,
    /// Requests per second that one namespace may make
    #[arg(long, value_name = "N|off")]
    pub max_allowed_qps: Option<String>,
    /// What becomes of all decisions, whatever the rules say
    #[arg(long, value_name = "enforce|shadow|pass|block")]
    pub mode: Option<String>,
    /// File that keeps the counters over a restart
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<String>,
    /// How log lines look
    #[arg(long, value_name = "text|json")]
    pub log_format: Option<String>,
    /// What is logged, such as info or token_server=debug
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Check configuration and rules, print every mistake, and end
    #[arg(long)]
    pub check: bool,
    /// Print the configuration in force as TOML with comments, and end
    #[arg(long)]
    pub print_config: bool,
}

impl Flags {
    /// The flags that stand for keys, by the names of the flags.
    pub(crate) fn values(&self) -> [(&'static str, Option<&str>); 8] {
        [
            ("rules", self.rules.as_deref()),
            ("listen", self.listen.as_deref()),
            ("http", self.http.as_deref()),
            ("max-allowed-qps", self.max_allowed_qps.as_deref()),
            ("mode", self.mode.as_deref()),
            ("snapshot", self.snapshot.as_deref()),
            ("log-format", self.log_format.as_deref()),
            ("log", self.log.as_deref()),
        ]
    }
}
