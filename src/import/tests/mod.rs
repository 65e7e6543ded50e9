//! Files of each format: complete, truncated and damaged. Comparisons with the tools themselves are in `tests/imports`.

mod damaged;
mod perf_file;
mod text;

use super::*;
use crate::profile::{self, Profile};
use std::io::Cursor;

/// Folded stacks with all features of the format.
const FOLDED: &str =
    "# comment\nworker (tid 7);main;work;inner_[i];read_[k] 3\nworker (tid 7);main;work 2\nother;main 1\n";

/// Text as perf script writes it.
const SCRIPT: &str = "app 10/11 [001] 5.000000:     250000 cpu-clock:pppH: 
\tffffffff8100 do_read+0x12 ([kernel.kallsyms])
\t        55d0 inner (inlined)
\t        55d0 work+0x1f (/bin/app)
\t        55a0 main+0x4 (/bin/app)

app 10/11 [000] 5.250000:     250000 cpu-clock:pppH: 
\t        55d0 inner (inlined)
\t        55d0 work+0x1f (/bin/app)
\t        55a0 main+0x4 (/bin/app)

app 10/12 [000] 5.500000:       7 page-faults: 
\t        7f00 [unknown] (/lib/libc.so.6)

app 10/12 [000] 5.600000:   1000 off-cpu: 
\t           0 [lock] ([unknown])
\t        55a0 main (/bin/app)

";

/// Imports `bytes` as if from a pipe.
fn import_bytes(bytes: &[u8], options: &ImportOptions) -> Result<(Profile, Imported), ImportError> {
    import_source(ImportSource::of_stream(Cursor::new(bytes.to_vec())), options)
}

fn import_source(source: ImportSource, options: &ImportOptions) -> Result<(Profile, Imported), ImportError> {
    let mut out = Vec::new();
    let imported = import(source, None, options, &mut out, &mut |_| Vec::new())?;
    let (profile, integrity) = profile::read(&mut out.as_slice()).expect("what is written can be read");
    assert!(integrity.is_complete && profile.end.is_some(), "{integrity:?}");
    Ok((profile, imported))
}

/// Total weight of an event, its number of samples with merged rows expanded, and the texts of its stacks.
fn event(profile: &Profile, name: &str) -> (u64, u64, Vec<String>) {
    let event = profile.events.iter().find(|event| event.kind().name == name).expect(name);
    let stacks = event.samples().map(|sample| {
        let mut names = Vec::new();
        for frame in sample.stack.into_iter().flat_map(|stack| profile.tables.stack_frames(stack)) {
            for location in profile.symbols.locations(frame) {
                names.push(profile.tables.string(profile.symbols.function(location.function).name));
            }
        }
        names.join("<")
    });
    (event.total_weight(), event.observations(), stacks.collect())
}
