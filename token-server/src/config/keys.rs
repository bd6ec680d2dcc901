//! All keys: how each is read, shown and explained.

use std::{fmt::Display, num::NonZeroUsize, time::Duration};

use limiter::rule::Mode;

use super::{
    Config, LogDirectives, LogFormat,
    value::{Given, Remedy},
};
use crate::switches::{self, MODES};

/// One key of the configuration.
pub(crate) struct Key {
    /// The name in the file; the variable's is made from it.
    pub(crate) name: &'static str,
    /// The flag, for the keys that have one.
    pub(crate) flag: Option<&'static str>,
    /// Meaning, unit and edges.
    pub(crate) about: &'static str,
    /// Puts a value into the configuration, or says what would do instead.
    pub(crate) read: fn(&mut Config, &Given<'_>) -> Result<(), Remedy>,
    /// The value in force, in TOML.
    pub(crate) show: fn(&Config) -> String,
}

impl Key {
    /// The name of the environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("TOKEN_SERVER_{}", self.name.to_uppercase())
    }
}

const ADDRESS: &str = "an IP address and a port, such as 127.0.0.1:18730 or [::1]:18730";
const WEEK_S: usize = 7 * 24 * 3_600;

pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "rules",
        flag: Some("rules"),
        about: "File or directory with rules, which are watched. Empty: no rules, and every \
                request is answered NO_RULE_EXISTS.",
        read: |c, given| {
            let path = given.text()?;
            c.rules = (!path.is_empty()).then(|| path.into());
            Ok(())
        },
        show: |c| quoted(c.rules.as_ref().map_or("".into(), |path| path.to_string_lossy())),
    },
    Key {
        name: "listen",
        flag: Some("listen"),
        about: "Where the token protocol is served; port 0 takes a free one. The protocol has no \
                authentication: see `allowed_clients` before opening it to a network.",
        read: |c, given| given.parse(ADDRESS).map(|addr| c.options.listen = addr),
        show: |c| quoted(c.options.listen),
    },
    Key {
        name: "http",
        flag: Some("http"),
        about: "Where health, metrics and rules are served by HTTP, or \"off\".",
        read: |c, given| {
            let remedy = format!("{ADDRESS}, or off");
            given.or_off(|given| given.parse(&remedy)).map(|addr| c.options.http = addr)
        },
        show: |c| or_off(c.options.http.map(quoted)),
    },
    Key {
        name: "max_allowed_qps",
        flag: Some("max-allowed-qps"),
        about: "Requests per second that one namespace may make, whatever they ask for; above it \
                they are answered TOO_MANY_REQUEST. What gives tokens back, holds them on or \
                corrects counts is counted and never refused. \"off\": any number. 0 refuses all \
                others.",
        read: |c, given| {
            let number = |given: &Given<'_>| given.number().map_err(|or| or + ", or off");
            given.or_off(number).map(|qps| c.settings.max_allowed_qps = qps)
        },
        show: |c| or_off(c.settings.max_allowed_qps.map(|qps| qps.to_string())),
    },
    Key {
        name: "mode",
        flag: Some("mode"),
        about: "What becomes of all decisions, whatever the rules say: \"enforce\" as they say, \
                \"shadow\" everything passes and what would have been refused is counted, \
                \"pass\" everything passes and nothing is counted as used, \"block\" nothing \
                passes. Takes effect at SIGHUP.",
        read: |c, given| {
            c.mode = mode(given.text()?).ok_or(MODE_REMEDY)?;
            Ok(())
        },
        show: |c| quoted(switches::name(c.mode)),
    },
    Key {
        name: "namespace_modes",
        flag: None,
        about: "Modes of single namespaces, such as [\"orders=shadow\", \"search=pass\"]; they \
                hold while `mode` is \"enforce\". Takes effect at SIGHUP.",
        read: |c, given| {
            let remedy = "namespace=mode, with enforce, shadow, pass or block";
            c.namespace_modes = named(given, mode, remedy)?;
            Ok(())
        },
        show: |c| show_named(&c.namespace_modes, |mode| switches::name(*mode).into()),
    },
    Key {
        name: "namespace_max_allowed_qps",
        flag: None,
        about: "Requests per second of single namespaces in place of `max_allowed_qps`, such as \
                [\"orders=50000\", \"batch=off\"]. Takes effect at SIGHUP.",
        read: |c, given| {
            let number = |text: &str| Given::Text(text).or_off(Given::number).ok();
            c.namespace_max_allowed_qps =
                named(given, number, "namespace=number, 0 or more, or namespace=off")?;
            Ok(())
        },
        show: |c| {
            let number = |qps: &Option<f64>| qps.map_or("off".into(), |qps| qps.to_string());
            show_named(&c.namespace_max_allowed_qps, number)
        },
    },
    Key {
        name: "exceed_count",
        flag: None,
        about: "Factor on the count of every flow rule (Sentinel's exceedCount). 0 blocks all.",
        read: |c, given| given.number().map(|factor| c.settings.exceed_count = factor),
        show: |c| decimal(c.settings.exceed_count),
    },
    Key {
        name: "max_occupy_ratio",
        flag: None,
        about: "Share of a flow rule's count that prioritized requests may book ahead (Sentinel's \
                maxOccupyRatio). With 0 one booking at a time is possible.",
        read: |c, given| given.number().map(|ratio| c.settings.max_occupy_ratio = ratio),
        show: |c| decimal(c.settings.max_occupy_ratio),
    },
    Key {
        name: "ignore_control_behavior",
        flag: None,
        about: "Whether controlBehavior means nothing to the server, as in Sentinel's: what is over \
                the threshold is refused, nobody is paced and nothing warms up.",
        read: |c, given| {
            given.parse("true or false").map(|ignore| c.settings.ignore_control_behavior = ignore)
        },
        show: |c| c.settings.ignore_control_behavior.to_string(),
    },
    Key {
        name: "namespaces_max",
        flag: None,
        about: "Namespaces that may exist at once, with rules or with connections. Above it a \
                ping is answered -1.",
        read: |c, given| given.whole(1..=10_000_000).map(|n| c.settings.namespaces_max = n),
        show: |c| c.settings.namespaces_max.to_string(),
    },
    Key {
        name: "rules_max",
        flag: None,
        about: "Rules of all namespaces together. A larger set is refused whole.",
        read: |c, given| given.whole(1..=100_000_000).map(|n| c.settings.rules_max = n),
        show: |c| c.settings.rules_max.to_string(),
    },
    Key {
        name: "values_max",
        flag: None,
        about: "Live values of one hot-parameter rule. Further new ones share one counter.",
        read: |c, given| given.whole(1..=100_000_000).map(|n| c.settings.values_max = n),
        show: |c| c.settings.values_max.to_string(),
    },
    Key {
        name: "values_bytes_max",
        flag: None,
        about: "Bytes of memory for the live values of all hot-parameter rules together, about \
                250 a value. Further new ones share one counter a rule.",
        read: |c, given| given.whole(0..=1 << 50).map(|n| c.settings.values_bytes_max = n as u64),
        show: |c| c.settings.values_bytes_max.to_string(),
    },
    Key {
        name: "tokens_max",
        flag: None,
        about: "Concurrency tokens of all rules together that may be held at once, 64 bytes of \
                memory each. A namespace may hold as many as are free: alone half of them, beside \
                another that takes all it can a third, and so on. A further one is answered \
                TOO_MANY_REQUEST.",
        read: |c, given| {
            let max = usize::try_from(limiter::Concurrency::TOKENS_MAX).unwrap_or(usize::MAX);
            given.whole(0..=max).map(|n| c.settings.tokens_max = n as u64)
        },
        show: |c| c.settings.tokens_max.to_string(),
    },
    Key {
        name: "allowed_clients",
        flag: None,
        about: "Networks whose addresses may connect, such as [\"10.0.0.0/8\", \"::1/128\"]. \
                Others are closed at once. Empty: everybody.",
        read: |c, given| given.list(network).map(|nets| c.options.allowed_clients = nets),
        show: |c| list(&c.options.allowed_clients),
    },
    Key {
        name: "allowed_namespaces",
        flag: None,
        about: "Namespaces that a ping may name; others are answered -1. Empty: all.",
        read: |c, given| {
            let names = given.list(|name| Ok(name.into()))?;
            c.options.allowed_namespaces = names;
            Ok(())
        },
        show: |c| list(&c.options.allowed_namespaces),
    },
    Key {
        name: "connections_max",
        flag: None,
        about: "Connections at once. Further ones wait in the kernel's queue.",
        read: |c, given| given.whole(1..=10_000_000).map(|n| c.options.connections_max = n),
        show: |c| c.options.connections_max.to_string(),
    },
    Key {
        name: "answers_max",
        flag: None,
        about: "Answers that wait on one connection to be written; until they are, nothing more \
                is read from it.",
        read: |c, given| given.whole(1..=10_000).map(|n| c.options.answers_max = n),
        show: |c| c.options.answers_max.to_string(),
    },
    Key {
        name: "frame_timeout_ms",
        flag: None,
        about: "Milliseconds in which a started frame must be finished, or its connection is \
                closed.",
        read: |c, given| given.millis().map(|time| c.options.patience.frame = time),
        show: |c| c.options.patience.frame.as_millis().to_string(),
    },
    Key {
        name: "write_timeout_ms",
        flag: None,
        about: "Milliseconds in which a client must take the answers that wait for it, or its \
                connection is closed.",
        read: |c, given| given.millis().map(|time| c.options.patience.write = time),
        show: |c| c.options.patience.write.as_millis().to_string(),
    },
    Key {
        name: "idle_seconds",
        flag: None,
        about: "Seconds of silence after which a connection is closed. 0: never, since Sentinel's \
                Java client pings but once and is silent while its service is.",
        read: |c, given| given.seconds_or_never(WEEK_S).map(|time| c.options.patience.idle = time),
        show: |c| seconds(c.options.patience.idle),
    },
    Key {
        name: "keep_alive_seconds",
        flag: None,
        about: "Seconds of silence after which TCP asks whether the client is still there; one \
                that is not is gone after twice the time. 0: it is never asked, and a client whose \
                network broke is counted as connected for ever.",
        read: |c, given| given.seconds_or_never(32_767).map(|time| c.options.keep_alive = time),
        show: |c| seconds(c.options.keep_alive),
    },
    Key {
        name: "drain_ms",
        flag: None,
        about: "Milliseconds that a shutdown waits for connections to end.",
        read: |c, given| given.millis().map(|time| c.options.drain = time),
        show: |c| c.options.drain.as_millis().to_string(),
    },
    Key {
        name: "snapshot",
        flag: Some("snapshot"),
        about: "File that keeps what flows have used over a restart; each server needs its own. \
                Beside it stand FILE.lock, and what could not be read as FILE.damaged-1 or \
                FILE.newer-1. Empty: counters are kept in memory only. That is the default since \
                no file is right everywhere: two servers would share it, and a container's own \
                file system goes with the container.",
        read: |c, given| {
            let path = given.text()?;
            c.snapshot = (!path.is_empty()).then(|| path.into());
            Ok(())
        },
        show: |c| quoted(c.snapshot.as_ref().map_or("".into(), |path| path.to_string_lossy())),
    },
    Key {
        name: "snapshot_interval",
        flag: None,
        about: "Seconds between two writes of `snapshot`. A process that is killed forgets what \
                was used since the last one; one that is shut down writes a last one.",
        read: |c, given| {
            let seconds = given.whole(1..=3_600)? as u64;
            c.snapshot_interval = Duration::from_secs(seconds);
            Ok(())
        },
        show: |c| c.snapshot_interval.as_secs().to_string(),
    },
    Key {
        name: "workers",
        flag: None,
        about: "Threads that serve connections. 0: one for each core.",
        read: |c, given| given.whole(0..=1_024).map(|n| c.workers = NonZeroUsize::new(n)),
        show: |c| c.workers.map_or(0, NonZeroUsize::get).to_string(),
    },
    Key {
        name: "log",
        flag: Some("log"),
        about: "What is logged: a level (error, warn, info, debug, trace) or filter directives \
                such as \"info,token_server=debug\". Read again at SIGHUP.",
        read: |c, given| LogDirectives::parse(given.text()?).map(|log| c.log = log),
        show: |c| quoted(c.log.as_str()),
    },
    Key {
        name: "log_format",
        flag: Some("log-format"),
        about: "How log lines look: \"text\" or \"json\".",
        read: |c, given| {
            c.log_format = match given.text()? {
                "text" => LogFormat::Text,
                "json" => LogFormat::Json,
                _ => return Err("text or json".into()),
            };
            Ok(())
        },
        show: |c| match c.log_format {
            LogFormat::Text => quoted("text"),
            LogFormat::Json => quoted("json"),
        },
    },
];

