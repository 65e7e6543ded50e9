//! Layout of one JVM: all that must be known once per process to walk its frames and name them.

use super::blob::{JavaBlob, JavaBlobLayout, JavaHeap, code_heaps};
use super::interpreter::{JavaCodelets, interpreter};
use super::method::JavaMethodLayout;
use super::scopes::JavaScopeLayout;
use super::tables::JavaTables;
use super::version::JavaVersion;
use crate::runtimes::RuntimeProblem;
use crate::runtimes::memory::TargetMemory;

/// Where a JVM keeps its generated code and methods, and how they are laid out.
#[derive(Clone, Debug)]
pub(crate) struct JavaLayout {
    pub(crate) heaps: Vec<JavaHeap>,
    pub(crate) blobs: JavaBlobLayout,
    pub(crate) methods: JavaMethodLayout,
    pub(crate) scopes: JavaScopeLayout,
    pub(crate) interpreter: JavaCodelets,
    /// Return address of every call from native code into Java.
    pub(crate) call_stub_return: u64,
    /// Return address below which the frames of a virtual thread are still in the heap; 0 before JDK 21.
    pub(crate) return_barrier: u64,
    pub(crate) version: JavaVersion,
}

impl JavaLayout {
    /// Layout of the process whose libjvm exports the symbols that `symbols` finds (address in the process by name);
    /// otherwise a sentence that gives state, cause and cure.
    pub(crate) fn find(
        memory: &impl TargetMemory,
        symbols: impl Fn(&str) -> Option<u64>,
    ) -> Result<Self, RuntimeProblem> {
        let tables = JavaTables::read(memory, &symbols)?;
        let word = |name| tables.address("StubRoutines", name).and_then(|address| memory.u64(address));
        let call_stub_return = word("_call_stub_return_address").filter(|&address| address != 0);
        Ok(Self {
            heaps: code_heaps(memory, &tables)?,
            blobs: JavaBlobLayout::of(&tables)?,
            methods: JavaMethodLayout::of(memory, &tables)?,
            scopes: JavaScopeLayout::of(&tables)?,
            interpreter: interpreter(memory, &tables)?,
            call_stub_return: call_stub_return.ok_or_else(|| {
                RuntimeProblem::temporary(
                    "java: no names: the stubs of this JVM are not generated yet; attach again once it has started",
                )
            })?,
            return_barrier: word("_cont_returnBarrier").unwrap_or(0),
            version: JavaVersion::of(memory, &tables),
        })
    }

    /// Whether `address` lies where the JVM puts generated code.
    pub(crate) fn is_generated(&self, address: u64) -> bool {
        self.heaps.iter().any(|heap| heap.code.contains(&address))
    }

    /// Blob of generated code that `pc` lies in.
    pub(crate) fn blob(&self, memory: &impl TargetMemory, pc: u64) -> Option<JavaBlob> {
        let heap = self.heaps.iter().find(|heap| heap.code.contains(&pc))?;
        self.blobs.blob(memory, heap.blob_start(memory, &self.blobs, pc)?, pc)
    }
}

#[cfg(test)]
mod tests {
    use super::super::blob::JavaBlobKind;
    use super::super::fake::{CALL_STUB_RETURN, FakeJvm, HEAP, INTERPRETER, MAP, STACK, TABLES, VARIABLES};
    use super::*;

    fn layout_of(jvm: &FakeJvm) -> Result<JavaLayout, RuntimeProblem> {
        JavaLayout::find(jvm, |name| jvm.symbol_address(name))
    }

    #[test]
    fn offsets_come_from_the_tables() {
        let layout = layout_of(&FakeJvm::new()).unwrap();
        assert_eq!(layout.heaps.len(), 1);
        assert_eq!(layout.heaps[0].code, HEAP..HEAP + 0x1_0000);
        assert_eq!(layout.call_stub_return, CALL_STUB_RETURN);
        assert_eq!(layout.interpreter.code, INTERPRETER..INTERPRETER + 0x200);
        assert!(layout.interpreter.is_entering(INTERPRETER + 21));
        assert!(!layout.interpreter.is_entering(INTERPRETER + 22));
        assert!(layout.is_generated(HEAP + 1) && !layout.is_generated(STACK));
    }

