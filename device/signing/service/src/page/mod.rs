//! The page on which people approve. It is served only to this machine, with single-use logins.
//!
//! Cookies are not separated by port: a browser sends them to every web server on this machine. Each session therefore
//! has a folder with a random name, `/s/…/`, and a cookie for that folder only. Another local server that the browser
//! visits does not know the name and does not receive the cookie.

mod html;
mod sessions;

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use alloy_primitives::B256;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use crate::{
    Service,
    connections::{ConnectionGuard, Connections},
};
use sessions::{LoggedIn, Session, Sessions};

/// Time limit for a request's head, and for its body.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a form, bytes.
const MAX_FORM: usize = 4 << 10;
/// Client name under which the connections of all approvers are counted together, because a browser may reuse one for
/// the next approver who logs in.
const APPROVERS: &str = "approvers";
/// Name of the session cookie.
const COOKIE: &str = "tenon-signer";
/// Path prefix of the sessions' folders.
const SESSIONS: &str = "/s/";

type Answer = Response<Full<Bytes>>;

/// The page with its sessions. Clones share them.
#[derive(Clone)]
pub struct Page {
    service: Service,
    sessions: Arc<Sessions>,
    /// Host and port in URLs, such as `127.0.0.1:8551`.
    host: Arc<str>,
}

