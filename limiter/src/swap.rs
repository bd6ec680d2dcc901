//! One immutable value behind one swap: readers see the old one or the new one, never a mix.
//!
//! `arc-swap` when it ships; a mutex under loom, which does not know `arc-swap`'s atomics. The
//! promise that the models check (a reader holds a whole snapshot, and counters are shared between
//! the old one and the new) is the same for both.

use std::fmt;

#[cfg(not(loom))]
pub(crate) use shipped::{Held, Swap};
#[cfg(loom)]
pub(crate) use twin::{Held, Swap};

#[cfg(not(loom))]
mod shipped {
    use std::{ops::Deref, sync::Arc};

    use arc_swap::{ArcSwap, Guard};

    pub(crate) struct Swap<T>(ArcSwap<T>);

    impl<T> Swap<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(ArcSwap::from_pointee(value))
        }

        /// Puts `value` in place of the old one, and gives that.
        pub(crate) fn swap(&self, value: Arc<T>) -> Arc<T> {
            self.0.swap(value)
        }

        /// The value, to keep.
        pub(crate) fn load(&self) -> Arc<T> {
            self.0.load_full()
        }

        /// The value, to look at for a moment: no reference is counted.
        #[inline]
        pub(crate) fn hold(&self) -> Held<T> {
            Held(self.0.load())
        }
    }

    /// A value that stays what it is while it is held.
    pub(crate) struct Held<T>(Guard<Arc<T>>);

    impl<T> Deref for Held<T> {
        type Target = T;

        #[inline]
        fn deref(&self) -> &T {
            &self.0
        }
    }
}

#[cfg(loom)]
mod twin {
    use std::ops::Deref;

    use crate::sync::{Arc, Mutex, lock};

    pub(crate) struct Swap<T>(Mutex<Arc<T>>);

    impl<T> Swap<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(Mutex::new(Arc::new(value)))
        }

        pub(crate) fn swap(&self, value: Arc<T>) -> Arc<T> {
            std::mem::replace(&mut *lock(&self.0), value)
        }

        pub(crate) fn load(&self) -> Arc<T> {
            lock(&self.0).clone()
        }

        pub(crate) fn hold(&self) -> Held<T> {
            Held(self.load())
        }
    }

    pub(crate) struct Held<T>(Arc<T>);

    impl<T> Deref for Held<T> {
        type Target = T;

        fn deref(&self) -> &T {
            &self.0
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Swap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Swap").field(&self.load()).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Held").field(&**self).finish()
    }
}