fn network(text: &str) -> Result<ipnet::IpNet, Remedy> {
    let single = || text.parse::<std::net::IpAddr>().map(Into::into);
    text.parse().or_else(|_| single()).map_err(|_| "networks such as 10.0.0.0/8 or fd00::/8".into())
}

const MODE_REMEDY: &str = "enforce, shadow, pass or block";

fn mode(text: &str) -> Option<Mode> {
    MODES.iter().find(|(name, _)| *name == text).map(|(_, mode)| *mode)
}

/// A list of `name=value`, each name once. A name may hold `=` itself.
fn named<T>(
    given: &Given<'_>,
    read: impl Fn(&str) -> Option<T>,
    remedy: &str,
) -> Result<Vec<(Box<str>, T)>, Remedy> {
    let pairs = given.list(|item| {
        let (name, value) = item.rsplit_once('=').ok_or(remedy)?;
        let value = read(value.trim()).ok_or(remedy)?;
        let name = name.trim();
        if name.is_empty() { Err(remedy.into()) } else { Ok((name.into(), value)) }
    })?;
    let mut names: Vec<&str> = pairs.iter().map(|(name, _): &(Box<str>, T)| &**name).collect();
    names.sort_unstable();
    match names.array_windows().find(|[a, b]| a == b) {
        Some([twice, _]) => Err(format!("each namespace once; {twice} is there twice")),
        None => Ok(pairs),
    }
}

fn show_named<T>(pairs: &[(Box<str>, T)], show: impl Fn(&T) -> String) -> String {
    let items: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name}={}", show(value))).collect();
    list(&items)
}

fn quoted(text: impl Display) -> String {
    format!("{:?}", text.to_string())
}

fn list(items: &[impl Display]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    format!("{items:?}")
}

fn or_off(value: Option<String>) -> String {
    value.unwrap_or_else(|| quoted("off"))
}

/// With a point, as a reader expects of a factor.
fn decimal(number: f64) -> String {
    format!("{number:?}")
}

fn seconds(time: Option<Duration>) -> String {
    time.unwrap_or_default().as_secs().to_string()
}
