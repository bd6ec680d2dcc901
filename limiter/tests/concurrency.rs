//! What Sentinel's concurrent tokens did, step by step, and what ours do in the same place.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what the test reads is in its own file"
)]

use std::sync::Arc;

use limiter::{Concurrency, Hold, OwnerId, Released, Tenant, Tick, TokenId};
use serde_json::Value;

/// Recorded from Sentinel's `DefaultTokenService` in process.
const RECORDED: &str = include_str!("../vectors/concurrent-token-events.json");

/// The recorded events, read in order: none is passed over unseen.
struct Events(std::vec::IntoIter<Value>);

impl Events {
    fn next(&mut self, op: &str) -> Value {
        let event = self.0.next().unwrap();
        assert_eq!(event["op"], op);
        event
    }

    /// The status that Sentinel answered at `op`.
    fn status(&mut self, op: &str) -> i64 {
        self.next(op)["status"].as_i64().unwrap()
    }
}

const OK: i64 = 0;
const BLOCKED: i64 = 1;

fn acquired(token: Option<TokenId>) -> i64 {
    if token.is_some() { OK } else { BLOCKED }
}

fn status(released: Released) -> i64 {
    match released {
        Released::Ok => 6,
        Released::AlreadyReleased => 7,
    }
}

fn hold(owner: u64, count: u32, resource_timeout_ms: u32, client_offline_ms: u32) -> Hold {
    Hold { count, owner: OwnerId::new(owner).unwrap(), resource_timeout_ms, client_offline_ms }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one recorded sequence, in its order")]
fn the_recorded_sequence_is_answered_as_sentinel_did_or_better() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let mut java = Events(recorded["events"].as_array().unwrap().clone().into_iter());
    let tokens = Concurrency::new(100, 1);
    let tenant = Arc::new(Tenant::default());
    let (f5000, f5001) = (tokens.level(&tenant), tokens.level(&tenant));
    let now = Tick::from_ms(1_000);
    let take = |n| {
        let hold = hold(1, n, 60_000, 60_000);
        tokens.acquire(now, &f5001, 3.0, hold).unwrap()
    };

    let first = take(1);
    assert_eq!(acquired(first), java.status("acquire flowId 5001 (count 3) n=1 client online"));
    let first = first.unwrap();
    let two = take(2);
    assert_eq!(acquired(two), java.status("acquire n=2"));
    assert_eq!(acquired(take(1)), java.status("acquire n=1 (3 in use)"));
    assert_eq!(status(tokens.release(now, first)), java.status("release token 1"));
    assert_eq!(status(tokens.release(now, first)), java.status("release token 1 again"));
    let unknown = tokens.release(now, TokenId(12_345));
    assert_eq!(status(unknown), java.status("release unknown token 12345"));
    assert_eq!(acquired(take(2)), java.status("acquire n=2 (2 in use)"));
    assert_eq!(acquired(take(1)), java.status("acquire n=1"));

    // Bad requests and missing rules are answered before a level is asked.
    for (bad, n) in [("address=", 1), ("address=null", 1)] {
        assert_eq!(java.status(&format!("acquire {bad} flowId=5001 n={n}")), -4);
    }
    for (flow_id, n) in [(0, 1), (-1, 1), (5_001, 0), (5_001, -3)] {
        let op = format!("acquire address=10.9.9.9:1 flowId={flow_id} n={n}");
        assert_eq!(java.status(&op), -4);
    }
    assert_eq!(java.status("acquire unknown flowId"), 3);

    // Sentinel's sum overflows an int, is negative and admits.
    let op =
        "acquire n=Integer.MAX_VALUE with 3 in use (int overflow: 3+MAX is negative => admitted)";
    assert_eq!((java.status(op), acquired(take(i32::MAX.cast_unsigned()))), (OK, BLOCKED));
    assert_eq!(java.next("state")["nowCalls 5001"], f5001.in_use());

    // Sentinel's sweeper comes by once a second and waits for twice the time-out.
    let op = "token of flowId 5000 (resourceTimeout 500, client online) removed by the sweeper after ms (expected between 1000 = 2*resourceTimeout and 2000+)";
    let sweep = java.next(op);
    assert_eq!((&sweep["ms"], &sweep["nowCalls"]), (&Value::from(1_955), &Value::from(0)));
    tokens.acquire(now, &f5000, 1.0, hold(1, 1, 500, 700)).unwrap().unwrap();
    assert_eq!(tokens.expire(Tick(Tick::from_ms(1_500).0 - 1)), 0);
    assert_eq!((tokens.expire(Tick::from_ms(1_500)), f5000.in_use()), (1, 0));

    // Who asks need not be connected, here or there.
    let now = Tick::from_ms(2_000);
    let stranger = || tokens.acquire(now, &f5001, 3.0, hold(99, 1, 60_000, 60_000)).unwrap();
    assert_eq!(acquired(stranger()), java.status("acquire for a client that is not connected"));
    tokens.release(now, two.unwrap());
    let op =
        "after a release: acquire for a client that is not connected (no online check at acquire)";
    assert_eq!(acquired(stranger()), java.status(op));

    // Sentinel again waits for the sweeper.
    let op = "token of an offline client (clientOfflineTime 700, resourceTimeout 60000) removed after ms";
    assert_eq!(java.next(op)["ms"], 1_004);
    tokens.acquire(now, &f5000, 1.0, hold(7, 1, 60_000, 700)).unwrap().unwrap();
    tokens.owner_gone(now, OwnerId::new(7).unwrap());
    assert_eq!(tokens.expire(Tick(Tick::from_ms(2_700).0 - 1)), 0);
    assert_eq!((tokens.expire(Tick::from_ms(2_700)), f5000.in_use()), (1, 0));

    // Sentinel needs the rule for a release and keeps the token without; ours holds its level.
    let now = Tick::from_ms(3_000);
    let held = tokens.acquire(now, &f5000, 1.0, hold(1, 1, 500, 700)).unwrap().unwrap();
    let lost = tokens.acquire(now, &f5000, 2.0, hold(1, 1, 500, 700)).unwrap().unwrap();
    let removed = java.next("rule 5000 removed while a token is held: release");
    assert_eq!((&removed["status"], &removed["token_still_stored"]), (&3.into(), &true.into()));
    assert_eq!(tokens.release(now, held), Released::Ok);

    // There the sweeper stops at the orphan for good; here it ends like any other.
    let op = "4 s later: token of the removed rule still stored (its client is online) - the sweeper throws NullPointerException on it every second";
    assert_eq!(java.next(op)["stored"], true);
    assert_eq!((tokens.expire(Tick::from_ms(7_000)), f5000.in_use()), (1, 0));

    // The rule is there again. Sentinel began at 0 and went below; ours has its level, and knows
    // that the token has ended.
    let op = "rule 5000 added again: release of the old token drives nowCalls negative";
    let again = java.next(op);
    assert_eq!((&again["status"], &again["nowCalls"]), (&6.into(), &(-1).into()));
    let now = Tick::from_ms(7_000);
    assert_eq!((tokens.release(now, lost), f5000.in_use()), (Released::AlreadyReleased, 0));
    let admitted = (0..9)
        .filter(|_| tokens.acquire(now, &f5000, 3.0, hold(1, 1, 500, 700)).unwrap().is_some())
        .count();
    assert_eq!(
        (java.next("acquire until blocked with count 3")["admitted"].as_u64(), admitted),
        (Some(4), 3)
    );
    assert!(java.0.next().is_none(), "no event is left");
}
