//! The files that are open, by their ids. An id is never used again, and takes no room once its file is closed: a machine that runs for
//! weeks sees ever more of them.

use super::file::{FileId, ModuleFile};

/// Files by id.
#[derive(Debug, Default)]
pub(super) struct FileList {
    /// In ascending order of their ids.
    files: Vec<(FileId, Box<ModuleFile>)>,
    next: u32,
}

impl FileList {
    /// Adds a file. Returns its id.
    pub(super) fn push(&mut self, file: ModuleFile) -> FileId {
        let id = FileId(self.next);
        self.next += 1;
        self.files.push((id, Box::new(file)));
        id
    }

    pub(super) fn get(&self, id: FileId) -> Option<&ModuleFile> {
        Some(&self.files[self.place(id)?].1)
    }

    pub(super) fn get_mut(&mut self, id: FileId) -> Option<&mut ModuleFile> {
        let place = self.place(id)?;
        Some(&mut self.files[place].1)
    }

    /// Takes a file out; `None` if it was taken out before.
    pub(super) fn remove(&mut self, id: FileId) -> Option<Box<ModuleFile>> {
        Some(self.files.remove(self.place(id)?).1)
    }

    /// All files, in ascending order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (FileId, &ModuleFile)> {
        self.files.iter().map(|(id, file)| (*id, &**file))
    }

    /// The same, to change them.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (FileId, &mut ModuleFile)> {
        self.files.iter_mut().map(|(id, file)| (*id, &mut **file))
    }

    fn place(&self, id: FileId) -> Option<usize> {
        self.files.binary_search_by_key(&id.0, |(id, _)| id.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ModuleKind;

    #[test]
    fn what_was_closed_takes_no_room_and_its_id_is_no_other_s() {
        let mut list = FileList::default();
        let file = |number: u32| ModuleFile::new(&format!("/bin/{number}"), 1, ModuleKind::Elf);
        for number in 0..1_000 {
            assert_eq!(list.push(file(number)), FileId(number));
            if number >= 10 {
                assert!(
                    list.remove(FileId(number - 5))
                        .is_some_and(|file| file.path.ends_with(&(number - 5).to_string()))
                );
                assert!(list.remove(FileId(number - 5)).is_none() && list.get(FileId(number - 5)).is_none());
            }
        }
        let ids: Vec<u32> = list.iter().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4, 995, 996, 997, 998, 999]);
        assert_eq!(list.get(FileId(997)).map(|file| &*file.path), Some("/bin/997"));
        assert!(list.get_mut(FileId(1_000)).is_none());
    }
}
