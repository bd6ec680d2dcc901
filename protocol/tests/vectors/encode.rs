//! Messages, as one side's encoder writes them and as ours reads them back.

use std::borrow::Cow;

use bytes::BytesMut;
use protocol::{
    Deframer, FrameError, MAX_BODY_LEN, Param, Request, Response, Status, encode_param_request,
};
use serde_json::{Value, json};

use crate::book::{Book, Vector};
use crate::event::{self, hex, plain_param, refused, repeated, unhex};

pub(crate) fn request(book: &mut Book, vector: &Vector) {
    let java = vector.frame_hex();
    let got = match &vector.json {
        None => "no Rust string".to_owned(),
        Some(json) => write_request(&json["fields"]).map_or_else(|error| error, |out| hex(&out)),
    };
    book.check(vector, "frame", &json!(got), &json!(java));

    let Some(java) = java.map(|frame| unhex(&frame)) else { return };
    let mut input = &java[..];
    match Deframer::requests().next(&mut input) {
        Ok(Some(body)) => {
            let read = event::request(Request::decode(body));
            let fields = vector.json.as_ref().map_or(Value::Null, |json| sent(&json["fields"]));
            book.check(vector, "read", &read, &fields);
        }
        // An empty frame, which Java's encoder makes of a type that it cannot write.
        Ok(None) => assert_eq!(java, [0, 0], "{}", vector.name),
        Err(error) => {
            let len = java.len() - 2;
            assert_eq!(error, FrameError::NotAPeer { len }, "{}", vector.name);
            assert!(len > MAX_BODY_LEN, "{}", vector.name);
        }
    }
}

fn write_request(fields: &Value) -> Result<BytesMut, String> {
    let mut out = BytesMut::new();
    let xid = int(&fields["xid"]);
    let written = match fields["type"].as_i64() {
        Some(0) => {
            let namespace = Cow::from(namespace(fields));
            Request::Ping { xid, namespace }.encode(&mut out)
        }
        Some(1) if fields["data"].is_null() && fields.get("data").is_some() => {
            return Err("no such value".to_owned());
        }
        Some(1) => {
            let (flow_id, count) = (long(&fields["flow_id"]), int(&fields["count"]));
            let priority = fields["priority"].as_bool().expect("a bool");
            Request::Flow { xid, flow_id, count, priority }.encode(&mut out)
        }
        Some(2) => {
            let Some(params) = fields["params"].as_array() else {
                return Err("no such value".to_owned());
            };
            // There is no Param of null or of another class: a caller has to leave it out, as
            // Java's client does (ParamFlowRequestDataWriter.java, resolveValidParams).
            let params: Vec<_> = params.iter().filter_map(param).collect();
            let (flow_id, count) = (long(&fields["flow_id"]), int(&fields["count"]));
            encode_param_request(xid, flow_id, count, &params, &mut out)
        }
        _ => return Err("no such value".to_owned()),
    };
    match written {
        Ok(()) => Ok(out),
        Err(error) => {
            assert!(out.is_empty(), "nothing is written beside an error");
            Err(error.to_string())
        }
    }
}

/// What Java's client meant to send, as the server should understand it.
fn sent(fields: &Value) -> Value {
    let (xid, kind) = (int(&fields["xid"]), &fields["type"]);
    let mut event = json!({ "kind": "request", "xid": xid, "type": kind });
    match kind.as_i64() {
        Some(0) => {
            let namespace = namespace(fields);
            if namespace.trim().is_empty() {
                return refused(&format!("0006{xid:08x}00ff"));
            }
            event["namespace"] = json!(namespace);
        }
        Some(1) => event["priority"] = fields["priority"].clone(),
        _ => {
            let params = fields["params_on_wire"].as_array().expect("parameters");
            event["params"] = params.iter().map(plain_param).collect();
        }
    }
    if kind != 0 {
        event["flow_id"] = fields["flow_id"].clone();
        event["count"] = fields["count"].clone();
    }
    event
}

pub(crate) fn response(book: &mut Book, vector: &Vector) {
    let json = vector.json.as_ref().expect("plain text");
    let response = response_value(&json["fields"]);
    let mut out = BytesMut::new();
    let got = response.map_or_else(
        || "no such value".to_owned(),
        |response| {
            response.encode(&mut out);
            hex(&out)
        },
    );
    let java = vector.frame_hex();
    book.check(vector, "frame", &json!(got), &json!(java));

    let (Some(java), Some(response)) = (java.map(|frame| unhex(&frame)), response) else { return };
    let body = Deframer::responses().next(&mut &java[..]).expect("a frame").expect("a whole one");
    let read = Response::decode(body).expect("a head");
    book.check(vector, "read", &event::response(&read), &event::response(&response));
}

fn response_value(fields: &Value) -> Option<Response> {
    let xid = int(&fields["xid"]);
    let [.., low] = int(&fields["status"]).to_be_bytes();
    let status = Status::from(low.cast_signed());
    let kind = i8::try_from(int(&fields["type"])).expect("a type byte");
    let tokens = || Some((int(fields.get("remaining")?), int(fields.get("wait_ms")?)));
    Some(match kind {
        0 => match (fields.get("connected_count"), status) {
            (Some(count), Status::Ok) => Response::Ping { xid, connected: int(count) },
            (None, Status::Fail) => Response::PingRefused { xid },
            _ => Response::Head { xid, kind, status },
        },
        1 => {
            let (remaining, wait_ms) = tokens()?;
            Response::Flow { xid, status, remaining, wait_ms }
        }
        2 => {
            let (remaining, wait_ms) = tokens()?;
            Response::Param { xid, status, remaining, wait_ms }
        }
        // Java has no writer and so writes a head that says "bad"
        // (DefaultResponseEntityWriter.java, writeTo).
        _ => Response::Head { xid, kind, status: Status::Fail },
    })
}

fn namespace(fields: &Value) -> String {
    match fields.get("namespace_repeat_char") {
        Some(_) => repeated(fields, "namespace_repeat_char", "namespace_repeat_count"),
        None => fields["namespace"].as_str().unwrap_or_default().to_owned(),
    }
}

fn param(json: &Value) -> Option<Param<'static>> {
    let value = &json["value"];
    let bits = || u64::from_str_radix(json["bits"].as_str().expect("bits"), 16).expect("hex");
    Some(match json["type"].as_str().expect("a type") {
        "int" => Param::Int(int(value)),
        "long" => Param::Long(long(value)),
        "byte" => Param::Byte(i8::try_from(int(value)).expect("an i8")),
        "double" => Param::Double(f64::from_bits(bits())),
        "float" => Param::Float(f32::from_bits(u32::try_from(bits()).expect("a u32"))),
        "short" => Param::Short(i16::try_from(int(value)).expect("an i16")),
        "boolean" => Param::Bool(value.as_bool().expect("a bool")),
        "string" => {
            let plain = plain_param(json);
            Param::Str(Cow::from(plain["value"].as_str().expect("a text").to_owned()))
        }
        "null" | "unsupported" => return None,
        other => unreachable!("a parameter of type {other}"),
    })
}

fn int(json: &Value) -> i32 {
    i32::try_from(json.as_i64().expect("a number")).expect("an i32")
}

/// 64-bit numbers are strings in the vectors.
fn long(json: &Value) -> i64 {
    json.as_str().expect("a string").parse().expect("an i64")
}
