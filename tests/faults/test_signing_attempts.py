"""Attempts to circumvent a policy of the signing service: each is denied, and recorded in the log."""

import http.client
import json

import pytest
from eth_utils import keccak

from signing_service import INTERFACE, KEYS, OTHER, OWN, VALIDATOR, Refused, SigningService
from tenon_node import folder

FRIEND, STRANGER, TOKEN = "0x90F79bf6EB2c4f870365E785982E1f101E93b906", "0x" + "66" * 20, "0x" + "70" * 20
ETHER = 10**18
WEB_TOKEN = "0123456789abcdef0123456789abcdef"

POLICY = f"""
version = 1

[interfaces.erc20]
file = "erc20.json"

[[rules]]
name = "salaries"
outcome = "allow"
kinds = ["transaction"]
clients = ["payroll"]
accounts = ["{OWN}"]
chains = [50]
recipients = ["{FRIEND}"]
functions = "none"
max-value = "1 ether"
max-fee = "0.001 ether"
window = "24h"
max-value-in-window = "2 ether"

[[rules]]
name = "tokens"
outcome = "allow"
kinds = ["transaction"]
clients = ["payroll"]
accounts = ["{OWN}"]
chains = [50]
recipients = ["{TOKEN}"]
functions = ["erc20.transfer"]
arguments = [
    {{ function = "erc20.transfer", name = "to", one-of = ["{FRIEND}"] }},
    {{ function = "erc20.transfer", name = "amount", max = 100 }},
]
max-value = 0
max-fee = "0.001 ether"

[[rules]]
name = "no approvals"
outcome = "deny"
kinds = ["transaction"]
functions = ["erc20.approve", "0xa22cb465"]

[[rules]]
name = "logins"
outcome = "allow"
kinds = ["message"]
clients = ["payroll"]
accounts = ["{OWN}"]
prefixes = ["login:"]

[[rules]]
name = "orders"
outcome = "allow"
kinds = ["typed-data"]
clients = ["payroll"]
accounts = ["{OWN}"]
chains = [50]
domains = [{{ name = "Shop", version = "1", contract = "{TOKEN}" }}]
primary-types = ["Order"]

[[rules]]
name = "bytes"
outcome = "allow"
kinds = ["raw"]
clients = ["website"]
accounts = ["{OTHER}"]

[[rules]]
name = "consensus"
outcome = "allow"
kinds = ["seal", "vote", "timeout", "sync-info"]
clients = ["node"]
accounts = ["{VALIDATOR}"]
chains = [50]
"""

SETTINGS = f"""
[validators]
"{VALIDATOR}" = 50
[clients.payroll]
socket = "payroll.sock"
[clients.node]
socket = "node.sock"
[clients.website]
token = "website.token"
reload = true
[http]
address = "127.0.0.1:0"
"""


@pytest.fixture(scope="module")
def service():
    with folder() as place:
        (place / "erc20.json").write_text(json.dumps(INTERFACE))
        token = place / "website.token"
        token.write_text(WEB_TOKEN)
        token.chmod(0o600)
        with SigningService(place, POLICY, SETTINGS) as service:
            # Allowed requests, so that the attempts begin with one nonce and half a window used, and with signed
            # rounds.
            service.call("payroll", "eth_signTransaction", transaction(value=ETHER))
            service.call("payroll", "eth_signTransaction", tokens(FRIEND, 100, nonce=1))
            service.call("payroll", "eth_sign", OWN, text("login:1"))
            service.call("payroll", "eth_signTypedData_v4", OWN, order())
            assert raw(service, b"any")[0] == 200
            for method, what in (("Vote", vote(5)), ("Timeout", timeout(5)), ("SyncInfo", sync_info(5))):
                service.call("node", f"consensus_sign{method}", VALIDATOR, 50, what)
            yield service


def transaction(**changes):
    members = {"from": OWN, "to": FRIEND, "gas": 21000, "gasPrice": 10**9, "value": 1, "nonce": 0, "chainId": 50}
    members = {name: value for name, value in (members | changes).items() if value is not None}
    return {name: hex(value) if isinstance(value, int) else value for name, value in members.items()}


def word(value):
    return value[2:].rjust(64, "0") if isinstance(value, str) else f"{value:064x}"


def call(selector, *words, rest=""):
    return "0x" + selector + "".join(map(word, words)) + rest


def tokens(recipient, amount, **changes):
    data = call("a9059cbb", recipient, amount)
    return transaction(**({"to": TOKEN, "value": 0, "gas": 60000, "nonce": 2, "data": data} | changes))


