//! What holds of any bytes that a peer sends: shared by the fuzz targets and `tests/corpus.rs`.
//!
//! The first byte of an input says how long the reads are that the rest of it comes in.

use bytes::BytesMut;
use protocol::{
    BAD_FRAMES_MAX, CHECKS_MAX, Deframer, EncodeError, ExtendedResponse, FrameError, MAX_BODY_LEN,
    PREFIX_LEN, Params, Request, Response, What,
};

/// Runs an input as the stream of a client.
pub fn requests(input: &[u8]) {
    for body in bodies(input, Deframer::requests, 5) {
        request(body);
    }
}

/// Runs an input as the stream of a server.
pub fn responses(input: &[u8]) {
    for body in bodies(input, Deframer::responses, 6) {
        response(body);
    }
}

/// What came of a stream.
#[derive(Debug, Default, PartialEq)]
struct Cut<B> {
    bodies: Vec<B>,
    malformed: u64,
    lost: Option<FrameError>,
}

/// The bodies in the stream, which have to be the same ones however it is read.
fn bodies(input: &[u8], deframer: fn() -> Deframer, head_len: usize) -> Vec<&[u8]> {
    let Some((&read_len, stream)) = input.split_first() else { return Vec::new() };
    let expected = cut_by_the_letter(stream, head_len);

    let mut deframer_of_all = deframer();
    let mut rest = stream;
    let mut whole = Cut::default();
    loop {
        match deframer_of_all.next(&mut rest) {
            Ok(Some(body)) => whole.bodies.push(body),
            Ok(None) => break,
            Err(error) => {
                whole.lost = Some(error);
                break;
            }
        }
    }
    whole.malformed = deframer_of_all.malformed();
    assert_eq!(whole, expected);

    let pieces = read_in_pieces(stream, deframer(), usize::from(read_len).max(1));
    assert!(pieces.bodies.iter().eq(&whole.bodies), "{pieces:?} in reads of {read_len}");
    assert_eq!((pieces.malformed, pieces.lost), (whole.malformed, whole.lost));
    whole.bodies
}

/// Feeds the stream as a connection does: what is left of one read goes in front of the next.
fn read_in_pieces(stream: &[u8], mut deframer: Deframer, read_len: usize) -> Cut<Vec<u8>> {
    let mut cut = Cut::default();
    let mut waiting = Vec::new();
    'stream: for read in stream.chunks(read_len) {
        waiting.extend_from_slice(read);
        let mut rest = &waiting[..];
        loop {
            match deframer.next(&mut rest) {
                Ok(Some(body)) => cut.bodies.push(body.to_vec()),
                Ok(None) => break,
                Err(error) => {
                    cut.lost = Some(error);
                    break 'stream;
                }
            }
        }
        assert!(rest.len() < PREFIX_LEN + MAX_BODY_LEN, "never more than a frame is kept");
        assert!(!deframer.is_skipping() || rest.is_empty(), "nothing is kept to be skipped");
        waiting = rest.to_vec();
    }
    cut.malformed = deframer.malformed();
    cut
}

/// The rules for frames once more, without state between frames and reads.
fn cut_by_the_letter(mut stream: &[u8], head_len: usize) -> Cut<&[u8]> {
    let mut cut = Cut::default();
    // The frames so far that were not empty: whether they could be used.
    let mut usable = Vec::new();
    while let Some((&[high, low], rest)) = stream.split_first_chunk() {
        let len = usize::from(high) * 256 + usize::from(low);
        let over_long = len > MAX_BODY_LEN;
        if over_long && usable.is_empty() {
            cut.malformed = 1;
            cut.lost = Some(FrameError::NotAPeer { len });
            return cut;
        }
        // An over-long frame is bad as soon as it is announced, any other when it is there.
        if !over_long && rest.len() < len {
            break;
        }
        let (body, behind) = rest.split_at(len.min(rest.len()));
        stream = behind;
        if len == 0 {
            continue;
        }
        usable.push(!over_long && len >= head_len);
        if usable.ends_with(&[true]) {
            cut.bodies.push(body);
            continue;
        }
        cut.malformed += 1;
        if usable.ends_with(&[false; BAD_FRAMES_MAX as usize]) {
            cut.lost = Some(FrameError::TooManyBad);
            break;
        }
    }
    cut
}

/// A request is written as it was read; anything else is answered with its xid and type.
fn request(body: &[u8]) {
    let mut out = BytesMut::new();
    match Request::decode(body) {
        Ok(request) => {
            match &request {
                Request::Param { params, .. } => whole(params),
                Request::Ask { what, .. } | Request::Adjust { what, .. } => whole_values(what),
                Request::AcquireAll { checks, .. } => {
                    assert!((1..=CHECKS_MAX).contains(&checks.len()));
                    assert_eq!(checks.iter().count(), checks.len());
                    checks.iter().for_each(|check| whole_values(&check.what));
                }
                _ => {}
            }
            if let Err(error) = request.encode(&mut out) {
                // U+FFFD is longer than the byte it stands for.
                assert!(matches!(request, Request::Ping { .. }), "{request:?}: {error}");
                assert!(matches!(error, EncodeError::TooLong { len } if len > MAX_BODY_LEN));
                assert!(out.is_empty());
                return;
            }
            let body = Deframer::requests().next(&mut &out[..]).expect("ours").expect("whole");
            assert_eq!(Request::decode(body), Ok(request));
        }
        Err(bad) => {
            let answer = bad.answer();
            answer.encode(&mut out);
            let len = match bad.kind {
                1..=3 => 16,
                _ => 8,
            };
            assert_eq!(out.len(), len, "{bad:?}");
            assert_eq!(out.get(PREFIX_LEN..PREFIX_LEN + 5), body.get(..5), "{bad:?}");
            let body = Deframer::responses().next(&mut &out[..]).expect("ours").expect("whole");
            assert_eq!(Response::decode(body), Ok(answer));
        }
    }
}

/// As many parameters are read as there are.
fn whole(params: &Params<'_>) {
    assert!(!params.is_empty());
    assert_eq!(params.iter().count(), params.len());
}

fn whole_values(what: &What<'_>) {
    what.params.iter().for_each(whole);
}

/// Every body is a response, which is written and read back as itself.
fn response(body: &[u8]) {
    let response = Response::decode(body).expect("a body from a deframer has a head");
    let mut out = BytesMut::new();
    response.encode(&mut out);
    let written = Deframer::responses().next(&mut &out[..]).expect("ours").expect("whole");
    assert_eq!(Response::decode(written), Ok(response));
    extended_response(body);
}

/// The same of an extended response, compared as bytes: a threshold may be a NaN.
fn extended_response(body: &[u8]) {
    let response = ExtendedResponse::decode(body).expect("a body from a deframer has a head");
    let mut out = BytesMut::new();
    response.encode(&mut out);
    let written = Deframer::responses().next(&mut &out[..]).expect("ours").expect("whole");
    assert_eq!(written.get(..6), body.get(..6));
    let read = ExtendedResponse::decode(written).expect("ours");
    assert_eq!(read.xid(), response.xid());
    let mut again = BytesMut::new();
    read.encode(&mut again);
    assert_eq!(again, out);
}
