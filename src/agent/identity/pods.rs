//! Pods of Kubernetes: their names by their UIDs, from the names of their log folders and from what the kubelet lists.

use super::cgroup::{CgroupPlace, is_pod_uid};
use super::engine::ContainerNames;
use super::host_files::HostFiles;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io;
use std::path::Path;

/// Folder in which the kubelet has one of each pod, `NAMESPACE_POD_UID`.
pub(crate) const LOG_FOLDER: &str = "/var/log/pods";

/// Most pods that are kept. The kubelet's own limit is 110 by default.
const MOST_PODS: usize = 10_000;

/// Most bytes of the kubelet's list.
pub(crate) const MOST_LIST_BYTES: usize = 64 << 20;

/// Asks the kubelet of this node for its pods.
pub(crate) trait KubeletPods {
    /// The body of `https://NODE:10250/pods`: at most [`MOST_LIST_BYTES`].
    ///
    /// # Errors
    ///
    /// When the kubelet cannot be reached, refuses, or sends more.
    fn pods(&mut self) -> io::Result<Vec<u8>>;
}

/// Pods of this node, by their UIDs, and their containers, by their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodBook {
    by_uid: HashMap<String, PodNames>,
    /// Name and UID of the pod.
    containers: HashMap<String, (String, String)>,
    /// Pods left out, of which there were too many.
    left_out: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PodNames {
    name: String,
    namespace: String,
}

impl PodBook {
    /// Number of pods.
    pub(crate) fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// Pods left out, because there were more than are kept.
    #[cfg(test)]
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Adds the pods that have log folders. Those already here stay as they are.
    ///
    /// # Errors
    ///
    /// When the folder cannot be listed.
    pub(crate) fn add_log_folders(&mut self, files: &dyn HostFiles) -> io::Result<()> {
        for name in files.list(Path::new(LOG_FOLDER), MOST_PODS)? {
            if let Some((uid, names)) = log_folder(&name) {
                self.add(uid, names);
            }
        }
        Ok(())
    }

