//! Prints what a scenario file says, in the form of `limiter/tests/local/expected.txt`.
//!
//! `cargo run -p limiter --example run-scenarios -- FILE`

#[path = "../tests/local/scenario/mod.rs"]
mod scenario;

use std::{error::Error, io::Write as _};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("which scenario file?")?;
    let text = std::fs::read_to_string(&file).map_err(|why| format!("{file}: {why}"))?;
    let mut out = std::io::stdout().lock();
    for line in scenario::run(&text)? {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
