//! Guava's own answers, recorded, and ours.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what it expects, in its helpers too"
)]

mod ours;

use ours::{Ours, agrees};

#[test]
fn a_limiter_answers_as_guava_s() {
    let recorded = include_str!("../../vectors/guava.txt");
    let (mut limiter, mut calls, mut compared) = (None, 0, 0);
    for (line, number) in recorded.lines().zip(1..) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(new) = Ours::create(line) {
            (limiter, calls) = (Some(new), 0);
            continue;
        }
        let (question, guava) = line.split_once(" = ").unwrap_or((line, ""));
        let limiter = limiter.as_mut().unwrap();
        let Some(ours) = limiter.ask(question) else { continue };
        assert!(agrees(ours, guava, calls), "line {number}: {line}, ours {ours:?}");
        (calls, compared) = (calls + 1, compared + 1);
    }
    assert!(compared > 150, "{compared}");
}
