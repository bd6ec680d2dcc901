//! What holds whatever is called when.

use std::collections::BTreeMap;

use limiter::local::{Call, Step};
use proptest::prelude::*;

use crate::support::{at, with_flow};

/// A call: milliseconds after the one before, tokens, whether it may borrow.
fn calls() -> impl Strategy<Value = Vec<(u64, u32, bool)>> {
    let after = prop_oneof![Just(0), 0_u64..40, 0_u64..600, 0_u64..3_000];
    prop::collection::vec((after, 1_u32..7, any::<bool>()), 1..120)
}

proptest! {
    /// Two half seconds in a row never hold more than the count, borrowed tokens among them, and
    /// a plain call is refused only if it would not fit.
    #[test]
    fn no_second_holds_more_than_the_count(calls in calls(), count in 1_u32..9) {
        let engine = with_flow(&format!(r#"[{{"resource": "r", "count": {count}}}]"#));
        let (mut ms, mut buckets) = (0, BTreeMap::<u64, u32>::new());
        let held = |buckets: &BTreeMap<u64, u32>, bucket: u64| {
            buckets.get(&bucket).copied().unwrap_or(0)
        };
        for (after, n, prioritized) in calls {
            ms += after;
            let mut call = Call::new("r").count(n);
            if prioritized {
                call = call.prioritized();
            }
            let now = ms / 500;
            let before = if now > 0 { held(&buckets, now - 1) } else { 0 };
            let used = (before + held(&buckets, now), held(&buckets, now) + held(&buckets, now + 1));
            let fits = used.0 + n <= count && (held(&buckets, now + 1) == 0 || used.1 + n <= count);
            match engine.enter(at(ms), call) {
                Step::Passed(entry) => {
                    prop_assert!(fits);
                    *buckets.entry(now).or_default() += n;
                    entry.exit(at(ms));
                }
                Step::Wait(waiting) => {
                    prop_assert!(!fits && prioritized);
                    prop_assert_eq!(u64::try_from(waiting.wait().as_millis()).unwrap(), 500 - ms % 500);
                    *buckets.entry(now + 1).or_default() += n;
                }
                Step::Blocked(_) => prop_assert!(!fits),
                Step::Ask(asking) => prop_assert!(false, "{:?}", asking.question()),
            }
        }
        for (bucket, tokens) in &buckets {
            prop_assert!(tokens + held(&buckets, bucket + 1) <= count, "{:?}", buckets);
        }
    }

    /// Whatever order entries end in, none is left, and every counter says the same.
    #[test]
    fn every_call_ends_once(steps in prop::collection::vec((0_usize..10, 0_usize..3), 0..200)) {
        let engine = with_flow(r#"[{"resource": "r", "count": 20, "grade": 0}]"#);
        let contexts = ["one", "two", "three"].map(|name| engine.context(name));
        let (mut open, mut passed, mut refused) = (Vec::new(), 0, 0);
        for (step, which) in steps {
            if step < 6 {
                let call = Call::new("r").context(&contexts[which]).origin(contexts[which].name());
                match engine.enter(at(0), call) {
                    Step::Passed(entry) => {
                        passed += 1;
                        open.push(entry);
                    }
                    _ => refused += 1,
                }
            } else if !open.is_empty() {
                drop(open.swap_remove(step * 7 % open.len()));
            }
            prop_assert!(open.len() <= 20 && (refused == 0 || passed >= 20));
        }
        let in_progress = i64::try_from(open.len()).unwrap();
        let by_origin: i64 = engine.origins(at(0), "r").iter().map(|(_, r)| r.threads).sum();
        let tree = engine.tree(at(0));
        prop_assert_eq!(by_origin, in_progress);
        prop_assert_eq!(tree[0].reading.threads, in_progress);
        prop_assert_eq!(tree[0].reading.total_pass, passed);
        prop_assert_eq!(tree[0].reading.total_block, refused);
        prop_assert_eq!(engine.open_entries(at(0)).len(), usize::from(in_progress > 0));
    }
}
