//! `token-cli`: asks a token server from a terminal.
//!
//! Exit codes: 0 the server let it pass (or answered the ping, or corrected its counter), 1 it
//! refused, 2 the command line is wrong, 3 there was no decision.

mod acquire;
mod adjust;
mod args;
mod hold;
mod ping;
mod report;
mod why;

use std::{io::IsTerminal, process::ExitCode};

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::{
    args::{Args, Command},
    report::{Exit, complain},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // A wrong command line ends here, with clap's message and exit code 2.
    let args = Args::parse();
    let level = if args.verbose { "token_client=debug" } else { "off" };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(level))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let done = match args.command {
        Command::Acquire(command) => acquire::run(&command).await,
        Command::Why(command) => why::run(&command).await,
        Command::GiveBack(command) => adjust::give_back(&command).await,
        Command::Charge(command) => adjust::charge(&command).await,
        Command::Reset(command) => adjust::reset(&command).await,
        Command::Hold(command) => hold::run(&command).await,
        Command::Ping(command) => ping::run(&command).await,
    };
    done.unwrap_or_else(|error| {
        complain(&error);
        Exit::NoDecision
    })
    .into()
}
