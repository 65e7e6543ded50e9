//! Tests of [`super`].

use super::*;
use crate::agent::rules::{RelabelAction, RelabelRule, RuleText};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const ID: &str = "34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376";
const UID: &str = "2c48913c-b29f-11e7-9350-020968147796";

/// A host without container engines, with the log folder of one pod.
struct OnePod;

impl HostFiles for OnePod {
    fn read(&self, _: &Path, _: u64) -> io::Result<Vec<u8>> {
        Err(io::Error::from(io::ErrorKind::NotFound))
    }

    fn list(&self, _: &Path, _: usize) -> io::Result<Vec<OsString>> {
        Ok(vec![OsString::from(format!("prod_shop-7f8b_{UID}"))])
    }
}

/// A kubelet that has the container, and counts how often it is asked.
struct CountedKubelet(Arc<AtomicU32>);

impl KubeletPods for CountedKubelet {
    fn pods(&mut self) -> io::Result<Vec<u8>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let pod = format!(
            r#"{{"items":[{{"metadata":{{"name":"shop-7f8b","namespace":"prod","uid":"{UID}"}},
            "status":{{"containerStatuses":[{{"name":"web","containerID":"cri-o://{ID}"}}]}}}}]}}"#
        );
        Ok(pod.into_bytes())
    }
}

fn settings(rules: Vec<RuleText>) -> LabelSettings {
    let rules = rules.into_iter().map(|rule| RelabelRule::compile(rule).unwrap()).collect();
    LabelSettings {
        host: "node1".to_owned(),
        fixed: LabelMap::from([("region".to_owned(), "eu".to_owned())]),
        series: vec![SeriesLabel::Host, SeriesLabel::Container, SeriesLabel::Pod, SeriesLabel::Namespace],
        rules: RelabelRules::new(rules),
        most_series: 100,
    }
}

fn facts(environment: &str, cgroup: &str, exe: &str) -> ProcessFacts {
    ProcessFacts {
        environment: environment.replace(' ', "\0").into_bytes(),
        cgroup: format!("0::{cgroup}\n").into_bytes(),
        exe: exe.as_bytes().to_vec(),
        comm: b"worker".to_vec(),
        ..ProcessFacts::default()
    }
}

fn identified(identifier: &mut Identifier, facts: &ProcessFacts) -> String {
    match identifier.identify(facts, Instant::now(), true) {
        Identity::LeftOut => "left out".to_owned(),
        Identity::Series(labels) => {
            labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
        }
    }
}

fn service(rules: Vec<RuleText>, facts: &ProcessFacts) -> String {
    let mut identifier = Identifier::new(settings(rules), Box::new(OnePod), None);
    match identifier.identify(facts, Instant::now(), true) {
        Identity::LeftOut => "left out".to_owned(),
        Identity::Series(labels) => labels.service().to_owned(),
    }
}

fn rule(source: &str, regex: &str, replacement: &str) -> RuleText {
    RuleText {
        source_labels: vec![source.to_owned()],
        regex: Some(regex.to_owned()),
        replacement: Some(replacement.to_owned()),
        ..RuleText::default()
    }
}

#[test]
fn the_first_name_that_there_is_counts() {
    let unit = "/system.slice/nginx.service";
    let named = || vec![rule("__exe", "/opt/([^/]+)/.*", "$1")];
    let all = facts("OTEL_SERVICE_NAME=a OTEL_RESOURCE_ATTRIBUTES=service.name=b", unit, "/opt/c/bin/d");
    assert_eq!(service(named(), &all), "a");
    assert_eq!(
        service(named(), &facts("OTEL_RESOURCE_ATTRIBUTES=x=1,service.name=b%21", unit, "/opt/c/d")),
        "b!"
    );
    // Nothing of malformed attributes is believed; an empty name is none.
    assert_eq!(service(named(), &facts("OTEL_RESOURCE_ATTRIBUTES=service.name=b,x", unit, "/opt/c/d")), "c");
    assert_eq!(service(named(), &facts("OTEL_SERVICE_NAME=", unit, "/opt/c/d")), "c");
    assert_eq!(service(named(), &facts("", unit, "/usr/d")), "nginx");
    assert_eq!(service(named(), &facts("", "/lxc.payload.web/init.scope", "/usr/d")), "web");
    assert_eq!(service(named(), &facts("", "/", "/usr/bin/d")), "d");
    assert_eq!(service(named(), &facts("", "/", "")), "worker");
    let nameless = ProcessFacts { comm: Vec::new(), ..facts("", "/", "") };
    assert_eq!(service(named(), &nameless), "unknown_service");
    let kernel = ProcessFacts { is_kernel: true, ..facts("", "/", "") };
    assert_eq!(service(named(), &kernel), "kernel");
    assert_eq!(service(named(), &facts("", "/system.slice/sshd@3-1-1000.service", "/usr/sbin/sshd")), "sshd");
}

