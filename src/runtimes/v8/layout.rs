//! Layout of the objects of one V8, from the symbols that describe it.

use super::constants::{V8Constants, V8Symbol};
use crate::runtimes::TargetMemory;

/// Mangled name of the table of bytecode sizes, a row for each of three operand scales.
const BYTECODE_SIZES: &str = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE";

/// Mangled names of the numbers of V8's version.
const VERSION: [&str; 2] = ["_ZN2v88internal7Version6major_E", "_ZN2v88internal7Version6minor_E"];

/// Where a walker finds the words of a frame: offsets from the frame pointer, then in objects (without their tag).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct V8FrameOffsets {
    /// From the frame pointer: the context of a JavaScript frame, or twice the type of any other frame.
    pub(crate) context: i16,
    /// From the frame pointer: the JSFunction.
    pub(crate) function: i16,
    /// From the frame pointer: the bytecode offset of an interpreted frame, a small integer.
    pub(crate) bytecode_offset: i16,
    /// In a JSFunction: its SharedFunctionInfo.
    pub(crate) shared: u16,
    /// In a SharedFunctionInfo: its script.
    pub(crate) script: u16,
    /// In a SharedFunctionInfo: 8 bytes that hold the number of the function in its script and in the process.
    pub(crate) number: u16,
    /// Bits of these 8 bytes that hold numbers: older versions have only the number in the script.
    pub(crate) number_mask: u64,
}

/// Instance types by which objects are recognised.
#[derive(Debug, Clone)]
pub(super) struct V8Types {
    pub(super) map: u16,
    pub(super) shared: u16,
    pub(super) script: u16,
    pub(super) oddball: u16,
    pub(super) scope_info: u16,
    pub(super) fixed_array: u16,
    /// Arrays of tagged words that deoptimisation uses.
    pub(super) fixed_arrays: Vec<u16>,
    pub(super) byte_arrays: Vec<u16>,
    pub(super) bytecode_array: u16,
    pub(super) interpreter_data: Option<u16>,
    pub(super) code: u16,
    pub(super) instruction_stream: Option<u16>,
    pub(super) uncompiled: Option<(u16, u16)>,
    pub(super) debug_info: Option<u16>,
    pub(super) shared_wrapper: Option<u16>,
}

/// How strings are told apart and where their parts are.
#[derive(Debug, Clone)]
pub(super) struct V8Strings {
    /// First instance type that is no string.
    pub(super) end: u16,
    pub(super) encoding_mask: u16,
    pub(super) one_byte: u16,
    pub(super) shape_mask: u16,
    pub(super) sequential: u16,
    pub(super) cons: u16,
    pub(super) external: u16,
    pub(super) sliced: u16,
    pub(super) thin: u16,
    pub(super) length: u16,
    pub(super) one_byte_chars: u16,
    pub(super) two_byte_chars: u16,
    pub(super) first: u16,
    pub(super) second: u16,
    pub(super) parent: u16,
    pub(super) offset: u16,
    pub(super) actual: u16,
    pub(super) resource: u16,
}

/// Where SharedFunctionInfo and Script keep what is read of them.
#[derive(Debug, Clone)]
pub(super) struct V8FunctionOffsets {
    pub(super) data: u16,
    pub(super) name_or_scope: u16,
    pub(super) script: u16,
    pub(super) script_name: u16,
    pub(super) script_source: u16,
    pub(super) script_line_ends: u16,
    pub(super) inferred_name: u16,
    pub(super) uncompiled_start: u16,
    /// Index of the first word of a ScopeInfo after its counts and, since V8 13, its positions.
    pub(super) scope_first: u16,
    pub(super) bytecodes: u16,
    pub(super) bytecode_positions: u16,
}

/// Where Code and its instructions keep what is read of them.
#[derive(Debug, Clone)]
pub(super) struct V8CodeOffsets {
    /// Size of the header of an InstructionStream, before the first instruction.
    pub(super) header: u16,
    pub(super) deoptimization: u16,
    pub(super) positions: u16,
    pub(super) start: u16,
    pub(super) flags: u16,
    pub(super) size: u16,
    pub(super) kind_mask: u32,
    pub(super) baseline: u32,
    pub(super) inlined_count: u32,
    pub(super) literals: u32,
    pub(super) inlining_positions: u32,
    /// Index of the function whose code it is.
    pub(super) owner: u32,
}

