//! Names of containers, as container engines keep them in files of the host: Docker, containerd, CRI-O and Podman.

use super::host_files::HostFiles;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Most bytes of the file of one container. Those with hundreds of mounts have tens of thousands.
const MOST_FILE_BYTES: u64 = 1 << 20;

/// Most bytes of the file in which Podman and CRI-O have all containers.
const MOST_LIST_BYTES: u64 = 8 << 20;

/// Namespaces of containerd: of Kubernetes, of Docker, of nerdctl.
const CONTAINERD_NAMESPACES: [&str; 3] = ["k8s.io", "moby", "default"];

/// What a container is called. What is not known is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContainerNames {
    /// Name of the container.
    pub(crate) container: Option<String>,
    /// Name of the service that it is one of, of Compose and Swarm.
    pub(crate) service: Option<String>,
    /// Name of its pod.
    pub(crate) pod: Option<String>,
    /// Namespace of its pod.
    pub(crate) namespace: Option<String>,
}

impl ContainerNames {
    /// These names, and where there is none, those of `other`.
    #[must_use]
    pub(crate) fn or(self, other: ContainerNames) -> Self {
        ContainerNames {
            container: self.container.or(other.container),
            service: self.service.or(other.service),
            pod: self.pod.or(other.pod),
            namespace: self.namespace.or(other.namespace),
        }
    }

    /// The names among labels or annotations, under the keys of all engines.
    fn of(labels: &BTreeMap<String, String>) -> Self {
        let first = |keys: &[&str]| {
            let mut values = keys.iter().filter_map(|key| labels.get(*key));
            values.find(|value| !value.is_empty()).cloned()
        };
        ContainerNames {
            container: first(&[
                "io.kubernetes.container.name",
                "io.kubernetes.cri.container-name",
                "nerdctl/name",
            ]),
            service: first(&["com.docker.swarm.service.name", "com.docker.compose.service"]),
            pod: first(&["io.kubernetes.pod.name", "io.kubernetes.cri.sandbox-name"]),
            namespace: first(&["io.kubernetes.pod.namespace", "io.kubernetes.cri.sandbox-namespace"]),
        }
    }
}

/// The names of a container by its id, from the first engine that has it. The id must be one of a cgroup: digits and dashes.
pub(crate) fn names_of(id: &str, files: &dyn HostFiles) -> Option<ContainerNames> {
    let is_plain = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    if id.is_empty() || !id.bytes().all(is_plain) {
        return None;
    }
    let read = |path: &str, most| files.read(Path::new(path), most).ok();
    let docker =
        || docker_config(&read(&format!("/var/lib/docker/containers/{id}/config.v2.json"), MOST_FILE_BYTES)?);
    let containerd = || {
        CONTAINERD_NAMESPACES.iter().find_map(|namespace| {
            let folder = "/run/containerd/io.containerd.runtime.v2.task";
            oci_config(&read(&format!("{folder}/{namespace}/{id}/config.json"), MOST_FILE_BYTES)?)
        })
    };
    // CRI-O has the names in annotations, Podman only in the list.
    let storage = || {
        let folder = "/var/lib/containers/storage/overlay-containers";
        let own = read(&format!("{folder}/{id}/userdata/config.json"), MOST_FILE_BYTES)?;
        oci_config(&own)
            .or_else(|| listed_name(&read(&format!("{folder}/containers.json"), MOST_LIST_BYTES)?, id))
    };
    docker().or_else(containerd).or_else(storage)
}

/// The names in Docker's `config.v2.json`.
pub(crate) fn docker_config(json: &[u8]) -> Option<ContainerNames> {
    #[derive(Deserialize)]
    struct DockerFile {
        #[serde(rename = "Name", default)]
        name: String,
        #[serde(rename = "Config", default)]
        config: Option<DockerConfig>,
    }
    #[derive(Deserialize)]
    struct DockerConfig {
        #[serde(rename = "Labels", default)]
        labels: Option<BTreeMap<String, String>>,
    }
    let file: DockerFile = serde_json::from_slice(json).ok()?;
    let labels = file.config.and_then(|config| config.labels).unwrap_or_default();
    let own = Some(file.name.trim_start_matches('/').to_owned()).filter(|name| !name.is_empty());
    let names =
        ContainerNames::of(&labels).or(ContainerNames { container: own, ..ContainerNames::default() });
    (names != ContainerNames::default()).then_some(names)
}

/// The names in the annotations of an OCI runtime's `config.json`.
pub(crate) fn oci_config(json: &[u8]) -> Option<ContainerNames> {
    #[derive(Deserialize)]
    struct OciFile {
        #[serde(default)]
        annotations: Option<BTreeMap<String, String>>,
    }
    let file: OciFile = serde_json::from_slice(json).ok()?;
    let names = ContainerNames::of(&file.annotations?);
    (names != ContainerNames::default()).then_some(names)
}

