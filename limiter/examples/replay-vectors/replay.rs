//! Replays decision vectors: sequences of requests with what Sentinel's own classes answered.
//!
//! Each step is compared with the vector, up to the first step where Tollgate is right and
//! Sentinel is not (ARCHITECTURE, "Differences from Sentinel"). From there on, that step included,
//! the slow model is the reference, since the two count differently from then on:
//!
//! * the first `SHOULD_WAIT` of either side: a booking is charged on time here, late or never
//!   there;
//! * the first step of the clock backwards: it takes no token back here;
//! * a flood of 4 000 values that are used once: Sentinel keeps 4 000 counters a bucket and
//!   forgets a value that is still in use, which lets it pass anew;
//! * a request that asks for one value twice, if Sentinel answers otherwise: it checks each of
//!   them as if the other were not there, so that together they exceed the count.
//!
//! A rule is read from JSON like any other (`vector.rs`), but for one with more buckets than a
//! rule file may ask for; [`Outcome::by_hand`] names its sequence.

use serde_json::Value;

use super::sequence::Sequence;

/// What a file gave.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sequences: usize,
    pub(crate) steps: usize,
    /// Steps that had the slow model for reference.
    pub(crate) by_model: usize,
    /// Sequences whose rule was not read from JSON.
    pub(crate) by_hand: Vec<String>,
    /// One line each.
    pub(crate) differences: Vec<String>,
}

/// Replays every sequence of `text`.
///
/// # Errors
///
/// The first thing that cannot be read, with the name of its sequence.
pub(crate) fn replay(text: &str) -> Result<Outcome, String> {
    let file: Value = serde_json::from_str(text).map_err(|e| format!("not JSON: {e}"))?;
    let vectors = file["vectors"].as_array().ok_or("no list `vectors`")?;
    let mut outcome = Outcome::default();
    for (i, vector) in vectors.iter().enumerate() {
        let name = vector["name"].as_str().ok_or(format!("sequence {i} has no name"))?;
        let mut sequence = Sequence::new(vector).map_err(|e| format!("{name}: {e}"))?;
        outcome.sequences += 1;
        let steps = vector["steps"].as_array().ok_or(format!("{name}: no list `steps`"))?;
        for (i, step) in steps.iter().enumerate() {
            let found = sequence.step(step).map_err(|e| format!("{name}, step {i}: {e}"))?;
            outcome.steps += 1;
            if let Some(difference) = found {
                outcome.differences.push(format!("{name}, step {i} {step}: {difference}"));
            }
        }
        outcome.by_model += sequence.by_model;
        outcome.by_hand.extend(sequence.by_hand().then(|| name.into()));
        outcome.differences.extend(sequence.overfull().map(|what| format!("{name}: {what}")));
    }
    Ok(outcome)
}
