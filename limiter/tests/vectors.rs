//! Decisions recorded from Sentinel's own classes, replayed by the code of the `replay-vectors`
//! example.
#![expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "the shared code is the example's, over files that people wrote"
)]

#[path = "../examples/replay-vectors/model.rs"]
mod model;
#[path = "../examples/replay-vectors/replay.rs"]
mod replay;
#[path = "../examples/replay-vectors/sequence.rs"]
mod sequence;
#[path = "../examples/replay-vectors/values.rs"]
mod values;
#[path = "../examples/replay-vectors/vector.rs"]
mod vector;

const VECTORS: &str = include_str!("../vectors/decision-vectors.json");

#[test]
fn every_recorded_decision_is_made_as_sentinel_made_it_or_as_the_model_says() {
    let outcome = replay::replay(VECTORS).unwrap();
    assert_eq!(outcome.differences, Vec::<String>::new());
    // How many steps the recordings decide alone, so that none changes sides unseen.
    let by_vector = outcome.steps - outcome.by_model;
    assert_eq!((outcome.sequences, outcome.steps, by_vector), (44, 2_897, 770));
    assert_eq!(outcome.by_hand, ["flow_priority_zero_wait"]);
}

#[test]
fn a_wrong_answer_in_a_file_is_a_difference() {
    let wrong = VECTORS.replacen("[0,1,0,0,9,0,1,0,0]", "[0,1,0,0,8,0,1,0,0]", 1);
    assert!(wrong != VECTORS, "the file has the step to spoil");
    assert_eq!(replay::replay(&wrong).unwrap().differences.len(), 1);
}

#[test]
fn what_cannot_be_read_is_an_error_that_names_its_sequence() {
    for (from, to, place) in [
        (r#""kind":"flow""#, r#""kind":"degrade""#, "flow_bucket_edges: kind"),
        (r#""count":"10.0""#, r#""count":"ten""#, "flow_bucket_edges: count"),
        (r#""count":"10.0","#, "", "flow_bucket_edges: rule.count"),
        (r#""thresholdType":1,"#, "", "flow_bucket_edges: thresholdType"),
        (r#""sampleCount":10"#, r#""sampleCount":3"#, "flow_bucket_edges: rule:1: rule 0: "),
        (r#""sampleCount":10"#, r#""sampleCount":10,"burst":1"#, "flow_bucket_edges: rule.burst"),
        (r#""exceedCount":"1.0""#, r#""exceedCount":"one""#, "flow_bucket_edges: exceedCount"),
        (r#""t0_epoch_ms":"1700000000000""#, r#""t0_epoch_ms":"now""#, "flow_bucket_edges: t0"),
        ("[[0,1,0,0,9,0,1,0,0],", "[[0,1,2,0,9,0,1,0,0],", "flow_bucket_edges, step 0: column 2"),
        ("[[0,1,0,0,9,0,1,0,0],", "[[0,1,0,0,9,0,-1,0,0],", "flow_bucket_edges, step 0: column 6"),
        ("[[0,1,0,0,9,0,1,0,0],", "[[0,1,0],", "flow_bucket_edges, step 0: column 3"),
        (r#"["z","true"]"#, r#"["z","yes"]"#, r#"["z","yes"] is no value"#),
        (r#"["i","1"]"#, r#"["i","one"]"#, r#"["i","one"] is no value"#),
        (r#"["i","1"]"#, r#"["c","1"]"#, r#"["c","1"] is no value"#),
        (r#""action":"connect A""#, r#""action":"reset""#, "unknown action reset"),
        (r#""action":"connect A""#, r#""acton":"connect A""#, "no action"),
        (r#""name":"flow_bucket_edges","#, "", "sequence 0 has no name"),
    ] {
        let spoilt = VECTORS.replacen(from, to, 1);
        assert!(spoilt != VECTORS, "the file has {from} to spoil");
        let error = replay::replay(&spoilt).unwrap_err();
        assert!(error.contains(place), "{to}: {error}");
    }
}
