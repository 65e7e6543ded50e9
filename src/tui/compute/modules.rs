//! The modules of one recording in another: builds that are compared lie in different folders.
//!
//! Rows of a comparison are matched by the file name of their module, as `prof diff` does it. Filters, zooms and the function in
//! the middle are more exact: they name one module by its path. What one recording calls them is translated here for the
//! other.

use crate::profile::{Module, Profile};
use crate::report::{FilterOptions, LabelKey, StackFilter, module_file};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Modules that a recording does not have at the same path as another one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FollowedModules {
    /// Modules by their path in the other recording.
    here: FxHashMap<String, ModuleHere>,
}

/// A module of the other recording in this one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModuleHere {
    path: String,
    /// Whether the module is of the same build, in which code has the same addresses.
    is_same_build: bool,
}

impl FollowedModules {
    /// The modules of `there` in `here`. What has the same path in both is the same module. Of the others a module is the one of
    /// the same build, else the only one with the same file name.
    pub(crate) fn new(there: &Profile, here: &Profile) -> Self {
        FollowedModules::between(&builds(there), &builds(here))
    }

    fn between(there: &Builds<'_>, here: &Builds<'_>) -> Self {
        let [left_there, left_here] = [(there, here), (here, there)].map(only_in_first);
        let mut found = FxHashMap::default();
        for (file, paths) in left_there {
            let others = left_here.get(file).map_or(&[][..], Vec::as_slice);
            for &path in &paths {
                let is_same = |other: &&&str| !there[path].is_disjoint(&here[**other]);
                let same = others.iter().find(is_same);
                let only = others.first().filter(|_| paths.len() == 1 && others.len() == 1);
                if let Some(other) = same.or(only) {
                    let module = ModuleHere { path: (*other).to_owned(), is_same_build: same.is_some() };
                    found.insert(path.to_owned(), module);
                }
            }
        }
        FollowedModules { here: found }
    }

    /// Translates `key` to this recording; leaves it as it is where its module has the same path, or no counterpart.
    pub(crate) fn key<'k>(&self, key: &'k LabelKey) -> Cow<'k, LabelKey> {
        let followed = match key {
            LabelKey::Named { name, module, line } => self.here.get(module).map(|here| LabelKey::Named {
                name: name.clone(),
                module: here.path.clone(),
                line: line.clone(),
            }),
            // In another build something else is there.
            LabelKey::Address { module, address } => {
                let here = self.here.get(module).filter(|here| here.is_same_build);
                here.map(|here| LabelKey::Address { module: here.path.clone(), address: *address })
            }
        };
        followed.map_or(Cow::Borrowed(key), Cow::Owned)
    }

    /// Whether all modules have the same paths here, or no counterpart.
    pub(crate) fn is_empty(&self) -> bool {
        self.here.is_empty()
    }

    /// Has `key` mean the module that is here.
    pub(crate) fn follow(&self, key: &mut LabelKey) {
        if let Cow::Owned(followed) = self.key(key) {
            *key = followed;
        }
    }

    /// Has the filters mean the modules that are here.
    pub(crate) fn follow_in(&self, filter: &mut FilterOptions) {
        for filter in &mut filter.stacks {
            match filter {
                StackFilter::Focus(key)
                | StackFilter::Drop(key)
                | StackFilter::CollapseFunction(key)
                | StackFilter::CollapseRecursion(key) => self.follow(key),
                StackFilter::CollapseModule(module) => {
                    if let Some(here) = self.here.get(module) {
                        module.clone_from(&here.path);
                    }
                }
                StackFilter::Under(paths) | StackFilter::EndingIn(paths) => {
                    paths.iter_mut().flatten().for_each(|step| self.follow(&mut step.label));
                }
                StackFilter::Matching(_) => {}
            }
        }
    }
}

/// Paths of modules, each with the build IDs that it had.
type Builds<'p> = BTreeMap<&'p str, FxHashSet<&'p [u8]>>;

fn builds(profile: &Profile) -> Builds<'_> {
    let mut found = Builds::new();
    for Module { path, build_id, .. } in profile.tables.modules() {
        let builds = found.entry(profile.tables.string(*path)).or_default();
        builds.extend((!build_id.is_empty()).then_some(build_id.as_slice()));
    }
    found
}

/// The paths that only the first has, by file name.
fn only_in_first<'p>((first, second): (&Builds<'p>, &Builds<'p>)) -> FxHashMap<&'p str, Vec<&'p str>> {
    let mut by_file: FxHashMap<&str, Vec<&str>> = FxHashMap::default();
    for path in first.keys().filter(|path| !second.contains_key(**path)) {
        by_file.entry(module_file(path)).or_default().push(path);
    }
    by_file
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path here of a module of `there`, each module with its build, and whether it is the same build.
    fn followed<'m>(
        there: &[(&'m str, &'m str)],
        here: &[(&'m str, &'m str)],
        path: &str,
    ) -> Option<(String, bool)> {
        let builds = |modules: &[(&'m str, &'m str)]| -> Builds<'m> {
            modules.iter().map(|(path, build)| (*path, FxHashSet::from_iter([build.as_bytes()]))).collect()
        };
        let mut found = FollowedModules::between(&builds(there), &builds(here)).here;
        found.remove(path).map(|module| (module.path, module.is_same_build))
    }

    #[test]
    fn a_module_is_followed_into_another_folder() {
        let old = ("/old/bin/app".to_owned(), false);
        assert_eq!(followed(&[("/new/bin/app", "n")], &[("/old/bin/app", "o")], "/new/bin/app"), Some(old));
        assert_eq!(followed(&[("/new/bin/app", "n")], &[("/old/bin/tool", "o")], "/new/bin/app"), None);
        // One path is one module, whatever else has its file name.
        let both = [("/bin/app", "o"), ("/old/bin/app", "o")];
        assert_eq!(followed(&[("/bin/app", "n")], &both, "/bin/app"), None);
        let new = [("/bin/app", "n"), ("/new/bin/app", "n")];
        assert_eq!(followed(&new, &both, "/new/bin/app"), Some(("/old/bin/app".to_owned(), false)));
    }

    #[test]
    fn of_several_modules_with_one_name_only_the_same_build_is_followed() {
        let there = [("/a/libz.so", "1"), ("/b/libz.so", "2")];
        let here = [("/c/libz.so", "2"), ("/d/libz.so", "3")];
        assert_eq!(followed(&there, &here, "/b/libz.so"), Some(("/c/libz.so".to_owned(), true)));
        assert_eq!(followed(&there, &here, "/a/libz.so"), None, "it may be either");
    }

    #[test]
    fn an_address_means_nothing_in_another_build() {
        let modules = |is_same_build| {
            let module = ModuleHere { path: "/old/app".to_owned(), is_same_build };
            FollowedModules { here: FxHashMap::from_iter([("/new/app".to_owned(), module)]) }
        };
        let at = |module: &str| LabelKey::Address { module: module.to_owned(), address: 0x1234 };
        assert_eq!(*modules(true).key(&at("/new/app")), at("/old/app"));
        assert_eq!(*modules(false).key(&at("/new/app")), at("/new/app"));
        let named = LabelKey::function("parse", "/new/app");
        assert_eq!(*modules(false).key(&named), LabelKey::function("parse", "/old/app"));
    }
}
