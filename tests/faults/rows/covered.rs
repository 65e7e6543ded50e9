//! Rows that tests cover, and those of other machines.

use crate::fault::{Fault, How};

fn by_tests(
    number: &'static str,
    name: &'static str,
    holds: &'static str,
    tests: &'static [&'static str],
) -> Fault {
    Fault { number, name, holds, tests, how: How::Tests }
}

fn in_a_guest(
    number: &'static str,
    name: &'static str,
    holds: &'static str,
    what: &'static str,
    tests: &'static [&'static str],
) -> Fault {
    Fault { number, name, holds, tests, how: How::Guest(what) }
}

pub(super) fn rows() -> Vec<Fault> {
    let mut rows = of_targets();
    rows.extend(of_outputs());
    rows.extend(of_modules());
    rows.extend(of_debug_files());
    rows.extend(of_machines());
    rows.extend(of_limits());
    rows.extend(of_views());
    rows
}

fn of_targets() -> Vec<Fault> {
    vec![
        by_tests(
            "1",
            "the target ends meanwhile",
            "its samples have names; the recording ends with it",
            &[
                "processes_of_a_few_milliseconds_keep_their_names",
                "a_program_of_thirty_milliseconds_has_whole_stacks",
                "brief_programs_have_whole_stacks_when_the_whole_machine_is_recorded",
            ],
        ),
        by_tests(
            "6",
            "a process id is used again",
            "two processes, two rows",
            &[
                "two_processes_with_the_same_number_have_waits_of_their_own",
                "a_number_that_is_used_again_has_another_generation_also_when_nobody_looked",
            ],
        ),
        by_tests(
            "26",
            "a target with seccomp, or of another user",
            "it is recorded all the same",
            &[
                "another_users_process_is_recorded_by_root",
                "a_process_that_is_shut_against_others_is_recorded_and_goes_on",
            ],
        ),
    ]
}

fn of_outputs() -> Vec<Fault> {
    vec![
        by_tests(
            "12",
            "the output is a folder, in none, or exists",
            "refused before anything is loaded",
            &[
                "an_output_that_is_a_folder_or_in_none",
                "a_folder_an_existing_file_and_a_missing_folder_are_refused",
                "an_output_that_exists_is_kept_unless_forced",
            ],
        ),
        by_tests(
            "15",
            "a profile cut at each byte, each bit flipped",
            "read up to the damage, which is told",
            &[
                "every_cut_opens_as_a_prefix_and_says_so",
                "every_flipped_bit_is_noticed_and_what_came_before_is_kept",
                "changed_payloads_with_sound_checksums_never_panic",
                "a_recording_cut_short_is_read_as_far_as_it_goes_or_refused",
                "a_small_deep_file_is_exported_in_little_memory",
            ],
        ),
    ]
}

fn of_modules() -> Vec<Fault> {
    vec![
        by_tests(
            "16",
            "the program's file is deleted",
            "named by the file that runs",
            &["a_program_that_was_deleted_or_replaced_is_named_by_the_file_that_runs"],
        ),
        by_tests(
            "17",
            "the program's file is replaced or rewritten",
            "never the names of the other build",
            &[
                "a_program_that_is_rewritten_in_place_is_walked_and_named_by_its_new_build",
                "a_library_that_is_rewritten_in_place_is_walked_and_named_by_its_new_build",
                "a_file_that_is_rewritten_while_its_table_is_compiled_has_none",
            ],
        ),
        by_tests(
            "18",
            "stripped files, files without unwind entries",
            "walked as far as it goes, each file named with the reason",
            &[
                "every_layout_of_a_file_has_whole_and_named_stacks",
                "damage_to_a_stripped_program_without_unwind_entries",
            ],
        ),
    ]
}

fn of_debug_files() -> Vec<Fault> {
    vec![
        by_tests(
            "19",
            "sections packed in each way",
            "the same names and lines as unpacked",
            &["every_way_to_pack_sections_gives_the_same_names", "damage_to_compressed_debug_sections"],
        ),
        by_tests(
            "20",
            "DWARF 2 to 5, of 64 bits, and with type units",
            "the names and lines of llvm-symbolizer",
            &["c_names_and_lines_equal_llvm_symbolizer", "cpp_names_and_lines_equal_llvm_symbolizer"],
        ),
        by_tests(
            "21",
            "compressed, split, shared and separate debug files",
            "found and read, or said to be missing",
            &[
                "functions_in_files_of_split_dwarf_are_found_and_read",
                "packages_of_split_dwarf_are_found_and_read",
                "names_that_dwz_moved_equal_llvm_symbolizer",
                "damage_to_compressed_debug_sections",
                "debug_link_is_a_plain_file_name",
            ],
        ),
        by_tests(
            "22",
            "memfd, vdso, vsyscall, static, 32 bit",
            "named, or said not to be walked",
            &[
                "a_program_without_a_name_in_any_folder_is_named_and_walked",
                "functions_of_the_vdso_are_named",
                "a_vsyscall_is_a_frame_of_its_own",
                "a_32_bit_program_is_named_as_such_and_not_walked",
            ],
        ),
        by_tests(
            "41",
            "perf maps and dumps of others, links, pipes",
            "not read, and said so",
            &[
                "only_a_plain_file_of_the_right_owner_is_opened",
                "links_folders_and_pipes_are_left_alone",
                "hostile_lines_are_counted_and_skipped",
            ],
        ),
    ]
}

