//! One immutable value behind one swap: readers see the old one or the new one, never a mix.
//!
//! `arc-swap` when it ships; a mutex under loom, which does not know `arc-swap`'s atomics. The
//! promise that the models check (a reader holds a whole snapshot, and counters are shared between
//! the old one and the new) is the same for both.

use std::fmt;

#[cfg(not(loom))]
pub(crate) use shipped::{Reader, Swap};
#[cfg(loom)]
pub(crate) use twin::{Reader, Swap};

#[cfg(not(loom))]
mod shipped {
    use std::sync::Arc;

    use arc_swap::{ArcSwap, Cache};

    /// The shared place; cheap to clone the inner `Arc` from.
    pub(crate) struct Swap<T>(Arc<ArcSwap<T>>);

    impl<T> Swap<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Arc::new(ArcSwap::from_pointee(value)))
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            self.0.store(value);
        }

        pub(crate) fn load(&self) -> Arc<T> {
            self.0.load_full()
        }

        pub(crate) fn reader(&self) -> Reader<T> {
            Reader(Cache::new(Arc::clone(&self.0)))
        }
    }

    /// One task's view; costs one relaxed load when nothing has changed.
    #[derive(Clone)]
    pub(crate) struct Reader<T>(Cache<Arc<ArcSwap<T>>, Arc<T>>);

    impl<T> Reader<T> {
        #[inline]
        pub(crate) fn load(&mut self) -> &Arc<T> {
            self.0.load()
        }
    }
}

#[cfg(loom)]
mod twin {
    use crate::sync::{Arc, Mutex, lock};

    pub(crate) struct Swap<T>(Arc<Mutex<Arc<T>>>);

    impl<T> Swap<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Arc::new(Mutex::new(Arc::new(value))))
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            *lock(&self.0) = value;
        }

        pub(crate) fn load(&self) -> Arc<T> {
            lock(&self.0).clone()
        }

        pub(crate) fn reader(&self) -> Reader<T> {
            Reader(self.0.clone(), self.load())
        }
    }

    pub(crate) struct Reader<T>(Arc<Mutex<Arc<T>>>, Arc<T>);

    impl<T> Reader<T> {
        pub(crate) fn load(&mut self) -> &Arc<T> {
            self.1 = lock(&self.0).clone();
            &self.1
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Swap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Swap").field(&self.load()).finish()
    }
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}
