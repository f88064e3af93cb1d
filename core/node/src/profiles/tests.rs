//! Profiles from their callers' view: steps over the bus, files in a folder.

use std::io::Read as _;

use flate2::read::GzDecoder;
use prost::Message as _;
use tenon_config::Settings;

use super::*;
use pprof_file::Profile;

/// Samplers apply to the whole process, so tests take turns.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

struct Fixture {
    _alone: tokio::sync::MutexGuard<'static, ()>,
    bus: Bus,
    folder: tempfile::TempDir,
}

async fn fixture() -> Fixture {
    let alone = ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings::default();
    settings.node.datadir = folder.path().join("data");
    settings.rpc.files = vec![folder.path().join("files").display().to_string()];
    let bus = Bus::new();
    register(&bus, RequestFolders::of(&settings)).unwrap();
    Fixture { _alone: alone, bus, folder }
}

impl Fixture {
    async fn step(&self, step: ProfileStep) -> Result<(), String> {
        self.bus.call(RecordProfile { step }, &CallContext::new()).await.map_err(|error| error.to_string())
    }

    fn content(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join("files").join(name)).unwrap()
    }

    fn profile(&self, name: &str) -> Profile {
        let mut bytes = Vec::new();
        GzDecoder::new(&self.content(name)[..]).read_to_end(&mut bytes).unwrap();
        Profile::decode(&bytes[..]).unwrap()
    }
}

fn file(name: &str) -> String {
    name.to_owned()
}

/// The text at an index of the table.
fn text(profile: &Profile, position: i64) -> &str {
    &profile.string_table[usize::try_from(position).unwrap()]
}

fn types(profile: &Profile) -> Vec<(&str, &str)> {
    profile.sample_type.iter().map(|each| (text(profile, each.kind), text(profile, each.unit))).collect()
}

/// Every function on the stack of a sample.
fn functions(profile: &Profile) -> Vec<&str> {
    let lines = profile.location.iter().flat_map(|location| &location.line);
    let names = lines.map(|line| profile.function.iter().find(|each| each.id == line.function_id).unwrap().name);
    names.map(|name| text(profile, name)).collect()
}

/// Uses the processor until told to stop.
#[inline(never)]
fn busy_for_the_profile(stop: &std::sync::atomic::AtomicBool) -> u64 {
    let mut sum = 0_u64;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        for number in 0..10_000_u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
    }
    sum
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_that_use_the_processor_are_in_a_pprof_profile() {
    let test = fixture().await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let works = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || busy_for_the_profile(&stop)
    });

    assert_eq!(
        test.step(ProfileStep::StopCpu).await,
        Err(RecordingRefusal::NotRunning(RecordingKind::Cpu).to_string())
    );
    test.step(ProfileStep::StartCpu { file: file("cpu") }).await.unwrap();
    let again = test.step(ProfileStep::Cpu { file: file("other"), seconds: 0 }).await;
    assert_eq!(again, Err(RecordingRefusal::Running(RecordingKind::Cpu).to_string()));
    // Until there are samples: a signal is sent for every 10 ms of the busy thread's time.
    tokio::time::sleep(Duration::from_millis(500)).await;
    test.step(ProfileStep::StopCpu).await.unwrap();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    works.join().unwrap();

    let profile = test.profile("cpu");
    assert_eq!(types(&profile), [("samples", "count"), ("cpu", "nanoseconds")]);
    assert_eq!((profile.period, profile.string_table[0].as_str()), (10_000_000, ""));
    assert!(profile.time_nanos > 0 && profile.duration_nanos > 0);
    assert!(profile.sample.iter().all(|sample| sample.value[1] == sample.value[0] * profile.period));
    let known = |sample: &pprof_file::Sample| {
        sample.location_id.iter().all(|id| profile.location.iter().any(|location| location.id == *id))
    };
    assert!(profile.sample.iter().all(known));
    let names = functions(&profile);
    assert!(names.iter().any(|name| name.contains("busy_for_the_profile")), "{names:?}");
}

#[tokio::test]
async fn waits_are_written_with_gos_value_types() {
    let test = fixture().await;
    let place = waits::WaitPlace { function: "tenon_node::test", subject: "a test", file: file!(), line: line!() };
    test.step(ProfileStep::SetBlockingRate { nanoseconds: 1 }).await.unwrap();
    waits::record_wait(Some(std::time::Instant::now() - Duration::from_millis(5)), place);
    test.step(ProfileStep::WriteBlocking { file: file("block") }).await.unwrap();
    test.step(ProfileStep::SetBlockingRate { nanoseconds: 0 }).await.unwrap();
    test.step(ProfileStep::Locks { file: file("mutex"), seconds: 0 }).await.unwrap();

    let profile = test.profile("block");
    assert_eq!(types(&profile), [("contentions", "count"), ("delay", "nanoseconds")]);
    assert!(functions(&profile).contains(&"tenon_node::test"));
    assert!(profile.sample.iter().any(|sample| sample.value[0] >= 1 && sample.value[1] >= 5_000_000));
    assert_eq!(types(&test.profile("mutex")), [("contentions", "count"), ("delay", "nanoseconds")]);
    assert_eq!(waits::wait_began(), None, "nothing is sampled any more");
}

