//! Streams, write by write, as one side's decoder reads them.

use protocol::{Deframer, Request, Response};
use serde_json::{Value, json};

use crate::book::{Book, Vector};
use crate::event::{self, hex, refused, unhex};

const PING: &str = "000a00000000000000000161";
const PONG: &str = "000a00000000000000000001";

pub(crate) fn requests(book: &mut Book, vector: &Vector) {
    check(book, vector, Deframer::requests, PING, |body| event::request(Request::decode(body)));
}

pub(crate) fn responses(book: &mut Book, vector: &Vector) {
    check(book, vector, Deframer::responses, PONG, |body| {
        event::response(&Response::decode(body).expect("a body from a deframer has a head"))
    });
}

fn check(
    book: &mut Book,
    vector: &Vector,
    deframer: fn() -> Deframer,
    good: &str,
    decode: fn(&[u8]) -> Value,
) {
    let json = vector.json.as_ref().expect("plain text");
    let steps = json["steps"].as_array().expect("steps");
    let writes: Vec<_> =
        steps.iter().map(|step| unhex(step["write_hex"].as_str().expect("hex"))).collect();
    let mut java: Vec<Value> = steps.iter().map(java_step).collect();
    // Bytes that Java kept for the next frame are decoded once more when the peer goes. Ours
    // keeps none, so nothing can come of them.
    let at_close = json["events_on_close"].as_array().expect("events");
    if !at_close.is_empty() {
        java.push(json!(at_close));
    }

    let got = run(deframer(), &writes, decode);
    book.check(vector, "steps", &json!(got), &json!(java));
    if got.iter().any(|events| events.ends_with(&[json!({ "kind": "closed" })])) {
        let mut deframer = deframer();
        let good = unhex(good);
        deframer.next(&mut &good[..]).expect("a frame").expect("a whole frame");
        let got = run(deframer, &writes, decode);
        // Null is nobody's: the value has to be listed.
        book.check(vector, "behind_a_good_frame", &json!(got), &Value::Null);
    }
}

/// What comes of each write, and what then waits for more bytes.
fn run(mut deframer: Deframer, writes: &[Vec<u8>], decode: fn(&[u8]) -> Value) -> Vec<Vec<Value>> {
    let mut waiting = Vec::new();
    let mut closed = false;
    let mut steps = Vec::new();
    for write in writes {
        let mut events = Vec::new();
        waiting.extend_from_slice(write);
        let mut input = &waiting[..];
        while !closed {
            let before = deframer.malformed();
            let next = deframer.next(&mut input);
            closed = next.is_err();
            if !closed {
                events.extend((before..deframer.malformed()).map(|_| json!({ "kind": "skipped" })));
            }
            match next {
                Ok(Some(body)) => events.push(decode(body)),
                Ok(None) => break,
                Err(_) => events.push(json!({ "kind": "closed" })),
            }
        }
        waiting = if closed { Vec::new() } else { input.to_vec() };
        if !waiting.is_empty() {
            events.push(json!({ "kind": "waiting", "hex": hex(&waiting) }));
        }
        steps.push(events);
    }
    steps
}

/// Java's events of a write in our words. Whatever is not translated here cannot be ours.
fn java_step(step: &Value) -> Value {
    let mut events: Vec<_> =
        step["events"].as_array().expect("events").iter().map(java_event).collect();
    let waiting = step["undelimited_bytes_hex"].as_str().expect("hex");
    if !waiting.is_empty() {
        events.push(json!({ "kind": "waiting", "hex": waiting }));
    }
    let stuck = step["undecoded_bytes_hex"].as_str().expect("hex");
    if !stuck.is_empty() {
        events.push(json!({ "kind": "stuck in front of the next frame", "hex": stuck }));
    }
    json!(events)
}

fn java_event(java: &Value) -> Value {
    let mut event = java.clone();
    let fields = event.as_object_mut().expect("an event is an object");
    match (java["kind"].as_str(), java["type"].as_i64()) {
        (Some("exception"), _) if java["class"] == "TooLongFrameException" => {
            return json!({ "kind": "skipped" });
        }
        (Some("request"), Some(0)) => {
            // The decoder gives null, or a blank name; the handler then refuses
            // (TokenServerHandler.java, handlePingRequest).
            let named = java["namespace_len"].is_u64();
            if !named || java["namespace"].as_str().is_some_and(|name| name.trim().is_empty()) {
                let xid = i32::try_from(java["xid"].as_i64().expect("an xid")).expect("an i32");
                return refused(&format!("0006{xid:08x}00ff"));
            }
            // A long name is given by its length; the vectors' long names are all of one letter.
            let len = fields.remove("namespace_len").and_then(|len| len.as_u64());
            fields.remove("namespace_utf8_hex");
            if java["namespace"].is_null() {
                let len = usize::try_from(len.expect("a length")).expect("a length in memory");
                fields.insert("namespace".to_owned(), json!("n".repeat(len)));
            }
        }
        (Some("request"), Some(2)) => {
            if let Some(params) = java["params"].as_array() {
                let params: Vec<_> = params.iter().map(event::plain_param).collect();
                fields.insert("params".to_owned(), json!(params));
            }
        }
        // The client takes an answer without data for zeros (DefaultClusterTokenClient.java,
        // toTokenResult).
        (Some("response"), Some(1 | 2)) if fields.remove("data").is_some() => {
            fields.insert("remaining".to_owned(), json!(0));
            fields.insert("wait_ms".to_owned(), json!(0));
        }
        _ => {}
    }
    event
}
