"""Key files, locks and the `personal` namespace: the real program, eth-account and ethers, over every transport."""

import base64
import concurrent.futures
import hashlib
import hmac
import json
import os
import pathlib
import socket
import subprocess
import time

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from tenon_node import ROOT, Node, RpcError, folder, run

KEY = "0x" + "07" * 32
OWNER = Account.from_key(KEY).address
MODULES = pathlib.Path(os.environ.get("TENON_NODE_MODULES", ROOT / "tests" / "node_modules"))
LOCKED = "authentication needed: password or unlock"


def passwords(path, *lines):
    """A file with one password per line."""
    file = path / "passwords"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def account(path, command, *arguments, lines=("pass",), check=True):
    if command not in ("list", "lock"):
        arguments += ("--password", passwords(path, *lines))
    return run("account", command, *arguments, "--datadir", path / "data", "--lightkdf", check=check)


def key_files(path):
    return sorted((path / "data" / "keystore").iterdir())


def token(node):
    """A bearer token of the node's secret."""

    def encoded(value):
        return base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).rstrip(b"=").decode()

    secret = bytes.fromhex((node.datadir / "jwt.hex").read_text().strip().removeprefix("0x"))
    signed = f"{encoded({'alg': 'HS256', 'typ': 'JWT'})}.{encoded({'iat': int(time.time())})}"
    return f"{signed}.{encoded(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


class Socket:
    """Calls over the Unix socket."""

    def __init__(self, node):
        self.line = socket.socket(socket.AF_UNIX)
        self.line.settimeout(60)
        self.line.connect(node.ipc_path)
        self.stream = self.line.makefile("rw", encoding="utf-8", newline="\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.line.close()

    def __call__(self, method, *params):
        self.stream.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
        self.stream.flush()
        answer = json.loads(self.stream.readline())
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]


def refused(ask, *call):
    with pytest.raises(RpcError) as caught:
        ask(*call)
    return caught.value.error["message"]


@pytest.mark.parametrize("kdf", ["scrypt", "pbkdf2"])
def test_files_of_eth_account_open_here_and_ours_open_there(kdf):
    with folder() as path:
        theirs = path / "theirs.json"
        theirs.write_text(json.dumps(Account.encrypt(KEY, "päss word", kdf=kdf, iterations=4096 if kdf == "scrypt" else 1000)))

        account(path, "import", theirs, lines=("päss word", "ours"))

        (ours,) = key_files(path)
        assert Account.decrypt(ours.read_text(), "ours").hex() == KEY[2:]
        assert ours.stat().st_mode & 0o777 == 0o600 and ours.parent.stat().st_mode & 0o777 == 0o700
        assert OWNER.lower() in account(path, "list").stdout.lower()
        wrong = account(path, "import", theirs, lines=("wrong", "x"), check=False)
        assert wrong.returncode == 1 and "could not decrypt key with given password" in wrong.stderr


def test_files_of_ethers_open_here_and_ours_open_there():
    with folder() as path:
        theirs = path / "theirs.json"
        script = f"""
            const {{ Wallet, encryptKeystoreJson }} = require("{MODULES}/ethers");
            const {{ readFileSync, writeFileSync }} = require("node:fs");
            const [command, file, password] = process.argv.slice(1);
            const wallet = new Wallet("{KEY}");
            const made = () => encryptKeystoreJson(wallet, password, {{ scrypt: {{ N: 4096 }} }});
            const opened = () => Wallet.fromEncryptedJson(readFileSync(file, "utf8"), password);
            if (command === "make") made().then((text) => writeFileSync(file, text));
            else opened().then((found) => console.log(found.privateKey));
        """

        def ethers(*arguments):
            command = ["node", "-e", script, "--", *map(str, arguments)]
            return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.strip()

        ethers("make", theirs, "theirs")
        account(path, "import", theirs, lines=("theirs", "ours"))

        (ours,) = key_files(path)
        assert ethers("open", ours, "ours") == KEY


def test_a_file_of_passwords_that_others_can_read_is_used_with_a_warning():
    with folder() as path:
        file, common = passwords(path, "pass"), ("--datadir", path / "data", "--lightkdf")
        for mode, is_warned in [(0o644, True), (0o600, False)]:
            file.chmod(mode)
            made = run("account", "new", "--password", file, *common)
            assert (f"tenon: --password: {file}: others can read it (mode 644)" in made.stderr) == is_warned, made.stderr
            assert "pass\n" not in made.stdout + made.stderr
        number, content = os.pipe()
        os.write(content, b"pass\n")
        os.close(content)
        piped = run("account", "new", "--password-fd", number, *common, pass_fds=[number])
        assert "others can" not in piped.stderr, piped.stderr


