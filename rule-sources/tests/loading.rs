//! What a load of rule files gives, and what it remembers of the loads before.
#![expect(clippy::unwrap_used, reason = "what the helpers read is what the tests wrote")]

use std::{fs, path::Path};

use limiter::rule::{Contents, Finding, RuleErrors};
use rule_sources::{FileSource, Loaded, LocalRules, RuleSource};
use tempfile::TempDir;

const GONE: &str = "the file is gone, its rules stay in force; \
                    to drop them, put the file back with an empty list []";

fn flow(id: i64) -> String {
    format!(
        r#"{{"resource": "r{id}", "count": 5, "clusterMode": true, "clusterConfig": {{"flowId": {id}}}}}"#
    )
}

fn param(id: i64) -> String {
    format!(
        r#"{{"resource": "r{id}", "count": 5, "paramIdx": 0, "clusterMode": true,
            "clusterConfig": {{"flowId": {id}}}}}"#
    )
}

fn write(dir: &TempDir, name: &str, rules: &[String]) {
    fs::write(dir.path().join(name), format!("[\n{}\n]", rules.join(",\n"))).unwrap();
}

/// Namespace, flow ids and parameter-rule ids, as text that a test can spell.
fn shape(loaded: &Loaded) -> Vec<String> {
    let ids = |ids: Vec<Option<i64>>| ids.into_iter().flatten().collect::<Vec<_>>();
    let sets = loaded.rules.iter().map(|set| {
        let flow = ids(set.flow.iter().map(|r| r.cluster.as_ref().map(|c| c.flow_id)).collect());
        let param = ids(set.param.iter().map(|r| r.cluster.as_ref().map(|c| c.flow_id)).collect());
        format!("{} {flow:?} {param:?}", set.namespace)
    });
    sets.collect()
}

/// Findings, one a line, with the directory left out.
fn lines(findings: &[Finding], dir: &Path) -> Vec<String> {
    let prefix = format!("{}/", dir.display());
    findings.iter().map(|finding| finding.to_string().replace(&prefix, "")).collect()
}

fn errors(source: &FileSource, dir: &TempDir) -> Vec<String> {
    let RuleErrors(found) = source.load().unwrap_err();
    lines(&found, dir.path())
}

#[test]
fn files_of_one_namespace_come_together() {
    let dir = TempDir::new().unwrap();
    write(&dir, "shop-flow-rules.json", &[flow(1), flow(2)]);
    write(&dir, "shop-param-rules.json", &[param(1)]);
    write(&dir, "bank-flow-rules.json", &[flow(3)]);
    let loaded = FileSource::of_server(dir.path()).load().unwrap();
    assert_eq!(shape(&loaded), ["bank [3] []", "shop [1, 2] [1]"]);
    assert_eq!((loaded.files, loaded.skipped, loaded.warnings), (3, 0, vec![]));
}

#[test]
fn an_empty_directory_is_no_rules() {
    let dir = TempDir::new().unwrap();
    assert_eq!(FileSource::of_server(dir.path()).load(), Ok(Loaded::default()));
}

#[test]
fn a_single_file_holds_both_kinds_of_the_default_namespace() {
    let dir = TempDir::new().unwrap();
    write(&dir, "rules.json", &[flow(1), param(2)]);
    let loaded = FileSource::of_server(dir.path().join("rules.json")).load().unwrap();
    assert_eq!(shape(&loaded), ["default [1] [2]"]);
}

#[test]
fn a_single_file_with_a_name_of_the_form_is_of_that_namespace() {
    let dir = TempDir::new().unwrap();
    write(&dir, "shop-param-rules.json", &[param(2)]);
    let loaded = FileSource::of_server(dir.path().join("shop-param-rules.json")).load().unwrap();
    assert_eq!(shape(&loaded), ["shop [] [2]"]);
}

