//! Every message is read back as it was written, whatever is in it.

use std::borrow::Cow;

use bytes::BytesMut;
use proptest::prelude::*;
use protocol::{
    Deframer, EncodeError, MAX_BODY_LEN, PREFIX_LEN, Param, Request, Response, Status,
    encode_param_request, kind,
};

/// Takes the one body out of `frame`.
fn body(mut deframer: Deframer, frame: &[u8]) -> &[u8] {
    let mut input = frame;
    let body = deframer.next(&mut input).expect("a stream").expect("a whole frame");
    assert_eq!((input, body.len()), (&[][..], frame.len() - PREFIX_LEN));
    body
}

fn request() -> impl Strategy<Value = Request<'static>> {
    let name = "[^\\s]{1,40}".prop_map(Cow::from);
    prop_oneof![
        (any::<i32>(), name).prop_map(|(xid, namespace)| Request::Ping { xid, namespace }),
        (any::<i32>(), any::<i64>(), any::<i32>(), any::<bool>()).prop_map(
            |(xid, flow_id, count, priority)| Request::Flow { xid, flow_id, count, priority }
        ),
        (any::<i32>(), any::<i64>(), any::<i32>())
            .prop_map(|(xid, flow_id, count)| Request::ConcurrentAcquire { xid, flow_id, count }),
        (any::<i32>(), any::<i64>())
            .prop_map(|(xid, token_id)| Request::ConcurrentRelease { xid, token_id }),
        any::<i32>().prop_map(|xid| Request::Hello { xid }),
    ]
}

fn param() -> impl Strategy<Value = Param<'static>> {
    prop_oneof![
        any::<i32>().prop_map(Param::Int),
        any::<i64>().prop_map(Param::Long),
        any::<i8>().prop_map(Param::Byte),
        any::<u64>().prop_map(|bits| Param::Double(f64::from_bits(bits))),
        any::<u32>().prop_map(|bits| Param::Float(f32::from_bits(bits))),
        any::<i16>().prop_map(Param::Short),
        any::<bool>().prop_map(Param::Bool),
        "(?s).{0,60}".prop_map(|text| Param::Str(Cow::from(text))),
    ]
}

fn response() -> impl Strategy<Value = Response> {
    let head = (any::<i32>(), any::<i8>().prop_map(Status::from));
    let tokens = (head.clone(), any::<i32>(), any::<i32>());
    prop_oneof![
        any::<(i32, i32)>().prop_map(|(xid, connected)| Response::Ping { xid, connected }),
        any::<i32>().prop_map(|xid| Response::PingRefused { xid }),
        tokens.clone().prop_map(|((xid, status), remaining, wait_ms)| Response::Flow {
            xid,
            status,
            remaining,
            wait_ms
        }),
        tokens.prop_map(|((xid, status), remaining, wait_ms)| Response::Param {
            xid,
            status,
            remaining,
            wait_ms
        }),
        (head.clone(), any::<i64>()).prop_map(|((xid, status), token_id)| {
            Response::ConcurrentAcquire { xid, status, token_id }
        }),
        head.clone().prop_map(|(xid, status)| Response::ConcurrentRelease { xid, status }),
        any::<(i32, u16, u32, u64)>().prop_map(|(xid, version, features, revision)| {
            Response::Hello { xid, version, features, revision }
        }),
        // The types that have a layout of their own are not read as heads.
        (head, prop_oneof![5_i8..16, 17_i8..=127, -128_i8..0])
            .prop_map(|((xid, status), kind)| Response::Head { xid, kind, status }),
    ]
}

proptest! {
    #[test]
    fn a_request_is_read_as_it_was_written(request in request()) {
        let mut out = BytesMut::new();
        request.encode(&mut out).unwrap();
        prop_assert_eq!(Request::decode(body(Deframer::requests(), &out)), Ok(request));
    }

    #[test]
    fn parameters_are_read_as_they_were_written(
        ids in any::<(i32, i64, i32)>(),
        params in prop::collection::vec(param(), 0..60),
    ) {
        let (xid, flow_id, count) = ids;
        let mut out = BytesMut::new();
        match encode_param_request(xid, flow_id, count, &params, &mut out) {
            Err(EncodeError::NoParams) => prop_assert!(params.is_empty() && out.is_empty()),
            Err(error) => {
                let EncodeError::TooLong { len } = error else { panic!("{error}") };
                prop_assert!(len > MAX_BODY_LEN && out.is_empty());
            }
            Ok(()) => {
                let Ok(read) = Request::decode(body(Deframer::requests(), &out)) else {
                    panic!("{out:?}")
                };
                prop_assert_eq!((read.xid(), read.kind()), (xid, kind::PARAM));
                let Request::Param { flow_id: id, count: n, params: read_params, .. } = &read else {
                    panic!("{read:?}")
                };
                prop_assert_eq!((*id, *n), (flow_id, count));
                // By their debug form, in which a NaN equals itself; the bits are compared below.
                let read_back: Vec<_> = read_params.iter().collect();
                prop_assert_eq!(format!("{read_back:?}"), format!("{params:?}"));
                let mut again = BytesMut::new();
                read.encode(&mut again).unwrap();
                prop_assert_eq!(again, out);
            }
        }
    }

    #[test]
    fn a_response_is_read_as_it_was_written(response in response()) {
        let mut out = BytesMut::new();
        response.encode(&mut out);
        prop_assert_eq!(Response::decode(body(Deframer::responses(), &out)), Ok(response));
    }

    #[test]
    fn a_buffer_with_room_is_written_without_allocating(
        requests in prop::collection::vec(request(), 1..20),
        responses in prop::collection::vec(response(), 1..20),
    ) {
        let mut out = BytesMut::with_capacity(20 * 2 * (PREFIX_LEN + MAX_BODY_LEN));
        let before = (out.as_ptr(), out.capacity());
        for request in &requests {
            request.encode(&mut out).unwrap();
        }
        for response in &responses {
            response.encode(&mut out);
        }
        prop_assert_eq!((out.as_ptr(), out.capacity()), before);
    }
}
