//! Perl: functions that run ops, and those by which C code calls subs.

use super::functions::Machinery;

/// Functions of these files.
pub(super) const MACHINERY: Machinery = Machinery {
    files: &["libperl", "perl", "debugperl"],
    prefixes: &["Perl_runops_", "Perl_call_", "Perl_eval_", "Perl_magic_methcall", "S_docatch", "S_run_body"],
    names: &[
        "perl_run",
        "Perl_amagic_call",
        "Perl_try_amagic_bin",
        "Perl_try_amagic_un",
        "Perl_despatch_signals",
        "Perl_pp_entersub",
        "Perl_pp_goto",
        "Perl_pp_entertry",
        "Perl_pp_entertrycatch",
        "S_sortcv",
        "S_sortcv_stacked",
        "S_curse",
    ],
    calls: &[
        "Perl_runops_",
        "Perl_call_sv",
        "Perl_call_list",
        "Perl_magic_methcall",
        "S_docatch",
        "Perl_pp_entersub",
    ],
};
