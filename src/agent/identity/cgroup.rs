//! What the path of a process's cgroup says: the container, the pod of Kubernetes, the unit of systemd.
//!
//! The paths are made by container engines and systemd, but also by any user who owns a part of the tree: a path is text that
//! is looked at segment by segment, within limits.

/// Most bytes of `/proc/PID/cgroup` that are looked at. A path has 4,096 at most, and cgroup v1 has a dozen lines.
pub(crate) const MOST_BYTES: usize = 64 << 10;

/// Most segments of one path that are looked at.
const MOST_SEGMENTS: usize = 128;

/// Most bytes of the name of a unit: systemd's own limit.
const MOST_UNIT_BYTES: usize = 255;

/// What is known of a process by the path of its cgroup alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CgroupPlace {
    /// Path of the cgroup, from the root of the cgroup namespace of the reader.
    pub(crate) path: String,
    /// Id of the innermost container: 64 hexadecimal digits, or on Fargate 32, a dash and 10 digits.
    pub(crate) container_id: Option<String>,
    /// UID of the pod, with dashes; that of a static pod has 32 hexadecimal digits and no dash.
    pub(crate) pod_uid: Option<String>,
    /// Name of the container where the path has no id but a name: LXC.
    pub(crate) container: Option<String>,
    /// Unit of systemd, such as `nginx.service`; inside of a container that of its own systemd.
    pub(crate) unit: Option<String>,
}

/// The path that says most in the text of `/proc/PID/cgroup`: one with the id of a container, else that of cgroup v2 or of
/// systemd's own hierarchy, else the longest. Empty where there is none.
pub(crate) fn path_of(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(MOST_BYTES)]);
    let best = text.lines().filter_map(ranked).max_by_key(|(rank, path)| (*rank, path.len()));
    best.map(|(_, path)| path.to_owned()).unwrap_or_default()
}

/// A line as its path and how much that is expected to say.
fn ranked(line: &str) -> Option<((bool, bool), &str)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    // The kernel says so of one that was removed while it had processes.
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let has_units = controllers.is_empty() || controllers == "name=systemd";
    let has_container = path.split('/').take(MOST_SEGMENTS).any(|segment| container_id(segment).is_some());
    // On a host with both versions, that of version 2 is often the root alone.
    Some(((has_container, has_units && path != "/"), path))
}

impl CgroupPlace {
    /// What a path says.
    pub(crate) fn of(path: &str) -> Self {
        let segments: Vec<&str> = path.split('/').take(MOST_SEGMENTS).collect();
        let innermost = segments.iter().rposition(|segment| container_id(segment).is_some());
        let lxc = segments.iter().rposition(|segment| lxc_name(segment).is_some());
        // What is before a container is the engine's own place.
        let inside = innermost.max(lxc).map_or(0, |at| at + 1);
        let before = innermost.map_or(segments.len(), |at| at + 1);
        let unit = segments[inside..].iter().rev().find_map(|segment| unit_of(segment));
        CgroupPlace {
            path: path.to_owned(),
            container_id: innermost.and_then(|at| container_id(segments[at])).map(str::to_owned),
            pod_uid: segments[..before].iter().rev().find_map(|segment| pod_uid(segment)),
            container: lxc.filter(|_| innermost.is_none()).and_then(|at| lxc_name(segments[at])),
            unit,
        }
    }
}

/// The id of a container that a segment ends with: after its start, a dash or a colon, and before `.scope` or its end.
fn container_id(segment: &str) -> Option<&str> {
    let text = segment.strip_suffix(".scope").unwrap_or(segment);
    [64, 43].into_iter().find_map(|length| {
        let at = text.len().checked_sub(length)?;
        let id = text.get(at..)?;
        let is_whole = at == 0 || matches!(text.as_bytes()[at - 1], b'-' | b':');
        (is_whole && is_id(id)).then_some(id)
    })
}

/// Whether this is a container's id: 64 hexadecimal digits, or 32, a dash and 10 digits.
fn is_id(text: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    match text.split_once('-') {
        None => text.len() == 64 && is_hex(text),
        Some((task, number)) => {
            task.len() == 32
                && is_hex(task)
                && number.len() == 10
                && number.bytes().all(|byte| byte.is_ascii_digit())
        }
    }
}

