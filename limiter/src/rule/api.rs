//! Groups of APIs, by the paths of requests.

use super::Pattern;

/// A named group of APIs (Sentinel's `ApiDefinition.java`), which gateway rules protect together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiDefinition {
    /// Its name, which is the resource of rules; not blank.
    pub api_name: Box<str>,
    /// Which paths belong to it; without any, none.
    pub paths: Vec<PathPattern>,
}

/// `matchStrategy` with its `pattern`: some paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPattern {
    /// 0: this one.
    Exact(Box<str>),
    /// 1: those that an Ant pattern matches.
    Ant(AntPattern),
    /// 2: those that match as a whole.
    Regex(Pattern),
}

/// A path with wildcards, as Spring's `AntPathMatcher` reads it: `?` is one letter, `*` any of one
/// segment, `**` any number of segments, and `{name}` the same as `*`. A pattern without any of
/// them stands for itself and everything beneath it; Sentinel lets such a one match nothing.
///
/// Several slashes in a row are one; a slash at the end counts, but after `*` and `**`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AntPattern {
    written: Box<str>,
    compiled: Pattern,
}

impl ApiDefinition {
    /// Whether a request's path belongs to the group.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.paths.iter().any(|pattern| pattern.matches(path))
    }
}

impl PathPattern {
    /// Whether `path` is one of them.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(text) => path == &**text,
            Self::Ant(pattern) => pattern.matches(path),
            Self::Regex(pattern) => pattern.is_match(path),
        }
    }
}

impl AntPattern {
    /// Compiles `written`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in one line.
    pub fn new(written: &str) -> Result<Self, String> {
        if !written.starts_with('/') {
            return Err("must begin with `/`, as every path does".into());
        }
        let beneath = if has_wildcards(written) { "" } else { "/**" };
        let compiled = Pattern::new(&expression(&format!("{written}{beneath}"))?)?;
        Ok(Self { written: written.into(), compiled })
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Whether `path` matches as a whole.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        path.starts_with('/') && self.compiled.is_match(path)
    }
}

/// Whether Spring would take it for a pattern.
pub(super) fn has_wildcards(written: &str) -> bool {
    written.contains(['*', '?', '{'])
}

/// The regular expression for an Ant pattern. Each segment brings the slashes before it, and is
/// never empty, however many slashes stand in a row.
fn expression(ant: &str) -> Result<String, String> {
    let segments: Vec<&str> = ant.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut expression = String::new();
    for segment in &segments {
        match *segment {
            "**" => expression.push_str("(?:/+[^/]+)*"),
            segment => {
                expression.push_str("/+");
                push_segment(&mut expression, segment)?;
            }
        }
    }
    let ends = if ant.ends_with('/') { "/+" } else { "" };
    match segments.last() {
        Some(&"**") => expression.push_str("/*"),
        // A slash is enough for the last segment, as long as no `**` could have taken it.
        Some(&"*") if !segments.contains(&"**") => {
            let before = expression.strip_suffix("[^/]+").unwrap_or(&expression);
            expression = format!("{before}(?:[^/]+{ends})?");
        }
        _ => expression.push_str(ends),
    }
    Ok(expression)
}