/// The name of a container in `containers.json` of containers/storage.
pub(crate) fn listed_name(json: &[u8], id: &str) -> Option<ContainerNames> {
    #[derive(Deserialize)]
    struct StorageEntry {
        id: String,
        #[serde(default)]
        names: Option<Vec<String>>,
    }
    let entries: Vec<StorageEntry> = serde_json::from_slice(json).ok()?;
    let entry = entries.into_iter().find(|entry| entry.id == id)?;
    let name = entry.names?.into_iter().find(|name| !name.is_empty())?;
    Some(ContainerNames { container: Some(name), ..ContainerNames::default() })
}

#[cfg(test)]
mod tests {
    use super::super::host_files::RootedFiles;
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    const ID: &str = "34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376";

    fn text(names: Option<ContainerNames>) -> String {
        let Some(names) = names else { return "none".to_owned() };
        let parts = [names.container, names.service, names.pod, names.namespace];
        parts.map(|part| part.unwrap_or_else(|| "-".to_owned())).join(" ")
    }

    #[test]
    fn docker_has_a_name_and_labels() {
        let plain = br#"{"StreamConfig":{},"ID":"x","Name":"/shop-web-1","Config":{"Labels":{"com.docker.compose.service":"web"}}}"#;
        assert_eq!(text(docker_config(plain)), "shop-web-1 web - -");
        assert_eq!(text(docker_config(br#"{"Name":"/db","Config":{"Labels":null}}"#)), "db - - -");
        let pod =
            br#"{"Name":"/k8s_web_shop-7f_prod_1_0","Config":{"Labels":{"io.kubernetes.container.name":"web",
            "io.kubernetes.pod.name":"shop-7f","io.kubernetes.pod.namespace":"prod"}}}"#;
        assert_eq!(text(docker_config(pod)), "web - shop-7f prod");
        for wrong in ["", "{}", "[]", "{\"Name\":7}", "{\"Name\":\"/\"}"] {
            assert_eq!(text(docker_config(wrong.as_bytes())), "none", "{wrong}");
        }
    }

    #[test]
    fn each_engine_has_its_own_place() {
        let cases = [
            (format!("var/lib/docker/containers/{ID}/config.v2.json"), r#"{"Name":"/db"}"#, "db - - -"),
            (
                format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/config.json"),
                r#"{"ociVersion":"1.1.0","annotations":{"io.kubernetes.cri.container-name":"web",
                "io.kubernetes.cri.sandbox-name":"shop-7f","io.kubernetes.cri.sandbox-namespace":"prod"}}"#,
                "web - shop-7f prod",
            ),
            (
                format!("run/containerd/io.containerd.runtime.v2.task/default/{ID}/config.json"),
                r#"{"annotations":{"nerdctl/name":"cache"}}"#,
                "cache - - -",
            ),
            (
                format!("var/lib/containers/storage/overlay-containers/{ID}/userdata/config.json"),
                r#"{"annotations":{"io.kubernetes.container.name":"web","io.kubernetes.pod.name":"p","io.kubernetes.pod.namespace":"n"}}"#,
                "web - p n",
            ),
        ];
        for (path, json, expected) in cases {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, json).unwrap();
            let files = RootedFiles::open(root.path()).unwrap();
            assert_eq!(text(names_of(ID, &files)), expected);
            assert_eq!(text(names_of("../../etc", &files)), "none");
        }
    }

    #[test]
    fn podman_has_names_in_one_list() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("var/lib/containers/storage/overlay-containers");
        fs::create_dir_all(folder.join(ID).join("userdata")).unwrap();
        fs::write(
            folder.join(ID).join("userdata/config.json"),
            r#"{"annotations":{"org.systemd.property.x":"1"}}"#,
        )
        .unwrap();
        let list = format!(r#"[{{"id":"0"}},{{"id":"{ID}","names":["jolly_torvalds"],"image":"i"}}]"#);
        fs::write(folder.join("containers.json"), list).unwrap();
        let files = RootedFiles::open(root.path()).unwrap();
        assert_eq!(text(names_of(ID, &files)), "jolly_torvalds - - -");
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200), depth in 0usize..100_000) {
            let nested = "[".repeat(depth);
            for json in [bytes.as_slice(), nested.as_bytes()] {
                prop_assert_eq!(docker_config(json), None);
                prop_assert_eq!(oci_config(json), None);
                prop_assert_eq!(listed_name(json, ID), None);
            }
        }
    }
}
