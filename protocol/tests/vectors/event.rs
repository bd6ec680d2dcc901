//! Messages as the vectors write them.

use bytes::BytesMut;
use protocol::{BadRequest, Param, Request, Response, Status, kind};
use serde_json::{Value, json};

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| {
            let pair = std::str::from_utf8(pair).expect("ascii");
            u8::from_str_radix(pair, 16).expect("hex")
        })
        .collect()
}

pub(crate) fn request(decoded: Result<Request<'_>, BadRequest>) -> Value {
    let request = match decoded {
        Ok(request) => request,
        Err(bad) => {
            let mut answer = BytesMut::new();
            bad.answer().encode(&mut answer);
            return refused(&hex(&answer));
        }
    };
    let mut event = json!({ "kind": "request", "xid": request.xid(), "type": request.kind() });
    let fields = match &request {
        Request::Ping { namespace, .. } => json!({ "namespace": namespace }),
        Request::Flow { flow_id, count, priority, .. } => {
            json!({ "flow_id": flow_id.to_string(), "count": count, "priority": priority })
        }
        Request::Param { flow_id, count, params, .. } => {
            assert_eq!(params.iter().count(), params.len());
            let params: Vec<_> = params.iter().map(|param| param_event(&param)).collect();
            json!({ "flow_id": flow_id.to_string(), "count": count, "params": params })
        }
        Request::ConcurrentAcquire { flow_id, count, .. } => {
            json!({ "flow_id": flow_id.to_string(), "count": count })
        }
        Request::ConcurrentRelease { token_id, .. } | Request::Renew { token_id, .. } => {
            json!({ "token_id": token_id.to_string() })
        }
        Request::Hello { .. } => json!({}),
        // No vector of Java's has such a type.
        Request::Ask { .. }
        | Request::Adjust { .. }
        | Request::AcquireAll { .. }
        | Request::Lease { .. }
        | Request::Rules { .. } => json!({ "ours": format!("{request:?}") }),
    };
    extend(&mut event, fields);
    event
}

pub(crate) fn response(response: &Response) -> Value {
    let (kind, status, fields) = match *response {
        Response::Ping { connected, .. } => {
            (kind::PING, Status::Ok, json!({ "connected_count": connected }))
        }
        Response::PingRefused { .. } => (kind::PING, Status::Fail, json!({ "data": null })),
        Response::Flow { status, remaining, wait_ms, .. } => {
            (kind::FLOW, status, json!({ "remaining": remaining, "wait_ms": wait_ms }))
        }
        Response::Param { status, remaining, wait_ms, .. } => {
            (kind::PARAM, status, json!({ "remaining": remaining, "wait_ms": wait_ms }))
        }
        Response::ConcurrentAcquire { status, token_id, .. } => {
            (kind::CONCURRENT_ACQUIRE, status, json!({ "token_id": token_id.to_string() }))
        }
        Response::ConcurrentRelease { status, .. } => (kind::CONCURRENT_RELEASE, status, json!({})),
        Response::Hello { version, features, revision, .. } => (
            kind::HELLO,
            Status::Ok,
            json!({ "version": version, "features": features, "revision": revision }),
        ),
        Response::Head { kind, status, .. } => (kind, status, json!({ "data": null })),
    };
    let mut event = json!({
        "kind": "response", "xid": response.xid(), "type": kind, "status": i8::from(status),
    });
    extend(&mut event, fields);
    event
}

/// A request that is answered without having been understood.
pub(crate) fn refused(answer_hex: &str) -> Value {
    json!({ "kind": "refused", "answer_hex": answer_hex })
}

fn param_event(param: &Param<'_>) -> Value {
    match param {
        Param::Int(value) => json!({ "type": "int", "value": value }),
        Param::Long(value) => json!({ "type": "long", "value": value.to_string() }),
        Param::Byte(value) => json!({ "type": "byte", "value": value }),
        Param::Double(value) => {
            json!({ "type": "double", "bits": format!("{:016x}", value.to_bits()) })
        }
        Param::Float(value) => {
            json!({ "type": "float", "bits": format!("{:08x}", value.to_bits()) })
        }
        Param::Short(value) => json!({ "type": "short", "value": value }),
        Param::Bool(value) => json!({ "type": "boolean", "value": value }),
        Param::Str(value) => json!({ "type": "string", "value": value }),
    }
}

/// A parameter of a vector without what says the same twice: long texts spelt out, the decimal
/// form of a number that is also given in bits left out.
pub(crate) fn plain_param(param: &Value) -> Value {
    let kind = &param["type"];
    if let Some(bits) = param.get("bits") {
        return json!({ "type": kind, "bits": bits });
    }
    match param.get("repeat_char") {
        Some(_) => json!({ "type": kind, "value": repeated(param, "repeat_char", "repeat_count") }),
        None => json!({ "type": kind, "value": param["value"] }),
    }
}

/// A long text, which a vector gives as a character and how often it comes.
pub(crate) fn repeated(json: &Value, char_key: &str, count_key: &str) -> String {
    let char = json[char_key].as_str().expect("a character");
    let count = json[count_key].as_u64().expect("a count");
    char.repeat(usize::try_from(count).expect("a count in memory"))
}

fn extend(event: &mut Value, fields: Value) {
    if let (Value::Object(event), Value::Object(fields)) = (event, fields) {
        event.extend(fields);
    }
}
