//! Locks that a panic elsewhere does not poison.

use std::sync::{Mutex, MutexGuard};

/// Locks, also when another thread panicked while it held the lock: no critical section of this
/// crate calls out, and each leaves whole state behind.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