def to_token(data, **changes):
    return tokens(FRIEND, 1, **({"data": data} | changes))


def fees(max_fee, **changes):
    return transaction(gasPrice=None, maxFeePerGas=max_fee, maxPriorityFeePerGas=1, nonce=9, **changes)


def text(words):
    return "0x" + words.encode().hex()


def order(primary="Order", declared=None, **domain):
    kinds = {"name": "string", "version": "string", "chainId": "uint256", "verifyingContract": "address"}
    members = {"name": "Shop", "version": "1", "chainId": 50, "verifyingContract": TOKEN} | domain
    members = {name: value for name, value in members.items() if value is not None}
    declared = members if declared is None else declared
    return {
        "types": {
            "EIP712Domain": [{"name": name, "type": kinds[name]} for name in kinds if name in declared],
            primary: [{"name": "amount", "type": "uint256"}],
        },
        "primaryType": primary,
        "domain": members,
        "message": {"amount": 1},
    }


def block(round_, hash_="0x" + "11" * 32):
    return {"hash": hash_, "round": round_, "number": 900 + round_}


def vote(round_, **changes):
    return {"proposedBlockInfo": block(round_, **changes), "gapNumber": 450}


def timeout(round_, gap=450):
    return {"round": round_, "gapNumber": gap}


def sync_info(round_, gap=450):
    certificate = {"proposedBlockInfo": block(round_), "signatures": [], "gapNumber": gap}
    return {"highestQuorumCert": certificate, "highestTimeoutCert": timeout(0) | {"signatures": []}}


