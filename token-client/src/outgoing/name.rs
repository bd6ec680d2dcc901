//! What a call is named after.

use std::{
    collections::HashSet,
    fmt::Write,
    sync::{Arc, Mutex},
};

use limiter::local::OVERFLOW;

use crate::{exchange::Request, sync::lock};

/// Names a call `METHOD:host/…`, such as `GET:shop.example/*`, by a bounded number of names.
///
/// A port follows the host if the request names one, and as many segments of the path follow as were
/// [asked for](Self::segments), none by default: paths hold ids, and a name for each of them would
/// count nothing together. `/*` stands for the rest of the path. What comes after
/// [`Self::at_most`] names is named `__other__`.
#[derive(Clone, Debug)]
pub struct Names {
    segments: usize,
    max: usize,
    known: Arc<Mutex<HashSet<Box<str>>>>,
}

impl Names {
    /// Adds so many segments of the path to the name.
    #[must_use]
    pub const fn segments(mut self, segments: usize) -> Self {
        self.segments = segments;
        self
    }

    /// Makes no more names than that; 1 000 by default, as many as metrics show.
    #[must_use]
    pub const fn at_most(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// The name of this request.
    #[must_use]
    pub fn name(&self, request: &dyn Request) -> String {
        let name = self.full(request);
        let known = &mut lock(&self.known);
        if known.contains(&*name) {
            return name;
        }
        if known.len() >= self.max {
            return OVERFLOW.into();
        }
        known.insert(name.as_str().into());
        name
    }

    fn full(&self, request: &dyn Request) -> String {
        let mut name = format!("{}:", request.method());
        // Hosts are alike whatever their case.
        name.extend(request.host().unwrap_or_default().chars().map(|c| c.to_ascii_lowercase()));
        if let Some(port) = request.port() {
            let _ = write!(name, ":{port}");
        }
        let mut segments = request.path().split('/').filter(|segment| !segment.is_empty());
        for segment in segments.by_ref().take(self.segments) {
            name.push('/');
            name.push_str(segment);
        }
        if segments.next().is_some() {
            name.push_str("/*");
        } else if request.path() == "/" || request.path().is_empty() {
            name.push('/');
        }
        name
    }
}

impl Default for Names {
    fn default() -> Self {
        Self { segments: 0, max: 1_000, known: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &Names, method: &str, uri: &str) -> String {
        names.name(&http::Request::builder().method(method).uri(uri).body(()).unwrap())
    }

    #[test]
    fn a_call_is_named_after_its_method_and_its_host() {
        let names = Names::default();
        for (method, uri, name) in [
            ("GET", "http://shop.example/orders/17?x=1", "GET:shop.example/*"),
            ("POST", "https://Shop.Example:8443/v1", "POST:shop.example:8443/*"),
            ("GET", "http://shop.example", "GET:shop.example/"),
            ("GET", "http://[::1]:80/a", "GET:[::1]:80/*"),
            ("GET", "/orders", "GET:/*"),
        ] {
            assert_eq!(named(&names, method, uri), name);
        }
    }

    #[test]
    fn as_many_segments_of_the_path_follow_as_were_asked_for() {
        let names = Names::default().segments(2);
        for (path, name) in [
            ("", "GET:h/"),
            ("/", "GET:h/"),
            ("/v1", "GET:h/v1"),
            ("/v1/orders/", "GET:h/v1/orders"),
            ("//v1//orders/17/items", "GET:h/v1/orders/*"),
        ] {
            assert_eq!(named(&names, "GET", &format!("http://h{path}")), name, "{path}");
        }
    }

    #[test]
    fn names_above_the_bound_are_one_and_known_ones_stay() {
        let names = Names::default().at_most(2);
        let all = |names: &Names| ["a", "b", "c", "a"].map(|host| named(names, "GET", host));
        let right = ["GET:a/", "GET:b/", "__other__", "GET:a/"];
        assert_eq!(all(&names), right);
        assert_eq!(all(&names.clone()), right, "clones know the same");
    }
}
