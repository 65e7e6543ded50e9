//! What is known of each cgroup, so that a process costs a look at a map and not at files of container engines.

use super::cgroup::CgroupPlace;
use super::engine::ContainerNames;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most cgroups that are kept.
const MOST_PLACES: usize = 4096;

/// First wait before names that were not found are looked for again: engines write them a moment after the container starts.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// Longest wait before names that were not found are looked for again.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// A cgroup, and what the container in it is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamedPlace {
    /// What its path says.
    pub(crate) place: CgroupPlace,
    /// What engines and Kubernetes call it.
    pub(crate) names: ContainerNames,
}

impl NamedPlace {
    /// Whether there is nothing more to look for.
    fn is_complete(&self) -> bool {
        let has_container = self.place.container_id.is_none() || self.names.container.is_some();
        let has_pod = self.place.pod_uid.is_none() || self.names.pod.is_some();
        has_container && has_pod
    }
}

#[derive(Debug)]
struct CachedPlace {
    named: Arc<NamedPlace>,
    /// When names are looked for again; `None` if all are known.
    again: Option<(Instant, Duration)>,
    used: Instant,
}

/// Cgroups by their paths.
#[derive(Debug, Default)]
pub(crate) struct PlaceCache {
    places: HashMap<String, CachedPlace>,
}

impl PlaceCache {
    /// Number of cgroups that are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// What is known of a cgroup by its path. `look` looks for names, now or again if some are missing.
    pub(crate) fn get(
        &mut self,
        path: &str,
        now: Instant,
        look: impl FnOnce(&CgroupPlace) -> ContainerNames,
    ) -> Arc<NamedPlace> {
        let wait = match self.places.get_mut(path) {
            Some(cached) => {
                cached.used = now;
                match cached.again {
                    Some((at, wait)) if at <= now => (2 * wait).min(LONGEST_WAIT),
                    _ => return Arc::clone(&cached.named),
                }
            }
            None => FIRST_WAIT,
        };
        let place = CgroupPlace::of(path);
        let names = look(&place);
        let named = Arc::new(NamedPlace { place, names });
        let again = (!named.is_complete()).then_some((now + wait, wait));
        self.make_room(path);
        let cached = CachedPlace { named: Arc::clone(&named), again, used: now };
        self.places.insert(path.to_owned(), cached);
        named
    }

    /// Drops the half that was used longest ago once the map is full: cgroups of containers that are gone.
    fn make_room(&mut self, path: &str) {
        if self.places.len() < MOST_PLACES || self.places.contains_key(path) {
            return;
        }
        let mut used: Vec<Instant> = self.places.values().map(|cached| cached.used).collect();
        used.sort_unstable();
        let middle = used[used.len() / 2];
        self.places.retain(|_, cached| cached.used > middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const ID: &str = "34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376";

    fn named(name: &str) -> ContainerNames {
        ContainerNames { container: Some(name.to_owned()), ..ContainerNames::default() }
    }

    #[test]
    fn a_cgroup_is_looked_up_once() {
        let (mut cache, now, looks) = (PlaceCache::default(), Instant::now(), Cell::new(0));
        let path = format!("/docker/{ID}");
        for _ in 0..3 {
            let place = cache.get(&path, now, |_| {
                looks.set(looks.get() + 1);
                named("db")
            });
            assert_eq!(place.names, named("db"));
        }
        assert_eq!((looks.get(), cache.len()), (1, 1));
    }

    #[test]
    fn names_that_are_missing_are_looked_for_less_and_less() {
        let (mut cache, start, looks) = (PlaceCache::default(), Instant::now(), Cell::new(0));
        let path = format!("/docker/{ID}");
        for second in 0..3600 {
            cache.get(&path, start + Duration::from_secs(second), |_| {
                looks.set(looks.get() + 1);
                ContainerNames::default()
            });
        }
        // After 0, 2, 6, 14, 30, 62, 126, 254, 510 seconds, then each 300.
        assert_eq!(looks.get(), 19);
        let late = cache.get(&path, start + Duration::from_secs(9000), |_| named("db"));
        assert_eq!(late.names, named("db"));
    }

    #[test]
    fn countless_cgroups_take_bounded_room() {
        let (mut cache, start) = (PlaceCache::default(), Instant::now());
        for n in 0..3 * MOST_PLACES as u64 {
            let now = start + Duration::from_millis(n);
            cache.get("/init.scope", now, |_| ContainerNames::default());
            cache.get(&format!("/{n}"), now, |_| ContainerNames::default());
            assert!(cache.len() <= MOST_PLACES);
        }
        cache.get("/init.scope", start, |_| panic!("what is in use stays"));
        // All of one moment: room is made all the same.
        let mut cache = PlaceCache::default();
        for n in 0..MOST_PLACES + 10 {
            cache.get(&format!("/{n}"), start, |_| ContainerNames::default());
        }
        assert!(cache.len() <= MOST_PLACES);
    }
}
