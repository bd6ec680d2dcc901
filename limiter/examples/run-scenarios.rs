//! Prints what a scenario file says, in the form of `limiter/tests/local/expected.txt`.
//!
//! `cargo run -p limiter --example run-scenarios -- FILE`

#[path = "../tests/local/scenario/mod.rs"]
mod scenario;

use std::{error::Error, io::Write as _};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("which scenario file?")?;
    let mut out = std::io::stdout().lock();
    for line in scenario::run(&std::fs::read_to_string(&file)?)? {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