fn of_machines() -> Vec<Fault> {
    vec![
        in_a_guest(
            "13",
            "the clock is set, forwards and back",
            "no time is negative, lengths are right",
            "scripts/test-faults.sh, step clock",
            &[],
        ),
        by_tests(
            "23",
            "a kernel without BTF",
            "sampled by perf events, with the reason",
            &[
                "a_kernel_without_type_information_is_sampled_by_perf_events",
                "without_type_information_waits_have_stacks_and_reasons_by_perf_events",
            ],
        ),
        in_a_guest(
            "24",
            "lockdown=confidentiality",
            "sampled by perf events, with the reason",
            "scripts/test-faults.sh, step lockdown",
            &[],
        ),
        in_a_guest(
            "25",
            "missing capabilities, seccomp, namespaces, perf_event_paranoid 3",
            "what is missing is named, with what grants it",
            "scripts/test-faults.sh, step paranoid",
            &[
                "an_ordinary_user_is_told_what_is_missing",
                "a_container_without_capabilities_is_told_which_to_add",
                "the_documented_capabilities_are_enough",
                "a_user_namespace_is_named_as_the_reason",
            ],
        ),
        in_a_guest(
            "33",
            "a CPU goes off and comes back, or comes for the first time",
            "recorded again within five seconds in a slow guest, and what it lacks is said",
            "scripts/test-faults.sh, steps cpu, off, flap and events",
            &[],
        ),
        in_a_guest(
            "36",
            "the machine is paused",
            "no wait is longer than the recording",
            "scripts/test-faults.sh, step pause",
            &[],
        ),
    ]
}

fn of_limits() -> Vec<Fault> {
    vec![
        by_tests(
            "27",
            "little memory, few descriptors",
            "refused with the reason, or recorded within the limit",
            &[
                "too_little_memory_for_the_kernel_side_is_named_as_the_reason",
                "files_beyond_the_limit_are_counted_and_opened_when_there_is_room",
                "memory_stays_bounded_over_a_day",
            ],
        ),
        by_tests(
            "28",
            "huge files",
            "bounded memory and time",
            &[
                "a_sparse_file_of_a_tebibyte_is_quick",
                "a_million_units_are_listed_in_little_memory",
                "a_hole_of_a_terabyte_behind_the_profile_is_not_read",
            ],
        ),
        by_tests(
            "42",
            "sanitizers",
            "the kernel's walker and all readers under ASan and UBSan",
            &[
                "no_registers_memory_or_tables_lead_the_walker_astray",
                "kept_inputs_break_no_promise",
                "changed_inputs_break_no_promise",
            ],
        ),
        by_tests(
            "44",
            "links and foreign files as output, file capabilities",
            "not followed; nobody reads what he may not",
            &[
                "a_prof_with_capabilities_reads_nothing_that_its_user_may_not",
                "a_prof_with_capabilities_writes_nothing_that_its_user_may_not",
                "a_new_file_is_private_and_a_failed_one_is_gone",
            ],
        ),
        by_tests(
            "48",
            "a file that ends its reader: a crash, more memory than there is, no end",
            "its names and stacks are missing, with a line; all else is there",
            &[
                "a_file_that_ends_its_reader_is_skipped_with_a_line_and_all_others_are_read",
                "a_file_whose_reader_hangs_is_not_waited_for",
                "a_dump_of_generated_code_that_ends_its_reader_costs_its_names_alone",
            ],
        ),
        by_tests(
            "49",
            "the process that opens files is killed",
            "the file is kept, and what it may lack is said once",
            &["a_recording_whose_opener_was_killed_is_kept_and_says_so"],
        ),
    ]
}

fn of_views() -> Vec<Fault> {
    vec![
        by_tests("29", "the reader of a report closes its end", "quiet", &["a_closed_pipe_is_quiet"]),
        by_tests(
            "30",
            "the terminal shrinks, goes away, is dumb",
            "drawn again, or ended; never a panic",
            &[
                "a_small_terminal_says_what_it_needs_and_recovers",
                "nothing_is_left_when_the_terminal_goes_away",
                "a_terminal_that_cannot_be_drawn_on_is_told_of_the_report",
                "the_screen_follows_the_size_while_it_is_live_and_the_recording_ends_in_time",
            ],
        ),
        by_tests(
            "31",
            "Ctrl-Z and fg",
            "the terminal is given back and taken again",
            &[
                "the_terminal_is_given_back_while_the_program_is_stopped_and_taken_again",
                "what_the_shell_started_stops_with_the_program",
            ],
        ),
        by_tests(
            "35",
            "a panic inside prof",
            "the terminal is given back, exit status 101",
            &["the_terminal_is_given_back_by_a_panic", "the_terminal_is_given_back_by_a_panic_of_any_thread"],
        ),
    ]
}
