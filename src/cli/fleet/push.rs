//! `prof push`: what can be typed.

use crate::base::failure::Failure;
use crate::cli::request::{HELP_TEMPLATE, Stop};
use crate::cli::value;
use crate::cli::value::Ids;
use crate::profile::RuntimeFrames;
use crate::push::target::{PushTarget, PushUrl};
use crate::push::verb::PushOptions;
use crate::report::{
    CommonOptions, DEFAULT_FILE, FilterOptions, HostLabel, Metric, NameStyle, SampleLabel, SeriesOptions,
    ThreadFilter, TimeRange, refuse_label,
};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Send recordings to a server of profiles: Grafana Pyroscope, or a receiver of OTLP profiles
///
/// The samples of a recording are sent as series: one for each service and event. The service is that of the labels with which
/// the samples were recorded, or the name of the program. What the server refuses for its size is divided; what it does not take
/// now is tried again. Exits with status 3 if there was nothing to send, and with status 1 if not all was delivered.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof push prof.data --to pyroscope+http://localhost:4040
  prof push *.data --to otlp+https://collector:4318 --label env=prod
  prof push old.data --to pyroscope+http://localhost:4040 --now
                                  as if it had just been recorded
  prof push prof.data --to pyroscope+http://localhost:4040 --dry-run
                                  what would be sent")]
pub(in crate::cli) struct PushArgs {
    /// The recordings, or folders of recordings, *.data
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
    files: Vec<PathBuf>,
    /// The server: pyroscope+URL, or otlp+URL; http:// or https://
    #[arg(long, value_name = "PROTOCOL+URL", value_parser = PushUrl::parse, help_heading = "Where to")]
    to: PushUrl,
    /// Tenant (X-Scope-OrgID)
    #[arg(long, value_name = "NAME", help_heading = "Where to")]
    tenant: Option<String>,
    /// File with a token for the server
    #[arg(long, value_name = "FILE", help_heading = "Where to", conflicts_with = "basic_auth_file")]
    bearer_file: Option<PathBuf>,
    /// File with user and password for the server: USER:PASSWORD
    #[arg(long, value_name = "FILE", help_heading = "Where to")]
    basic_auth_file: Option<PathBuf>,
    /// File with the certificates of the authorities to trust, instead of those of this machine
    #[arg(long, value_name = "FILE", help_heading = "Where to")]
    ca_file: Option<PathBuf>,
    /// Another header of each request; none that is a secret
    #[arg(long, value_name = "NAME:VALUE", value_parser = header, help_heading = "Where to")]
    header: Vec<(String, String)>,
    /// Longest time for one request
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::positive_duration, help_heading = "Where to")]
    timeout: Duration,
    /// Give up after so long without any success
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = value::duration, help_heading = "Where to")]
    retry: Duration,
    /// Name of the service, of all samples
    #[arg(long, value_name = "NAME", value_parser = label_value, help_heading = "Which labels")]
    service: Option<String>,
    /// Name of the host [default: that of the recording]
    #[arg(long, value_name = "NAME", value_parser = label_value, help_heading = "Which labels")]
    host: Option<String>,
    /// Another label of all series
    #[arg(long, value_name = "KEY=VALUE", value_parser = label, help_heading = "Which labels")]
    label: Vec<(String, String)>,
    /// Label of samples: thread, pid, tid, reason (of a wait), or the key of a label that was recorded. Pyroscope makes a series
    /// of each value
    #[arg(long, value_name = "KEY", help_heading = "Which labels")]
    sample_label: Vec<String>,
    /// Only this event, by its name in prof record -e: cpu, off, heap, ...; may be given several times [default: all]
    #[arg(short, long, value_name = "EVENT", value_parser = value::shown_event, help_heading = "Which samples and frames")]
    event: Vec<Metric>,
    /// Include idle waits, in which a thread's top-level loop waits for work
    #[arg(long, help_heading = "Which samples and frames")]
    idle: bool,
    /// Only processes with a matching name
    #[arg(long, value_name = "REGEX", value_parser = value::pattern, help_heading = "Which samples and frames")]
    process: Vec<String>,
    /// Only these processes
    #[arg(long, value_name = "PID,…", value_parser = value::recorded_pids, allow_negative_numbers = true,
        help_heading = "Which samples and frames")]
    pid: Vec<Ids>,
    /// Only this part of the recording: 2s..5s, 2s.. or ..5s
    #[arg(long, value_name = "FROM..TO", value_parser = value::time_range, allow_hyphen_values = true,
        help_heading = "Which samples and frames")]
    time: Option<TimeRange>,
    /// Count inlined functions as part of the function they were inlined into
    #[arg(long, help_heading = "Which samples and frames")]
    no_inline: bool,
    /// What to send of interpreters: functions of the language without the interpreter's own frames (folded), both (full), or
    /// native frames only (off) [default: folded, or as recorded]
    #[arg(long, value_name = "WHAT", value_parser = value::runtime_frames(), help_heading = "Which samples and frames")]
    runtime: Option<RuntimeFrames>,
    /// How names are written
    #[arg(long, value_name = "STYLE", default_value = "full", value_parser = value::name_style(),
        help_heading = "Which samples and frames")]
    names: NameStyle,
    /// Send recordings as if they had just ended: servers refuse what is older than an hour
    #[arg(long)]
    now: bool,
    /// Show the series and their sizes, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not print what was sent
    #[arg(short, long)]
    quiet: bool,
}

impl PushArgs {
    pub(in crate::cli) fn into_options(self) -> Result<PushOptions, Stop> {
        if let Some(why) = refuse_label(&self.label) {
            return Err(Failure::usage(why).into());
        }
        let pids = value::all_ids(self.pid);
        let mut threads = Vec::from_iter(value::any_of(self.process).map(ThreadFilter::OfProcessesMatching));
        threads.extend((!pids.is_empty()).then_some(ThreadFilter::OfProcesses(pids)));
        let filter = FilterOptions {
            time: self.time.unwrap_or_default(),
            idle: self.idle,
            threads,
            ..FilterOptions::default()
        };
        let common = CommonOptions {
            filter,
            inline: !self.no_inline,
            runtime: self.runtime,
            names: Some(self.names),
            ..CommonOptions::default()
        };
        let series = SeriesOptions {
            series_labels: Vec::new(),
            other_labels: Vec::new(),
            service: self.service,
            host: self.host.map_or(HostLabel::OfRecording, HostLabel::Named),
            labels: self.label,
            sample_labels: self.sample_label.iter().map(|word| SampleLabel::of(word)).collect(),
            events: self.event,
            common,
            with_addresses: false,
            ended_unix_ns: None,
        };
        let target = PushTarget {
            tenant: self.tenant,
            bearer_file: self.bearer_file,
            basic_file: self.basic_auth_file,
            ca_file: self.ca_file,
            headers: self.header,
            timeout: self.timeout,
            ..PushTarget::new(self.to)
        };
        target.check()?;
        Ok(PushOptions {
            files: self.files,
            target,
            series,
            is_now: self.now,
            patience: self.retry,
            is_dry_run: self.dry_run,
            is_quiet: self.quiet,
        })
    }
}

/// `NAME:VALUE`.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write NAME:VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// `KEY=VALUE`.
fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The value of a label that `prof` itself names.
fn label_value(text: &str) -> Result<String, String> {
    let value = [("name".to_owned(), text.to_owned())];
    refuse_label(&value)
        .map_or_else(|| Ok(text.to_owned()), |_| Err("it is empty, too long or no text".to_owned()))
}
