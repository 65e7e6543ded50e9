//! False alarm and detection rates of the real code on synthetic runs: 40 functions whose shares decrease as 1/n,
//! except for one with 10 %, which becomes 10 % slower; sampled at 999 Hz. docs/ci.md has the table that
//! `simulated_table` prints.

use super::fixture::{compared, gated};
use super::random::Random;
use crate::diff::difference::DiffOutcome;
use crate::diff::gate::verdicts::exit_status;
use crate::diff::options::{DiffOptions, GateOptions};
use crate::diff::per::Per;
use crate::diff::row_label::RowLabel;
use crate::diff::side::RowValue;
use crate::diff::statistics::slices::SLICES;
use crate::diff::sums::run::{RunEvent, RunSums};
use crate::diff::sums::run_row::{RunFacts, RunRow, RunSum};
use crate::diff::sums::slicing::SliceTable;
use crate::profile::Unit;
use crate::report::Metric;

const HZ: usize = 999;
const PERIOD: f64 = 1e9 / HZ as f64;
const FUNCTIONS: usize = 40;
/// The function that becomes slower.
const TARGET: usize = 3;

/// Behaviour of a program.
#[derive(Debug, Clone, Copy)]
struct Program {
    /// Concentration of the Dirichlet distribution of the shares in each second; 0 for constant shares. 250 gives a
    /// design effect of 5.
    concentration: f64,
    /// Standard deviation of the logarithm of each function's time from run to run.
    run_noise: f64,
}

const STEADY: Program = Program { concentration: 0.0, run_noise: 0.0 };
const BURSTY: Program = Program { concentration: 250.0, run_noise: 0.0 };

/// Plan of what to measure.
#[derive(Debug, Clone, Copy)]
struct Plan {
    runs: usize,
    seconds: usize,
    /// Whether each run does the same work and takes as long as it needs; else it is cut after `seconds`, and shares
    /// are compared.
    is_fixed_work: bool,
}

fn shares() -> Vec<f64> {
    let mut shares: Vec<f64> = (1..=FUNCTIONS).map(|n| 1.0 / n as f64).collect();
    shares[TARGET] = 0.0;
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share *= 0.9 / sum);
    shares[TARGET] = 0.1;
    shares
}

/// Draws functions with probabilities given by their shares.
struct Lottery {
    limits: Vec<f64>,
    guide: [u8; 256],
}

impl Lottery {
    fn new(shares: &[f64]) -> Self {
        let sum: f64 = shares.iter().sum();
        let mut limit = 0.0;
        let limits: Vec<f64> = (shares.iter())
            .map(|share| {
                limit += share / sum;
                limit
            })
            .collect();
        let first = |part: usize| limits.iter().position(|limit| *limit > part as f64 / 256.0);
        let guide = std::array::from_fn(|part| first(part).unwrap_or(FUNCTIONS - 1) as u8);
        Lottery { limits, guide }
    }

    fn draw(&self, random: &mut Random) -> usize {
        let number = random.part();
        let mut at = usize::from(self.guide[(number * 256.0) as usize]);
        while at + 1 < FUNCTIONS && self.limits[at] <= number {
            at += 1;
        }
        at
    }
}

/// A run in which TARGET takes `growth` times as long.
fn simulated(random: &mut Random, program: Program, plan: Plan, growth: f64, labels: &[RowLabel]) -> RunSums {
    let mut times = shares();
    times[TARGET] *= growth;
    times.iter_mut().for_each(|time| *time *= (program.run_noise * random.normal()).exp());
    let whole: f64 = if plan.is_fixed_work { times.iter().sum() } else { 1.0 };
    let samples = (HZ as f64 * plan.seconds as f64 * whole).round() as usize;
    let has_slices = plan.runs == 1;
    let slices = if has_slices { SLICES } else { 1 };
    let mut cells = vec![0.0; FUNCTIONS * slices];
    let mut lottery = Lottery::new(&times);
    for sample in 0..samples {
        if program.concentration > 0.0 && sample % HZ == 0 {
            let sum: f64 = times.iter().sum();
            let wandering: Vec<f64> = (times.iter())
                .map(|time| random.gamma((time / sum * program.concentration).max(1e-6)))
                .collect();
            lottery = Lottery::new(&wandering);
        }
        cells[lottery.draw(random) * slices + sample * slices / samples] += 1.0;
    }
    let series = |function: usize| {
        cells[function * slices..(function + 1) * slices]
            .iter()
            .map(|count| count * PERIOD)
            .collect::<Vec<f64>>()
    };
    let counts: Vec<f64> = cells.chunks(slices).map(|cells| cells.iter().sum()).collect();
    let sum = |count: f64| RunSum { weight: count * PERIOD, count, ..RunSum::default() };
    let rows = labels.iter().zip(&counts).map(|(label, count)| RunRow {
        label: label.clone(),
        own: sum(*count),
        total: sum(*count),
    });
    let total = |slice: usize| (0..FUNCTIONS).map(|function| cells[function * slices + slice] * PERIOD).sum();
    let by_row = || (0..FUNCTIONS).map(|function| (function as u32, series(function))).collect();
    RunSums {
        facts: RunFacts {
            duration_ns: (samples as f64 * PERIOD) as u64,
            rate_hz: HZ as u32,
            is_whole_command: plan.is_fixed_work,
            ..RunFacts::default()
        },
        event: RunEvent {
            metric: Metric::ON_CPU,
            name: "on-cpu".to_owned(),
            title: "on-CPU".to_owned(),
            noun: "sample".to_owned(),
            unit: Unit::Nanoseconds,
            is_sampled: true,
            has_waits: false,
        },
        total: sum(samples as f64),
        whole: samples as f64 * PERIOD,
        rows: rows.collect(),
        paths: Vec::new(),
        path_parts: None,
        slices: has_slices.then(|| SliceTable {
            total: (0..slices).map(total).collect(),
            own: by_row(),
            rows: by_row(),
        }),
    }
}