def test_the_command_line_makes_changes_and_copies_key_files():
    with folder() as path:
        raw = path / "key.txt"
        raw.write_text("07" * 32 + "\n")

        account(path, "import", raw, lines=("first",))
        account(path, "update", OWNER, lines=("first", "second"))
        account(path, "export", OWNER, path / "copy.json", lines=("second",))
        assert "the new password is empty" in account(path, "new", lines=("",)).stderr
        unset = account(path, "new", lines=(), check=False)
        assert unset.returncode == 2 and "descriptor for the password is empty" in unset.stderr

        assert Account.decrypt((path / "copy.json").read_text(), "second").hex() == KEY[2:]
        assert (path / "copy.json").stat().st_mode & 0o777 == 0o600
        assert len(json.loads(account(path, "list", "--json").stdout)) == 2
        again = account(path, "import", raw, check=False)
        assert again.returncode == 1 and "has a key file already" in again.stderr
        for command, lines in [(("update", OWNER), ("first", "x")), (("export", OWNER, path / "other"), ("first",))]:
            wrong = account(path, *command, lines=lines, check=False)
            assert wrong.returncode == 1 and "could not decrypt key with given password" in wrong.stderr
        assert not (path / "other").exists()
        assert "first" not in wrong.stderr + again.stderr


@pytest.fixture(scope="module")
def node():
    with Node("dev", "--lightkdf", "--http.api", "eth,net,web3,personal") as running, Socket(running) as ask:
        running.ask = ask
        running.owner = ask("personal_importRawKey", KEY[2:], "pass")
        first = ask("eth_accounts")[0]
        ask("eth_sendTransaction", {"from": first, "to": running.owner, "value": hex(10**20)})
        yield running
        assert running.stop() == 0


def test_an_account_is_locked_until_the_correct_password(node):
    ask, owner = node.ask, node.owner
    message = "0x68656c6c6f"
    wanted = "0x" + Account.from_key(KEY).sign_message(encode_defunct(b"hello")).signature.hex().removeprefix("0x")

    assert owner == OWNER.lower() and owner in ask("eth_accounts")
    assert refused(ask, "eth_sign", owner, message) == LOCKED
    assert refused(ask, "personal_sign", message, owner) == LOCKED
    assert ask("personal_sign", message, owner, "pass") == wanted
    assert refused(ask, "personal_sign", message, owner, "wrong") == "could not decrypt key with given password"
    assert ask("personal_ecRecover", message, wanted) == owner
    assert refused(ask, "personal_unlockAccount", owner, "pass", 2**63) == "unlock duration too large"
    assert ask("personal_unlockAccount", owner, "pass", 0) is True
    assert ask("eth_sign", owner, message) == wanted == ask("personal_sign", message, owner)
    statuses = {wallet["accounts"][0]["address"]: wallet["status"] for wallet in ask("personal_listWallets", "a", "b")}
    assert statuses[owner] == "Unlocked"
    assert ask("personal_lockAccount", owner) is True
    assert refused(ask, "eth_sendTransaction", {"from": owner, "to": owner}) == LOCKED


def test_typed_data_is_signed_like_by_eth_account(node):
    ask, owner = node.ask, node.owner

    def field(name, kind):
        return {"name": name, "type": kind}

    data = {
        "types": {
            "EIP712Domain": [field("name", "string"), field("chainId", "uint256"), field("salt", "bytes32")],
            "Order": [field("maker", "Person"), field("prices", "int64[2][]"), field("note", "bytes"), field("open", "bool")],
            "Person": [field("wallet", "address"), field("nick", "string")],
        },
        "primaryType": "Order",
        "domain": {"name": "Märkte", "chainId": 31337, "salt": "0x" + "ab" * 32},
        "message": {
            "maker": {"wallet": OWNER, "nick": "Zoë"},
            "prices": [[1, -2], [2**40, 0]],
            "note": "0xdeadbeef",
            "open": True,
        },
    }
    wanted = "0x" + Account.from_key(KEY).sign_typed_data(full_message=data).signature.hex().removeprefix("0x")

    assert refused(ask, "eth_signTypedData_v4", owner, data) == LOCKED
    ask("personal_unlockAccount", owner, "pass", 0)
    assert ask("eth_signTypedData_v4", owner, data) == wanted
    assert ask("eth_signTypedData_v4", owner, json.dumps(data)) == wanted
    cycle = data | {"types": data["types"] | {"Person": [field("order", "Order")]}}
    assert refused(ask, "eth_signTypedData_v4", owner, cycle).startswith("invalid argument 1: ")
    ask("personal_lockAccount", owner)


