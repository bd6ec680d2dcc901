//! What a peer sends as requests, whatever it is.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| protocol_fuzz::requests(data));
