//! `cargo run -p limiter --example replay-vectors -- FILE…` replays files of decision vectors and
//! prints each difference, each sequence whose rule could not be read from JSON (more buckets than
//! a rule file may ask for), and a summary of the file.
//!
//! Exit code 0: no difference; 1: some; 2: something in a file could not be read, which is said
//! with the name of its sequence.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "a program for people, over files that people wrote"
)]

mod model;
mod replay;
mod sequence;
mod values;
mod vector;

use std::process::ExitCode;

use limiter::BUCKETS_MAX;

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
                for name in &outcome.by_hand {
                    println!("{name}: rule made by hand, over the bound of {BUCKETS_MAX} buckets");
                }
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
