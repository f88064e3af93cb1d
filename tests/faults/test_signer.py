"""`tenon signer`: rules for signing, and the log of signatures, on the command line."""

import json
import pathlib
import re
import subprocess

import pytest

from signing_service import INTERFACE
from tenon_node import BINARY, folder

PAYROLL = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
FRIEND, TOKEN = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "0x" + "70" * 20


PAGE = pathlib.Path(__file__).parents[2] / "docs" / "signer.md"


def page_policy():
    """The policy of the documentation page."""
    return re.search(r"```toml\n(version = 1\n.*?)```", PAGE.read_text(), re.S)[1]


def signer(*arguments):
    """Exit code, standard output and standard error."""
    done = subprocess.run([BINARY, "signer", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def place():
    with folder() as path:
        (path / "policy.toml").write_text(page_policy())
        (path / "erc20.json").write_text(json.dumps(INTERFACE))
        yield path


def transaction(place, **changes):
    """A file with a transaction."""
    members = {"chainId": 50, "nonce": 0, "gas": 60000, "gasPrice": "0x3b9aca00", "to": FRIEND, "value": str(10**18)}
    (place / "transaction.json").write_text(json.dumps(members | changes))
    return "--transaction", place / "transaction.json"


def explained(place, *what, client="payroll"):
    code, text, errors = signer("policy", "explain", place / "policy.toml", "--client", client, "--account", PAYROLL, *what)
    assert (code, errors) == (0, "")
    return text


def test_the_documented_policy_decides_as_documented(place):
    code, text, _ = signer("policy", "check", place / "policy.toml")
    assert code == 0 and re.fullmatch(r"3 rules, hash 0x[0-9a-f]{64}\n", text)

    assert 'Decision: allow (rule "salaries" allows it)' in explained(place, *transaction(place))
    assert "Decision: deny (no rule allows it)" in explained(place, *transaction(place), client="website")
    above = explained(place, *transaction(place, value=str(3 * 10**18)))
    assert 'Decision: deny (no rule allows it; rule "salaries": the value is above `max-value`)' in above
    assert "Decision: deny (no rule allows it)" in explained(place, "--message", "hello")
    data = "a9059cbb" + FRIEND[2:].rjust(64, "0") + f"{5:064x}"
    asked = explained(place, *transaction(place, to=TOKEN, value=0, data="0x" + data))
    assert 'Decision: ask (rule "tokens" requires approval' in asked and "Call erc20.transfer" in asked
    data = "095ea7b3" + FRIEND[2:].rjust(64, "0") + "f" * 64
    approval = explained(place, *transaction(place, to=TOKEN, value=0, data="0x" + data))
    assert 'Decision: deny (rule "no approvals" denies it)' in approval
    assert "! this allows another account to transfer an unlimited amount of tokens" in approval


def test_shown_text_contains_no_control_characters(place):
    shown = explained(place, "--message", "pay \u202e0001\u202c\x1b[2J\nand more")
    assert "\x1b" not in shown and "\u202e" not in shown
    assert "! misleading characters were removed" in shown


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("version = 1\n[[rules]]\nnam = 3", "line 3"),
        ("version = 1\n[[rules]]\nname = 'one'\noutcome = 'allow'\nkinds = ['transaction']", "`functions` is missing"),
        ("version = 1\n[interfaces.a]\nfile = 'missing.json'", "missing.json"),
        ("version = 9", "reads version 1"),
        ("\xff\x00", "TOML"),
    ],
)
def test_an_invalid_policy_is_refused_with_the_position_of_the_error(place, policy, words):
    (place / "policy.toml").write_bytes(policy.encode("latin-1") if "\xff" in policy else policy.encode())
    code, text, errors = signer("policy", "check", place / "policy.toml")
    assert (code, text) == (2, "") and errors.startswith("tenon: ")
    assert words in errors or "UTF-8" in errors


def test_missing_or_invalid_files_are_named(place):
    for arguments, words in [
        (("policy", "check", place / "none.toml"), "none.toml"),
        (("policy", "check", place), str(place)),
        (("audit", "verify", place / "none"), "none"),
    ]:
        code, _, errors = signer(*arguments)
        assert code == 2 and words in errors, errors
    code, text, errors = signer("audit", "verify", place)
    assert (code, text) == (1, "") and "the folder has no audit log" in errors, (text, errors)
