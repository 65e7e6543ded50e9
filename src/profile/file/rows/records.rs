//! The records that describe a recording and its threads, between the profile and the messages of the file.

use super::old_words;
use crate::profile::contents::{End, Meta};
use crate::profile::file::rows::schema;
use crate::profile::kernel_addresses::AddressSettings;
use crate::profile::runtime_frames::RuntimeFrames;
use crate::profile::wait::ThreadTime;

impl From<&Meta> for schema::Meta {
    fn from(meta: &Meta) -> Self {
        // Taken apart so that a new field cannot be forgotten here.
        let Meta {
            prof_version,
            command,
            hostname,
            kernel,
            arch,
            cpus,
            start_unix_ns,
            start_mono_ns,
            target,
            target_name,
            target_pids,
            threads_at_start,
            requested_hz,
            effective_hz,
            clock,
            clock_is_timer,
            user_only,
            recorder_pid,
            kernel_addresses,
            pid_namespace,
            is_command,
            notices,
            why_no_waits,
            runtime,
            imported_from,
            source_file,
            source_tool,
            losses_known,
        } = meta.clone();
        schema::Meta {
            prof_version,
            command,
            hostname,
            kernel,
            arch,
            cpus,
            start_unix_ns,
            start_mono_ns,
            target,
            target_name,
            target_pids,
            threads_at_start,
            requested_hz,
            effective_hz,
            clock,
            user_only,
            recorder_pid,
            kptr_restrict: kernel_addresses.map(|settings| settings.kptr_restrict),
            perf_event_paranoid: kernel_addresses.map(|settings| settings.perf_event_paranoid),
            pid_namespace,
            notices,
            is_command,
            has_syslog: kernel_addresses.is_some_and(|settings| settings.has_syslog),
            imported_from,
            source_file,
            source_tool,
            losses_known,
            clock_is_timer: Some(clock_is_timer),
            why_no_waits: Some(why_no_waits),
            runtime: runtime.code(),
        }
    }
}

impl From<schema::Meta> for Meta {
    fn from(meta: schema::Meta) -> Self {
        Meta {
            clock_is_timer: meta.clock_is_timer.unwrap_or_else(|| old_words::is_timer(&meta.clock)),
            runtime: RuntimeFrames::from_code(meta.runtime),
            why_no_waits: meta
                .why_no_waits
                .unwrap_or_else(|| old_words::why_no_waits(&meta.notices).unwrap_or_default()),
            prof_version: meta.prof_version,
            command: meta.command,
            hostname: meta.hostname,
            kernel: meta.kernel,
            arch: meta.arch,
            cpus: meta.cpus,
            start_unix_ns: meta.start_unix_ns,
            start_mono_ns: meta.start_mono_ns,
            target: meta.target,
            target_name: meta.target_name,
            target_pids: meta.target_pids,
            threads_at_start: meta.threads_at_start,
            requested_hz: meta.requested_hz,
            effective_hz: meta.effective_hz,
            clock: meta.clock,
            user_only: meta.user_only,
            recorder_pid: meta.recorder_pid,
            kernel_addresses: meta.kptr_restrict.zip(meta.perf_event_paranoid).map(
                |(kptr_restrict, perf_event_paranoid)| AddressSettings {
                    kptr_restrict,
                    perf_event_paranoid,
                    has_syslog: meta.has_syslog,
                },
            ),
            pid_namespace: meta.pid_namespace,
            notices: meta.notices,
            is_command: meta.is_command,
            imported_from: meta.imported_from,
            source_file: meta.source_file,
            source_tool: meta.source_tool,
            losses_known: meta.losses_known,
        }
    }
}

impl From<&End> for schema::End {
    fn from(end: &End) -> Self {
        // Taken apart so that a new field cannot be forgotten here.
        let End {
            duration_ns,
            reason,
            cpu_ns,
            bpf_ns,
            bpf_runs,
            max_rss_bytes,
            threads,
            command_status,
            recording_cpu_ns,
            command_signal,
            notices,
            writing_failed,
        } = end.clone();
        schema::End {
            duration_ns,
            reason,
            cpu_ns,
            bpf_ns,
            bpf_runs,
            max_rss_bytes,
            threads,
            command_status,
            recording_cpu_ns,
            command_signal,
            notices,
            writing_failed: Some(writing_failed),
        }
    }
}

impl From<schema::End> for End {
    fn from(end: schema::End) -> Self {
        End {
            writing_failed: end.writing_failed.unwrap_or_else(|| old_words::is_failed_write(&end.reason)),
            duration_ns: end.duration_ns,
            reason: end.reason,
            cpu_ns: end.cpu_ns,
            bpf_ns: end.bpf_ns,
            bpf_runs: end.bpf_runs,
            max_rss_bytes: end.max_rss_bytes,
            threads: end.threads,
            command_status: end.command_status,
            recording_cpu_ns: end.recording_cpu_ns,
            command_signal: end.command_signal,
            notices: end.notices,
        }
    }
}

impl From<&ThreadTime> for schema::ThreadTimeRow {
    fn from(time: &ThreadTime) -> Self {
        // Taken apart so that a new field cannot be forgotten here.
        let ThreadTime {
            task,
            from_ns,
            to_ns,
            on_cpu_ns,
            no_cpu_ns,
            blocked_ns,
            switches,
            has_ended,
            short_waits,
        } = time;
        schema::ThreadTimeRow {
            task: task.0,
            from_ns: *from_ns,
            length_ns: to_ns.saturating_sub(*from_ns),
            on_cpu_ns: *on_cpu_ns,
            no_cpu_ns: *no_cpu_ns,
            blocked_ns: *blocked_ns,
            switches: *switches,
            has_ended: *has_ended,
            short_reason: short_waits.iter().map(|short| u32::from(short.reason.code())).collect(),
            short_count: short_waits.iter().map(|short| short.count).collect(),
            short_ns: short_waits.iter().map(|short| short.time_ns).collect(),
        }
    }
}
