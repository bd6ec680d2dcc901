//! `demo SERVER RULES`: one flow of 1 000 tokens a second, five client processes that want more,
//! a server that is killed and comes back. Prints a table as it goes; exits 1 when a bound that it
//! states does not hold.
//!
//! `demo client ADDR RULES` is one of the clients.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::exit,
    reason = "a program for people, which ends at the first surprise"
)]

mod client;
mod crowd;
mod story;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["client", server, rules] => client::run(server, rules),
        [server, rules] => story::tell(server, rules),
        _ => {
            eprintln!("usage: demo SERVER RULES | demo client ADDR RULES");
            ExitCode::from(2)
        }
    }
}
