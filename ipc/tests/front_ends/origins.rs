//! The client to which the front-ends attribute a call.

use tenon_ipc::{Servers, Settings, SocketSettings};

use crate::{
    http::token_for,
    limits::{SOCKET, http_settings, websocket_settings},
    raw_http,
    service::TestService,
    socket, websocket,
};

#[tokio::test]
async fn a_caller_is_identified_by_token_or_address_and_on_the_socket_by_process() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, path) = (folder.path().join("jwt.hex"), folder.path().join("tenon.ipc"));
    std::fs::write(&secret, "07".repeat(32)).unwrap();
    let settings = Settings {
        http: Some(http_settings(&["test"])),
        websocket: Some(websocket_settings(&["test"])),
        socket: Some(SocketSettings { path: path.clone(), limits: SOCKET }),
        token_secret: Some(secret),
    };
    let servers = Servers::start(settings, TestService::default(), None).await.unwrap();
    let mut http = raw_http::Client::connect(servers.endpoints().http.unwrap()).await;
    let mut websocket = websocket::Client::connect(servers.endpoints().websocket.unwrap()).await;
    let mut socket = socket::Client::connect(&path).await;
    let call = r#"{"id":1,"method":"test_origin"}"#;

    let plain = http.post(&[], call).await.text();
    let unnamed = http.post(&[("Authorization", &token_for(""))], call).await.text();
    let named = http.post(&[("Authorization", &token_for(r#","sub":"alice""#))], call).await.text();
    let also_named = http.post(&[("Authorization", &token_for(r#","id":"alice""#))], call).await.text();
    let over_websocket = websocket.ask(call).await;
    socket.send(call).await;
    let over_socket = socket.receive().await.unwrap();

    assert!(plain.contains("\"http 127.0.0.1 false\""), "{plain}");
    assert!(unnamed.contains("\"http 127.0.0.1 true\""), "{unnamed}");
    assert!(named.contains("\"http token ") && named.contains(" true\""), "{named}");
    assert_eq!(named, also_named);
    assert!(over_websocket.contains("\"websocket 127.0.0.1 false\""), "{over_websocket}");
    assert!(over_socket.contains(&format!("\"socket process {} false\"", std::process::id())), "{over_socket}");
}
