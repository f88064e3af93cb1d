//! An HTTP client that sends the given bytes unchanged.

use std::{collections::BTreeMap, io::Read as _, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A response. Header names are in lower case; of repeated headers, the last one is kept.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// A keep-alive connection.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), buffer: Vec::new() }
    }

    /// Uses an existing connection.
    pub(crate) fn over(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Like [`Client::post`]; `None` if the connection was closed.
    pub(crate) async fn post_if_open(&mut self, body: &str) -> Option<Answer> {
        let head = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let _ = self.stream.write_all(request.as_bytes()).await;
        self.answer(false).await
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Sends a request with a body, a content type and these headers.
    pub(crate) async fn post(&mut self, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut all = vec![("Host", "127.0.0.1"), ("Content-Type", "application/json")];
        all.extend_from_slice(headers);
        self.request("POST", "/", &all, Some(body.as_bytes())).await
    }

    pub(crate) async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Answer {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str("Host: 127.0.0.1\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body
            && !headers.iter().any(|(name, _)| *name == "Transfer-Encoding")
        {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        // A server that refuses the request after its head may close before everything is sent.
        let _ = self.stream.write_all(&bytes).await;
        self.answer(method == "HEAD").await.expect("an answer")
    }

    /// Reads the next response; `None` if the connection was closed.
    pub(crate) async fn answer(&mut self, is_head: bool) -> Option<Answer> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more().await?;
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        if !is_head && status != 101 {
            answer.body = match answer.header("content-length").map(|length| length.parse::<usize>().unwrap()) {
                Some(length) => self.exactly(length).await?,
                None => self.chunked().await?,
            };
        }
        if answer.header("content-encoding") == Some("gzip") {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&answer.body[..]).read_to_end(&mut plain).unwrap();
            answer.body = plain;
        }
        Some(answer)
    }

    async fn read_more(&mut self) -> Option<()> {
        let count = self.stream.read_buf(&mut self.buffer).await.unwrap_or(0);
        (count > 0).then_some(())
    }

    async fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        Some(self.buffer.drain(..length).collect())
    }

    async fn chunked(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                    break end;
                }
                self.read_more().await?;
            };
            let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
            let length = usize::from_str_radix(std::str::from_utf8(&line[..end]).unwrap(), 16).unwrap();
            body.extend(self.exactly(length).await?);
            self.exactly(2).await?;
            if length == 0 {
                return Some(body);
            }
        }
    }
}
