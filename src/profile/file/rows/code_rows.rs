//! Rows of code bytes and of source lines: from the profile to the file and back. What comes back is a stranger's and is checked.

use crate::profile::code::function_code::{CallTarget, CodeRun, FunctionCode, InlinedCall};
use crate::profile::code::source_text::SourceText;
use crate::profile::file::rows::coding::{CodedColumn, squeeze};
use crate::profile::file::rows::schema::{CodeRow, SourceRow};
use crate::profile::rows::{ModuleId, StringId};
use crate::profile::symbols::FunctionId;

/// Most code bytes of one row.
const MAX_CODE_BYTES: usize = 1 << 20;
/// Code bytes and text after which a chunk is closed.
const BYTES_PER_CHUNK: usize = 1 << 20;

/// Number of rows that fit into a chunk, at least one where there are rows, given the bytes of code or text of each.
pub(in crate::profile::file) fn fitting(bytes: impl Iterator<Item = usize>) -> usize {
    let sums = bytes.scan(0, |sum: &mut usize, bytes| {
        *sum += bytes;
        Some(*sum)
    });
    sums.enumerate().take_while(|(row, sum)| *row == 0 || *sum <= BYTES_PER_CHUNK).count()
}

/// The row of `code`, with the ids that `string` and `function` give.
pub(in crate::profile::file) fn encode(
    code: &FunctionCode,
    string: impl Fn(StringId) -> u32,
    function: impl Fn(FunctionId) -> u32,
) -> CodeRow {
    let ends = code.runs.iter().skip(1).map(|run| run.offset).chain([code.bytes.len() as u32]);
    let lengths = code.runs.iter().zip(ends).map(|(run, end)| end.saturating_sub(run.offset));
    CodeRow {
        module: code.module.0,
        function: function(code.function),
        start: code.start,
        size: code.size,
        skipped: code.address.saturating_sub(code.start),
        bytes: code.bytes.clone(),
        run_length: lengths.collect(),
        run_call: squeeze(code.runs.iter().map(|run| run.call).collect(), 0),
        run_file: squeeze(differences(code.runs.iter().map(|run| string(run.file))), 0),
        run_line: differences(code.runs.iter().map(|run| run.line)),
        call_function: code.inlined.iter().map(|call| function(call.function)).collect(),
        call_parent: squeeze(code.inlined.iter().map(|call| call.parent).collect(), 0),
        call_file: squeeze(differences(code.inlined.iter().map(|call| string(call.file))), 0),
        call_line: differences(code.inlined.iter().map(|call| call.line)),
        target_address: (code.targets.iter())
            .scan(code.start, |last, target| {
                let distance = target.address.wrapping_sub(*last).cast_signed();
                *last = target.address;
                Some(distance)
            })
            .collect(),
        target_function: code.targets.iter().map(|target| function(target.function)).collect(),
    }
}

/// Each number as the distance from the one before, at first from 0.
fn differences(numbers: impl Iterator<Item = u32>) -> Vec<i32> {
    let mut last = 0u32;
    let step = |number: u32| number.wrapping_sub(std::mem::replace(&mut last, number)).cast_signed();
    numbers.map(step).collect()
}

/// Numbers of rows that code may refer to.
#[derive(Debug, Clone, Copy)]
pub(in crate::profile::file) struct RowCounts {
    pub(in crate::profile::file) modules: usize,
    pub(in crate::profile::file) functions: usize,
}

/// Decodes `row`, or returns why it cannot be used. `string` finds a string by its number in the file.
pub(in crate::profile::file) fn decode<E: From<String>>(
    row: CodeRow,
    counts: RowCounts,
    string: impl Fn(u32) -> Result<StringId, E>,
) -> Result<FunctionCode, E> {
    let check = |is_sound: bool, what: &str| if is_sound { Ok(()) } else { Err(E::from(what.to_owned())) };
    let function =
        |id: u32| check((id as usize) < counts.functions, "a function is not there").map(|()| FunctionId(id));
    check((row.module as usize) < counts.modules, "its module is not there")?;
    let length = row.bytes.len() as u64;
    let end = row.start.checked_add(row.size);
    let is_inside = row.skipped.checked_add(length).is_some_and(|end| end <= row.size);
    check(
        end.is_some() && is_inside && row.bytes.len() <= MAX_CODE_BYTES,
        "its bytes are not in its function",
    )?;
    let mut code = FunctionCode {
        module: ModuleId(row.module),
        function: function(row.function)?,
        start: row.start,
        size: row.size,
        address: row.start + row.skipped,
        inlined: decode_calls(&row, &string, function)?,
        runs: decode_runs(&row, &string)?,
        ..FunctionCode::default()
    };
    check(row.target_address.len() == row.target_function.len(), NOT_ONE_LENGTH)?;
    let mut address = row.start;
    for (&distance, &of) in row.target_address.iter().zip(&row.target_function) {
        address = address.wrapping_add_signed(distance);
        code.targets.push(CallTarget { address, function: function(of)? });
    }
    code.bytes = row.bytes;
    Ok(code)
}

const NOT_ONE_LENGTH: &str = "its columns are not of one length";