/// Layout of the objects of one V8. Offsets are in bytes from the start of an object.
#[derive(Debug, Clone)]
pub(crate) struct V8Layout {
    /// What a walker reads for each frame.
    pub(crate) frame: V8FrameOffsets,
    pub(super) map: u16,
    pub(super) instance_type: u16,
    pub(super) array_length: u16,
    pub(super) array_data: u16,
    pub(super) types: V8Types,
    pub(super) strings: V8Strings,
    pub(super) function: V8FunctionOffsets,
    /// Absent where machine code cannot be described: V8 before 11.
    pub(super) code: Option<V8CodeOffsets>,
    /// Version of V8, major and minor, if the program has these symbols.
    pub(crate) version: Option<(u32, u32)>,
    /// Sizes of bytecodes, a row for each operand scale; empty if the program has lost the symbol.
    pub(super) bytecode_sizes: Vec<u8>,
}

impl V8Layout {
    /// Number of bytes of the table of bytecode sizes.
    pub(crate) fn bytecode_sizes(&self) -> usize {
        self.bytecode_sizes.len()
    }

    /// Finds the layout from the symbols of the program that contains V8, at their addresses in the process.
    /// The error is a sentence for the user: state, cause, cure.
    pub(crate) fn find<'a>(
        memory: &impl TargetMemory,
        symbols: impl Iterator<Item = V8Symbol<'a>> + Clone,
    ) -> Result<Self, String> {
        let constants = V8Constants::read(memory, symbols.clone());
        if constants.is_empty() {
            return Err(
                "JavaScript functions have no names: node was built without v8dbg symbols or they were \
                        stripped; use a build from nodejs.org or run node with --perf-basic-prof \
                        --interpreted-frames-native-stack"
                    .to_owned(),
            );
        }
        if constants.exact("TaggedSize").is_some_and(|size| size != 8)
            || constants.exact("SmiShiftSize").is_some_and(|shift| shift != 31)
            || constants.exact("SystemPointerSize") != Some(8)
        {
            return Err(
                "JavaScript functions have no names: this V8 compresses pointers, which prof does not read; \
                        run it with --perf-basic-prof --interpreted-frames-native-stack"
                    .to_owned(),
            );
        }
        let mut layout = described(&constants).map_err(|missing| {
            format!(
                "JavaScript functions have no names: the v8dbg symbols of this V8 lack or contradict `{missing}`; \
                 run it with --perf-basic-prof --interpreted-frames-native-stack"
            )
        })?;
        layout.version = version(memory, symbols.clone());
        layout.bytecode_sizes = bytecode_sizes(memory, symbols).unwrap_or_default();
        Ok(layout)
    }
}

/// Sizes of bytecodes as the program has them, in three rows.
fn bytecode_sizes<'a>(
    memory: &impl TargetMemory,
    mut symbols: impl Iterator<Item = V8Symbol<'a>>,
) -> Option<Vec<u8>> {
    let table = symbols.find(|symbol| symbol.name == BYTECODE_SIZES)?;
    let sizes = memory.range(table.address, table.size, 3 * 256)?;
    (!sizes.is_empty() && sizes.len() % 3 == 0 && sizes.iter().all(|&size| size < 64)).then_some(sizes)
}

/// Version of V8.
fn version<'a>(
    memory: &impl TargetMemory,
    symbols: impl Iterator<Item = V8Symbol<'a>> + Clone,
) -> Option<(u32, u32)> {
    let number =
        |name| memory.u32(symbols.clone().find(|symbol| symbol.name == name)?.address).filter(|&n| n < 1000);
    let [major, minor] = VERSION.map(number);
    major.zip(minor)
}

/// Layout from the values of the symbols; the error names what is missing.
fn described(constants: &V8Constants) -> Result<V8Layout, &'static str> {
    let function = function_offsets(constants)?;
    Ok(V8Layout {
        frame: frame_offsets(constants, function.script)?,
        map: constants.field("HeapObject", "map").ok_or("HeapObject map")?,
        instance_type: constants.field("Map", "instance_type").ok_or("Map instance_type")?,
        array_length: constants.field("FixedArrayBase", "length").ok_or("FixedArrayBase length")?,
        array_data: constants.field("FixedArray", "data").ok_or("FixedArray data")?,
        types: types(constants)?,
        strings: strings(constants)?,
        function,
        code: code_offsets(constants),
        version: None,
        bytecode_sizes: Vec::new(),
    })
}