impl Page {
    /// Creates a page for a listener on a loopback address.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(service: Service, listener: &TcpListener) -> io::Result<Self> {
        let host = listener.local_addr()?.to_string().into();
        Ok(Self { service, sessions: Arc::default(), host })
    }

    /// Opens the page's port.
    ///
    /// # Errors
    /// The system's error.
    pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
        TcpListener::bind(address).await
    }

    /// The login URL for an approver. It works once, within two minutes.
    pub(crate) fn login_of(&self, approver: &str) -> String {
        format!("http://{}/login?code={}", self.host, self.sessions.new_code(approver))
    }

    /// Serves connections. Stops when the future is dropped.
    pub async fn run(self, listener: TcpListener) {
        let connections = Arc::<Connections>::default();
        let serve = |stream, guard| self.clone().serve(stream, guard);
        connections.accept_all(listener, "a connection to the page could not be accepted", serve).await;
    }

    async fn serve(self, stream: TcpStream, guard: Arc<ConnectionGuard>) {
        let answering = service_fn(|request: Request<Incoming>| {
            let (page, guard) = (self.clone(), Arc::clone(&guard));
            async move { Ok::<_, Infallible>(page.answer(request, &guard).await) }
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(READ_TIMEOUT).max_buf_size(16 << 10);
        // An error means that the browser left or did not send HTTP.
        let _ = server.serve_connection(TokioIo::new(stream), answering).await;
    }

    async fn answer(&self, request: Request<Incoming>, guard: &ConnectionGuard) -> Answer {
        // Rejects DNS rebinding: a foreign name that resolves to this address sends its own `Host`.
        if of_header(&request, header::HOST) != Some(&self.host) {
            return message(StatusCode::MISDIRECTED_REQUEST, "This page has another address.");
        }
        if request.method() == Method::GET && request.uri().path() == "/login" {
            return self.log_in(&request);
        }
        let Some((session, page)) = self.session_of(&request) else {
            let words = "Log in with the address that `tenon signer login` prints.";
            return message(StatusCode::UNAUTHORIZED, words);
        };
        if !guard.prove(APPROVERS) {
            return message(StatusCode::TOO_MANY_REQUESTS, "Too many connections of approvers.");
        }
        match (request.method().clone(), page.as_str()) {
            (Method::GET, "") => self.list(&session).await,
            (Method::POST, "approve" | "deny" | "logout") => self.decide(&session, &page, request).await,
            _ => message(StatusCode::NOT_FOUND, "There is no such page."),
        }
    }

    fn log_in(&self, request: &Request<Incoming>) -> Answer {
        let code = request.uri().query().and_then(|query| query.strip_prefix("code=")).unwrap_or_default();
        let Some(LoggedIn { key, folder }) = self.sessions.log_in(code) else {
            return message(StatusCode::FORBIDDEN, "This login was already used or has expired.");
        };
        let cookie = format!("{COOKIE}={key}; HttpOnly; SameSite=Strict; Path={SESSIONS}{folder}");
        let mut answer = moved_to(&format!("{SESSIONS}{folder}/"));
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            answer.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        answer
    }

    /// The session that matches the request's folder and cookie, and the name of the page in the folder.
    fn session_of(&self, request: &Request<Incoming>) -> Option<(Session, String)> {
        let (folder, page) = request.uri().path().strip_prefix(SESSIONS)?.split_once('/')?;
        let cookies = of_header(request, header::COOKIE)?.split(';');
        let mut keys = cookies.filter_map(|cookie| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        // Another server on this machine can set a cookie of the same name.
        let session = keys.find_map(|key| self.sessions.get(folder, key))?;
        Some((session, page.to_owned()))
    }

    async fn list(&self, session: &Session) -> Answer {
        let waiting = self.service.approvals().list();
        for request in &waiting {
            if let Err(error) = self.service.note_shown(request.number, "page").await {
                return message(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string());
            }
        }
        html(StatusCode::OK, html::list(&session.approver, &session.form_token, &waiting))
    }

    /// Handles a form that the page itself sent.
    async fn decide(&self, session: &Session, page: &str, request: Request<Incoming>) -> Answer {
        let own = format!("http://{}", self.host);
        let is_own = of_header(&request, header::ORIGIN) == Some(&own)
            && request.headers().get("sec-fetch-site").is_none_or(|site| site == "same-origin");
        if !is_own {
            return message(StatusCode::FORBIDDEN, "Another page sent this form; it was ignored.");
        }
        let reading = Limited::new(request.into_body(), MAX_FORM).collect();
        let Ok(Ok(body)) = tokio::time::timeout(READ_TIMEOUT, reading).await else {
            return message(StatusCode::BAD_REQUEST, "The form could not be read.");
        };
        let body = body.to_bytes();
        let form = Form::read(&body);
        if form.token != Some(&session.form_token) {
            return message(StatusCode::FORBIDDEN, "The form belongs to another login; it was ignored.");
        }
        if page == "logout" {
            self.sessions.log_out(&session.approver);
            return message(StatusCode::OK, "You are logged out.");
        }
        let Some(number) = form.number else { return message(StatusCode::BAD_REQUEST, "The form has no number.") };
        let done = match (page, form.hash) {
            ("approve", Some(hash)) => self.service.approve(&session.approver, number, hash).await,
            ("approve", None) => return message(StatusCode::BAD_REQUEST, "The form has no hash."),
            _ => self.service.refuse(&session.approver, number),
        };
        match done {
            // The list, relative to the session's folder.
            Ok(()) => moved_to("./"),
            Err(error) => message(StatusCode::CONFLICT, &error.to_string()),
        }
    }
}

/// The fields of a form. No value contains characters that form encoding escapes.
#[derive(Default)]
struct Form<'a> {
    token: Option<&'a str>,
    number: Option<u64>,
    hash: Option<B256>,
}

impl<'a> Form<'a> {
    fn read(body: &'a [u8]) -> Self {
        let mut form = Self::default();
        for (name, value) in
            std::str::from_utf8(body).unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='))
        {
            match name {
                "token" => form.token = Some(value),
                "number" => form.number = value.parse().ok(),
                "hash" => form.hash = value.parse().ok(),
                _ => {}
            }
        }
        form
    }
}

fn of_header(request: &Request<Incoming>, name: header::HeaderName) -> Option<&str> {
    request.headers().get(name)?.to_str().ok()
}

fn moved_to(place: &str) -> Answer {
    let mut answer = html(StatusCode::SEE_OTHER, String::new());
    if let Ok(place) = HeaderValue::from_str(place) {
        answer.headers_mut().insert(header::LOCATION, place);
    }
    answer
}

fn message(status: StatusCode, words: &str) -> Answer {
    html(status, html::message(words))
}

fn html(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    let policy = html::CONTENT_POLICY;
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", policy),
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        // With `no-referrer`, browsers omit the origin of forms.
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
