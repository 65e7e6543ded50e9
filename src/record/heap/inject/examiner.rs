//! What has to be understood of a process's own bytes before it is changed: its instructions, and its filters of system calls. Who
//! changes it has rights, so a worker without any reads them, and its answers are checked.

use super::image::DISPLACED_BYTES;
use super::prologue::{JUMP_BYTES, MovedPrologue, pointer_of_stub, targets};
use super::seccomp::{self, CallFilter, SystemCall};
use crate::base::deadline::Deadline;
use crate::record::workers::{JobKind, JobUrgency, LentWorker, WorkerJob};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Time for all answers: the process may be stopped meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a stub of a procedure linkage table that are read.
pub(super) const STUB_BYTES: usize = 16;

/// Code of a function, as far as it is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PatchableCode {
    pub(super) address: u64,
    pub(super) code: Vec<u8>,
    /// Where its first instructions are to be moved.
    pub(super) to: u64,
}

/// What a function's code says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExaminedFunction {
    /// Its first instructions for their new place, or why they cannot be moved.
    pub(super) moved: Result<MovedPrologue, String>,
    /// Where it leads to directly, by calls and jumps.
    pub(super) targets: Vec<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
enum ExaminerQuestion {
    Functions(Vec<PatchableCode>),
    /// Addresses, and the bytes there.
    Stubs(Vec<(u64, [u8; STUB_BYTES])>),
    Filters(Vec<CallFilter>, Vec<SystemCall>),
}

#[derive(Debug, Serialize, Deserialize)]
enum ExaminerAnswer {
    Functions(Vec<ExaminedFunction>),
    Stubs(Vec<Option<u64>>),
    /// The first call that is not let through.
    Filters(Option<usize>),
}

/// Who answers.
#[derive(Debug)]
pub(crate) struct Examiner {
    /// `None`: this process itself, where there are no workers.
    worker: Option<LentWorker>,
}

impl Examiner {
    pub(crate) fn new(worker: Option<LentWorker>) -> Self {
        Examiner { worker }
    }

    /// The worker that answers.
    pub(crate) fn worker(&self) -> Option<&LentWorker> {
        self.worker.as_ref()
    }

    /// Begins with a process: from now on there is so much time.
    pub(super) fn begin(&self) -> Examination<'_> {
        Examination { worker: self.worker.as_ref(), deadline: Deadline::after(PATIENCE, &Arc::default()) }
    }
}

/// The examination of a process.
#[derive(Debug)]
pub(super) struct Examination<'e> {
    worker: Option<&'e LentWorker>,
    deadline: Deadline,
}

impl Examination<'_> {
    /// What the code of functions says.
    ///
    /// # Errors
    ///
    /// Why it could not be read.
    pub(super) fn functions(&self, functions: &[PatchableCode]) -> Result<Vec<ExaminedFunction>, String> {
        match self.ask(&ExaminerQuestion::Functions(functions.to_vec()))? {
            ExaminerAnswer::Functions(found)
                if found.len() == functions.len()
                    && found.iter().zip(functions).all(|(one, of)| one.is_possible(of.code.len())) =>
            {
                Ok(found)
            }
            _ => Err(impossible()),
        }
    }

    /// The pointers by which stubs jump on, of those that are stubs.
    ///
    /// # Errors
    ///
    /// Why they could not be read.
    pub(super) fn stubs(&self, stubs: Vec<(u64, [u8; STUB_BYTES])>) -> Result<Vec<Option<u64>>, String> {
        let count = stubs.len();
        match self.ask(&ExaminerQuestion::Stubs(stubs))? {
            ExaminerAnswer::Stubs(pointers) if pointers.len() == count => Ok(pointers),
            _ => Err(impossible()),
        }
    }

    /// The first of `calls`, by its number in the list, that filters do not let through.
    ///
    /// # Errors
    ///
    /// Why they could not be read.
    pub(super) fn refused(
        &self,
        filters: Vec<CallFilter>,
        calls: &[SystemCall],
    ) -> Result<Option<usize>, String> {
        match self.ask(&ExaminerQuestion::Filters(filters, calls.to_vec()))? {
            ExaminerAnswer::Filters(refused) if refused.is_none_or(|at| at < calls.len()) => Ok(refused),
            _ => Err(impossible()),
        }
    }

    fn ask(&self, question: &ExaminerQuestion) -> Result<ExaminerAnswer, String> {
        let body = postcard::to_stdvec(question).map_err(|error| error.to_string())?;
        let answer = match self.worker {
            Some(worker) => {
                let (kind, urgency) = (JobKind::Examination, JobUrgency::First);
                let job = WorkerJob { kind, urgency, part: 0, body: &body, descriptors: &[] };
                worker
                    .work(&job, &self.deadline)
                    .map_err(|end| format!("its code could not be examined: {end}"))?
            }
            None => work(&body),
        };
        postcard::from_bytes(&answer).map_err(|_| impossible())
    }
}

