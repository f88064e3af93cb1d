//! Profiles in pprof's `profile.proto` format, compressed with gzip, which `go tool pprof` and speedscope open.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flate2::{Compression, write::GzEncoder};
use prost::Message;

/// The messages of `profile.proto`, as far as they are used. Texts are indices into `string_table`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Profile {
    #[prost(message, repeated, tag = "1")]
    pub(super) sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    pub(super) sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    pub(super) location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    pub(super) function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    pub(super) string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) time_nanos: i64,
    #[prost(int64, tag = "10")]
    pub(super) duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    pub(super) period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    pub(super) period: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ValueType {
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(int64, tag = "2")]
    pub(super) unit: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Sample {
    /// Innermost first.
    #[prost(uint64, repeated, tag = "1")]
    pub(super) location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(super) value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Label {
    #[prost(int64, tag = "1")]
    pub(super) key: i64,
    #[prost(int64, tag = "2")]
    pub(super) text: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(uint64, tag = "3")]
    pub(super) address: u64,
    /// Several for inlined functions, innermost first.
    #[prost(message, repeated, tag = "4")]
    pub(super) line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub(super) struct Line {
    #[prost(uint64, tag = "1")]
    pub(super) function_id: u64,
    #[prost(int64, tag = "2")]
    pub(super) line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Function {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(int64, tag = "2")]
    pub(super) name: i64,
    #[prost(int64, tag = "3")]
    pub(super) system_name: i64,
    #[prost(int64, tag = "4")]
    pub(super) filename: i64,
}

/// A function on a stack, with its file and line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SourceLocation {
    pub(super) function: String,
    pub(super) file: String,
    pub(super) line: u32,
}

/// A profile under construction.
pub(super) struct ProfileBuilder {
    profile: Profile,
    texts: HashMap<String, i64>,
    functions: HashMap<(String, String), u64>,
    locations: HashMap<Vec<Line>, u64>,
}

impl ProfileBuilder {
    /// A profile whose samples have values of these types, each with its unit.
    pub(super) fn new(value_types: &[(&str, &str)]) -> Self {
        let empty = (Profile::default(), HashMap::new(), HashMap::new(), HashMap::new());
        let (profile, texts, functions, locations) = empty;
        let mut builder = Self { profile, texts, functions, locations };
        // The first text is empty by definition.
        builder.text("");
        builder.profile.sample_type = value_types.iter().map(|value_type| builder.value_type(*value_type)).collect();
        builder
    }

    /// Sets when the samples were taken, and their interval.
    pub(super) fn taken(&mut self, began: SystemTime, lasted: Duration, period_type: (&str, &str), period: i64) {
        let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.profile.time_nanos = nanoseconds(began.duration_since(UNIX_EPOCH).unwrap_or_default());
        self.profile.duration_nanos = nanoseconds(lasted);
        self.profile.period_type = Some(self.value_type(period_type));
        self.profile.period = period;
    }

    /// Adds a sample. Each frame of the stack, innermost first, includes the functions that were inlined there.
    pub(super) fn sample(&mut self, stack: &[Vec<SourceLocation>], values: Vec<i64>, labels: &[(&str, &str)]) {
        let location_id = stack.iter().filter(|frame| !frame.is_empty()).map(|frame| self.location(frame)).collect();
        let label = labels.iter().map(|(key, text)| Label { key: self.text(key), text: self.text(text) }).collect();
        self.profile.sample.push(Sample { location_id, value: values, label });
    }

    fn value_type(&mut self, (kind, unit): (&str, &str)) -> ValueType {
        ValueType { kind: self.text(kind), unit: self.text(unit) }
    }

    fn location(&mut self, frame: &[SourceLocation]) -> u64 {
        let lines: Vec<Line> =
            frame.iter().map(|place| Line { function_id: self.function(place), line: place.line.into() }).collect();
        if let Some(id) = self.locations.get(&lines) {
            return *id;
        }
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(Location { id, address: 0, line: lines.clone() });
        self.locations.insert(lines, id);
        id
    }

    fn function(&mut self, place: &SourceLocation) -> u64 {
        let key = (place.function.clone(), place.file.clone());
        if let Some(id) = self.functions.get(&key) {
            return *id;
        }
        let id = self.profile.function.len() as u64 + 1;
        let (name, filename) = (self.text(&place.function), self.text(&place.file));
        self.profile.function.push(Function { id, name, system_name: name, filename });
        self.functions.insert(key, id);
        id
    }

    fn text(&mut self, text: &str) -> i64 {
        if let Some(position) = self.texts.get(text) {
            return *position;
        }
        let position = i64::try_from(self.profile.string_table.len()).unwrap_or(i64::MAX);
        self.profile.string_table.push(text.to_owned());
        self.texts.insert(text.to_owned(), position);
        position
    }

    /// The file's content.
    ///
    /// # Errors
    /// None in practice: it is compressed in memory.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(&self.profile.encode_to_vec())?;
        packer.finish()
    }
}