def test_over_tcp_keys_need_a_token(node):
    ask, owner = node.ask, node.owner
    ask("personal_unlockAccount", owner, "pass", 0)

    def http(method, *params, **headers):
        answer = json.loads(
            node.raw(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), {"Content-Type": "application/json"} | headers)
        )
        return answer["result"] if "result" in answer else answer["error"]["message"]

    bearer = {"Authorization": f"Bearer {token(node)}"}
    assert http("eth_sign", owner, "0x00") == LOCKED
    assert http("eth_sendTransaction", {"from": owner, "to": owner}) == LOCKED
    # A web page's request comes from the same machine.
    page = {"Origin": "https://example.org"}
    assert http("eth_sign", owner, "0x00", **page) == LOCKED
    assert "does not exist/is not available" in http("personal_sign", "0x00", owner, **page)
    assert http("eth_sendTransaction", {"from": owner, "to": owner}, **page) == LOCKED
    assert http("eth_sign", owner, "0x00", **bearer).startswith("0x")
    assert http("eth_sign", ask("eth_accounts")[0], "0x00").startswith("0x"), "development keys sign for every client"
    assert http("personal_unlockAccount", owner, "pass", **bearer) is True
    ask("personal_lockAccount", owner)


def test_transactions_are_sent_and_signed_with_the_password(node):
    ask, owner = node.ask, node.owner
    to = {"from": owner, "to": owner, "value": "0x1"}
    whole = to | {"gas": "0x5208", "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x1"}

    sent = ask("personal_sendTransaction", to, "pass")
    again = ask("personal_signAndSendTransaction", to, "pass")
    nonce = ask("eth_getTransactionCount", owner, "pending")
    signed = ask("personal_signTransaction", whole | {"nonce": nonce}, "pass")

    assert ask("eth_getTransactionReceipt", sent)["status"] == "0x1"
    assert int(ask("eth_getTransactionByHash", again)["nonce"], 16) == 1
    assert ask("eth_sendRawTransaction", signed["raw"]) == signed["tx"]["hash"]
    assert refused(ask, "personal_sendTransaction", to, "no") == "could not decrypt key with given password"
    assert refused(ask, "personal_sendTransaction", {"to": owner}, "pass") == "unknown account"
    huge = whole | {"nonce": "0x9", "gas": hex(10**10)}
    assert "exceeds the configured cap (1.00 ether)" in refused(ask, "personal_signTransaction", huge, "pass")


def test_device_operations_are_refused_with_the_recorded_texts(node):
    ask = node.ask
    (url,) = [wallet["url"] for wallet in ask("personal_listWallets") if wallet["url"].startswith("keystore://")]

    assert ask("personal_openWallet", url) is None
    assert refused(ask, "personal_deriveAccount", url, "m/44'/60'/0'/0/0") == "not supported"
    assert refused(ask, "personal_initializeWallet", url) == "specified wallet does not support initialization"
    assert refused(ask, "personal_unpair", url, "1234") == "specified wallet does not support pairing"
    assert refused(ask, "personal_openWallet", "trezor://1") == "unknown wallet"
    assert refused(ask, "personal_openWallet", "trezor") == "protocol scheme missing"


def test_one_account_sends_from_all_sides_while_its_plugins_are_replaced(node):
    ask, owner = node.ask, node.owner
    ask("personal_unlockAccount", owner, "pass", 0)
    first, count = int(ask("eth_getTransactionCount", owner, "pending"), 16), 120
    transaction = {"from": owner, "to": owner, "gas": "0x5208"}

    def send(number):
        with Socket(node) as own:
            if number % 20 == 0:
                own("admin_replaceModule", ["eth", "personal"][number // 20 % 2])
            return own("eth_sendTransaction", transaction)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        hashes = list(pool.map(send, range(count)))

    nonces = sorted(int(ask("eth_getTransactionByHash", hash)["nonce"], 16) for hash in hashes)
    assert nonces == list(range(first, first + count))


def test_the_module_can_be_stopped_and_locks_everything(node):
    ask, owner = node.ask, node.owner
    ask("personal_unlockAccount", owner, "pass", 0)

    ask("admin_disableModule", "accounts")
    stopped = refused(ask, "eth_accounts")
    ask("admin_enableModule", "accounts")

    assert "accounts" in stopped
    assert owner in ask("eth_accounts")
    assert refused(ask, "eth_sign", owner, "0x00") == LOCKED


def test_accounts_are_unlocked_at_the_start_and_by_the_command_line():
    with folder() as path:
        raw = path / "key.txt"
        raw.write_text(KEY)
        account(path, "import", raw)
        started = ["dev", "--unlock", "0", "--password", str(path / "passwords")]
        with Node(*started, datadir=path / "data") as node, Socket(node) as ask:
            assert ask("eth_sign", OWNER, "0x00").startswith("0x")
            account(path, "lock", OWNER)
            assert refused(ask, "eth_sign", OWNER, "0x00") == LOCKED
            account(path, "unlock", OWNER, "--for", "0s")
            assert ask("eth_sign", OWNER, "0x00").startswith("0x")
            log = node.log_path.read_text()
            assert "account unlocked" in log and KEY[2:] not in log and "pass" not in log.replace("password", "")
            assert node.stop() == 0
        passwords(path, "wrong")
        refused_start = run(*started, "--datadir", path / "data", "--http.port", "0", "--ws.port", "0", check=False)
        assert refused_start.returncode == 2
        assert "accounts.unlock: 0: could not decrypt key with given password" in refused_start.stderr
