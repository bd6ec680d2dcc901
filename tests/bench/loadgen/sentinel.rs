//! Flow requests of Sentinel's protocol: 20 bytes out, 16 bytes back.

use anyhow::{Result, ensure};
use bytes::BytesMut;
use protocol::Request;

use crate::wire::{Tally, Wire};

const REQUEST_LEN: usize = 20;
const ANSWER_LEN: usize = 16;

/// The first eight bytes of an answer: length prefix, request number (0), type, and the status OK.
const ANSWER_OK: u64 = 0x000E_0000_0000_0100;
/// Length prefix and type in those.
const ANSWER_MASK: u64 = 0xFFFF_0000_0000_FF00;

/// Requests for one token each, built once. Request number and place in `requests` are the same,
/// so each answer can be held against its request.
#[derive(Debug)]
pub(crate) struct Flow {
    requests: Vec<u8>,
    depth: usize,
    batches: usize,
}

impl Flow {
    /// Each of the flows from 1 to `flows` is asked for once in a shuffled order, some of the
    /// first ones once more to fill the last batch, and then again from the start.
    pub(crate) fn new(flows: u32, depth: usize) -> Self {
        let mut ids: Vec<i64> = (1..=i64::from(flows)).collect();
        // Always the same order, so that runs can be compared.
        fastrand::Rng::with_seed(1).shuffle(&mut ids);
        let batches = ids.len().div_ceil(depth);
        let mut requests = BytesMut::with_capacity(batches * depth * REQUEST_LEN);
        for (xid, flow_id) in (0..).zip(ids.into_iter().cycle().take(batches * depth)) {
            let request = Request::Flow { xid, flow_id, count: 1, priority: false };
            request.encode(&mut requests).expect("a flow request is a short frame");
        }
        Self { requests: requests.to_vec(), depth, batches }
    }
}

impl Wire for Flow {
    fn batches(&self) -> usize {
        self.batches
    }

    fn batch(&self, batch: usize) -> &[u8] {
        let len = self.depth * REQUEST_LEN;
        let start = batch % self.batches * len;
        self.requests.get(start..start + len).unwrap_or_default()
    }

    #[inline]
    fn check(
        &self,
        batch: usize,
        first: usize,
        bytes: &[u8],
        tally: &mut Tally,
    ) -> Result<(usize, usize)> {
        let (answers, _) = bytes.as_chunks::<ANSWER_LEN>();
        let xids = (self.batches * self.depth) as u64;
        let mut next_xid = (batch % self.batches * self.depth + first) as u64;
        let mut ok = 0;
        for answer in answers {
            let xid = next_xid;
            next_xid = if xid + 1 == xids { 0 } else { xid + 1 };
            let head = answer.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
            if head == ANSWER_OK | xid << 16 {
                ok += 1;
            } else {
                ensure!(head & ANSWER_MASK == ANSWER_OK, "no flow answer: {answer:02x?}");
                ensure!(head >> 16 & 0xFFFF_FFFF == xid, "not the answer to {xid}: {answer:02x?}");
                let [.., status] = head.to_be_bytes();
                tally.other(i64::from(status.cast_signed()));
            }
        }
        tally.expected += ok;
        Ok((answers.len(), answers.len() * ANSWER_LEN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Response, Status, kind};

    fn answers(statuses: &[(i32, Status)]) -> Vec<u8> {
        let mut out = BytesMut::new();
        for &(xid, status) in statuses {
            Response::Flow { xid, status, remaining: 7, wait_ms: 0 }.encode(&mut out);
        }
        out.to_vec()
    }

    #[test]
    fn every_flow_is_asked_for_and_the_last_batch_is_full() {
        let flow = Flow::new(10, 4);
        let mut ids = Vec::new();
        for batch in 0..3 {
            let (requests, rest) = flow.batch(batch).as_chunks::<REQUEST_LEN>();
            assert_eq!((requests.len(), rest.len()), (4, 0));
            for request in requests {
                match Request::decode(&request[2..]).unwrap() {
                    Request::Flow { flow_id, count: 1, .. } => ids.push(flow_id),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(ids[10..], ids[..2]);
        ids.truncate(10);
        ids.sort_unstable();
        assert_eq!(ids, (1..=10).collect::<Vec<_>>());
        assert_eq!(flow.batch(3), flow.batch(0));
    }

    #[test]
    fn answers_are_counted_by_status_and_cut_ones_are_left() {
        let flow = Flow::new(8, 4);
        let mut bytes = answers(&[(5, Status::Ok), (6, Status::Blocked), (7, Status::BadRequest)]);
        bytes.truncate(47);
        let mut tally = Tally::default();
        assert_eq!(flow.check(3, 1, &bytes, &mut tally).unwrap(), (2, 32));
        assert_eq!((tally.expected, tally.others.into_iter().collect()), (1, vec![(1, 1)]));
        let mut tally = Tally::default();
        let bytes = answers(&[(0, Status::BadRequest)]);
        flow.check(0, 0, &bytes, &mut tally).unwrap();
        assert_eq!(tally.others.into_iter().collect::<Vec<_>>(), [(-4, 1)]);
    }

    #[test]
    fn answers_go_on_into_the_next_batch_and_over_the_end() {
        let flow = Flow::new(8, 4);
        let bytes = answers(&[7, 0, 1, 2, 3, 4].map(|xid| (xid, Status::Ok)));
        let mut tally = Tally::default();
        assert_eq!(flow.check(3, 3, &bytes, &mut tally).unwrap(), (6, 96));
        assert_eq!((tally.expected, flow.batches()), (6, 2));
    }

    #[test]
    fn wrong_answers_are_errors() {
        let flow = Flow::new(8, 4);
        let refused = |bytes: &[u8]| flow.check(0, 0, bytes, &mut Tally::default()).is_err();
        assert!(refused(&answers(&[(1, Status::Ok)])), "the number of another request");
        assert!(refused(&[0; 16]));
        let mut ping = answers(&[(0, Status::Ok)]);
        ping[6] = kind::PING.cast_unsigned();
        assert!(refused(&ping));
    }
}