#[test]
fn local_rules_are_left_out_and_counted_only_when_asked() {
    let dir = TempDir::new().unwrap();
    write(&dir, "shop-flow-rules.json", &[flow(1), r#"{"resource": "r", "count": 1}"#.into()]);
    let server = FileSource::of_server(dir.path()).load().unwrap();
    assert_eq!((server.rules[0].flow.len(), server.skipped), (1, 1));
    let client = FileSource::of_service(dir.path()).load().unwrap();
    assert_eq!((client.rules[0].flow.len(), client.skipped), (2, 0));
}

#[test]
fn a_service_reads_the_kinds_that_it_alone_enforces_and_a_server_leaves_them_alone() {
    let dir = TempDir::new().unwrap();
    write(&dir, "shop-flow-rules.json", &[flow(1)]);
    let breaker = r#"{"resource": "r", "grade": 2, "count": 5, "timeWindow": 9}"#;
    write(&dir, "shop-degrade-rules.json", &[breaker.into()]);
    write(&dir, "bank-degrade-rules.json", &[breaker.into()]);
    write(&dir, "shop-system-rules.json", &[r#"{"qps": 100}"#.into()]);
    let caller = r#"{"resource": "r", "limitApp": "app", "strategy": 0}"#;
    write(&dir, "shop-authority-rules.json", &[caller.into()]);
    write(&dir, "shop-gateway-rules.json", &[r#"{"resource": "r", "count": 5}"#.into()]);
    let service = FileSource::of_service(dir.path()).load().unwrap();
    let LocalRules { degrade, system, authority, gateway } = &service.local;
    let numbers = (degrade.len(), system.len(), authority.len(), gateway.len());
    assert_eq!((numbers, service.files), ((2, 1, 1, 1), 6));
    let server = FileSource::of_server(dir.path()).load().unwrap();
    assert_eq!((&server.local, server.files), (&LocalRules::default(), 1));
    assert_eq!(shape(&server), shape(&service));

    let wrong = r#"[{"resource": "r", "grade": 9, "count": -1}]"#;
    fs::write(dir.path().join("shop-degrade-rules.json"), wrong).unwrap();
    let found = errors(&FileSource::of_service(dir.path()), &dir);
    assert!(found.len() > 1 && found.iter().all(|line| line.contains("shop-degrade-rules.json")));
    FileSource::of_server(dir.path()).load().unwrap();
}

#[test]
fn a_path_that_is_not_there_is_said_so() {
    let dir = TempDir::new().unwrap();
    let source = FileSource::of_server(dir.path().join("rules.json"));
    let remedy = "rules.json: no such file or directory; create it, an empty list [] is enough";
    assert_eq!(errors(&source, &dir), [remedy]);
}

#[test]
fn an_id_in_two_files_is_refused_with_both_places() {
    let dir = TempDir::new().unwrap();
    write(&dir, "a-flow-rules.json", &[flow(7)]);
    write(&dir, "b-flow-rules.json", &[flow(8), flow(7)]);
    let found = errors(&FileSource::of_server(dir.path()), &dir);
    assert_eq!(
        found,
        [
            "b-flow-rules.json:3: rule 1: clusterConfig.flowId = 7: already used at a-flow-rules.json:2; \
         ids are unique"
        ]
    );
}

#[test]
fn mistakes_of_all_files_are_reported_together() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a-flow-rules.json"), r#"[{"resource": "#).unwrap();
    fs::write(dir.path().join("b-flow-rules.json"), [0xff]).unwrap();
    fs::create_dir(dir.path().join("c-flow-rules.json")).unwrap();
    write(&dir, "d-flow-rules.json", &[flow(0)]);
    write(&dir, "e-flow-rules.json", &[flow(7)]);
    write(&dir, "f-flow-rules.json", &[flow(7)]);
    let found = errors(&FileSource::of_server(dir.path()), &dir);
    let starts = [
        "a-flow-rules.json:1: must be a JSON array of rules:",
        "b-flow-rules.json:1: byte 0 is not UTF-8",
        "c-flow-rules.json: is a directory; must be a file",
        "d-flow-rules.json:2: rule 0: clusterConfig.flowId = 0:",
        "f-flow-rules.json:2: rule 0: clusterConfig.flowId = 7: already used at e-flow-rules.json:2",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (finding, start) in found.iter().zip(starts) {
        assert!(finding.starts_with(start), "{finding}");
    }
}

#[test]
fn a_name_of_no_known_form_is_a_warning() {
    let dir = TempDir::new().unwrap();
    write(&dir, "shop-rules.json", &[flow(1)]);
    let loaded = FileSource::of_server(dir.path()).load().unwrap();
    assert_eq!((loaded.rules.len(), loaded.files), (0, 0));
    assert_eq!(
        lines(&loaded.warnings, dir.path()),
        ["shop-rules.json: not read: the name must be <namespace>-flow-rules.json, or -param, \
         -degrade, -system, -authority or -gateway in place of -flow"]
    );
}

#[test]
fn a_file_that_is_half_written_is_an_error_now_and_fine_later() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("shop-flow-rules.json");
    let source = FileSource::of_server(dir.path());
    let whole = format!("[{}]", flow(1));
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        assert!(source.load().is_err(), "{}", &whole[..cut]);
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(shape(&source.load().unwrap()), ["shop [1] []"]);
}

#[test]
fn a_removed_file_keeps_its_rules_until_it_is_back() {
    let dir = TempDir::new().unwrap();
    write(&dir, "a-flow-rules.json", &[flow(1)]);
    write(&dir, "b-flow-rules.json", &[flow(2)]);
    let source = FileSource::of_server(dir.path());
    source.load().unwrap();
    fs::remove_file(dir.path().join("a-flow-rules.json")).unwrap();
    for _ in 0..2 {
        let loaded = source.load().unwrap();
        assert_eq!(shape(&loaded), ["a [1] []", "b [2] []"]);
        assert_eq!(loaded.files, 1);
        let warning = format!("a-flow-rules.json: {GONE}");
        assert_eq!(lines(&loaded.warnings, dir.path()), [warning]);
    }
    write(&dir, "a-flow-rules.json", &[]);
    let loaded = source.load().unwrap();
    assert_eq!(
        (shape(&loaded), loaded.warnings),
        (vec!["a [] []".into(), "b [2] []".into()], vec![])
    );
}

#[test]
fn a_removed_single_file_keeps_its_rules() {
    let dir = TempDir::new().unwrap();
    write(&dir, "rules.json", &[flow(1), param(1)]);
    let source = FileSource::of_server(dir.path().join("rules.json"));
    let before = source.load().unwrap();
    fs::remove_file(dir.path().join("rules.json")).unwrap();
    let after = source.load().unwrap();
    assert_eq!(after.rules, before.rules);
    assert_eq!((after.files, after.warnings.len()), (0, 1));
}

#[test]
fn what_was_never_in_force_is_not_what_a_removed_file_keeps() {
    let dir = TempDir::new().unwrap();
    let source = FileSource::of_server(dir.path());
    write(&dir, "a-flow-rules.json", &[flow(1)]);
    write(&dir, "b-flow-rules.json", &[flow(2)]);
    source.load().unwrap();
    // Bad by itself, then bad beside the other file; neither replaces the last good text.
    write(&dir, "a-flow-rules.json", &[flow(-1)]);
    source.load().unwrap_err();
    write(&dir, "a-flow-rules.json", &[flow(2)]);
    source.load().unwrap_err();
    fs::remove_file(dir.path().join("a-flow-rules.json")).unwrap();
    assert_eq!(shape(&source.load().unwrap()), ["a [1] []", "b [2] []"]);
}

#[test]
fn an_id_that_moves_away_from_a_removed_file_is_refused_and_explained() {
    let dir = TempDir::new().unwrap();
    write(&dir, "a-flow-rules.json", &[flow(1)]);
    let source = FileSource::of_server(dir.path());
    source.load().unwrap();
    let to = dir.path().join("b-flow-rules.json");
    fs::rename(dir.path().join("a-flow-rules.json"), to).unwrap();
    let found = errors(&source, &dir);
    assert_eq!(
        found,
        [
            "a-flow-rules.json (removed):2: rule 0: clusterConfig.flowId = 1: already used at \
         b-flow-rules.json:2; ids are unique"
                .into(),
            format!("a-flow-rules.json: {GONE}"),
        ]
    );
    write(&dir, "a-flow-rules.json", &[]);
    assert_eq!(shape(&source.load().unwrap()), ["a [] []", "b [1] []"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_pipe_in_place_of_a_file_does_not_stop_the_load() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("shop-flow-rules.json");
    // A socket file: like a named pipe no regular file, and the standard library can make one.
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let found = errors(&FileSource::of_server(dir.path()), &dir);
    assert_eq!(found, ["shop-flow-rules.json: is a pipe or a device; must be a file"]);
}

#[test]
fn a_directory_says_kind_and_namespace_by_file_names_alone() {
    let dir = TempDir::new().unwrap();
    write(&dir, "shop-flow-rules.json", &[flow(1)]);
    let loaded = FileSource::of_server(dir.path()).load().unwrap();
    let text = fs::read_to_string(dir.path().join("shop-flow-rules.json")).unwrap();
    let parsed = limiter::rule::parse(&text, "any", "shop", Contents::Flow, true).unwrap();
    assert_eq!(loaded.rules, [parsed.rules]);
}
