//! The fuzzer's corpus, and random bytes, through the checks that the fuzzer makes.

#[path = "../fuzz/checks.rs"]
pub mod checks;

use std::fs;

use proptest::prelude::*;

fn replay(target: &str, check: fn(&[u8])) {
    let folder = format!("{}/fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut inputs = 0;
    for entry in fs::read_dir(folder).expect("the corpus is there") {
        check(&fs::read(entry.expect("an entry").path()).expect("an input"));
        inputs += 1;
    }
    assert!(inputs > 30, "{inputs} inputs for {target}");
}

#[test]
fn corpus_of_request_streams_holds() {
    replay("requests", checks::requests);
}

#[test]
fn corpus_of_response_streams_holds() {
    replay("responses", checks::responses);
}

/// A stream of frames of all lengths around the borders, over what may or may not be messages.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![
        4 => 0_u16..=24,
        2 => 24_u16..=80,
        1 => 1020_u16..=1025,
        1 => any::<u16>(),
    ];
    // Mostly a known type in the fifth byte, and small numbers elsewhere.
    let byte = || prop_oneof![4 => 0_u8..=8, 1 => any::<u8>()];
    let body = (any::<[u8; 4]>(), 0_u8..=23, prop::collection::vec(byte(), 75));
    let frame = (len, body).prop_map(|(len, (xid, kind, data))| {
        let mut body = [&xid[..], &[kind], &data].concat();
        body.resize(usize::from(len), 0);
        [&len.to_be_bytes(), &body[..]].concat()
    });
    let frames = prop::collection::vec(frame, 0..40);
    // The last frame is cut, and a good one stands in front of half of the streams, since an
    // over-long first frame ends them.
    (any::<u8>(), any::<bool>(), frames, 0_usize..30).prop_map(|(read_len, good, frames, cut)| {
        let mut stream = vec![read_len];
        if good {
            stream.extend([0, 6, 0, 0, 0, 1, 16, 0]);
        }
        stream.extend(frames.concat());
        stream.truncate(stream.len().saturating_sub(cut));
        stream
    })
}

proptest! {
    #[test]
    fn any_cut_of_a_stream_gives_the_same_bodies_and_each_is_answered(stream in stream()) {
        checks::requests(&stream);
        checks::responses(&stream);
    }

    #[test]
    fn random_bytes_harm_nothing(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        checks::requests(&bytes);
        checks::responses(&bytes);
    }
}
