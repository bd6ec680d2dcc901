//! The call tree: which resource is called from where (`machine-root`, its entrances, and the
//! resources below).

use std::collections::{BTreeMap, BTreeSet};

use super::{LocalEngine, NodeReading};
use crate::Tick;

/// The root's name in Sentinel.
const ROOT: &str = "machine-root";

/// One node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeNode {
    /// A context's name, or a resource's.
    pub name: Box<str>,
    /// 0 for the root, 1 for entrances, 2 for resources that are called from an entrance, and so
    /// on for those called from within others.
    pub depth: usize,
    /// Its counters. Root and entrances have none and sum up those right below them.
    pub reading: NodeReading,
}

/// A default node, before it has its place.
struct Leaf {
    resource: Box<str>,
    reading: NodeReading,
}

/// The nodes called from within the same resource, by the name of that.
type ByParent = BTreeMap<Option<Box<str>>, Vec<Leaf>>;

impl LocalEngine {
    /// The call tree in preorder: each node stands before those below it. What was called from
    /// a resource that is gone stands below the entrance.
    #[must_use]
    pub fn tree(&self, now: Tick) -> Vec<TreeNode> {
        // By entrance, and by the resource that they are called from.
        let mut below: BTreeMap<u32, ByParent> = BTreeMap::new();
        self.each(now, |name, body| {
            for (node, stat) in body.nodes.contexts() {
                let entrance = below.entry(node.entrance.id).or_default();
                let leaf = Leaf { resource: name.into(), reading: stat.reading() };
                entrance.entry(node.parent.as_deref().map(Into::into)).or_default().push(leaf);
            }
        });
        let mut tree = vec![TreeNode { name: ROOT.into(), depth: 0, reading: sum(&[]) }];
        let mut readings = Vec::new();
        for context in self.shared.contexts().iter() {
            let entrance = &context.0.node;
            let mut leaves = below.remove(&entrance.id).unwrap_or_default();
            let mut below = leaves.remove(&None).unwrap_or_default();
            for gone in parents_gone(&below, &leaves) {
                below.extend(leaves.remove(&gone).unwrap_or_default());
            }
            let (at, mut right_below) = (tree.len(), Vec::new());
            let name = entrance.name.clone();
            tree.push(TreeNode { name, depth: 1, reading: NodeReading::default() });
            loop {
                right_below.extend(below.iter().map(|leaf| leaf.reading));
                let mut next: Vec<_> = below.into_iter().rev().map(|leaf| (2, leaf)).collect();
                while let Some((depth, Leaf { resource, reading })) = next.pop() {
                    let inner = leaves.remove(&Some(resource.clone())).unwrap_or_default();
                    tree.push(TreeNode { name: resource, depth, reading });
                    next.extend(inner.into_iter().rev().map(|leaf| (depth + 1, leaf)));
                }
                // Those are below each other: one was gone, and came back called from the other.
                let Some((_, others)) = leaves.pop_first() else { break };
                below = others;
            }
            let reading = sum(&right_below);
            readings.push(reading);
            if let Some(entrance) = tree.get_mut(at) {
                entrance.reading = reading;
            }
        }
        if let Some(root) = tree.first_mut() {
            root.reading = sum(&readings);
        }
        tree
    }
}

/// The parents in `leaves` that are no nodes themselves.
fn parents_gone(below: &[Leaf], leaves: &ByParent) -> Vec<Option<Box<str>>> {
    let nodes = below.iter().chain(leaves.values().flatten());
    let known: BTreeSet<&str> = nodes.map(|leaf| &*leaf.resource).collect();
    let is_gone =
        |parent: &&Option<Box<str>>| parent.as_ref().is_some_and(|p| !known.contains(&**p));
    leaves.keys().filter(is_gone).cloned().collect()
}

/// What an entrance shows (`EntranceNode.java`): sums, and the average response time weighted by
/// what passed.
fn sum(nodes: &[NodeReading]) -> NodeReading {
    let mut total = NodeReading::default();
    let mut weighted = 0.0;
    for node in nodes {
        weighted += node.avg_rt * node.pass_qps;
        total.pass_qps += node.pass_qps;
        total.block_qps += node.block_qps;
        total.success_qps += node.success_qps;
        total.exception_qps += node.exception_qps;
        total.occupied_pass_qps += node.occupied_pass_qps;
        total.max_success_qps += node.max_success_qps;
        total.min_rt = if total.min_rt > 0.0 { total.min_rt.min(node.min_rt) } else { node.min_rt };
        total.threads += node.threads;
        total.total_pass += node.total_pass;
        total.total_block += node.total_block;
        total.total_success += node.total_success;
        total.total_exception += node.total_exception;
        total.previous_pass += node.previous_pass;
        total.previous_block += node.previous_block;
        total.waiting += node.waiting;
    }
    if total.pass_qps > 0.0 {
        total.avg_rt = weighted / total.pass_qps;
    }
    total
}
