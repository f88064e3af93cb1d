//! The client to which the front-ends attribute a call through a proxy.

use soketto::handshake::client::Header;
use tenon_ipc::{HttpSettings, Servers, Settings, WebSocketSettings};

use crate::{
    http::token_for,
    limits::{http_settings, websocket_settings},
    raw_http,
    service::TestService,
    websocket,
};

const CALL: &str = r#"{"id":1,"method":"test_origin"}"#;

async fn start(proxies: &str) -> (Servers<TestService>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("jwt.hex");
    std::fs::write(&secret, "07".repeat(32)).unwrap();
    let proxies = vec![proxies.parse().unwrap()];
    let settings = Settings {
        http: Some(HttpSettings { proxies: proxies.clone(), ..http_settings(&["test"]) }),
        websocket: Some(WebSocketSettings { proxies, ..websocket_settings(&["test"]) }),
        socket: None,
        token_secret: Some(secret),
    };
    (Servers::start(settings, TestService::default(), None).await.unwrap(), folder)
}

#[tokio::test]
async fn each_request_has_the_client_that_a_trusted_proxy_names_for_it() {
    let (servers, _folder) = start("127.0.0.0/8").await;
    let mut http = raw_http::Client::connect(servers.endpoints().http.unwrap()).await;

    for (headers, expected) in [
        (&[][..], "http 127.0.0.1 false"),
        (&[("X-Forwarded-For", "198.51.100.9, 192.0.2.1")], "http 192.0.2.1 false"),
        (&[("Forwarded", "for=192.0.2.2")], "http 192.0.2.2 false"),
        (&[("X-Forwarded-For", "nonsense")], "http 127.0.0.1 false"),
    ] {
        let answer = http.post(headers, CALL).await.text();
        assert!(answer.contains(expected), "{headers:?}: {answer}");
    }
    let token = token_for(r#","sub":"alice""#);
    let named = http.post(&[("X-Forwarded-For", "192.0.2.1"), ("Authorization", &token)], CALL).await.text();
    assert!(named.contains("http token ") && named.contains(" true"), "the token comes first: {named}");
}

#[tokio::test]
async fn a_websocket_has_the_client_that_its_handshake_names() {
    let (servers, _folder) = start("127.0.0.1").await;
    let headers = [Header { name: "X-Forwarded-For", value: b"192.0.2.1" }];
    let address = servers.endpoints().websocket.unwrap();

    let answer = websocket::Client::connect_with(address, &headers).await.ask(CALL).await;

    assert!(answer.contains("websocket 192.0.2.1 false"), "{answer}");
}

#[tokio::test]
async fn no_other_source_is_trusted() {
    let (servers, _folder) = start("192.0.2.0/24").await;
    let mut http = raw_http::Client::connect(servers.endpoints().http.unwrap()).await;

    let answer = http.post(&[("X-Forwarded-For", "192.0.2.1")], CALL).await.text();

    assert!(answer.contains("http 127.0.0.1 false"), "{answer}");
}
