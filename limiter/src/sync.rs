//! The primitives that decisions share between threads: std's, or loom's under `--cfg loom`, so
//! that the models in `tests/loom*` run the code that ships. Where it does not matter how many hold
//! a thing, as in all of [`local`](crate::local), it lies in std's `Arc` under loom, too: loom's
//! knows neither `dyn` nor `str`.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// Locks, also when another thread panicked while it held the lock: every critical section here
/// leaves whole state behind, and a poisoned counter must not end a second task.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// A value that is made when it is first needed.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub(crate) struct Lazy<T>(std::sync::OnceLock<T>);

#[cfg(not(loom))]
impl<T: Default> Lazy<T> {
    /// A value that is there already.
    pub(crate) fn of(value: T) -> Self {
        Self(value.into())
    }

    /// The value, if it was needed before.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.get()
    }

    #[inline]
    pub(crate) fn get_or_make(&self) -> &T {
        self.0.get_or_init(T::default)
    }
}

/// Loom knows no `OnceLock`: there the value is made at once.
#[cfg(loom)]
#[derive(Debug, Default)]
pub(crate) struct Lazy<T>(T);

#[cfg(loom)]
impl<T> Lazy<T> {
    pub(crate) fn of(value: T) -> Self {
        Self(value)
    }

    pub(crate) fn get(&self) -> Option<&T> {
        Some(&self.0)
    }

    pub(crate) fn get_or_make(&self) -> &T {
        &self.0
    }
}
