//! Which files of source are the same on both sides of a comparison: other builds of a program have other code in the same lines.

use super::source_sheet::SourceSheet;
use crate::profile::{Profile, StringId};
use crate::report::{Annotation, SourceTexts, module_file, read_sources};
use rustc_hash::FxHashMap;

/// The files that a function has code of on one side, with their texts.
pub(super) struct SideFiles<'s> {
    profile: &'s Profile,
    /// Weight of the code of each file.
    weights: FxHashMap<StringId, u64>,
    texts: SourceTexts,
}

impl<'s> SideFiles<'s> {
    /// The files of `annotation`; their texts are looked for where those of `sheet` were.
    pub(super) fn new(profile: &'s Profile, annotation: &Annotation, sheet: &SourceSheet) -> Self {
        let mut weights: FxHashMap<StringId, u64> = FxHashMap::default();
        for line in annotation.lines.iter().filter(|line| line.file != StringId(0)) {
            *weights.entry(line.file).or_default() += line.total.weight.max(line.inlined.weight);
        }
        let texts = read_sources(profile, weights.keys().copied(), &sheet.folders);
        SideFiles { profile, weights, texts }
    }

    fn path(&self, file: StringId) -> &str {
        self.profile.tables.string(file)
    }

    /// The files of the other side that have the same name, the one of the same path first.
    fn namesakes(&self, file: StringId, other: &SideFiles<'_>) -> Vec<StringId> {
        let path = self.path(file);
        let is_it = |id: &StringId| module_file(other.path(*id)) == module_file(path);
        let mut found: Vec<StringId> = other.weights.keys().copied().filter(is_it).collect();
        found.sort_by_key(|id| (other.path(*id) != path, *id));
        found
    }
}

/// How the files of one side are called on the other.
#[derive(Debug, Default)]
pub(super) struct SameFiles {
    /// Files of each side whose lines can be compared, by the path that both have in the comparison.
    places: [FxHashMap<StringId, String>; 2],
}

impl SameFiles {
    /// The files that have one text on both sides, and those of which the other side has no code. Without the text of the file
    /// in which most is spent, why lines are not compared. Foreign text.
    pub(super) fn new(here: &SideFiles<'_>, there: &SideFiles<'_>) -> Result<Self, String> {
        let mut same = SameFiles::default();
        let mut why_not = FxHashMap::default();
        for &file in here.weights.keys() {
            let namesakes = here.namesakes(file, there);
            let mut whys = Vec::new();
            let twin = namesakes.iter().find(|twin| {
                let differs = difference((here, file), (there, **twin));
                whys.extend(differs.clone());
                differs.is_none()
            });
            match (twin, whys.into_iter().next()) {
                (None, Some(why)) => {
                    why_not.insert(file, why);
                }
                (twin, _) => {
                    let path = here.path(file).to_owned();
                    twin.into_iter().for_each(|twin| {
                        same.places[1].insert(*twin, path.clone());
                    });
                    same.places[0].insert(file, path);
                }
            }
        }
        for &file in there.weights.keys() {
            if there.namesakes(file, here).is_empty() {
                same.places[1].insert(file, there.path(file).to_owned());
            }
        }
        let main = here.weights.iter().max_by_key(|(file, weight)| (**weight, **file));
        match main.and_then(|(file, _)| why_not.remove(file)) {
            Some(why) => Err(why),
            None => Ok(same),
        }
    }

    /// The path of a file of a side in the comparison; `None` where its lines are not compared.
    pub(super) fn place(&self, side: usize, file: StringId) -> Option<&str> {
        if file == StringId(0) {
            return Some("");
        }
        self.places[side].get(&file).map(String::as_str)
    }
}

/// Why two files are not known to have one text; `None` if they have.
fn difference(
    (here, file): (&SideFiles<'_>, StringId),
    (there, twin): (&SideFiles<'_>, StringId),
) -> Option<String> {
    let name = module_file(here.path(file));
    let texts =
        [here.texts.get(&file), there.texts.get(&twin)].map(|text| text.filter(|text| text.is_known()));
    let [Some(one), Some(other)] = texts else {
        return Some(format!("the text of {name} is not known"));
    };
    if one.is_changed() || other.is_changed() {
        return Some(format!("{name} was changed since"));
    }
    match one.first_difference(other) {
        Ok(None) => None,
        Ok(Some(line)) => Some(format!("{name} differs in line {line}")),
        Err(()) => Some(format!("no line of {name} is known on both")),
    }
}