#[test]
fn rules_see_facts_and_decide_on_processes() {
    let drop = RuleText { action: RelabelAction::Drop, replacement: None, ..rule("__service", "nginx", "") };
    assert_eq!(service(vec![drop.clone()], &facts("", "/system.slice/nginx.service", "/x")), "left out");
    assert_eq!(service(vec![drop], &facts("", "/system.slice/redis.service", "/x")), "redis");
    let by_variable = rule("__env_TIER", "(.+)", "tier-$1");
    assert_eq!(service(vec![by_variable], &facts("TIER=web SECRET=x", "/", "/x")), "tier-web");
    // A service without a name is one of its default name.
    let emptied = rule("__exe", ".*", "");
    assert_eq!(service(vec![emptied], &facts("", "/", "/usr/bin/d")), "d");
}

#[test]
fn labels_are_few_and_without_facts() {
    let mut identifier = Identifier::new(settings(Vec::new()), Box::new(OnePod), None);
    let path = format!("/kubepods.slice/kubepods-pod{UID}.slice/cri-containerd-{ID}.scope");
    let pod = facts("", &path, "/app/server");
    let expected = "host=node1 namespace=prod pod=shop-7f8b region=eu service_name=server";
    assert_eq!(identified(&mut identifier, &pod), expected);
    let words = "OTEL_RESOURCE_ATTRIBUTES=k8s.container.name=api,k8s.pod.name=liar";
    let expected = "container=api host=node1 namespace=prod pod=shop-7f8b region=eu service_name=api";
    assert_eq!(identified(&mut identifier, &facts(words, &path, "/app/server")), expected);
}

#[test]
fn the_kubelet_is_asked_once_for_many_processes_and_rarely_for_what_it_does_not_know() {
    let asked = Arc::new(AtomicU32::new(0));
    let kubelet = Box::new(CountedKubelet(Arc::clone(&asked)));
    let mut identifier = Identifier::new(settings(Vec::new()), Box::new(OnePod), Some(kubelet));
    let path = format!("/../cri-containerd-{ID}.scope");
    for _ in 0..50 {
        let expected = "container=web host=node1 namespace=prod pod=shop-7f8b region=eu service_name=web";
        assert_eq!(identified(&mut identifier, &facts("", &path, "/x")), expected);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let start = Instant::now();
    for second in 0..300 {
        let unknown = facts("", &format!("/docker/{}", ID.replace('3', "4")), "/x");
        identifier.identify(&unknown, start + Duration::from_secs(second), true);
    }
    assert!(
        asked.load(Ordering::Relaxed) < 12,
        "asked {} times in five minutes",
        asked.load(Ordering::Relaxed)
    );
}

#[test]
fn a_process_that_has_ended_has_the_name_of_its_program_and_is_counted_once() {
    let mut identifier = Identifier::new(settings(Vec::new()), Box::new(OnePod), None);
    let mut gone = ProcessFacts::default();
    assert_eq!(identified(&mut identifier, &gone), "host=node1 region=eu service_name=unknown_service");
    gone.add_program("cc1", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1");
    let series = "host=node1 region=eu service_name=cc1";
    assert_eq!(identified(&mut identifier, &gone), series);
    assert!(identifier.identify(&gone, Instant::now(), false) != Identity::LeftOut);
    let counts = identifier.counts();
    assert_eq!((counts.processes, counts.ended), (2, 2), "what is asked for again was counted before");
    let keep = RuleText { action: RelabelAction::Keep, replacement: None, ..rule("__exe", "/.*", "") };
    assert_eq!(service(vec![keep], &gone), "cc1");
    let mut there = facts("", "/system.slice/shop.service", "/opt/shop");
    there.add_program("other", "/usr/bin/other");
    assert_eq!(there, facts("", "/system.slice/shop.service", "/opt/shop"), "what was read stays");
}

#[test]
fn series_have_a_limit() {
    let mut identifier =
        Identifier::new(LabelSettings { most_series: 2, ..settings(Vec::new()) }, Box::new(OnePod), None);
    for n in 0..5 {
        let labels = identified(&mut identifier, &facts(&format!("OTEL_SERVICE_NAME=s{n}"), "/", "/x"));
        let name = if n < 2 { format!("s{n}") } else { "other".to_owned() };
        assert_eq!(labels, format!("host=node1 region=eu service_name={name}"));
    }
    assert_eq!((identifier.counts().merged, identifier.series()), (3, 2));
}

proptest::proptest! {
    #[test]
    fn any_facts_have_a_service(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let facts = ProcessFacts {
            environment: [b"OTEL_SERVICE_NAME=".as_slice(), &bytes].concat(),
            cgroup: bytes.clone(),
            command_line: bytes.clone(),
            exe: bytes.clone(),
            comm: bytes,
            is_kernel: false,
        };
        proptest::prop_assert!(!service(Vec::new(), &facts).is_empty());
    }
}