    /// Adds the pods of the kubelet's list.
    ///
    /// # Errors
    ///
    /// When this is no such list.
    pub(crate) fn add_kubelet_list(&mut self, json: &[u8]) -> io::Result<()> {
        if json.len() > MOST_LIST_BYTES {
            let why = format!("the list of pods has more than {MOST_LIST_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let list: PodList = serde_json::from_slice(json)?;
        for pod in list.items.unwrap_or_default() {
            let PodMetadata { name, namespace, uid, annotations } = pod.metadata;
            let names = PodNames { name, namespace };
            // The cgroup of a static pod has the hash of its file in place of the UID that the server of the API gave it.
            if let Some(hash) = annotations.unwrap_or_default().remove("kubernetes.io/config.hash") {
                self.add(hash, names.clone());
            }
            if !self.add(uid.clone(), names) {
                continue;
            }
            let status = pod.status.unwrap_or_default();
            let lists = [status.containers, status.init_containers, status.ephemeral_containers];
            for container in lists.into_iter().flatten().flatten() {
                // `containerd://ID`; empty until it runs.
                let id = container.id.unwrap_or_default();
                let id = id.split_once("://").map_or(id.as_str(), |(_, id)| id);
                if !id.is_empty() && self.containers.len() < 8 * MOST_PODS {
                    self.containers.insert(id.to_owned(), (container.name, uid.clone()));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, uid: String, names: PodNames) -> bool {
        if !is_pod_uid(&uid) || names.name.is_empty() {
            return false;
        }
        if self.by_uid.len() >= MOST_PODS && !self.by_uid.contains_key(&uid) {
            self.left_out += 1;
            return false;
        }
        self.by_uid.entry(uid).or_insert(names);
        true
    }

    /// What is known of a container by its id and the UID of its pod.
    pub(crate) fn names_of(&self, place: &CgroupPlace) -> ContainerNames {
        let container = place.container_id.as_ref().and_then(|id| self.containers.get(id));
        let uid = place.pod_uid.as_ref().or(container.map(|(_, uid)| uid));
        let pod = uid.and_then(|uid| self.by_uid.get(uid));
        ContainerNames {
            container: container.map(|(name, _)| name.clone()),
            service: None,
            pod: pod.map(|pod| pod.name.clone()),
            namespace: pod.map(|pod| pod.namespace.clone()),
        }
    }
}

/// A log folder: `NAMESPACE_POD_UID`. No name of Kubernetes has an underscore in it.
fn log_folder(name: &OsStr) -> Option<(String, PodNames)> {
    let (namespace, rest) = name.to_str()?.split_once('_')?;
    let (pod, uid) = rest.split_once('_')?;
    let is_name = |text: &str| {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        !text.is_empty() && text.bytes().all(is_plain)
    };
    let is_one = is_name(namespace) && is_name(pod) && is_pod_uid(uid);
    is_one.then(|| (uid.to_owned(), PodNames { name: pod.to_owned(), namespace: namespace.to_owned() }))
}

#[derive(Deserialize)]
struct PodList {
    items: Option<Vec<ListedPod>>,
}

#[derive(Deserialize)]
struct ListedPod {
    metadata: PodMetadata,
    #[serde(default)]
    status: Option<PodStatus>,
}

#[derive(Deserialize)]
struct PodMetadata {
    name: String,
    #[serde(default)]
    namespace: String,
    uid: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, Default)]
struct PodStatus {
    #[serde(rename = "containerStatuses", default)]
    containers: Option<Vec<ListedContainer>>,
    #[serde(rename = "initContainerStatuses", default)]
    init_containers: Option<Vec<ListedContainer>>,
    #[serde(rename = "ephemeralContainerStatuses", default)]
    ephemeral_containers: Option<Vec<ListedContainer>>,
}

#[derive(Deserialize)]
struct ListedContainer {
    name: String,
    #[serde(rename = "containerID", default)]
    id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::super::host_files::RootedFiles;
    use super::*;
    use proptest::prelude::*;

    const UID: &str = "2c48913c-b29f-11e7-9350-020968147796";
    const STATIC: &str = "d1b5c9a8d1b5c9a8d1b5c9a8d1b5c9a8";
    const ID: &str = "34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376";

    fn place(container_id: Option<&str>, pod_uid: Option<&str>) -> CgroupPlace {
        CgroupPlace {
            container_id: container_id.map(str::to_owned),
            pod_uid: pod_uid.map(str::to_owned),
            ..CgroupPlace::default()
        }
    }

    fn text(names: &ContainerNames) -> String {
        let parts = [&names.namespace, &names.pod, &names.container];
        parts.map(|part| part.as_deref().unwrap_or("-")).join("/")
    }

    #[test]
    fn log_folders_name_pods() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("var/log/pods");
        for name in [
            format!("prod_shop-7f8b_{UID}"),
            format!("kube-system_etcd-node.1_{STATIC}"),
            format!("prod__{UID}"),
            format!("Prod_shop_{UID}"),
            "prod_shop_1".to_owned(),
            "x".to_owned(),
        ] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        let mut book = PodBook::default();
        book.add_log_folders(&RootedFiles::open(root.path()).unwrap()).unwrap();
        assert_eq!(book.len(), 2);
        assert_eq!(text(&book.names_of(&place(Some(ID), Some(UID)))), "prod/shop-7f8b/-");
        assert_eq!(text(&book.names_of(&place(None, Some(STATIC)))), "kube-system/etcd-node.1/-");
        assert_eq!(text(&book.names_of(&place(None, None))), "-/-/-");
    }

    #[test]
    fn the_kubelet_names_containers_too() {
        let json = format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[
            {{"metadata":{{"name":"shop-7f8b","namespace":"prod","uid":"{UID}","annotations":{{"a":"b"}}}},"spec":{{}},
              "status":{{"containerStatuses":[{{"name":"web","containerID":"containerd://{ID}"}},{{"name":"new","containerID":""}}],
              "initContainerStatuses":null}}}},
            {{"metadata":{{"name":"etcd","namespace":"kube-system","uid":"99999999-b29f-11e7-9350-020968147796",
              "annotations":{{"kubernetes.io/config.hash":"{STATIC}"}}}}}},
            {{"metadata":{{"name":"odd","namespace":"n","uid":"../x"}}}}]}}"#
        );
        let mut book = PodBook::default();
        book.add_kubelet_list(json.as_bytes()).unwrap();
        assert_eq!(text(&book.names_of(&place(Some(ID), Some(UID)))), "prod/shop-7f8b/web");
        // In a cgroup namespace of its own there is only the id.
        assert_eq!(text(&book.names_of(&place(Some(ID), None))), "prod/shop-7f8b/web");
        assert_eq!(text(&book.names_of(&place(None, Some(STATIC)))), "kube-system/etcd/-");
        assert_eq!(book.len(), 3);
        for wrong in ["", "[]", "{\"items\":7}", "{\"items\":[{}]}", "Unauthorized"] {
            assert!(PodBook::default().add_kubelet_list(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(PodBook::default().add_kubelet_list(b"{\"items\":null}").is_ok());
    }

    #[test]
    fn countless_pods_are_left_out_and_counted() {
        let pods: Vec<String> = (0..MOST_PODS + 5)
            .map(|n| format!(r#"{{"metadata":{{"name":"p","namespace":"n","uid":"{n:032x}"}}}}"#))
            .collect();
        let mut book = PodBook::default();
        book.add_kubelet_list(format!("{{\"items\":[{}]}}", pods.join(",")).as_bytes()).unwrap();
        assert_eq!((book.len(), book.left_out()), (MOST_PODS, 5));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200), name in "\\PC{0,60}") {
            prop_assert!(PodBook::default().add_kubelet_list(&bytes).is_err());
            prop_assert!(log_folder(OsStr::new(&name)).is_none_or(|(uid, _)| is_pod_uid(&uid)));
        }
    }
}
