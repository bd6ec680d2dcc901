//! One immutable value behind one swap: readers see the old one or the new one, never a mix.
//!
//! `arc-swap` when it ships; a mutex under loom, which does not know `arc-swap`'s atomics. The
//! promise that the models check (a reader holds a whole snapshot, and counters are shared between
//! the old one and the new) is the same for both.

use std::sync::Arc;

#[cfg(not(loom))]
pub(crate) use shipped::{HeldIn, SwapIn};
#[cfg(loom)]
pub(crate) use twin::{HeldIn, SwapIn};

/// A value in std's `Arc`, as long as it does not matter how many hold it.
pub(crate) type Swap<T> = SwapIn<Arc<T>>;
/// What [`Swap::hold`](SwapIn::hold) gives.
pub(crate) type Held<T> = HeldIn<Arc<T>>;

#[cfg(not(loom))]
mod shipped {
    use std::ops::Deref;

    use arc_swap::{ArcSwapAny, Guard, RefCnt};

    #[derive(Debug)]
    pub(crate) struct SwapIn<P: RefCnt>(ArcSwapAny<P>);

    impl<P: RefCnt> SwapIn<P> {
        pub(crate) fn new(value: impl Into<P>) -> Self {
            Self(ArcSwapAny::new(value.into()))
        }

        /// Puts `value` in place of the old one, and gives that.
        pub(crate) fn swap(&self, value: P) -> P {
            self.0.swap(value)
        }

        /// The value, to keep.
        pub(crate) fn load(&self) -> P {
            self.0.load_full()
        }

        /// The value, to look at for a moment: no reference is counted.
        #[inline]
        pub(crate) fn hold(&self) -> HeldIn<P> {
            HeldIn(self.0.load())
        }
    }

    /// A value that stays what it is while it is held.
    #[derive(Debug)]
    pub(crate) struct HeldIn<P: RefCnt>(Guard<P>);

    impl<P: RefCnt + Deref> Deref for HeldIn<P> {
        type Target = P::Target;

        #[inline]
        fn deref(&self) -> &P::Target {
            &self.0
        }
    }
}

/// For std's `Arc` and for loom's.
#[cfg(loom)]
mod twin {
    use std::ops::Deref;

    use crate::sync::{Mutex, lock};

    #[derive(Debug)]
    pub(crate) struct SwapIn<P>(Mutex<P>);

    impl<P: Clone> SwapIn<P> {
        pub(crate) fn new(value: impl Into<P>) -> Self {
            Self(Mutex::new(value.into()))
        }

        pub(crate) fn swap(&self, value: P) -> P {
            std::mem::replace(&mut *lock(&self.0), value)
        }

        pub(crate) fn load(&self) -> P {
            lock(&self.0).clone()
        }

        pub(crate) fn hold(&self) -> HeldIn<P> {
            HeldIn(self.load())
        }
    }

    #[derive(Debug)]
    pub(crate) struct HeldIn<P>(P);

    impl<P: Deref> Deref for HeldIn<P> {
        type Target = P::Target;

        fn deref(&self) -> &P::Target {
            &self.0
        }
    }
}