fn frame_offsets(constants: &V8Constants, script: u16) -> Result<V8FrameOffsets, &'static str> {
    let slot = |name: &str| constants.exact(name).and_then(|offset| i16::try_from(offset).ok());
    let context = slot("off_fp_context_or_frame_type").or_else(|| slot("off_fp_context"));
    let flags = constants.field("SharedFunctionInfo", "flags").ok_or("SharedFunctionInfo flags")?;
    // Since V8 12 a number that is unique in the process follows the number of the function in its script.
    let has_unique_number = constants.field("SharedFunctionInfo", "function_data").is_none();
    Ok(V8FrameOffsets {
        context: context.ok_or("off_fp_context")?,
        function: slot("off_fp_function").ok_or("off_fp_function")?,
        bytecode_offset: slot("off_fp_bytecode_offset").ok_or("off_fp_bytecode_offset")?,
        shared: constants.field("JSFunction", "shared").ok_or("JSFunction shared")?,
        script,
        number: if has_unique_number { flags + 4 } else { flags },
        number_mask: if has_unique_number { u64::MAX } else { u64::MAX << 32 },
    })
}

fn function_offsets(constants: &V8Constants) -> Result<V8FunctionOffsets, &'static str> {
    let shared = |name: &str| constants.field("SharedFunctionInfo", name);
    let script = |name: &str| constants.field("Script", name);
    let owner = shared("script").or_else(|| shared("script_or_debug_info")).or_else(|| shared("raw_script"));
    let bytecodes = constants.field("BytecodeArray", "data").ok_or("BytecodeArray data")?;
    // After the length come constant pool, handlers and positions; since V8 12 a wrapper, positions, handlers, pool.
    let wrapper = constants.field("BytecodeArray", "wrapper");
    let first = constants.exact("scopeinfo_idx_first_vars").and_then(|index| u16::try_from(index).ok());
    Ok(V8FunctionOffsets {
        data: shared("function_data").unwrap_or(8),
        name_or_scope: shared("name_or_scope_info").ok_or("SharedFunctionInfo name_or_scope_info")?,
        script: owner.ok_or("SharedFunctionInfo script")?,
        script_name: script("name").ok_or("Script name")?,
        script_source: script("source").ok_or("Script source")?,
        script_line_ends: script("line_ends").ok_or("Script line_ends")?,
        inferred_name: constants.field("UncompiledData", "inferred_name").unwrap_or(8),
        uncompiled_start: constants.field("UncompiledData", "start_position").unwrap_or(16),
        scope_first: first.filter(|first| (3..16).contains(first)).ok_or("scopeinfo_idx_first_vars")?,
        bytecodes,
        bytecode_positions: wrapper.map_or(32, |wrapper| wrapper + 8),
    })
}

fn types(constants: &V8Constants) -> Result<V8Types, &'static str> {
    let class = |name: &str| constants.class_type(name);
    let all = |names: &[&str]| names.iter().filter_map(|name| class(name)).collect();
    Ok(V8Types {
        map: class("Map").ok_or("type Map")?,
        shared: class("SharedFunctionInfo").ok_or("type SharedFunctionInfo")?,
        script: class("Script").ok_or("type Script")?,
        oddball: class("Oddball").ok_or("type Oddball")?,
        scope_info: class("ScopeInfo").ok_or("type ScopeInfo")?,
        fixed_array: class("FixedArray").ok_or("type FixedArray")?,
        fixed_arrays: all(&[
            "FixedArray",
            "WeakFixedArray",
            "ProtectedFixedArray",
            "ProtectedWeakFixedArray",
            "TrustedFixedArray",
            "TrustedWeakFixedArray",
        ]),
        byte_arrays: all(&["ByteArray", "TrustedByteArray"]),
        bytecode_array: class("BytecodeArray").ok_or("type BytecodeArray")?,
        interpreter_data: class("InterpreterData"),
        code: class("Code").ok_or("type Code")?,
        instruction_stream: class("InstructionStream"),
        uncompiled: constants.class_types("UncompiledData"),
        debug_info: class("DebugInfo"),
        shared_wrapper: class("SharedFunctionInfoWrapper"),
    })
}