fn decode_calls<E: From<String>>(
    row: &CodeRow,
    string: impl Fn(u32) -> Result<StringId, E>,
    function: impl Fn(u32) -> Result<FunctionId, E>,
) -> Result<Vec<InlinedCall>, E> {
    let odd = || E::from(NOT_ONE_LENGTH.to_owned());
    let count = row.call_function.len();
    let parents = CodedColumn::new(&row.call_parent, count, 0).ok_or_else(odd)?;
    let files = CodedColumn::new(&row.call_file, count, 0).ok_or_else(odd)?;
    if row.call_line.len() != count {
        return Err(odd());
    }
    let (mut file, mut line) = (0u32, 0u32);
    let mut calls = Vec::with_capacity(count);
    for (number, (&of, &step)) in (0u32..).zip(row.call_function.iter().zip(&row.call_line)) {
        file = file.wrapping_add_signed(files.get(number as usize));
        line = line.wrapping_add_signed(step);
        let parent = parents.get(number as usize);
        if parent > number {
            return Err(E::from("an inlined call is its own caller".to_owned()));
        }
        calls.push(InlinedCall { function: function(of)?, parent, file: string(file)?, line });
    }
    Ok(calls)
}

fn decode_runs<E: From<String>>(
    row: &CodeRow,
    string: impl Fn(u32) -> Result<StringId, E>,
) -> Result<Vec<CodeRun>, E> {
    let odd = || E::from(NOT_ONE_LENGTH.to_owned());
    let count = row.run_length.len();
    let calls = CodedColumn::new(&row.run_call, count, 0).ok_or_else(odd)?;
    let files = CodedColumn::new(&row.run_file, count, 0).ok_or_else(odd)?;
    let sum: u64 = row.run_length.iter().map(|&length| u64::from(length)).sum();
    let is_whole = (count == 0 || sum == row.bytes.len() as u64) && !row.run_length.contains(&0);
    if !is_whole || row.run_line.len() != count {
        return Err(E::from("its lines are not those of its bytes".to_owned()));
    }
    let (mut offset, mut file, mut line) = (0u32, 0u32, 0u32);
    let mut runs = Vec::with_capacity(count);
    for (number, (&length, &step)) in row.run_length.iter().zip(&row.run_line).enumerate() {
        file = file.wrapping_add_signed(files.get(number));
        line = line.wrapping_add_signed(step);
        let call = calls.get(number);
        if call as usize > row.call_function.len() {
            return Err(E::from("an inlined call is not there".to_owned()));
        }
        runs.push(CodeRun { offset, call, file: string(file)?, line });
        // The sum is that of the bytes, which are few.
        offset = offset.saturating_add(length);
    }
    Ok(runs)
}

/// Bytes that a row takes in memory.
pub(in crate::profile::file) fn memory_bytes(row: &CodeRow) -> usize {
    size_of::<FunctionCode>()
        + row.bytes.len()
        + row.run_length.len() * size_of::<CodeRun>()
        + row.call_function.len() * size_of::<InlinedCall>()
        + row.target_address.len() * size_of::<CallTarget>()
}

/// The row of lines of a source, with the id that `string` gives.
pub(in crate::profile::file) fn encode_source(
    source: &SourceText,
    string: impl Fn(StringId) -> u32,
) -> SourceRow {
    SourceRow { file: string(source.file), first_line: source.first_line, text: source.text.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> FunctionCode {
        FunctionCode {
            module: ModuleId(1),
            function: FunctionId(2),
            start: 0x1000,
            size: 0x40,
            address: 0x1010,
            bytes: vec![0x90; 16],
            runs: vec![
                CodeRun { offset: 0, call: 0, file: StringId(3), line: 100 },
                CodeRun { offset: 4, call: 2, file: StringId(4), line: 7 },
                CodeRun { offset: 9, call: 0, file: StringId(0), line: 0 },
            ],
            inlined: vec![
                InlinedCall { function: FunctionId(0), parent: 0, file: StringId(3), line: 90 },
                InlinedCall { function: FunctionId(1), parent: 1, file: StringId(4), line: 5 },
            ],
            targets: vec![
                CallTarget { address: 0x900, function: FunctionId(1) },
                CallTarget { address: 0x2000, function: FunctionId(0) },
            ],
        }
    }

    fn back(row: CodeRow) -> Result<FunctionCode, String> {
        let counts = RowCounts { modules: 2, functions: 3 };
        let string = |id: u32| if id < 5 { Ok(StringId(id)) } else { Err("no string".to_owned()) };
        decode(row, counts, string)
    }

    fn row() -> CodeRow {
        encode(&sample(), |id| id.0, |id| id.0)
    }

    #[test]
    fn code_comes_back_as_it_was() {
        assert_eq!(back(row()), Ok(sample()));
        let bare = FunctionCode { runs: Vec::new(), inlined: Vec::new(), targets: Vec::new(), ..sample() };
        assert_eq!(back(encode(&bare, |id| id.0, |id| id.0)), Ok(bare));
    }

    #[test]
    fn code_that_cannot_be_is_refused() {
        let wrong: [fn(&mut CodeRow); 12] = [
            |row| row.module = 2,
            |row| row.function = 3,
            |row| row.size = 0x1f,
            |row| row.start = u64::MAX - 3,
            |row| row.skipped = u64::MAX,
            |row| row.run_length[1] = 1 << 31,
            |row| row.run_length[1] = 0,
            |row| row.run_line.truncate(1),
            |row| row.call_parent = vec![1, 0],
            |row| row.run_call = vec![0, 3, 0],
            |row| row.run_file[1] = 99,
            |row| row.target_function = vec![0, 9],
        ];
        for (number, wrong) in wrong.iter().enumerate() {
            let mut row = row();
            wrong(&mut row);
            assert!(back(row).is_err(), "{number}");
        }
    }
}