impl ExaminedFunction {
    fn of(function: &PatchableCode) -> Self {
        let PatchableCode { address, code, to } = function;
        ExaminedFunction {
            moved: MovedPrologue::of(code, *address, *to, DISPLACED_BYTES as usize),
            targets: targets(code, *address),
        }
    }

    /// Whether this may be said of a function of so many bytes.
    fn is_possible(&self, length: usize) -> bool {
        // Instructions that lead elsewhere are of two bytes at the least.
        let has_targets = self.targets.len() <= length / 2;
        let is_moved = self.moved.as_ref().is_ok_and(|moved| {
            (JUMP_BYTES..=length).contains(&moved.length)
                && !moved.bytes.is_empty()
                && moved.bytes.len() <= DISPLACED_BYTES as usize
                && moved.offsets.iter().all(|&(was, is)| was < moved.length && is < moved.bytes.len())
        });
        has_targets && (is_moved || self.moved.is_err())
    }
}

fn impossible() -> String {
    "its code could not be examined: what was found is not possible".to_owned()
}

/// A worker's job.
pub(crate) fn work(question: &[u8]) -> Vec<u8> {
    let answer = match postcard::from_bytes(question) {
        Ok(ExaminerQuestion::Functions(functions)) => {
            ExaminerAnswer::Functions(functions.iter().map(ExaminedFunction::of).collect())
        }
        Ok(ExaminerQuestion::Stubs(stubs)) => {
            ExaminerAnswer::Stubs(stubs.iter().map(|(at, bytes)| pointer_of_stub(bytes, *at)).collect())
        }
        Ok(ExaminerQuestion::Filters(filters, calls)) => {
            ExaminerAnswer::Filters(seccomp::refused(&filters, &calls))
        }
        Err(_) => return Vec::new(),
    };
    postcard::to_stdvec(&answer).unwrap_or_default()
}

/// Takes any bytes as a question, as the code of a function, and as a filter: what is answered of code is possible.
#[cfg(feature = "testing")]
pub(crate) fn check(data: &[u8]) {
    work(data);
    let function = PatchableCode { address: 0x7f00_0000_1000, code: data.to_vec(), to: 0x7f00_2000_0000 };
    let found = ExaminedFunction::of(&function);
    assert!(found.is_possible(data.len()), "{found:?} of {} bytes", data.len());
    for stub in data.chunks(STUB_BYTES) {
        pointer_of_stub(stub, function.address);
    }
    let call = SystemCall { name: "", number: 9, arguments: [data.len() as u64; 6] };
    let refused = seccomp::refused(&[seccomp::filter_of(data)], &[call]);
    assert!(refused.is_none_or(|at| at == 0), "{refused:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_examined_and_an_impossible_answer_is_refused() {
        // push %r12; mov %rdi,%r12; call +0x10; ret
        let code = vec![0x41, 0x54, 0x49, 0x89, 0xfc, 0xe8, 0x10, 0, 0, 0, 0xc3];
        let function = PatchableCode { address: 0x1000, code, to: 0x9000 };
        let found =
            Examiner::new(None).begin().functions(std::slice::from_ref(&function)).expect("an answer");
        let moved = found[0].moved.as_ref().expect("they can be moved");
        assert_eq!((moved.length, &found[0].targets[..]), (5, &[0x101a][..]));
        let answer = |change: fn(&mut MovedPrologue)| {
            let mut found = ExaminedFunction::of(&function);
            change(found.moved.as_mut().expect("they can be moved"));
            found.is_possible(function.code.len())
        };
        assert!(answer(|_| {}));
        assert!(!answer(|moved| moved.length = 4), "less than a jump");
        assert!(!answer(|moved| moved.length = 12), "more than the function");
        assert!(!answer(|moved| moved.bytes = vec![0x90; 49]), "more than there is room for");
        assert!(!answer(|moved| moved.bytes.clear()), "nothing to run");
        assert!(!answer(|moved| moved.offsets.push((5, 0))), "outside of what was moved");
        assert!(!answer(|moved| moved.offsets.push((0, 48))), "outside of where it is");
    }

    #[test]
    fn what_is_no_question_has_no_answer() {
        assert!(work(&[9]).is_empty());
        assert!(work(&[]).is_empty());
    }
}
