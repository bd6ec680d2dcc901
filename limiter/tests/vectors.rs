//! Decisions recorded from Sentinel's own classes, replayed by the code of the `replay-vectors`
//! example.
#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "the shared code is the example's, over files that people wrote"
)]

#[path = "../examples/replay-vectors/model.rs"]
mod model;
#[path = "../examples/replay-vectors/replay.rs"]
mod replay;

const VECTORS: &str = include_str!("../vectors/decision-vectors.json");

#[test]
fn every_recorded_decision_is_made_as_sentinel_made_it_or_as_the_model_says() {
    let outcome = replay::replay(VECTORS).unwrap();
    assert_eq!(outcome.differences, Vec::<String>::new());
    // How many steps the recordings decide alone, so that none changes sides unseen.
    let by_vector = outcome.steps - outcome.by_model;
    assert_eq!((outcome.sequences, outcome.steps, by_vector), (44, 2_897, 770));
}

#[test]
fn a_wrong_answer_in_a_file_is_a_difference() {
    let wrong = VECTORS.replacen("[0,1,0,0,9,0,1,0,0]", "[0,1,0,0,8,0,1,0,0]", 1);
    assert!(wrong != VECTORS, "the file has the step to spoil");
    assert_eq!(replay::replay(&wrong).unwrap().differences.len(), 1);
}
