"""The page for approvals in a real browser (headless Chromium, driven over its debugging protocol)."""

import base64
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct
from websockets.sync.client import connect

from signing_service import OWN, Refused, SigningService
from tenon_node import folder, run

POLICY = """
version = 1

[[rules]]
name = "asked"
outcome = "ask"
kinds = ["transaction", "message"]
clients = ["shop"]
accounts = "any"
chains = [50]
recipients = "any"
functions = "any"
prefixes = "any"
"""

SETTINGS = """
[clients.shop]
socket = "shop.sock"
[approvers.alice]
socket = "alice.sock"
[page]
address = "127.0.0.1:0"
"""

APPROVAL = "0x095ea7b3" + "90F79bf6EB2c4f870365E785982E1f101E93b906".rjust(64, "0") + "f" * 64


class Browser:
    """A page of headless Chromium."""

    def __init__(self, place):
        command = [shutil.which("chromium") or "chromium", "--headless=new", "--remote-debugging-port=0", "--no-sandbox"]
        command += ["--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={place}", "about:blank"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port_file = pathlib.Path(place) / "DevToolsActivePort"
        end = time.monotonic() + 60
        while not port_file.exists() or not port_file.read_text().strip():
            assert time.monotonic() < end and self.process.poll() is None
            time.sleep(0.05)
        self.port = port_file.read_text().splitlines()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/json/list") as answer:
            page = next(target for target in json.load(answer) if target["type"] == "page")
        self.connecting = connect(page["webSocketDebuggerUrl"], max_size=None)
        self.socket = self.connecting.__enter__()
        self.last = 0
        self.call("Page.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=900, height=900, deviceScaleFactor=1, mobile=False)

    def call(self, method, **params):
        self.last += 1
        self.socket.send(json.dumps({"id": self.last, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == self.last:
                assert "error" not in message, message
                return message["result"]

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def until(self, expression, seconds=30):
        end = time.monotonic() + seconds
        while True:
            with contextlib.suppress(AssertionError):
                if self.evaluate(expression):
                    return
            assert time.monotonic() < end, (expression, self.evaluate("document.documentElement.outerHTML"))
            time.sleep(0.05)

    def text(self):
        return self.evaluate("document.body.innerText")

    def picture(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        self.connecting.__exit__(None, None, None)
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def browser():
    with folder("tenon-browser-") as place:
        browser = Browser(place)
        yield browser
        browser.close()


@pytest.fixture
def service():
    with folder() as place, SigningService(place, POLICY, SETTINGS) as service:
        yield service


def login(service):
    return run("signer", "login", "--socket", service.urls["approver alice"]).stdout.strip()


def press(browser, word):
    browser.evaluate(f"[...document.querySelectorAll('button')].find((button) => button.innerText === '{word}').click()")


def test_a_person_reads_approves_and_denies_in_a_browser(service, browser):
    answer = service.in_background("shop", "eth_sign", OWN, "0x" + "pay <b>5</b>\u202e now".encode().hex())
    service.waiting("alice")
    browser.open(login(service))
    browser.until("document.body.innerText.includes('Sign a message')")
    text = browser.text()
    assert "pay <b>5</b> now" in text and "misleading characters were removed" in text and "shop" in text
    pictures = os.environ.get("TENON_PICTURES")
    if pictures:
        browser.picture(pathlib.Path(pictures) / "message.png")

    press(browser, "Approve")
    browser.until("document.body.innerText.includes('No request is waiting')")
    message = encode_defunct("pay <b>5</b>\u202e now".encode())
    assert Account.recover_message(message, signature=answer()) == OWN

    transaction = {"from": OWN, "to": "0x" + "70" * 20, "gas": "0xea60", "gasPrice": "0x3b9aca00", "nonce": "0x1"}
    answer = service.in_background("shop", "eth_signTransaction", transaction | {"chainId": "0x32", "data": APPROVAL})
    service.waiting("alice")
    browser.until("document.body.innerText.includes('Call a contract')")
    assert "transfer an unlimited amount of tokens" in browser.text() and "0x90F79bf6EB2c4f870365E785982E1f101E93b906" in browser.text()
    if pictures:
        browser.picture(pathlib.Path(pictures) / "approval.png")
    press(browser, "Deny")
    browser.until("document.body.innerText.includes('No request is waiting')")
    with pytest.raises(Refused, match="alice refused it"):
        answer()
    steps = [step["step"] for step in service.steps()]
    assert steps == ["started", "asked", "decided", "shown", "approved", "signed", "asked", "decided", "shown", "refused"]

    press(browser, "Log out")
    browser.until("document.body.innerText.includes('logged out')")
    browser.open(service.urls["page"])
    assert "Log in" in browser.text()


def test_another_page_approves_nothing(service, browser):
    """The logged-in browser opens a foreign page that tries everything a page can."""
    answer = service.in_background("shop", "eth_sign", OWN, "0x00")
    waiting = service.waiting("alice")
    browser.open(login(service))
    browser.until("document.body.innerText.includes('Sign a message')")
    own = service.urls["page"]
    form = f"number={waiting['number']}&hash={waiting['hash']}&token="
    evil = f"""<!doctype html><body><iframe id="inside" src="{own}/"></iframe>
        <form id="form" method="post" action="{own}/approve" target="frame">
        <input name="number" value="{waiting['number']}"><input name="hash" value="{waiting['hash']}"><input name="token" value=""></form>
        <iframe name="frame"></iframe></body>"""

    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers["Cookie"], self.headers["Referer"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(evil.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    session = browser.evaluate("location.href")
    assert session.startswith(own + "/s/") and session.endswith("/")
    try:
        # The second address has the same host as the approvals page: only the port differs, which cookies ignore.
        for host in ("localhost", "127.0.0.1"):
            browser.open(f"http://{host}:{server.server_address[1]}/")
            browser.until("document.getElementById('form') !== null")
            for place in (own + "/", session):
                read = browser.evaluate(f"fetch('{place}', {{ credentials: 'include' }}).then((a) => a.text(), (e) => 'failed')")
                assert read == "failed"
                sent = f"fetch('{place}approve', {{ method: 'POST', mode: 'no-cors', credentials: 'include', body: '{form}' }})"
                browser.evaluate(sent + ".then(() => 1, () => 0)")
            browser.evaluate("fetch('/s/').then(() => 1)")
            browser.evaluate("document.getElementById('form').submit()")
            time.sleep(1)
            # The foreign page cannot read the content of a frame that shows the approvals page.
            assert browser.evaluate("document.getElementById('inside').contentDocument") is None
            assert browser.evaluate("document.cookie") == ""
        assert {path for path, *_ in seen} >= {"/", "/s/"}
        assert not [headers for headers in seen if headers[1] is not None or session in (headers[2] or "")], seen
        # The approvals page itself, opened under another name of this machine.
        browser.open(own.replace("127.0.0.1", "localhost") + "/")
        assert "another address" in browser.text()
        assert service.approver("alice", "approvals_list")[0]["approvedBy"] == []
    finally:
        server.shutdown()
        server.server_close()
    service.approver("alice", "approvals_deny", waiting["number"])
    with pytest.raises(Refused):
        answer()


def ask(service, method, path, body=None, **headers):
    """Status, headers and text of an answer."""
    host = service.urls["page"].removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request(method, path, body, {"Host": host} | {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def test_forms_count_with_session_token_and_origin_only(service):
    answer = service.in_background("shop", "eth_sign", OWN, "0x00")
    waiting = service.waiting("alice")
    url = urllib.parse.urlsplit(login(service))
    path = f"{url.path}?{url.query}"
    status, headers, _ = ask(service, "GET", path)
    cookie = headers["set-cookie"]
    assert status == 303 and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert ask(service, "GET", path)[0] == 403
    key = cookie.split(";")[0]
    own = service.urls["page"]
    # The cookie is valid only for the session's path, whose name is random.
    folder = headers["location"]
    assert re.fullmatch("/s/[0-9a-f]{32}/", folder) and f"Path={folder.rstrip('/')}" in cookie.split("; ")
    status, headers, text = ask(service, "GET", folder, Cookie=key)
    assert status == 200 and "frame-ancestors 'none'" in headers["content-security-policy"]
    token = text.split('name="token" value="')[1].split('"')[0]
    form = f"number={waiting['number']}&hash={waiting['hash']}&token={token}"

    other = urllib.parse.urlsplit(login(service))
    other = ask(service, "GET", f"{other.path}?{other.query}")[1]["location"]
    for place in ("/", "/s/", other, f"/s/{'0' * 32}/", folder.rstrip("/")):
        assert ask(service, "GET", place, Cookie=key)[0] == 401, place
        assert ask(service, "POST", place + "approve", form, Cookie=key, Origin=own)[0] == 401, place
    assert ask(service, "GET", folder)[0] == 401
    assert ask(service, "GET", folder, Cookie=key, Host="evil.example")[0] == 421
    assert ask(service, "POST", folder + "approve", form, Origin=own)[0] == 401
    for refused in (
        {"Cookie": key},
        {"Cookie": key, "Origin": "http://evil.example"},
        {"Cookie": key, "Origin": "null"},
        {"Cookie": key, "Origin": own, "Sec_Fetch_Site": "cross-site"},
    ):
        assert ask(service, "POST", folder + "approve", form, **refused)[0] == 403
    for body, status in [
        (form.replace(token, "0" * 64), 403),
        (form.replace(waiting["hash"], "0x" + "00" * 32), 409),
        ("token=" + token, 400),
        (f"number={waiting['number']}&token={token}", 400),
        ("x" * 10_000, 400),
    ]:
        assert ask(service, "POST", folder + "approve", body, Cookie=key, Origin=own)[0] == status, body
    assert ask(service, "GET", folder + "approve?" + form, Cookie=key)[0] == 404
    assert service.approver("alice", "approvals_list")[0]["approvedBy"] == []

    assert ask(service, "POST", folder + "approve", form, Cookie=key, Origin=own)[0] == 303
    assert answer()
    assert ask(service, "POST", folder + "approve", form, Cookie=key, Origin=own)[0] == 409
