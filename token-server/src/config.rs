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

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use limiter::{Settings, Switches, rule::Mode};
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
#[derive(Debug, Clone)]
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
    /// File with the counters of the process before; `None`: they are kept in memory only.
    pub snapshot: Option<PathBuf>,
    /// Time between two writes of it.
    pub snapshot_interval: Duration,
    /// What becomes of all decisions.
    pub mode: Mode,
    /// Of those of a namespace.
    pub namespace_modes: Vec<(Box<str>, Mode)>,
    /// Requests per second of a namespace; `None`: any number.
    pub namespace_max_allowed_qps: Vec<(Box<str>, Option<f64>)>,
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

impl Default for Config {
    fn default() -> Self {
        Self {
            rules: None,
            workers: None,
            log: LogDirectives::default(),
            log_format: LogFormat::default(),
            snapshot: None,
            snapshot_interval: Duration::from_secs(10),
            mode: Mode::Enforce,
            namespace_modes: Vec::new(),
            namespace_max_allowed_qps: Vec::new(),
            options: Options::default(),
            settings: Settings::default(),
        }
    }
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

/// Keys that a reload puts in force.
const AT_ONCE: [&str; 4] = ["log", "mode", "namespace_modes", "namespace_max_allowed_qps"];

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
        changed.map(|key| key.name).filter(|name| !AT_ONCE.contains(name)).collect()
    }

    /// The switches as the engine takes them.
    #[must_use]
    pub fn switches(&self) -> Switches {
        let mut switches = Switches { mode: self.mode, ..Switches::default() };
        for (name, mode) in &self.namespace_modes {
            switches.namespaces.entry(name.clone()).or_default().mode = *mode;
        }
        for (name, qps) in &self.namespace_max_allowed_qps {
            let qps = qps.unwrap_or(f64::INFINITY);
            switches.namespaces.entry(name.clone()).or_default().max_allowed_qps = Some(qps);
        }
        switches
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

#[cfg(test)]
mod tests {
    use limiter::NamespaceSwitches;

    use super::*;

    /// Loads from a file with `text`, the variables in `environment`, and `flags`.
    fn load(text: &str, environment: &[(&str, &str)], flags: Flags) -> (Config, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.toml");
        std::fs::write(&path, text).unwrap();
        let flags = Flags { config: Some(path.clone()), ..flags };
        let variable = |name: &str| {
            let found = environment.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let (config, errors) = Config::load(&flags, &variable);
        let folder = format!("{}/", folder.path().display());
        (config, errors.iter().map(|error| error.to_string().replace(&folder, "")).collect())
    }

    #[test]
    fn flags_win_over_variables_and_variables_over_the_file() {
        let file = "listen = \"127.0.0.1:1\"\nhttp = \"127.0.0.1:2\"\nconnections_max = 3";
        let environment =
            [("TOKEN_SERVER_LISTEN", "127.0.0.1:4"), ("TOKEN_SERVER_HTTP", "127.0.0.1:5")];
        let flags = Flags { listen: Some("[::1]:6".into()), ..Flags::default() };
        let (config, errors) = load(file, &environment, flags);
        assert_eq!(errors, [""; 0]);
        let Options { listen, http, connections_max, .. } = config.options;
        assert_eq!(listen, "[::1]:6".parse().unwrap());
        assert_eq!(http, Some("127.0.0.1:5".parse().unwrap()));
        assert_eq!(connections_max, 3);
    }

    #[test]
    fn every_key_of_the_file_reaches_its_place() {
        let file = r#"
            rules = "/etc/rules"
            listen = "0.0.0.0:1"
            http = "off"
            max_allowed_qps = "off"
            exceed_count = 1.5
            max_occupy_ratio = 0
            ignore_control_behavior = true
            namespaces_max = 2
            rules_max = 1_000
            values_max = 4
            values_bytes_max = 5
            tokens_max = 16_777_216
            allowed_clients = ["10.0.0.0/8", "::1"]
            allowed_namespaces = ["a", "b,c"]
            connections_max = 5
            answers_max = 6
            frame_timeout_ms = 7
            write_timeout_ms = 8
            idle_seconds = 9
            keep_alive_seconds = 0
            drain_ms = 10
            mode = "shadow"
            namespace_modes = ["a=pass", "b=c=block"]
            namespace_max_allowed_qps = ["b=c=2.5", "d=off"]
            snapshot = "/var/counters"
            snapshot_interval = 3600
            workers = 11
            log = "warn,token_server=debug"
            log_format = "json"
        "#;
        assert_eq!(file.matches(" = ").count(), KEYS.len(), "the test knows every key");
        let (config, errors) = load(file, &[], Flags::default());
        assert_eq!(errors, [""; 0]);
        let switches = config.switches();
        assert_eq!(switches.mode, Mode::Shadow);
        let own = |name| switches.namespaces[name];
        let all = |mode, max_allowed_qps| NamespaceSwitches { mode, max_allowed_qps };
        assert_eq!(own("a"), all(Mode::Pass, None));
        assert_eq!(own("b=c"), all(Mode::Block, Some(2.5)));
        assert_eq!(own("d"), all(Mode::Enforce, Some(f64::INFINITY)));
        assert_eq!(config.snapshot, Some("/var/counters".into()));
        assert_eq!(config.snapshot_interval, Duration::from_secs(3_600));
        let Config { rules, workers, log, log_format, options, settings, .. } = config;
        let ms = Duration::from_millis;
        assert_eq!(rules, Some("/etc/rules".into()));
        assert_eq!(options.listen, "0.0.0.0:1".parse().unwrap());
        assert_eq!((options.http, settings.max_allowed_qps), (None, None));
        assert_eq!((settings.exceed_count, settings.max_occupy_ratio), (1.5, 0.0));
        assert!(settings.ignore_control_behavior);
        assert_eq!(
            (settings.namespaces_max, settings.rules_max, settings.values_max),
            (2, 1_000, 4)
        );
        assert_eq!((settings.values_bytes_max, settings.tokens_max), (5, 16_777_216));
        let clients = ["10.0.0.0/8", "::1/128"].map(|net| net.parse().unwrap());
        assert_eq!(options.allowed_clients, clients);
        assert_eq!(options.allowed_namespaces, ["a".into(), "b,c".into()]);
        assert_eq!((options.connections_max, options.answers_max), (5, 6));
        assert_eq!((options.patience.frame, options.patience.write), (ms(7), ms(8)));
        assert_eq!((options.patience.idle, options.keep_alive), (Some(ms(9_000)), None));
        assert_eq!((options.drain, workers.map(NonZeroUsize::get)), (ms(10), Some(11)));
        assert_eq!((log.as_str(), log_format), ("warn,token_server=debug", LogFormat::Json));
    }

    #[test]
    fn every_mistake_is_told_with_its_place_and_what_would_do() {
        let file = r#"
listen = "nowhere"
conections_max = 4
answers_max = 0
workers = 0x10
allowed_clients = ["10.0.0.0/33"]
exceed_count = -1
frame_timeout_ms = [1, 2]
log = "token_server=loud"
mode = "Pass"
namespace_modes = ["a=pass", "b"]
namespace_max_allowed_qps = ["a=1", "b=-1"]
snapshot_interval = 0
[http]
port = 1
"#;
        let environment =
            [("TOKEN_SERVER_DRAIN_MS", "soon"), ("TOKEN_SERVER_PORT", "tcp://10.0.0.1:18730")];
        let flags = Flags { max_allowed_qps: Some("many".into()), ..Flags::default() };
        let (config, errors) = load(file, &environment, flags);
        let starts = [
            "server.toml:2: listen = nowhere: an IP address and a port",
            "server.toml:3: conections_max = 4: unknown key",
            "server.toml:4: answers_max = 0: a whole number from 1 to 10000",
            "server.toml:5: workers = 0x10: one value",
            "server.toml:6: allowed_clients = [\"10.0.0.0/33\"]: networks such as",
            "server.toml:7: exceed_count = -1: a number, 0 or more",
            "server.toml:8: frame_timeout_ms = [\"1\", \"2\"]: one value, not a list",
            "server.toml:9: log = token_server=loud: ",
            "server.toml:10: mode = Pass: enforce, shadow, pass or block",
            "server.toml:11: namespace_modes = [\"a=pass\", \"b\"]: namespace=mode, with",
            "server.toml:12: namespace_max_allowed_qps = [\"a=1\", \"b=-1\"]: namespace=number",
            "server.toml:13: snapshot_interval = 0: a whole number from 1 to 3600",
            "server.toml:14: http = ",
            "TOKEN_SERVER_DRAIN_MS = soon: a whole number from 1 to 86400000",
            "--max-allowed-qps many: a number, 0 or more, or off",
        ];
        assert_eq!(errors.len(), starts.len(), "{errors:#?}");
        for (error, start) in errors.iter().zip(starts) {
            assert!(error.starts_with(start), "{error}, expected {start}");
        }
        assert_eq!(config.options.listen, Options::default().listen, "what is wrong has no effect");
    }

    #[test]
    fn a_file_that_is_no_toml_is_told_line_by_line() {
        let (_, errors) = load("listen = \nhttp = \"off\"\nlog \"info\"\n", &[], Flags::default());
        let lines: Vec<&str> = errors.iter().filter_map(|error| error.split(": ").next()).collect();
        assert_eq!(lines, ["server.toml:1", "server.toml:3"], "{errors:?}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_blamed_on_whoever_named_it() {
        let path = "/no/such/file.toml";
        let flags = Flags { config: Some(path.into()), ..Flags::default() };
        let (_, errors) = Config::load(&flags, &|_| None);
        assert!(errors[0].to_string().starts_with("--config /no/such/file.toml: cannot read"));
        let variable = |name: &str| (name == "TOKEN_SERVER_CONFIG").then(|| path.to_owned());
        let (_, errors) = Config::load(&Flags::default(), &variable);
        assert!(errors[0].to_string().starts_with("TOKEN_SERVER_CONFIG = /no/such/file.toml: "));
    }

    #[test]
    fn lists_in_variables_are_split_at_commas() {
        let environment = [("TOKEN_SERVER_ALLOWED_CLIENTS", "10.0.0.0/8, 192.168.0.1,")];
        let (config, errors) = load("", &environment, Flags::default());
        assert_eq!((errors.len(), config.options.allowed_clients.len()), (0, 2));
    }

    #[test]
    fn a_namespace_has_a_name_and_one_mode() {
        let remedy = |value: &str| {
            let environment = [("TOKEN_SERVER_NAMESPACE_MODES", value)];
            load("", &environment, Flags::default()).1
        };
        assert_eq!(remedy(" a=pass, b=block,"), [""; 0]);
        assert!(
            remedy("=pass")[0].ends_with("namespace=mode, with enforce, shadow, pass or block")
        );
        let twice = remedy("b=pass,a=pass,b=block");
        assert!(twice[0].ends_with("each namespace once; b is there twice"), "{twice:?}");
    }

    #[test]
    fn the_list_that_wins_is_there_alone() {
        let environment = [("TOKEN_SERVER_NAMESPACE_MODES", "b=block")];
        let file = "namespace_modes = [\"a=pass\"]";
        let (config, _) = load(file, &environment, Flags::default());
        assert_eq!(config.namespace_modes, [("b".into(), Mode::Block)]);
    }

    #[test]
    fn what_is_printed_is_read_as_the_same() {
        let file =
            "http = \"off\"\nallowed_clients = [\"::/0\"]\nexceed_count = 0.1\nrules = \"a\\\"b\"
             mode = \"block\"\nnamespace_modes = [\"a,\\\"b\\\"=pass\"]
             namespace_max_allowed_qps = [\"a=0.1\", \"b=off\"]\nsnapshot = \"x\"";
        let (config, _) = load(file, &[], Flags::default());
        for config in [config, Config::default()] {
            let printed = show(&config);
            let (again, errors) = load(&printed, &[], Flags::default());
            assert_eq!(errors, [""; 0]);
            assert_eq!(show(&again), printed);
        }
    }

    #[test]
    fn keys_that_need_a_restart_are_named() {
        let (config, _) = load(
            "log = \"debug\"\nworkers = 3\nhttp = \"off\"\nmode = \"pass\"",
            &[],
            Flags::default(),
        );
        assert_eq!(config.differing(&Config::default()), ["http", "workers"]);
        assert_eq!(config.differing(&config), [""; 0]);
    }

    /// The table is made from the code; put what this prints into the file.
    #[test]
    fn the_documented_keys_are_those_of_the_code() {
        let documented = include_str!("../configuration.md");
        let table = table();
        assert!(documented.ends_with(&table), "the table of configuration.md should be\n\n{table}");
    }
}
