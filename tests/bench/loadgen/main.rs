//! A load generator that costs as little as it can: one thread, prebuilt requests, one write and
//! about one read a batch, every answer checked.
//!
//! Each connection keeps one batch of `--depth` requests in flight: the next is written when the
//! last answer of the one before has been read. What is measured is therefore how fast a server
//! answers that many waiting callers, not how it fares when more come than it can serve.
//!
//! With `--rate` the batches leave at their times instead, whatever was answered: what is measured
//! is what callers see who do not wait for each other.

mod closed;
mod connection;
mod cpu;
mod open;
mod redis;
mod report;
mod sentinel;
mod timer;
mod wire;

use std::{io::Write, net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use crate::{report::Report, wire::Wire};

/// How long a server may stay silent on all connections while it owes answers.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Sends pipelined requests for a while and prints one line of JSON.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// What the server speaks
    #[arg(long, value_enum)]
    protocol: Protocol,
    /// Where it listens
    #[arg(long)]
    addr: SocketAddr,
    /// Connections, each with a batch in flight, or more with --rate
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    connections: u16,
    /// Requests in a batch
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: u16,
    /// Flow ids from 1 to this, in a shuffled order (sentinel only)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    flows: u32,
    /// Requests a second, sent when they are due whatever the answers do; without it, each
    /// connection waits for the answers to its batch
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    rate: Option<u32>,
    /// How long to measure
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// How long to run before that
    #[arg(long, default_value_t = 0.3, value_parser = seconds)]
    warmup: f64,
    /// Look for answers all the time instead of sleeping until there are some: the server then
    /// never pays for waking the generator. Needs a core of its own
    #[arg(long)]
    spin: bool,
    /// The server's process, of which the CPU time is wanted, with its children
    #[arg(long)]
    pid: Option<u32>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Protocol {
    /// Sentinel's flow requests
    Sentinel,
    /// INCR of one key
    RedisIncr,
    /// A token bucket in a script, through EVALSHA
    RedisLua,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("seconds, 0 to 86400".into()),
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let depth = usize::from(args.depth);
    let report = match args.protocol {
        Protocol::Sentinel => run(&sentinel::Flow::new(args.flows, depth), &args),
        Protocol::RedisIncr => run(&redis::Command::incr(depth), &args),
        Protocol::RedisLua => {
            let script = redis::load_script(args.addr).context("SCRIPT LOAD")?;
            run(&redis::Command::token_bucket(&script, depth), &args)
        }
    };
    let report = report.with_context(|| format!("load on {}", args.addr))?;
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)?;
    Ok(())
}

fn run(wire: &impl Wire, args: &Args) -> Result<Report> {
    args.rate.map_or_else(|| closed::run(wire, args), |rate| open::run(wire, args, rate))
}
