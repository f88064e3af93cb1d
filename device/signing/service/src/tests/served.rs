//! Tests of HTTP, the page and the approving program, which need a real server or process.

use std::{
    fmt::Write as _,
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    process::Command,
    time::{Duration, Instant},
};

use tenon_signing_policy::{Kind, Presentation};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::*;
use crate::{HttpFrontEnd, Page, Program, ProgramEntry, ProgramHelper, WaitingRequest};

/// Sends a request with these headers; returns the whole response.
async fn ask(address: SocketAddr, first: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{first} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    write!(text, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap()
}

fn header<'a>(answer: &'a str, name: &str) -> &'a str {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).unwrap()
}

#[tokio::test]
async fn only_a_permitted_client_can_reload_the_policy() {
    let setup = setup(
        "[http]\naddress = \"127.0.0.1:0\"\n[clients.web]\ntoken = \"web\"\n\
         [clients.deploy]\ntoken = \"deploy\"\nreload = true",
    );
    let token = |name: &str| format!("token-of-{name}-with-32-characters-or-more");
    for name in ["web", "deploy"] {
        let path = setup.folder.path().join(name);
        std::fs::write(&path, token(name)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let settings = Settings::read(&setup.folder.path().join("signer.toml")).unwrap();
    let http = HttpFrontEnd::open(&settings, setup.service.clone()).await.unwrap().unwrap();
    let address = http.address().unwrap();
    let serving = tokio::spawn(http.run());
    let reload = async |name: &str| {
        let bearer = format!("Bearer {}", token(name));
        ask(address, "POST /reload", &[("Authorization", &bearer)], "").await
    };
    let before = setup.service.policy().hash();
    std::fs::write(setup.folder.path().join("policy.toml"), "version = 1").unwrap();

    let refused = reload("web").await;
    assert!(status(&refused) == 403 && refused.contains("`reload = true`"), "{refused}");
    assert_eq!(setup.service.policy().hash(), before);
    assert_eq!(status(&reload("deploy").await), 200);
    assert_ne!(setup.service.policy().hash(), before);
    serving.abort();
}

#[tokio::test]
async fn a_session_is_valid_only_in_its_own_folder() {
    let setup = setup("");
    let listener = Page::listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let page = Page::new(setup.service.clone(), &listener).unwrap();
    let (first, second) = (page.login_of("alice"), page.login_of("alice"));
    let serving = tokio::spawn(page.run(listener));
    let log_in = async |url: String| {
        let path = url.strip_prefix(&format!("http://{address}")).unwrap();
        ask(address, &format!("GET {path}"), &[], "").await
    };
    let (first, second) = (log_in(first).await, log_in(second).await);
    let (folder, other) = (header(&first, "location"), header(&second, "location"));
    let cookie = header(&first, "set-cookie");
    let key = cookie.split(';').next().unwrap();
    let get =
        async |path: &str, cookie: &str| status(&ask(address, &format!("GET {path}"), &[("Cookie", cookie)], "").await);

    assert!(folder.starts_with("/s/") && folder.len() == "/s//".len() + 32 && folder != other, "{folder}");
    assert!(cookie.ends_with(&format!("; Path={}", folder.trim_end_matches('/'))), "{cookie}");
    assert_eq!(get(folder, key).await, 200);
    // A cookie of the same name that another server on this machine has set is skipped.
    assert_eq!(get(folder, &format!("tenon-signer=other; {key}")).await, 200);
    assert_eq!(get(folder, "tenon-signer=other").await, 401);
    for path in ["/", "/s/", other, folder.trim_end_matches('/')] {
        assert_eq!(get(path, key).await, 401, "{path}");
    }
    let origin = format!("http://{address}");
    let text = ask(address, &format!("GET {folder}"), &[("Cookie", key)], "").await;
    let token = text.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let log_out = async |place: &str| {
        let first = format!("POST {place}logout");
        let headers = [("Cookie", key), ("Origin", origin.as_str())];
        status(&ask(address, &first, &headers, &format!("token={token}")).await)
    };
    assert_eq!((log_out("/").await, log_out(other).await, log_out(folder).await), (401, 401, 200));
    assert_eq!(get(folder, key).await, 401);
    serving.abort();
}

fn waiting(client: &str, number: u64) -> WaitingRequest {
    WaitingRequest {
        number,
        client: client.to_owned(),
        account: Address::ZERO,
        kind: Kind::Message,
        hash: B256::ZERO,
        rule: "asked".to_owned(),
        until: 0,
        needed: 1,
        approved_by: Vec::new(),
        presentation: Presentation { title: String::new(), lines: Vec::new(), warnings: Vec::new() },
    }
}

#[tokio::test]
async fn abandoned_questions_to_the_program_do_not_block_others() {
    let mut helper = Command::new("sh");
    helper.args(["-c", "while read -r line; do sleep 0.2; echo '{\"code\":0}'; done", "sh"]);
    let entry = ProgramEntry { command: vec!["/bin/true".to_owned()], seconds: 5, clients: Default::default() };
    let program = Program::new(ProgramHelper::start(helper, &entry).unwrap());

    for number in 0..1_000 {
        let left = waiting("a", number);
        assert!(program.ask(&left).now_or_never().is_none());
    }
    let begun = Instant::now();
    assert_eq!(program.ask(&waiting("b", 1_000)).await, Some(true));
    assert!(begun.elapsed() < Duration::from_secs(10));
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    assert_eq!(names.filter(|name| name.trim() == "program").count(), 1);
}