fn push_segment(expression: &mut String, segment: &str) -> Result<(), String> {
    let before = expression.len();
    let mut is_any = true;
    let mut rest = segment;
    while let Some(letter) = rest.chars().next() {
        rest = rest.split_at(letter.len_utf8()).1;
        match letter {
            '?' => expression.push_str("[^/]"),
            '*' => expression.push_str("[^/]*"),
            '{' => {
                let (name, behind) = rest.split_once('}').ok_or("`{` without `}`")?;
                if name.contains(':') {
                    return Err("use matchStrategy 2 for regular expressions".into());
                }
                rest = behind;
                expression.push_str("[^/]*");
            }
            letter => expression.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4]))),
        }
        is_any &= matches!(letter, '*' | '{');
    }
    if is_any {
        expression.truncate(before);
        expression.push_str("[^/]+");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What Spring's `AntPathMatcher.match` says.
    #[test]
    fn ant_patterns_match_as_in_spring() {
        for (pattern, yes, no) in [
            ("/foo/**", "/foo /foo/ /foo/a /foo/a/b /foo//a /foo/a/", "/ /foob /bar/foo foo/a"),
            ("/foo/*", "/foo/a /foo/ /foo/a.b", "/foo /foo/a/b /foo/a/"),
            ("/foo/*/bar", "/foo/a/bar", "/foo/bar /foo//bar /foo/a/b/bar /foo/a/bar/"),
            ("/foo/**/bar", "/foo/bar /foo/a/bar /foo/a/b/bar", "/foo/bar/x /foo/a/bars"),
            ("/**", "/ /a /a/b/ //", "a"),
            ("/**/*.html", "/a.html /a/b.html /a/b/.html", "/a.htm /a.html/b"),
            ("/t?st", "/test /tast", "/tst /teest /t/st"),
            ("/u/{id}/**", "/u/7 /u/7/x /u/7/x/y", "/u /v/7"),
            ("/a.b/*", "/a.b/c", "/axb/c"),
            ("/foo/**/", "/foo /foo/ /foo/a", "/bar/"),
            ("/foo/*/", "/foo/ /foo/a/ /foo/a//", "/foo /foo/a /foo/a/b/"),
            ("/**/*", "/a /a/b", "/ /a/"),
            ("/foo*/x", "/foo/x /foobar/x", "/fo/x /foo/b/x"),
        ] {
            let ant = AntPattern::new(pattern).unwrap();
            for path in yes.split(' ') {
                assert!(ant.matches(path), "{pattern} on {path}");
            }
            for path in no.split(' ') {
                assert!(!ant.matches(path), "{pattern} on {path}");
            }
        }
    }

    #[test]
    fn a_pattern_without_wildcards_stands_for_all_beneath_it() {
        let ant = AntPattern::new("/foo").unwrap();
        assert_eq!(
            ["/foo", "/foo/", "/foo/a/b", "/foob"].map(|path| ant.matches(path)),
            [true, true, true, false]
        );
        assert_eq!(ant.as_str(), "/foo");
    }

    #[test]
    fn what_is_no_ant_pattern_is_said_so() {
        assert_eq!(AntPattern::new("/a/{b").unwrap_err(), "`{` without `}`");
        assert_eq!(AntPattern::new("a/*").unwrap_err(), "must begin with `/`, as every path does");
        let regex = AntPattern::new(r"/a/{b:\d+}").unwrap_err();
        assert_eq!(regex, "use matchStrategy 2 for regular expressions");
    }

    #[test]
    fn a_group_has_the_paths_of_all_its_patterns() {
        let group = ApiDefinition {
            api_name: "api".into(),
            paths: vec![
                PathPattern::Exact("/login".into()),
                PathPattern::Ant(AntPattern::new("/foo/**").unwrap()),
                PathPattern::Regex(Pattern::new("/v[0-9]+/.*").unwrap()),
            ],
        };
        let paths = ["/login", "/foo/a", "/v2/x", "/login/", "/v/x", ""];
        assert_eq!(paths.map(|path| group.matches(path)), [true, true, true, false, false, false]);
    }

    /// One segment, letter by letter.
    fn glob(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|skip| glob(rest, &text[skip..])),
            Some((&letter, rest)) => text
                .split_first()
                .is_some_and(|(&t, behind)| (letter == b'?' || letter == t) && glob(rest, behind)),
        }
    }

    /// Spring's `AntPathMatcher.doMatch`, trying everything. `alike`: pattern and path end in a
    /// slash, or neither does. `slash`: the path does. `after`: `**` has been before.
    fn spring(ants: &[&str], dirs: &[&str], (alike, slash, after): (bool, bool, bool)) -> bool {
        match (ants, dirs) {
            (["**"], _) => true,
            (["**", rest @ ..], _) => {
                (0..=dirs.len()).any(|skip| spring(rest, &dirs[skip..], (alike, slash, true)))
            }
            ([], []) => alike,
            (["*"], []) => slash && !after,
            ([], _) | (_, []) => false,
            ([ant, ants @ ..], [dir, dirs @ ..]) => {
                glob(ant.as_bytes(), dir.as_bytes()) && spring(ants, dirs, (alike, slash, after))
            }
        }
    }

    fn segments(path: &str) -> Vec<&str> {
        path.split('/').filter(|segment| !segment.is_empty()).collect()
    }

    proptest! {
        #[test]
        fn an_ant_pattern_is_what_trying_everything_says(
            ant in "/([ab*?]{0,3}/|\\*\\*/){0,4}[ab*?]{0,2}",
            path in "/([ab]{0,2}/){0,5}[ab]{0,2}",
        ) {
            let compiled = AntPattern::new(&ant).unwrap();
            let ant = if has_wildcards(&ant) { ant } else { ant + "/**" };
            let slash = path.ends_with('/');
            let expected =
                spring(&segments(&ant), &segments(&path), (ant.ends_with('/') == slash, slash, false));
            prop_assert_eq!(compiled.matches(&path), expected);
        }
    }
}
