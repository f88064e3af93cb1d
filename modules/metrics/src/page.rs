//! One scrape: the collected series and their text.

use std::collections::HashMap;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::{MetricType, exemplar::Exemplar},
    registry::{Registry, Unit},
};
use tenon_api::{DURATION_BOUNDS, DurationCounts};

use crate::families::{ALL, Family, Kind};

/// The media type of [`Page::text`].
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const NANOSECONDS: f64 = 1e9;

#[derive(Debug)]
enum Value {
    Whole(u64),
    Fraction(f64),
    Durations(DurationCounts),
}

#[derive(Debug)]
struct Series {
    labels: Vec<String>,
    value: Value,
}

/// The series of one scrape, all of families in the list.
#[derive(Debug, Default)]
pub struct Page {
    series: HashMap<&'static str, Vec<Series>>,
}

impl Page {
    /// Adds a series of a counter, gauge or info. `labels` are the values of the family's labels, in its order.
    pub fn add(&mut self, family: &'static Family, labels: &[&str], value: u64) {
        self.push(family, labels, Value::Whole(value));
    }

    /// Adds a series with a fractional value.
    pub fn add_fraction(&mut self, family: &'static Family, labels: &[&str], value: f64) {
        self.push(family, labels, Value::Fraction(value));
    }

    /// Adds a series of a histogram.
    pub fn add_durations(&mut self, family: &'static Family, labels: &[&str], durations: DurationCounts) {
        self.push(family, labels, Value::Durations(durations));
    }

    fn push(&mut self, family: &'static Family, labels: &[&str], value: Value) {
        debug_assert_eq!(labels.len(), family.labels.len(), "labels of {}", family.name);
        debug_assert_eq!(
            matches!(value, Value::Durations(_)),
            family.kind == Kind::Histogram,
            "kind of {}",
            family.name
        );
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.series.entry(family.name).or_default().push(Series { labels, value });
    }

    /// The page in OpenMetrics 1.0, families in the order of the list. Families without series are omitted.
    pub(crate) fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::with_capacity(32 << 10);
        // Writing to a string does not fail.
        let _ = text::encode(&mut text, &registry);
        text
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        for family in ALL {
            let Some(series) = self.series.get(family.name) else { continue };
            let unit = family.unit.map(unit);
            let suffix = family.unit.map(|unit| format!("_{unit}")).unwrap_or_default();
            // The library adds the unit to the name itself.
            let name = family.name.strip_suffix(&suffix).unwrap_or(family.name);
            let mut metric = encoder.encode_descriptor(name, family.help, unit.as_ref(), metric_type(family.kind))?;
            for series in series {
                encode_series(family, series, &mut metric)?;
            }
        }
        Ok(())
    }
}

fn encode_series(family: &Family, series: &Series, metric: &mut MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
    let labels: Vec<(&str, &str)> =
        family.labels.iter().copied().zip(series.labels.iter().map(String::as_str)).collect();
    if family.kind == Kind::Info {
        return metric.encode_info(&labels);
    }
    if labels.is_empty() {
        return encode_value(family.kind, &series.value, metric);
    }
    encode_value(family.kind, &series.value, &mut metric.encode_family(&labels)?)
}

fn encode_value(kind: Kind, value: &Value, metric: &mut MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
    const NO_EXEMPLAR: Option<&Exemplar<NoLabelSet, f64>> = None;
    const NO_EXEMPLARS: Option<&HashMap<usize, Exemplar<NoLabelSet, f64>>> = None;
    match (kind, value) {
        (Kind::Counter, Value::Whole(value)) => metric.encode_counter(value, NO_EXEMPLAR),
        (Kind::Counter, Value::Fraction(value)) => metric.encode_counter(value, NO_EXEMPLAR),
        (_, Value::Whole(value)) => metric.encode_gauge(value),
        (_, Value::Fraction(value)) => metric.encode_gauge(value),
        (_, Value::Durations(durations)) => {
            let bounds = DURATION_BOUNDS.iter().map(|bound| *bound as f64 / NANOSECONDS).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(durations.buckets).collect();
            metric.encode_histogram(durations.sum().as_secs_f64(), durations.number(), &buckets, NO_EXEMPLARS)
        }
    }
}

fn unit(name: &str) -> Unit {
    match name {
        "seconds" => Unit::Seconds,
        "bytes" => Unit::Bytes,
        other => Unit::Other(other.to_owned()),
    }
}

const fn metric_type(kind: Kind) -> MetricType {
    match kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
        Kind::Info => MetricType::Info,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenon_api::Durations;

    use super::*;
    use crate::families;

    #[test]
    fn writes_each_kind_as_prometheus_reads_it() {
        let durations = Durations::default();
        durations.count(Duration::from_micros(4));
        durations.count(Duration::from_secs(60));
        let mut page = Page::default();
        page.add(&families::BUILD, &["0.1.0", "", "rust\"1\""], 1);
        page.add_durations(&families::COMMITS, &[], durations.counted());
        page.add_fraction(&families::CPU, &[], 1.5);
        page.add(&families::CALLS, &["eth_call", "http"], 7);
        page.add(&families::HEAD, &[], 12);

        let text = page.text();

        let wanted = [
            "# TYPE tenon_rpc_requests counter\ntenon_rpc_requests_total{method=\"eth_call\",transport=\"http\"} 7\n",
            "# TYPE tenon_head_number gauge\ntenon_head_number 12\n",
            "# UNIT tenon_commit_duration_seconds seconds\ntenon_commit_duration_seconds_sum 60.000004\n",
            "tenon_commit_duration_seconds_count 2\ntenon_commit_duration_seconds_bucket{le=\"0.0000025\"} 0\n",
            "_bucket{le=\"0.000005\"} 1\n",
            "_bucket{le=\"10.0\"} 1\ntenon_commit_duration_seconds_bucket{le=\"+Inf\"} 2\n",
            "# TYPE process_cpu_seconds counter\n# UNIT process_cpu_seconds seconds\nprocess_cpu_seconds_total 1.5\n",
            "tenon_build_info{version=\"0.1.0\",commit=\"\",compiler=\"rust\\\"1\\\"\"} 1\n",
        ];
        let mut rest = text.as_str();
        for part in wanted {
            let place = rest.find(part).unwrap_or_else(|| panic!("{part} is missing or out of order in\n{text}"));
            rest = &rest[place + part.len()..];
        }
        assert!(text.ends_with("# EOF\n"));
        assert!(!text.contains("tenon_peers"), "a family without series is omitted");
    }
}
