//! Every message is read back as it was written, whatever is in it.

use std::borrow::Cow;

use bytes::BytesMut;
use proptest::prelude::*;
use protocol::{
    Adjustment, Check, Checks, Deframer, EncodeError, Explained, ExtendedResponse, MAX_BODY_LEN,
    Mode, PREFIX_LEN, Param, Params, Request, Response, Status, Unit, What, encode_param_request,
    kind,
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
        (any::<i32>(), any::<i64>()).prop_map(|(xid, token_id)| Request::Renew { xid, token_id }),
        any::<(i32, i64, u32, i64, u32)>().prop_map(|(xid, flow_id, want, returned, used)| {
            Request::Lease { xid, flow_id, want, returned, used }
        }),
        (any::<i32>(), any::<u64>()).prop_map(|(xid, digest)| Request::Rules { xid, digest }),
    ]
}

/// What is asked about, its values not yet written.
fn what() -> impl Strategy<Value = (i64, i32, Vec<Param<'static>>)> {
    (any::<i64>(), any::<i32>(), prop::collection::vec(param(), 0..8))
}

/// Writes the values, if there are any, so that `buf` holds them.
fn written<'b>(what: &(i64, i32, Vec<Param<'_>>), buf: &'b mut BytesMut) -> What<'b> {
    let &(flow_id, count, ref values) = what;
    let params = (!values.is_empty()).then(|| Params::write(values, buf).expect("they fit"));
    What { flow_id, count, params }
}

fn adjustment() -> impl Strategy<Value = Adjustment> {
    prop_oneof![Just(Adjustment::GiveBack), Just(Adjustment::Charge), Just(Adjustment::Reset)]
}

fn extended_response() -> impl Strategy<Value = ExtendedResponse<'static>> {
    let head = (any::<i32>(), any::<i8>().prop_map(Status::from));
    // No NaN, which is not equal to itself.
    let numbers = (any::<[u64; 4]>(), prop::num::f64::ANY.prop_filter("NaN", |n| !n.is_nan()));
    let resource = "(?s).{0,50}".prop_map(Cow::from);
    let explained = (numbers, any::<(u8, u8, u32)>(), resource);
    prop_oneof![
        (head.clone(), explained).prop_map(|((xid, status), (numbers, bytes, resource))| {
            let ([remaining, wait_ns, used, window_ms], threshold) = numbers;
            let (unit, mode, connected) = (Unit::from(bytes.0), Mode::from(bytes.1), bytes.2);
            let explained = Explained {
                remaining,
                wait_ns,
                used,
                threshold,
                window_ms,
                unit,
                mode,
                connected,
                resource,
            };
            ExtendedResponse::Ask { xid, status, explained }
        }),
        (head.clone(), prop::option::of(0_u8..16), any::<u64>()).prop_map(
            |((xid, status), failed, wait_ns)| {
                ExtendedResponse::AcquireAll { xid, status, failed, wait_ns }
            }
        ),
        (head.clone(), any::<(i64, u32, u32)>()).prop_map(
            |((xid, status), (lease_id, granted, ttl_ms))| {
                ExtendedResponse::Lease { xid, status, lease_id, granted, ttl_ms }
            }
        ),
        (head, any::<i8>()).prop_map(|((xid, status), kind)| ExtendedResponse::Head {
            xid,
            kind,
            status
        }),
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
    fn questions_and_corrections_are_read_as_they_were_written(
        ids in any::<(i32, u32, bool, bool)>(),
        op in adjustment(),
        what in what(),
    ) {
        let (xid, number, priority, peek) = ids;
        let mut values = BytesMut::new();
        let written = written(&what, &mut values);
        for request in [
            Request::Ask { xid, priority, peek, max_wait_ms: number, what: written },
            Request::Adjust { xid, op, age_ms: number, what: written },
        ] {
            let mut out = BytesMut::new();
            request.encode(&mut out).unwrap();
            let read = Request::decode(body(Deframer::requests(), &out)).unwrap();
            prop_assert_eq!(&read, &request);
            let (Request::Ask { what: read, .. } | Request::Adjust { what: read, .. }) = read else {
                panic!("{read:?}")
            };
            let values: Vec<_> = read.params.iter().flat_map(Params::iter).collect();
            prop_assert_eq!(format!("{values:?}"), format!("{:?}", what.2));
        }
    }

    #[test]
    fn several_checks_are_read_as_they_were_written(
        xid in any::<i32>(),
        asked in prop::collection::vec((any::<bool>(), what()), 1..=16),
    ) {
        let mut buffers = vec![BytesMut::new(); asked.len()];
        let asked = asked.iter().zip(&mut buffers);
        let checks: Vec<_> = asked
            .map(|((priority, what), buf)| Check { priority: *priority, what: written(what, buf) })
            .collect();
        let (mut all, mut out) = (BytesMut::new(), BytesMut::new());
        let written = Checks::write(&checks, &mut all)
            .and_then(|checks| Request::AcquireAll { xid, checks }.encode(&mut out));
        match written {
            Err(error) => {
                let EncodeError::TooLong { len } = error else { panic!("{error}") };
                prop_assert!(len > MAX_BODY_LEN && out.is_empty());
            }
            Ok(()) => {
                let read = Request::decode(body(Deframer::requests(), &out));
                let Ok(Request::AcquireAll { xid: id, checks: read }) = read else {
                    panic!("{read:?}")
                };
                prop_assert_eq!((id, read.len()), (xid, checks.len()));
                prop_assert_eq!(read.iter().collect::<Vec<_>>(), checks);
            }
        }
    }

    #[test]
    fn an_extended_response_is_read_as_it_was_written(response in extended_response()) {
        let mut out = BytesMut::new();
        response.encode(&mut out);
        let read = ExtendedResponse::decode(body(Deframer::responses(), &out));
        prop_assert_eq!(read, Ok(response));
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
        extended in prop::collection::vec(extended_response(), 1..20),
    ) {
        let mut out = BytesMut::with_capacity(20 * 3 * (PREFIX_LEN + MAX_BODY_LEN));
        let before = (out.as_ptr(), out.capacity());
        for request in &requests {
            request.encode(&mut out).unwrap();
        }
        for response in &responses {
            response.encode(&mut out);
        }
        for response in &extended {
            response.encode(&mut out);
        }
        prop_assert_eq!((out.as_ptr(), out.capacity()), before);
    }
}
