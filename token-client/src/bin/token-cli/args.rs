//! The command line.

use std::{num::NonZeroU32, str::FromStr, time::Duration};

use clap::{Args as Group, Parser, Subcommand};
use token_client::{Builder, Client, Param, ServerName, What, limiter::rule::ItemValue};

const EXIT_CODES: &str = "Exit codes: 0 passed, 1 refused, 2 wrong command line, 3 no decision";

/// Asks a Sentinel-compatible token server for tokens
#[derive(Debug, Parser)]
#[command(name = "token-cli", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Log what the connection does
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask for tokens of a flow rule, or of a hot-parameter rule
    #[command(after_help = EXIT_CODES)]
    Acquire(Acquire),
    /// Say what a check would come to now, and why; takes nothing
    #[command(after_help = EXIT_CODES)]
    Why(Why),
    /// Give tokens back that were taken and not used
    #[command(after_help = EXIT_CODES)]
    GiveBack(GiveBack),
    /// Charge tokens that were used without having been asked for, over the limit too
    #[command(after_help = EXIT_CODES)]
    Charge(Wanted),
    /// Forget what was used
    #[command(after_help = EXIT_CODES)]
    Reset(Wanted),
    /// Take room for calls in progress, and keep it until the command is interrupted (Ctrl-C)
    #[command(after_help = EXIT_CODES)]
    Hold(Hold),
    /// Ask who is there: how long an answer takes, and how many clients the namespace has
    #[command(after_help = EXIT_CODES)]
    Ping(Ping),
}

#[derive(Debug, Group)]
pub(crate) struct Server {
    /// `HOST`, `HOST:PORT` or `[IPV6]:PORT`; given several times, the first that answers is asked
    #[arg(long = "server", value_name = "ADDRESS", default_value = "127.0.0.1:18730")]
    pub(crate) servers: Vec<ServerName>,
    /// The namespace to join while the command runs: it counts as one client of it
    #[arg(long, default_value = "default")]
    pub(crate) namespace: String,
    /// Milliseconds that an answer may take
    #[arg(long, value_name = "MS", default_value = "1000")]
    pub(crate) timeout: NonZeroU32,
}

#[derive(Debug, Group)]
pub(crate) struct Acquire {
    #[command(flatten)]
    pub(crate) server: Server,
    /// The rule's clusterConfig.flowId
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) flow_id: i64,
    /// Tokens to ask for
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) count: u32,
    /// Let the server book tokens of the next bucket, and wait for it
    #[arg(long, conflicts_with = "params")]
    pub(crate) priority: bool,
    /// A value of a hot-parameter rule, such as string:vip, int:7 or bool:true; may be repeated
    #[arg(long = "param", value_name = "TYPE:VALUE")]
    pub(crate) params: Vec<TypedValue>,
    /// How many times to ask, one after the other
    #[arg(short = 'n', long = "times", value_name = "TIMES", default_value = "1")]
    pub(crate) times: NonZeroU32,
}

/// Tokens of a rule.
#[derive(Debug, Group)]
pub(crate) struct Wanted {
    #[command(flatten)]
    pub(crate) server: Server,
    /// The rule's clusterConfig.flowId
    #[arg(value_name = "FLOW_ID", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) flow_id: i64,
    /// How many tokens
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) count: u32,
    /// A value of a hot-parameter rule, such as string:vip, int:7 or bool:true; may be repeated
    #[arg(long = "param", value_name = "TYPE:VALUE")]
    pub(crate) params: Vec<TypedValue>,
}

#[derive(Debug, Group)]
pub(crate) struct Why {
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// Let the server book tokens of the next bucket
    #[arg(long, conflicts_with = "params")]
    pub(crate) priority: bool,
    /// Take the tokens, and wait if the server says so
    #[arg(long)]
    pub(crate) take: bool,
}

#[derive(Debug, Group)]
pub(crate) struct GiveBack {
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// Milliseconds since the tokens were taken, at most; with the length of the rule's window or
    /// more nothing is given back
    #[arg(long, value_name = "MS")]
    pub(crate) age: u32,
}

#[derive(Debug, Group)]
pub(crate) struct Hold {
    #[command(flatten)]
    pub(crate) server: Server,
    /// The clusterConfig.flowId of a rule of grade 0
    #[arg(value_name = "FLOW_ID", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) flow_id: i64,
    /// How many calls
    #[arg(long, default_value = "1", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) count: u32,
}

#[derive(Debug, Group)]
pub(crate) struct Ping {
    #[command(flatten)]
    pub(crate) server: Server,
}

impl Wanted {
    /// The values of a hot-parameter rule; none for a flow rule.
    pub(crate) fn values(&self) -> Vec<Param<'static>> {
        self.params.iter().map(|value| value.0.clone()).collect()
    }

    /// The same as the client asks for it, with the [`values`](Self::values).
    pub(crate) fn what<'a>(&self, values: &'a [Param<'a>]) -> What<'a> {
        if values.is_empty() {
            What::flow(self.flow_id, self.count)
        } else {
            What::param(self.flow_id, self.count, values)
        }
    }
}

impl Server {
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout.get().into())
    }

    /// A client of these servers.
    pub(crate) fn client(&self) -> Builder {
        let builder = Client::builder().namespace(&self.namespace).timeout(self.timeout());
        let builder = builder.connect_timeout(self.timeout());
        self.servers.iter().fold(builder, |builder, server| builder.server(&server.to_string()))
    }
}

/// A value with one of the types that a request can carry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TypedValue(pub(crate) Param<'static>);

impl FromStr for TypedValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const TYPES: &str = "string, int, long, short, byte, double, float or bool";
        let (class, value) =
            text.split_once(':').ok_or_else(|| format!("write TYPE:VALUE, with {TYPES}"))?;
        let class = match class {
            "string" => "java.lang.String",
            "bool" if !matches!(value, "true" | "false") => {
                return Err("a bool is true or false".into());
            }
            "bool" => "boolean",
            "int" | "long" | "short" | "byte" | "double" | "float" => class,
            _ => return Err(format!("unknown type {class:?}: use {TYPES}")),
        };
        let parsed = ItemValue::parse(value, class);
        let value = parsed.ok_or_else(|| format!("{value:?} is no {class}"))?;
        Ok(Self(match value {
            ItemValue::Int(value) => Param::Int(value),
            ItemValue::Long(value) => Param::Long(value),
            ItemValue::Byte(value) => Param::Byte(value),
            ItemValue::Double(value) => Param::Double(value),
            ItemValue::Float(value) => Param::Float(value),
            ItemValue::Short(value) => Param::Short(value),
            ItemValue::Bool(value) => Param::Bool(value),
            ItemValue::Str(value) => Param::Str(String::from(value).into()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_types_of_the_wire() {
        for (text, value) in [
            ("string:a:b", Param::Str("a:b".into())),
            ("string:", Param::Str("".into())),
            ("int:-7", Param::Int(-7)),
            ("long:7", Param::Long(7)),
            ("short:7", Param::Short(7)),
            ("byte:-128", Param::Byte(-128)),
            ("double:1.5", Param::Double(1.5)),
            ("float:1.5", Param::Float(1.5)),
            ("bool:false", Param::Bool(false)),
        ] {
            assert_eq!(text.parse(), Ok(TypedValue(value)), "{text}");
        }
        for text in ["vip", "int:x", "byte:128", "bool:1", "char:x", ":", "String:x"] {
            assert!(text.parse::<TypedValue>().is_err(), "{text}");
        }
    }
}
