//! Stacks of threads, read from outside: where no BPF program reads them, as the reference that these are compared with, and as
//! the proof at attach that a layout fits.

use super::layout::{
    FOR_SORT, IS_IN_REGEX, IS_MULTICALL, IS_REGEX_OF_SUB, MOST_STEPS, PerlKind, PerlLayout, PerlLocator,
    TYPE_MASK,
};
use super::text::words;
use crate::runtimes::TargetMemory;

/// One frame of a thread's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerlFrame {
    /// Word of the code object.
    pub(crate) code: u64,
    /// 0 where the sub has not begun with a statement of its own, `u32::MAX` where the compiler has noted none.
    pub(crate) line: u32,
    /// C code has entered the frame: it is the outermost of its call of the function that runs ops.
    pub(crate) is_entry: bool,
}

/// Frames of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerlStack {
    /// The leaf first.
    pub(crate) frames: Vec<PerlFrame>,
    /// The stack was read to its root.
    pub(crate) is_complete: bool,
    /// Statements of frames, for the proof that a layout fits.
    pub(crate) statements: Vec<u64>,
}

/// A block of the stack, as far as frames go.
struct PerlBlock {
    kind: u8,
    flags: u8,
    old_statement: u64,
    return_op: u64,
    sub: u64,
    required: u64,
}

/// Where the walk is.
struct PerlWalk<'a, M> {
    memory: &'a M,
    layout: &'a PerlLayout,
    statement: u64,
    /// The last frame has no op to return to because it was the last call of a block that C code runs, or because C code
    /// has called it.
    is_doubtful: bool,
    /// The sub of the last frame, if it may be at no statement of its own yet.
    unbegun: Option<u64>,
    stack: PerlStack,
}

/// Stack of the interpreter with this state: its address, or with `PerlLocator::Process` that of the stack that it is on.
pub(crate) fn frames(memory: &impl TargetMemory, layout: &PerlLayout, state: u64) -> PerlStack {
    let word = |offset: u16| state.checked_add(offset.into()).and_then(|place| memory.u64(place));
    let (stack, statement) = match layout.locator {
        PerlLocator::Key { .. } => (word(layout.stack), word(layout.statement)),
        PerlLocator::Process { statement, .. } => (Some(state), memory.u64(statement)),
    };
    let mut walk = PerlWalk {
        memory,
        layout,
        statement: statement.unwrap_or(0),
        is_doubtful: false,
        unbegun: None,
        stack: PerlStack::default(),
    };
    if let Some(stack) = stack.filter(|&stack| stack != 0) {
        walk.stack.is_complete = walk.follow(stack).is_some();
    }
    walk.stack
}

impl<M: TargetMemory> PerlWalk<'_, M> {
    /// Takes the frames of a stack and of those around it; `None` if they cannot be read to the root.
    fn follow(&mut self, mut stack: u64) -> Option<()> {
        let shape = self.layout.shape;
        let mut steps = 0;
        while stack != 0 {
            let at = |offset: u8| stack.checked_add(offset.into());
            let first = self.memory.u64(at(shape.blocks)?)?;
            let outer = self.memory.u64(at(shape.outer)?)?;
            let last = self.memory.u32(at(shape.last)?)?.cast_signed();
            let is_for_sort = self.memory.u32(at(shape.stack_type)?)? == FOR_SORT;
            self.is_doubtful = false;
            for number in (0..=i64::from(last)).rev() {
                steps += 1;
                if steps > MOST_STEPS {
                    return None;
                }
                let offset = u64::try_from(number).ok()?.checked_mul(shape.block_bytes.into())?;
                let block = self.block(first.checked_add(offset)?)?;
                self.take(&block, number == 0 && is_for_sort, number == 0 && outer == 0)?;
            }
            steps += 1;
            if steps > MOST_STEPS {
                return None;
            }
            stack = outer;
        }
        Some(())
    }

    fn block(&self, address: u64) -> Option<PerlBlock> {
        let shape = self.layout.shape;
        let word = |offset: u8| self.memory.u64(address.checked_add(offset.into())?);
        let kind = self.memory.u8(address)?;
        Some(PerlBlock {
            kind: kind & TYPE_MASK,
            flags: kind & !TYPE_MASK,
            old_statement: word(shape.old_statement)?,
            return_op: word(shape.return_op)?,
            sub: word(shape.sub)?,
            required: word(shape.required)?,
        })
    }

    /// Adds the frame that a block is, if it is one.
    fn take(&mut self, block: &PerlBlock, is_of_sort: bool, is_root: bool) -> Option<()> {
        let shape = self.layout.shape;
        let has = |flag: u8| block.flags & flag != 0;
        let returns = block.return_op != 0;
        let (kind, is_entry, is_doubtful) = match block.kind {
            // Elsewhere, the type is not written yet.
            0 if is_of_sort => (PerlKind::Sort, true, false),
            kind if kind == shape.sub_type && has(IS_REGEX_OF_SUB) => (PerlKind::Regex, true, false),
            kind if kind == shape.sub_type => (PerlKind::Sub, !returns, !returns && !has(IS_MULTICALL)),
            kind if kind == shape.sub_type + 1 => (PerlKind::Format, false, false),
            kind if kind == shape.sub_type + 2 && has(shape.try_flag) => return Some(()),
            kind if kind == shape.sub_type + 2 => {
                (if block.required != 0 { PerlKind::Require } else { PerlKind::Eval }, !returns, !returns)
            }
            kind if kind == shape.defer_type => (PerlKind::Defer, true, false),
            kind if kind == shape.block_type && is_root => (PerlKind::Main, true, false),
            _ => return Some(()),
        };
        // It has just been entered, or is about to return.
        if kind == PerlKind::Sub && block.sub == 0 {
            self.statement = block.old_statement;
            return Some(());
        }
        // Blocks whose code ends without an op to go on with: their last call was not entered from C. And C code that
        // catches errors enters an eval first, and then a sub in it.
        let takes_over = match kind {
            PerlKind::Sort | PerlKind::Regex => true,
            PerlKind::Sub => has(IS_IN_REGEX),
            PerlKind::Eval | PerlKind::Require => is_entry,
            _ => false,
        };
        if takes_over
            && self.is_doubtful
            && let Some(last) = self.stack.frames.last_mut()
        {
            last.is_entry = false;
        }
        self.is_doubtful = is_doubtful;
        // A sub that has just been entered is still at the statement of its caller, unless a sub calls itself.
        let sub = (kind == PerlKind::Sub).then_some(block.sub);
        if self.unbegun.is_some()
            && self.unbegun != sub
            && let Some(last) = self.stack.frames.last_mut()
        {
            last.line = 0;
        }
        self.unbegun = sub.filter(|_| self.statement == block.old_statement);
        let (line, file) = self.place();
        let code = kind.code(if kind == PerlKind::Sub { block.sub } else { file });
        self.stack.statements.push(self.statement);
        self.stack.frames.push(PerlFrame { code, line, is_entry });
        self.statement = block.old_statement;
        Some(())
    }

    /// Line and file of the statement that the next frame is at; zeros where it cannot be read.
    fn place(&self) -> (u32, u64) {
        let shape = self.layout.shape;
        let at = |offset: u8| self.statement.checked_add(offset.into());
        let line = at(shape.line).and_then(|place| self.memory.u32(place));
        let file = at(shape.file).and_then(|place| words::<1>(self.memory, place));
        line.zip(file).map_or((0, 0), |(line, [file])| (line, file))
    }
}