    #[test]
    fn blobs_are_found_by_any_address_in_their_code() {
        let mut jvm = FakeJvm::new();
        let code = jvm.nmethod(0x1000, &[0x90; 0x100], 4, 0x60_0000, 77);
        let layout = layout_of(&jvm).unwrap();
        for pc in [code, code + 0x80, code + 0xff] {
            let blob = layout.blob(&jvm, pc).unwrap();
            assert_eq!((blob.kind, blob.start, blob.compile_id), (JavaBlobKind::Compiled, code - 0x80, 77));
            assert_eq!((blob.frame_bytes, blob.complete, blob.level), (32, code + 5, 4));
        }
        assert!(layout.blob(&jvm, code - 1).is_none(), "the header is no code");
        assert!(layout.blob(&jvm, code + 0x100).is_none(), "nor is the data");
        assert!(layout.blob(&jvm, HEAP + 0xf000).is_none(), "a free segment");
        assert!(layout.blob(&jvm, STACK).is_none());
    }

    #[test]
    fn damaged_heaps_give_no_blob() {
        let mut jvm = FakeJvm::new();
        let code = jvm.nmethod(0x1000, &[0x90; 0x100], 4, 0x60_0000, 77);
        let layout = layout_of(&jvm).unwrap();
        let damaged = |change: &dyn Fn(&mut FakeJvm)| {
            let mut jvm = jvm.clone();
            change(&mut jvm);
            layout.blob(&jvm, code).is_none()
        };
        assert!(damaged(&|jvm| jvm.fill(code - 0x80 - 8, &[0])), "a block that is not in use");
        assert!(damaged(&|jvm| jvm.fill(MAP + 0x42, &[0xfe])), "a hop below the heap");
        assert!(damaged(&|jvm| jvm.int(code - 0x80 + 16, i32::MAX)), "a size of 2 GiB");
        assert!(damaged(&|jvm| jvm.int(code - 0x80 + 28, -1)), "code before the blob");
        assert!(damaged(&|jvm| jvm.word(code - 0x80 + 8, u64::MAX)), "a name that cannot be read");
        assert!(damaged(&|jvm| jvm.int(code - 0x80 + 20, i32::MAX)), "a frame of 16 GiB");
        assert!(damaged(&|jvm| jvm.unmap(MAP)));
        assert!(damaged(&|jvm| jvm.unmap(HEAP)));
    }

    #[test]
    fn problems_are_said() {
        let mut jvm = FakeJvm::new();
        jvm.forget("gHotSpotVMStructs");
        assert!(layout_of(&jvm).unwrap_err().to_string().contains("does not export `gHotSpotVMStructs`"));
        let mut jvm = FakeJvm::new();
        jvm.word(TABLES, 0);
        assert!(
            layout_of(&jvm).unwrap_err().to_string().contains("does not describe"),
            "a table that ends at once"
        );
        let mut jvm = FakeJvm::new();
        jvm.word(VARIABLES + 8, 1 << 40);
        assert!(
            layout_of(&jvm).unwrap_err().to_string().contains("not set up yet"),
            "a stride of a terabyte"
        );
        let mut jvm = FakeJvm::new();
        jvm.int(VARIABLES + 0x2004, i32::MAX);
        jvm.word(VARIABLES + 0x2100, u64::MAX - 8);
        assert!(
            layout_of(&jvm).unwrap_err().to_string().contains("code heaps are not set up"),
            "a list of wild heaps"
        );
        let mut jvm = FakeJvm::new();
        jvm.int(VARIABLES + 0x2310, -1);
        assert!(layout_of(&jvm).unwrap_err().to_string().contains("interpreter"), "an interpreter of 4 GiB");
        let mut jvm = FakeJvm::new();
        jvm.unmap(TABLES);
        assert!(layout_of(&jvm).is_err());
    }

    #[test]
    fn tables_without_an_end_are_cut() {
        let mut jvm = FakeJvm::new();
        let pointer = 0x20_0000_u64.to_le_bytes();
        jvm.fill(TABLES, &pointer.repeat(0x1_0000 / 8));
        assert!(layout_of(&jvm).is_err());
    }
}
