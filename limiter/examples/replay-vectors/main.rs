//! `cargo run -p limiter --example replay-vectors -- FILE…` replays files of decision vectors and
//! prints each difference. Exit code 0: none; 1: some; 2: a file that could not be read.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a program for people, over files that people wrote"
)]

mod model;
mod replay;

use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: replay-vectors FILE…");
        return ExitCode::from(2);
    }
    let mut differences = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|e| e.to_string());
        match text.and_then(|text| replay::replay(&text)) {
            Ok(outcome) => {
                outcome.differences.iter().for_each(|line| println!("{line}"));
                differences += outcome.differences.len();
                println!(
                    "{file}: {} sequences, {} steps ({} against the model), {} differences",
                    outcome.sequences,
                    outcome.steps,
                    outcome.by_model,
                    outcome.differences.len()
                );
            }
            Err(message) => {
                eprintln!("{file}: {message}");
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::from(u8::from(differences > 0))
}
