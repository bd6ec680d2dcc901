//! Which nodes a call counts in, and the tree that they make.

use limiter::local::{Call, DEFAULT_CONTEXT, EntryType, TOTAL_INBOUND};

use crate::support::{at, block, engine, pass, passes, with_flow};

fn tree(engine: &limiter::local::LocalEngine) -> Vec<String> {
    let nodes = engine.tree(at(0));
    let shown = nodes
        .iter()
        .map(|node| format!("{}{} {}", "-".repeat(node.depth), node.name, node.reading.total_pass));
    shown.collect()
}

#[test]
fn calls_inside_calls_stand_below_them_where_they_were_first_made() {
    let engine = engine();
    let web = engine.context("web");
    let outer = pass(engine.enter(at(0), Call::new("outer").context(&web)));
    let inner = pass(engine.enter(at(0), Call::new("inner").parent(&outer)));
    let leaf = pass(engine.enter(at(0), Call::new("leaf").parent(&inner)));
    drop((leaf, inner));
    // The second time it is called from elsewhere, but has its place.
    drop(pass(engine.enter(at(0), Call::new("inner").context(&web))));
    drop(outer);
    assert!(passes(&engine, 0, "inner"));
    let expected = [
        "machine-root 4".to_owned(),
        // An entrance sums up what is right below it, as in Sentinel.
        format!("-{DEFAULT_CONTEXT} 1"),
        "--inner 1".to_owned(),
        "-web 1".to_owned(),
        "--outer 1".to_owned(),
        "---inner 2".to_owned(),
        "----leaf 1".to_owned(),
    ];
    let shown = tree(&engine);
    assert_eq!(shown.get(1..), expected.get(1..));
    assert_eq!(shown[0], "machine-root 2");
    assert_eq!(engine.node(at(0), "inner").unwrap().total_pass, 3);
}

#[test]
fn an_entrance_weighs_response_times_by_what_passed() {
    let engine = engine();
    let web = engine.context("web");
    for (resource, calls, rt) in [("a", 1, 40), ("b", 3, 20)] {
        for call in 0..calls {
            let begin = 100 * (call + 1);
            let call = Call::new(resource).context(&web);
            pass(engine.enter(at(begin), call)).exit(at(begin + rt));
        }
    }
    let entrance = engine.tree(at(400)).into_iter().find(|node| &*node.name == "web").unwrap();
    assert_eq!((entrance.reading.pass_qps, entrance.reading.avg_rt), (4.0, 25.0));
}

#[test]
fn a_refusal_counts_in_every_node_of_the_call() {
    let engine = with_flow(r#"[{"resource": "r", "count": 0}]"#);
    let web = engine.context("web");
    block(engine.enter(at(0), Call::new("r").context(&web).origin("app").count(2)));
    assert_eq!(engine.node(at(0), "r").unwrap().block_qps, 2.0);
    let origins = engine.origins(at(0), "r");
    assert_eq!((&*origins[0].0, origins[0].1.block_qps), ("app", 2.0));
    let tree = engine.tree(at(0));
    assert_eq!(tree.last().unwrap().reading.block_qps, 2.0);
}

#[test]
fn a_borrowed_pass_counts_only_in_the_node_that_lent_it() {
    let engine = with_flow(r#"[{"resource": "r", "count": 1}]"#);
    assert!(passes(&engine, 100, "r"));
    let crate::support::Step::Wait(waiting) = engine.enter(at(600), Call::new("r").prioritized())
    else {
        panic!("no wait")
    };
    drop(pass(waiting.resume(at(1_000))));
    let in_context = engine.tree(at(1_000)).last().unwrap().reading;
    let over_all = engine.node(at(1_000), "r").unwrap();
    assert_eq!((in_context.pass_qps, in_context.total_pass), (0.0, 1));
    assert_eq!((over_all.pass_qps, over_all.total_pass), (1.0, 2));
    assert_eq!((in_context.success_qps, over_all.success_qps), (1.0, 1.0));
}

#[test]
fn the_seconds_of_every_resource_come_with_its_class_and_those_of_all_inbound_calls() {
    let engine = engine();
    let call = || Call::new("r").resource_type(2).entry_type(EntryType::In);
    drop(pass(engine.enter(at(0), call().count(3))));
    drop(pass(engine.enter(at(1_500), call().resource_type(4))));
    assert!(passes(&engine, 0, "idle since"));
    let seconds = engine.seconds(at(2_000), at(0));
    let shown: Vec<_> = seconds
        .iter()
        .map(|(name, class, seconds)| (&**name, *class, seconds.len(), seconds[0].pass))
        .collect();
    assert_eq!(shown, [("r", 2, 1, 1), (TOTAL_INBOUND, 0, 1, 1)], "0 is the last one written");
    assert_eq!(engine.seconds(at(2_000), at(1_000)), []);
}