/// The UID of a pod in a segment: `pod` and 36 characters with `-` or `_` in the places of a UUID, or 32 without.
fn pod_uid(segment: &str) -> Option<String> {
    segment.match_indices("pod").find_map(|(at, _)| {
        let is_start = at == 0 || segment.as_bytes()[at - 1] == b'-';
        let rest = segment.get(at + 3..)?;
        let uid = [36, 32].into_iter().find_map(|length| {
            let uid = rest.get(..length)?;
            let is_end = rest.as_bytes().get(length).is_none_or(|byte| matches!(byte, b'.' | b':'));
            (is_end && is_pod_uid(uid)).then_some(uid)
        })?;
        is_start.then(|| uid.replace('_', "-"))
    })
}

/// Whether this is the UID of a pod, in one of its forms.
pub(super) fn is_pod_uid(text: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match text.len() {
        32 => text.bytes().all(is_hex),
        36 => text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => matches!(byte, b'-' | b'_'),
            _ => is_hex(byte),
        }),
        _ => false,
    }
}

/// The name of a container of LXC or Incus.
fn lxc_name(segment: &str) -> Option<String> {
    let name = segment.strip_prefix("lxc.payload.")?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// The service that a segment is. Not one that is one of many of their kind: managers of users, transient units of `systemd-run`.
/// Of a service for each connection only the template is named.
fn unit_of(segment: &str) -> Option<String> {
    let name = segment.strip_suffix(".service").filter(|name| !name.is_empty())?;
    if segment.len() > MOST_UNIT_BYTES || name.starts_with("user@") || is_transient(name) {
        return None;
    }
    match name.split_once('@') {
        Some((template, instance)) if is_connection(instance) => Some(format!("{template}@.service")),
        _ => Some(segment.to_owned()),
    }
}

/// Whether systemd made up the name for a command: `run-u12`, `run-r7f3a…`, `run-p12-i34`, `run-4312`.
fn is_transient(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("run-") else { return false };
    let rest = rest.strip_prefix(['u', 'r', 'p']).unwrap_or(rest);
    !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'i'))
}