/// Rates over `trials`: false alarms without a change (any function reported as changed; the gate tripped by any
/// function), and detections of the slower function (reported as changed; the gate tripped by it).
fn rates(program: Program, plan: Plan, trials: usize, seed: u64) -> [f64; 4] {
    let mut random = Random::new(seed);
    let labels: Vec<RowLabel> =
        (0..FUNCTIONS).map(|function| RowLabel::bare(format!("fn{function}"))).collect();
    let per = Some(if plan.is_fixed_work { Per::Run } else { Per::Share });
    let with = |rule: &str| {
        let options = gated(&[rule]);
        DiffOptions { per, gate: GateOptions { single_run_ok: true, ..options.gate.clone() }, ..options }
    };
    let (any, target) = (with("self:."), with("self:^fn3$"));
    let mut counts = [0usize; 4];
    for _ in 0..trials {
        let mut side = |growth| -> Vec<RunSums> {
            (0..plan.runs).map(|_| simulated(&mut random, program, plan, growth, &labels)).collect()
        };
        let (same, verdicts) = compared([side(1.0), side(1.0)], &any);
        counts[0] += usize::from(same.count(RowValue::Own, DiffOutcome::is_real) > 0);
        counts[1] += usize::from(exit_status(&verdicts) == 4);
        let (slower, verdicts) = compared([side(1.0), side(1.1)], &target);
        let row = slower.rows.iter().find(|row| slower.label(row).key.name == "fn3");
        counts[2] += usize::from(row.is_some_and(|row| row.own.outcome.is_real() && row.own.delta() > 0.0));
        counts[3] += usize::from(exit_status(&verdicts) == 4);
    }
    counts.map(|count| count as f64 / trials as f64)
}

/// The documented sensitivity: ten runs with 60 s of CPU per side in all.
#[test]
fn ten_runs_of_six_seconds_find_a_tenth_of_a_tenth() {
    let plan = Plan { runs: 10, seconds: 6, is_fixed_work: true };
    let [alarms, trips, _, found] = rates(STEADY, plan, 160, 1);
    assert!(alarms <= 0.06 && trips <= 0.06, "alarms in {alarms}, trips in {trips}");
    assert!(found >= 0.95, "found in {found}");
}

/// The same in one recording.
#[test]
fn one_recording_of_sixty_seconds_finds_it_within_its_own_noise() {
    let plan = Plan { runs: 1, seconds: 60, is_fixed_work: true };
    let [alarms, trips, _, found] = rates(STEADY, plan, 160, 2);
    assert!(alarms <= 0.06 && trips <= 0.06, "alarms in {alarms}, trips in {trips}");
    assert!(found >= 0.95, "found in {found}");
}

/// Where samples come in bursts, a gate that assumes independent samples gives false alarms in 99 of 100 runs. The promise of
/// 6 % is for steady programs; docs/ci.md has 4 to 8 % for these plans, from 300 trials each, and 60 trials are as many points off.
/// Detail 23 of the promises: a comparison tells change from noise in every view, and can fail a build.
#[test]
fn bursts_are_no_alarms() {
    for (runs, seconds) in [(10, 6), (1, 60)] {
        let plan = Plan { runs, seconds, is_fixed_work: false };
        let [alarms, trips, ..] = rates(BURSTY, plan, 60, 3);
        assert!(alarms <= 0.1 && trips <= 0.06, "{plan:?}: alarms in {alarms}, trips in {trips}");
    }
}

#[test]
#[ignore = "takes minutes: the table of docs/ci.md"]
#[allow(clippy::print_stdout, reason = "the table is what it is for")]
fn simulated_table() {
    const TRIALS: usize = 300;
    println!("| runs x s | compared | program | any alarm | gate trips | changed found | gate finds |");
    for (is_fixed_work, per) in [(true, "s per run"), (false, "share")] {
        for (runs, seconds) in [(1, 30), (1, 60), (1, 120), (5, 12), (10, 6), (10, 12), (20, 6)] {
            for (program, name) in [
                (STEADY, "steady"),
                (BURSTY, "bursty"),
                (Program { run_noise: 0.01, ..BURSTY }, "bursty, 1% run noise"),
            ] {
                let plan = Plan { runs, seconds, is_fixed_work };
                let [alarms, trips, changed, found] = rates(program, plan, TRIALS, 7);
                println!(
                    "| {runs} x {seconds} | {per} | {name} | {alarms:.2} | {trips:.2} | {changed:.2} | {found:.2} |"
                );
            }
        }
    }
}