fn strings(constants: &V8Constants) -> Result<V8Strings, &'static str> {
    let bits = |name: &str| constants.exact(name).and_then(|value| u16::try_from(value).ok());
    let field = |class: &str, name: &str| constants.field(class, name);
    Ok(V8Strings {
        end: bits("FirstNonstringType").ok_or("FirstNonstringType")?,
        encoding_mask: bits("StringEncodingMask").ok_or("StringEncodingMask")?,
        one_byte: bits("OneByteStringTag").ok_or("OneByteStringTag")?,
        shape_mask: bits("StringRepresentationMask").ok_or("StringRepresentationMask")?,
        sequential: bits("SeqStringTag").ok_or("SeqStringTag")?,
        cons: bits("ConsStringTag").ok_or("ConsStringTag")?,
        external: bits("ExternalStringTag").ok_or("ExternalStringTag")?,
        sliced: bits("SlicedStringTag").ok_or("SlicedStringTag")?,
        thin: bits("ThinStringTag").ok_or("ThinStringTag")?,
        length: field("String", "length").ok_or("String length")?,
        one_byte_chars: field("SeqOneByteString", "chars").ok_or("SeqOneByteString chars")?,
        two_byte_chars: field("SeqTwoByteString", "chars").ok_or("SeqTwoByteString chars")?,
        first: field("ConsString", "first").ok_or("ConsString first")?,
        second: field("ConsString", "second").ok_or("ConsString second")?,
        parent: field("SlicedString", "parent").ok_or("SlicedString parent")?,
        offset: field("SlicedString", "offset").ok_or("SlicedString offset")?,
        actual: field("ThinString", "actual").ok_or("ThinString actual")?,
        resource: field("ExternalString", "resource").ok_or("ExternalString resource")?,
    })
}

/// Where Code keeps its parts. V8 11 describes only some of them: the others have been the same in all its builds and
/// every code object is checked before use.
fn code_offsets(constants: &V8Constants) -> Option<V8CodeOffsets> {
    let field = |name: &str| constants.field("Code", name);
    let index = |name: &str| {
        constants.exact(&format!("DeoptimizationData{name}Index")).and_then(|i| u32::try_from(i).ok())
    };
    let value = |name: &str| constants.exact(name).and_then(|value| u32::try_from(value).ok());
    constants.class_type("InstructionStream")?;
    let wrapper = field("wrapper");
    Some(V8CodeOffsets {
        header: constants.field("InstructionStream", "instruction_start")?,
        deoptimization: wrapper
            .map_or_else(|| field("deoptimization_data"), |wrapper| wrapper.checked_sub(16))?,
        positions: wrapper
            .map_or_else(|| field("source_position_table"), |wrapper| wrapper.checked_sub(8))?,
        start: field("instruction_start").unwrap_or(40),
        flags: field("flags").unwrap_or(48),
        size: field("instruction_size").unwrap_or(56),
        kind_mask: value("CodeKindFieldMask")?,
        baseline: value("CodeKindBaseline")?,
        inlined_count: index("InlinedFunctionCount")?,
        literals: index("LiteralArray")?,
        inlining_positions: index("InliningPositions")?,
        owner: index("SharedFunctionInfo").or_else(|| index("WrappedSharedFunctionInfo"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::v8::fake::FakeHeap;

    #[test]
    fn program_without_descriptions_is_explained() {
        let heap = FakeHeap::new();
        let problem = V8Layout::find(&heap, std::iter::empty()).unwrap_err();
        assert!(problem.contains("built without v8dbg symbols") && problem.contains("--perf-basic-prof"));
    }

    #[test]
    fn compressed_pointers_are_refused() {
        let mut heap = FakeHeap::with_function();
        let mut symbols = heap.symbols();
        symbols.retain(|symbol| symbol.0 != "v8dbg_TaggedSize");
        symbols.push(heap.constant("TaggedSize", 4));
        let problem = V8Layout::find(&heap, symbols.iter().map(FakeHeap::symbol)).unwrap_err();
        assert!(problem.contains("compresses pointers"));
    }

    #[test]
    fn missing_description_is_named() {
        let heap = FakeHeap::with_function();
        let mut symbols = heap.symbols();
        symbols.retain(|symbol| !symbol.0.contains("Script__line_ends"));
        let problem = V8Layout::find(&heap, symbols.iter().map(FakeHeap::symbol)).unwrap_err();
        assert!(problem.contains("`Script line_ends`"));
    }

    #[test]
    fn tables_of_bytecode_sizes_are_checked() {
        let mut heap = FakeHeap::with_function();
        let (name, address) = heap.constant("sizes", 0x0203_0101);
        for (size, expected) in [(3, vec![1, 1, 3]), (4, vec![]), (1 << 30, vec![]), (0, vec![])] {
            let table = V8Symbol { name: BYTECODE_SIZES, address, size };
            let found =
                bytecode_sizes(&heap, [V8Symbol { name: &name, address, size: 0 }, table].into_iter());
            assert_eq!(found.unwrap_or_default(), expected);
        }
    }
}
