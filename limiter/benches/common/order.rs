//! In which order keys are asked for.

/// The keys from 1 on, again and again: each once, shuffled, in whole batches.
pub(crate) fn order(amount: i64, seed: u64, batch: usize) -> Vec<i64> {
    let mut keys: Vec<i64> = (1..=amount).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut keys);
    let len = keys.len().next_multiple_of(batch);
    keys.into_iter().cycle().take(len).collect()
}