#[tokio::test]
async fn spans_are_written_as_trace_events() {
    let test = fixture().await;

    assert_eq!(
        test.step(ProfileStep::StopSpans).await,
        Err(RecordingRefusal::NotRunning(RecordingKind::Spans).to_string())
    );
    test.step(ProfileStep::StartSpans { file: file("trace.json") }).await.unwrap();
    let again = test.step(ProfileStep::Spans { file: file("other"), seconds: 0 }).await;
    assert_eq!(again, Err(RecordingRefusal::Running(RecordingKind::Spans).to_string()));
    drop(spans::span("test", "of this test"));
    test.step(ProfileStep::StopSpans).await.unwrap();

    let trace: serde_json::Value = serde_json::from_slice(&test.content("trace.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let span = events.iter().find(|event| event["name"] == "of this test").unwrap();
    assert_eq!((&span["ph"], &span["cat"]), (&"X".into(), &"test".into()));
    assert!(span["ts"].is_f64() && span["dur"].is_f64());
    let named = |event: &&serde_json::Value| event["ph"] == "M" && event["tid"] == span["tid"];
    assert!(events.iter().any(|event| named(&event) && event["args"]["name"].is_string()));
}

#[tokio::test]
async fn a_timed_step_whose_caller_leaves_ends_its_recording() {
    let test = fixture().await;
    let steps = |name: &str| {
        let (file, seconds) = (file(name), MAX_SECONDS);
        [ProfileStep::Cpu { file: file.clone(), seconds }, ProfileStep::Blocking { file, seconds }]
    };
    let caller = CallContext::new();
    for step in steps("left") {
        let waiting = test.bus.call(RecordProfile { step }, &caller);
        assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
    }

    assert_eq!(
        test.step(ProfileStep::StopCpu).await,
        Err(RecordingRefusal::NotRunning(RecordingKind::Cpu).to_string())
    );
    assert_eq!(waits::wait_began(), None);
    assert!(!test.folder.path().join("files/left").exists());
}

#[tokio::test]
async fn the_end_of_a_timed_step_does_not_end_the_sampling_of_another() {
    let test = fixture().await;
    let caller = CallContext::new();
    let long = test
        .bus
        .call(RecordProfile { step: ProfileStep::Blocking { file: file("long"), seconds: MAX_SECONDS } }, &caller);
    tokio::pin!(long);
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut long).await.is_err());

    test.step(ProfileStep::Blocking { file: file("short"), seconds: 0 }).await.unwrap();

    assert!(waits::wait_began().is_some(), "the long step still samples");
    long.set(test.bus.call(RecordProfile { step: ProfileStep::StopCpu }, &caller));
    assert_eq!(waits::wait_began(), None);
}

#[tokio::test]
async fn a_recording_continues_if_its_file_is_not_allowed() {
    let test = fixture().await;
    test.step(ProfileStep::StartSpans { file: file("trace.json") }).await.unwrap();
    drop(spans::span("test", "before the folder was lost"));
    let place = test.folder.path().join("files/trace.json");
    fs::create_dir_all(&place).unwrap();

    let refused = test.step(ProfileStep::StopSpans).await.unwrap_err();
    assert!(refused.contains("trace.json"), "{refused}");
    fs::remove_dir(&place).unwrap();
    test.step(ProfileStep::StopSpans).await.unwrap();

    let text = String::from_utf8(test.content("trace.json")).unwrap();
    assert!(text.contains("before the folder was lost"));
}

#[tokio::test]
async fn files_elsewhere_and_excessive_times_are_refused_before_anything_is_recorded() {
    let test = fixture().await;
    for name in ["/tmp/profile", "../profile", "~/profile", ""] {
        for step in [
            ProfileStep::StartCpu { file: file(name) },
            ProfileStep::StartSpans { file: file(name) },
            ProfileStep::WriteBlocking { file: file(name) },
            ProfileStep::WriteHeap { file: file(name) },
        ] {
            let refused = test.step(step).await.unwrap_err();
            assert!(refused.contains("rpc.files"), "{name:?}: {refused}");
        }
    }
    let endless = test.step(ProfileStep::Cpu { file: file("cpu"), seconds: MAX_SECONDS + 1 }).await;
    assert!(endless.unwrap_err().contains("at most 600 are allowed"));
    assert_eq!(
        test.step(ProfileStep::StopCpu).await,
        Err(RecordingRefusal::NotRunning(RecordingKind::Cpu).to_string())
    );
}

#[tokio::test]
async fn the_heap_is_written_only_where_the_allocator_was_started_for_it() {
    let test = fixture().await;
    let written = test.step(ProfileStep::WriteHeap { file: file("heap") }).await;

    match jemalloc_pprof::PROF_CTL.is_some() {
        true => assert!(written.is_ok() && test.content("heap").starts_with(&[0x1f, 0x8b])),
        false => assert!(written.unwrap_err().starts_with("heap profiling is not enabled")),
    }
}