/// Whether an instance is that of one connection of a socket: `3-10.0.0.1:22-10.0.0.9:50312`, `3-812-1000`.
fn is_connection(instance: &str) -> bool {
    let parts: Vec<&str> = instance.splitn(3, '-').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match parts[..] {
        [number, from, to] => {
            is_number(number)
                && (is_number(from) || from.contains(':'))
                && (is_number(to) || to.contains(':'))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376";
    const UID: &str = "2c48913c-b29f-11e7-9350-020968147796";

    fn place(text: &str) -> CgroupPlace {
        CgroupPlace::of(&path_of(text.as_bytes()))
    }

    /// Texts of `/proc/PID/cgroup`, with `ID` for the container's, `UID` and `U_I_D` for the pod's.
    const FORMS: &[&str] = &[
        // Docker: cgroup v1 by cgroupfs, v2 by systemd.
        "12:pids:/docker/ID\n1:name=systemd:/docker/ID\n",
        "0::/system.slice/docker-ID.scope\n",
        // containerd: cgroupfs, systemd, and inside of its own unit.
        "0::/kubepods/burstable/podUID/ID\n",
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope\n",
        "1:name=systemd:/system.slice/containerd.service/kubepods-besteffort-podU_I_D.slice:cri-containerd:ID\n",
        // CRI-O.
        "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podU_I_D.slice/crio-ID.scope\n",
        // kind: a node in a container of Docker.
        "0::/docker/OUTER/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podU_I_D.slice/cri-containerd-ID.scope\n",
        // ECS on a machine.
        "9:memory:/ecs/55091c13-b8cf-4801-b527-f4601742204d/ID\n",
        // Podman, and conmon, which watches a container.
        "0::/machine.slice/libpod-ID.scope\n",
        "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope/container\n",
        "0::/machine.slice/libpod-conmon-ID.scope\n",
        // From another cgroup namespace.
        "0::/../cri-containerd-ID.scope\n",
        // A hybrid host, and a cgroup that is gone.
        "5:memory:/docker/ID\n0::/system.slice/containerd.service\n",
        "0::/system.slice/docker-ID.scope (deleted)\n",
    ];

    #[test]
    fn every_engine_has_its_own_form_of_the_same_id() {
        for form in FORMS {
            let has_pod = form.contains("podU");
            let text = form.replace("U_I_D", &UID.replace('-', "_")).replace("UID", UID);
            let text = text.replace("OUTER", &ID.replace('3', "4")).replace("ID", ID);
            let place = place(&text);
            assert_eq!(place.container_id.as_deref(), Some(ID), "{text}");
            assert_eq!(place.pod_uid.as_deref(), has_pod.then_some(UID), "{text}");
            assert_eq!(place.unit, None, "{text}");
        }
        let task = "2c48913cb29f11e79350020968147796";
        let fargate = place(&format!("9:memory:/ecs/{task}/{task}-3768921478\n"));
        assert_eq!(fargate.container_id, Some(format!("{task}-3768921478")));
        assert_eq!(place("0::/\n"), CgroupPlace { path: "/".to_owned(), ..CgroupPlace::default() });
    }

    #[test]
    fn static_pods_have_a_uid_without_dashes() {
        let uid = "d1b5c9a8d1b5c9a8d1b5c9a8d1b5c9a8";
        let path = format!("/kubepods.slice/kubepods-burstable-pod{uid}.slice/crio-{ID}.scope");
        assert_eq!(CgroupPlace::of(&path).pod_uid.as_deref(), Some(uid));
    }

    #[test]
    fn what_only_looks_like_an_id_is_none() {
        for path in [
            format!("/docker/{}", &ID[1..]),
            format!("/docker/{ID}0"),
            format!("/docker/{}", ID.to_uppercase()),
            format!("/x{ID}"),
            format!("/docker/{ID}.slice"),
            "/ecs/2c48913cb29f11e79350020968147796-376892147".to_owned(),
            format!("/podx{UID}/"),
            format!("/kubepods{UID}/"),
            format!("/é{}", &ID[2..]),
        ] {
            let place = CgroupPlace::of(&path);
            assert_eq!((place.container_id, place.pod_uid), (None, None), "{path}");
        }
    }

    #[test]
    fn units_are_services_that_have_a_name_of_their_own() {
        for (path, unit) in [
            ("/system.slice/nginx.service", Some("nginx.service")),
            (
                "/system.slice/system-postgresql.slice/postgresql@15-main.service",
                Some("postgresql@15-main.service"),
            ),
            (
                "/system.slice/system-sshd.slice/sshd@3-10.0.0.1:22-10.0.0.9:50312.service",
                Some("sshd@.service"),
            ),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/sync.service", Some("sync.service")),
            ("/user.slice/user-1000.slice/user@1000.service/init.scope", None),
            ("/user.slice/user-1000.slice/session-3.scope", None),
            ("/system.slice/run-u12.service", None),
            ("/system.slice/run-r7f3a0c.service", None),
            ("/system.slice/run-p41-i42.service", None),
            ("/system.slice/run-parts.service", Some("run-parts.service")),
            ("/system.slice/.service", None),
            ("/lxc.payload.web/system.slice/nginx.service", Some("nginx.service")),
            ("/", None),
        ] {
            assert_eq!(CgroupPlace::of(path).unit.as_deref(), unit, "{path}");
        }
        let inside = CgroupPlace::of(&format!("/docker/{ID}/system.slice/nginx.service"));
        assert_eq!(inside.unit.as_deref(), Some("nginx.service"));
        assert_eq!(CgroupPlace::of("/lxc.payload.web/init.scope").container.as_deref(), Some("web"));
    }

    #[test]
    fn endless_paths_cost_little() {
        let text = format!("0::{}", "/kubepods-podpodpod".repeat(1 << 20));
        assert_eq!(place(&text).container_id, None);
        assert_eq!(path_of(&vec![b'\n'; 1 << 20]), "");
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let place = CgroupPlace::of(&path_of(&bytes));
            prop_assert!(place.container_id.is_none_or(|id| is_id(&id)));
            prop_assert!(place.pod_uid.is_none_or(|uid| is_pod_uid(&uid)));
        }

        #[test]
        fn an_id_is_found_after_any_prefix(prefix in "[a-z-]{0,20}", scope in any::<bool>()) {
            let end = if scope { ".scope" } else { "" };
            let path = format!("/a/{prefix}-{ID}{end}/b");
            let found = CgroupPlace::of(&path).container_id;
            prop_assert_eq!(found.as_deref(), Some(ID));
        }
    }
}