def raw(service, data, account=OTHER):
    """Status and text of the answer to a request over HTTP to sign bytes."""
    connection = http.client.HTTPConnection(service.urls["http"].removeprefix("http://"), timeout=60)
    try:
        body = json.dumps({"data": "0x" + data.hex()})
        connection.request("POST", f"/api/v1/eth1/sign/{account}", body, {"Authorization": f"Bearer {WEB_TOKEN}"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


AUTHORIZATION = {"chainId": "0x32", "address": STRANGER, "nonce": "0x0", "yParity": "0x0", "r": "0x1", "s": "0x1"}
MAX_UINT256 = 2**256 - 1
SIGN = "eth_signTransaction"
TYPED = "eth_signTypedData_v4"

ATTEMPTS = {
    # Transfers that differ from the allowed salary.
    "another chain": ("payroll", SIGN, transaction(chainId=51, nonce=9)),
    "mainnet of others": ("payroll", SIGN, transaction(chainId=1, nonce=9)),
    "chain 0": ("payroll", SIGN, transaction(chainId=0, nonce=9)),
    "one wei more": ("payroll", SIGN, transaction(value=ETHER + 1, nonce=9)),
    "all wei": ("payroll", SIGN, transaction(value=MAX_UINT256, nonce=9)),
    "fee by gas": ("payroll", SIGN, transaction(gas=10**6 + 1, nonce=9)),
    "fee by price": ("payroll", SIGN, transaction(gasPrice=10**12, nonce=9)),
    "fee by price of type 2": ("payroll", SIGN, fees(10**12)),
    "fee by price of type 1": ("payroll", SIGN, transaction(gasPrice=10**12, nonce=9, accessList=[])),
    "fee beyond 256 bits": ("payroll", SIGN, transaction(gas=2**63, gasPrice=MAX_UINT256, nonce=9)),
    "fee just beyond 256 bits": ("payroll", SIGN, transaction(gas=2, gasPrice=2**255, nonce=9)),
    "another recipient": ("payroll", SIGN, transaction(to=STRANGER, nonce=9)),
    "a similar recipient": ("payroll", SIGN, transaction(to=FRIEND[:-1] + "7", nonce=9)),
    "to itself": ("payroll", SIGN, transaction(to=OWN, nonce=9)),
    "a new contract": ("payroll", SIGN, transaction(to=None, data="0x6000", nonce=9)),
    "a byte of data": ("payroll", SIGN, transaction(data="0x00", nonce=9)),
    "a call of the friend": ("payroll", SIGN, transaction(data=call("a9059cbb", FRIEND, 1), nonce=9)),
    "a delegation": ("payroll", SIGN, fees(10**9, authorizationList=[AUTHORIZATION])),
    "another account": ("payroll", SIGN, transaction(**{"from": OTHER})),
    "another client": ("node", SIGN, transaction(nonce=9)),
    "an account that is not there": ("payroll", SIGN, transaction(**{"from": STRANGER})),
    "the other method": ("payroll", "account_signTransaction", transaction(value=ETHER + 1, nonce=9)),
    # Nonces and windows that are used up.
    "the nonce again, less value": ("payroll", SIGN, transaction(value=1)),
    "the nonce again, more fee": ("payroll", SIGN, transaction(value=ETHER, gasPrice=2 * 10**9)),
    "the nonce again, type 2": ("payroll", SIGN, fees(10**9, value=ETHER) | {"nonce": "0x0"}),
    "the nonce again, another rule": ("payroll", SIGN, tokens(FRIEND, 1, nonce=0)),
    "the nonce again, the other method": ("payroll", "account_signTransaction", transaction(value=2)),
    "the nonce of the token again": ("payroll", SIGN, tokens(FRIEND, 99, nonce=1)),
    "a nonce that no chain takes": ("payroll", SIGN, transaction(nonce=2**64 - 1)),
    "what the window has left and a wei": ("payroll", SIGN, transaction(value=ETHER + 1, nonce=3)),
    # Calls of the token contract.
    "one token more": ("payroll", SIGN, tokens(FRIEND, 101)),
    "all tokens": ("payroll", SIGN, tokens(FRIEND, MAX_UINT256)),
    "tokens to a stranger": ("payroll", SIGN, tokens(STRANGER, 1)),
    "tokens on another chain": ("payroll", SIGN, tokens(FRIEND, 1, chainId=51)),
    "tokens of another contract": ("payroll", SIGN, tokens(FRIEND, 1, to=STRANGER)),
    "value with the call": ("payroll", SIGN, tokens(FRIEND, 1, value=1)),
    "a byte after the call": ("payroll", SIGN, to_token(call("a9059cbb", FRIEND, 1, rest="00"))),
    "a word after the call": ("payroll", SIGN, to_token(call("a9059cbb", FRIEND, 1, MAX_UINT256))),
    "a byte too few": ("payroll", SIGN, to_token(call("a9059cbb", FRIEND, 1)[:-2])),
    "dirty high bits": ("payroll", SIGN, to_token(call("a9059cbb", "0x" + "01" + FRIEND[2:].rjust(62, "0"), 1))),
    "the selector alone": ("payroll", SIGN, to_token("0xa9059cbb")),
    "half a selector": ("payroll", SIGN, to_token("0xa905")),
    "no call": ("payroll", SIGN, to_token("0x")),
    "an approval": ("payroll", SIGN, to_token(call("095ea7b3", STRANGER, MAX_UINT256))),
    "a small approval": ("payroll", SIGN, to_token(call("095ea7b3", FRIEND, 1))),
    "a malformed approval": ("payroll", SIGN, to_token(call("095ea7b3", STRANGER, MAX_UINT256, rest="00"))),
    "the selector of an approval": ("payroll", SIGN, to_token("0x095ea7b3")),
    "a raised allowance": ("payroll", SIGN, to_token(call("39509351", STRANGER, MAX_UINT256))),
    "an operator for all": ("payroll", SIGN, to_token(call("a22cb465", STRANGER, 1))),
    "a transfer from another": ("payroll", SIGN, to_token(call("23b872dd", OWN, STRANGER, 1))),
    "a call inside a call": ("payroll", SIGN, to_token(call("ac9650d8", 32, 1, 32, 68, rest=call("a9059cbb", FRIEND, 1)[2:]))),
    "an approval by an unknown client": ("node", SIGN, to_token(call("095ea7b3", STRANGER, MAX_UINT256))),
    # Messages.
    "another message": ("payroll", "eth_sign", OWN, text("pay 5")),
    "capital letters": ("payroll", "eth_sign", OWN, text("Login:1")),
    "a blank before it": ("payroll", "eth_sign", OWN, text(" login:1")),
    "an invisible character before it": ("payroll", "eth_sign", OWN, text("\u200blogin:1")),
    "a letter that looks alike": ("payroll", "eth_sign", OWN, text("l\u043egin:1")),
    "no message": ("payroll", "eth_sign", OWN, "0x"),
    "bytes that are no text": ("payroll", "eth_sign", OWN, "0x6c6f67696e3aff"),
    "a hash as a message": ("payroll", "eth_sign", OWN, "0x" + "ab" * 32),
    "a message in its form": ("payroll", "eth_sign", OWN, text("\x19Ethereum Signed Message:\n7login:1")),
    "a message by another account": ("payroll", "eth_sign", OTHER, text("login:1")),
    "a message by another client": ("node", "eth_sign", OWN, text("login:1")),
    "a message as data": ("payroll", "account_signData", "text/plain", OWN, text("pay 5")),
    # Typed data.
    "another program": ("payroll", TYPED, OWN, order(name="Bank")),
    "another version": ("payroll", TYPED, OWN, order(version="2")),
    "another contract": ("payroll", TYPED, OWN, order(verifyingContract=STRANGER)),
    "data for another chain": ("payroll", TYPED, OWN, order(chainId=51)),
    "data for any chain": ("payroll", TYPED, OWN, order(chainId=None)),
    "data without a contract": ("payroll", TYPED, OWN, order(verifyingContract=None)),
    "a name that is not hashed": ("payroll", TYPED, OWN, order(declared=("version", "chainId", "verifyingContract"))),
    "a chain that is not hashed": ("payroll", TYPED, OWN, order(declared=("name", "version", "verifyingContract"))),
    "a domain of which nothing is hashed": ("payroll", TYPED, OWN, order(declared=())),
    "another structure": ("payroll", TYPED, OWN, order(primary="Permit")),
    "data by another account": ("payroll", TYPED, OTHER, order()),
    "data by another client": ("node", TYPED, OWN, order()),
    "typed data as text": ("payroll", TYPED, OWN, json.dumps(order(name="Bank"))),
    "typed data as data": ("payroll", "account_signData", "data/typed", OWN, order(name="Bank")),
    "the other method of typed data": ("payroll", "account_signTypedData", OWN, order(name="Bank")),
    # Validators.
    "a second vote": ("node", "consensus_signVote", VALIDATOR, 50, vote(5, hash_="0x" + "22" * 32)),
    "a vote with another gap": ("node", "consensus_signVote", VALIDATOR, 50, vote(5) | {"gapNumber": 451}),
    "an earlier vote": ("node", "consensus_signVote", VALIDATOR, 50, vote(4)),
    "a second vote under another chain": ("node", "consensus_signVote", VALIDATOR, 51, vote(5, hash_="0x" + "22" * 32)),
    "a second timeout": ("node", "consensus_signTimeout", VALIDATOR, 50, timeout(5, gap=451)),
    "an earlier timeout": ("node", "consensus_signTimeout", VALIDATOR, 50, timeout(4)),
    "a second sync info": ("node", "consensus_signSyncInfo", VALIDATOR, 50, sync_info(5, gap=451)),
    "a vote by another account": ("node", "consensus_signVote", OWN, 50, vote(9)),
    "a vote by another client": ("payroll", "consensus_signVote", VALIDATOR, 50, vote(9)),
    "a message by a validator": ("payroll", "eth_sign", VALIDATOR, text("login:1")),
    "a transaction by a validator": ("payroll", SIGN, transaction(**{"from": VALIDATOR})),
    "typed data by a validator": ("payroll", TYPED, VALIDATOR, order()),
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_attempt_is_denied_and_logged(service, attempt):
    client, method, *params = ATTEMPTS[attempt]
    before = service.steps()
    reason = "unknown account$" if attempt == "an account that is not there" else "."

    with pytest.raises(Refused, match=f"^request denied: {reason}"):
        service.call(client, method, *params)

    asked, decided = service.steps()[len(before) :]
    assert (asked["step"], asked["client"]) == ("asked", client)
    assert (decided["step"], decided["outcome"], decided["request"]) == ("decided", "deny", asked["request"])


def rlp_list(*items):
    body = b"".join(items)
    return bytes([0xC0 + len(body)]) + body


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (rlp_list(b"\x80", b"\x80", b"\x80", b"\x80", b"\x80", b"\x80", b"\x32", b"\x80", b"\x80"), 403),
        (rlp_list(b"\x80", b"\x80", b"\x80", b"\x80", b"\x80", b"\x80"), 403),
        (b"\x02" + rlp_list(b"\x32", b"\x80", b"\x80", b"\x80", b"\x80", b"\x80", b"\x80", b"\x80", b"\xc0"), 403),
        (b"\x19Ethereum Signed Message:\n2hi", 403),
        (b"\x19\x01" + bytes(64), 400),
        (b"\x05" + rlp_list(b"\x32", b"\x94" + bytes(20), b"\x80"), 400),
    ],
    ids=["transaction", "transaction for all chains", "transaction of type 2", "message", "typed data", "authorization"],
)
def test_encoded_transactions_and_messages_are_not_signed_as_plain_bytes(service, data, status):
    before = len(service.steps())
    assert raw(service, data)[0] == status
    # Data without a meaning that a policy could judge is refused before it is logged as a request.
    assert len(service.steps()) - before == (2 if status == 403 else 0)


def test_the_account_that_signs_bytes_can_be_given_by_its_public_key(service):
    connection = http.client.HTTPConnection(service.urls["http"].removeprefix("http://"), timeout=60)
    connection.request("GET", "/api/v1/eth1/publicKeys", headers={"Authorization": f"Bearer {WEB_TOKEN}"})
    keys = json.loads(connection.getresponse().read())
    connection.close()

    addresses = {"0x" + keccak(hexstr=key)[-20:].hex() for key in keys}
    assert addresses == {address.lower() for address in KEYS}
    other = next(key for key in keys if "0x" + keccak(hexstr=key)[-20:].hex() == OTHER.lower())
    assert raw(service, b"any", other)[0] == 200
    assert raw(service, b"any", "0x1234")[0] == 400
    # No rule allows this account to sign bytes.
    assert raw(service, b"any", OWN)[0] == 403


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        (SIGN, [transaction(chainId=None)], "chainId is missing"),
        (SIGN, [transaction(gas=None)], "gas not specified"),
        (SIGN, [transaction(nonce=None)], "nonce not specified"),
        (SIGN, [transaction(maxFeePerGas=1)], "both gasPrice and"),
        (SIGN, [transaction(data="0x00", input="0x01")], "not equal"),
        (SIGN, [transaction(chainId=2**64 - 1)], "chainId is too large"),
        (SIGN, [transaction(gas=2**64)], "invalid argument 0"),
        (SIGN, [transaction(value=2**256)], "invalid argument 0"),
        (SIGN, ["x"], "invalid argument 0"),
        (SIGN, [], "missing value for required argument 0"),
        ("eth_sign", [OWN], "missing value for required argument 1"),
        ("eth_sign", [OWN, "0xabc"], "invalid argument 1"),
        ("eth_sign", [OWN, 5], "invalid argument 1"),
        (TYPED, [OWN, {"types": {}}], "typed data"),
        (TYPED, [OWN, "{"], "typed data"),
        ("account_signData", ["data/validator", OWN, "0x00"], "are not supported"),
        ("account_signData", [["a"], OWN, "0x00"], "invalid argument 0"),
        ("consensus_signVote", [VALIDATOR, 50, {"proposedBlockInfo": {}}], "invalid argument 2"),
        ("consensus_signVote", [VALIDATOR, 50, vote(9) | {"more": 1}], "unknown field"),
        ("consensus_signVote", [VALIDATOR, -1, vote(9)], "invalid argument 1"),
        ("consensus_signSeal", [VALIDATOR, 50, "0xc0"], "header"),
        ("consensus_signSeal", [VALIDATOR, 50, "0x"], "header"),
        ("eth_sendTransaction", [transaction()], "does not exist"),
        ("personal_unlockAccount", [OWN, "x"], "does not exist"),
        ("approvals_approve", [1, "0x" + "00" * 32], "is only for approvers"),
    ],
)
def test_invalid_requests_are_refused_with_a_reason(service, method, params, words):
    before = len(service.steps())
    with pytest.raises(Refused, match=words):
        service.call("payroll", method, *params)
    assert len(service.steps()) == before


def test_http_requires_a_token(service):
    def status(headers, path="/", method="POST"):
        connection = http.client.HTTPConnection(service.urls["http"].removeprefix("http://"), timeout=60)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "eth_accounts", "params": []})
        connection.request(method, path, body if method == "POST" else None, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    right = {"Authorization": f"Bearer {WEB_TOKEN}"}
    assert status(right)[0] == 200
    for wrong in ({}, {"Authorization": "Bearer "}, {"Authorization": f"Bearer {WEB_TOKEN}0"}, {"Authorization": f"Basic {WEB_TOKEN}"}):
        assert status(wrong)[0] == 401
        assert status(wrong, "/reload")[0] == 401
        assert status(wrong, "/api/v1/eth1/publicKeys", "GET")[0] == 401
    assert status(right | {"Origin": "http://evil.example"})[0] == 403
    assert status({}, "/upcheck", "GET") == (200, "OK")
    assert status(right, "/reload")[0] == 200
    assert status(right, "/other")[0] == 404
