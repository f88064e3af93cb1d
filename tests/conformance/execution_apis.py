"""The files and the comparison rule of the public execution-apis suite (hive rpc-compat).

A case is a file of lines: `//` comments, `>>` a request, `<<` the expected answer. If a case is marked `speconly` and its
answer is no error, the answer is validated against the method's JSON Schema. Every other answer must equal the recorded
one, except that `error.message` is ignored if both sides have one.

`test_execution_apis.py` runs the project's own files with every `make test`. `run.py` runs those or the files of a folder
and writes a report.
"""

import asyncio
import contextlib
import dataclasses
import gzip
import json
import pathlib
import socket
import tarfile

import websockets
from jsonschema import Draft201909Validator

from tenon_node import DATA, Node, folder, run

PACKED = DATA / "execution-apis"

# The files of a chain in the runner's form, next to the cases.
GENESIS, CHAIN, FORK_CHOICE = "genesis.json", "chain.rlp", "headfcu.json"

NAMESPACES = "eth,net,web3,debug,txpool"

# Methods that this node does not serve. The interface document does not list them, nor does the reference serve them
# (docs/spec/conformance.md 2.5). Every other method of the suite must pass.
OUT_OF_SCOPE = {
    "testing_buildBlockV1": "not in the interface document: it builds blocks for a test driver",
}


class UnusableSuite(Exception):
    """A folder without the suite's layout, or a case without the suite's syntax."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A file of requests and answers."""

    # Path below `tests/`, without the suffix. It has no meaning.
    name: str
    text: str

    @property
    def requests(self):
        """The texts of all requests, in order."""
        lines = self.text.splitlines()
        return [line[2:].strip() for line in lines if line.startswith(">>")]

    @property
    def left_out(self):
        """The reason for not running the case, derived from the methods that it calls; `None` if it is run."""
        methods = map(method_of, self.requests)
        return next((f"{method}: {OUT_OF_SCOPE[method]}" for method in methods if method in OUT_OF_SCOPE), None)


@dataclasses.dataclass(frozen=True)
class Suite:
    """The chain to import and the cases for it."""

    genesis: bytes
    chain: bytes
    # The hash at which the suite's fork choice puts the head.
    head: str
    # In the suite's order: ascending by path, on one running node.
    cases: list
    # Result schema by method.
    schemas: dict

    @property
    def in_scope(self):
        """The cases that are run."""
        return [case for case in self.cases if case.left_out is None]


def packed():
    """The suite stored in this project."""
    with tarfile.open(PACKED / "cases.tar.gz") as archive:
        members = [member for member in archive if member.name.endswith(".io")]
        cases = [
            Case(member.name.removeprefix("tests/").removesuffix(".io"), archive.extractfile(member).read().decode())
            for member in members
        ]
    chain = gzip.decompress((PACKED / f"{CHAIN}.gz").read_bytes())
    return _suite((PACKED / GENESIS).read_bytes(), chain, (PACKED / FORK_CHOICE).read_bytes(), cases, None)


def of_folder(path):
    """The suite of a folder: the chain in it or in its `tests/`, and cases as `.io` files at any depth."""
    path = pathlib.Path(path)
    base = next((each for each in (path, path / "tests") if (each / CHAIN).is_file()), None)
    if base is None:
        raise UnusableSuite(f"{path}: no {CHAIN} in it or in its tests/")
    below = base / "tests" if (base / "tests").is_dir() else base
    cases = [
        Case(file.relative_to(below).as_posix().removesuffix(".io"), file.read_bytes().decode(errors="replace"))
        for file in below.rglob("*.io")
    ]
    document = next((each / "openrpc.json" for each in (base, path) if (each / "openrpc.json").is_file()), None)
    return _suite(*((base / name).read_bytes() for name in (GENESIS, CHAIN, FORK_CHOICE)), cases, document)


def _suite(genesis, chain, fork_choice, cases, document):
    text = document.read_bytes() if document else gzip.decompress((PACKED / "openrpc.json.gz").read_bytes())
    schemas = {method["name"]: method["result"]["schema"] for method in json.loads(text)["methods"] if "result" in method}
    head = json.loads(fork_choice)["params"][0]["headBlockHash"]
    return Suite(genesis, chain, head, sorted(cases, key=lambda case: case.name), schemas)


@contextlib.contextmanager
def serving(suite):
    """A node that has imported the suite's chain and serves the suite's methods."""
    with folder() as path:
        genesis, chain = path / GENESIS, path / CHAIN
        genesis.write_bytes(suite.genesis)
        chain.write_bytes(suite.chain)
        run("import", "--genesis", genesis, "--datadir", path / "data", chain)
        arguments = ["run", "--genesis", genesis, "--auth.namespaces", ""]
        with Node(*arguments, "--http.api", NAMESPACES, "--ws.api", NAMESPACES, datadir=path / "data") as node:
            yield node


def parse(lines):
    """Returns (speconly, [(request text, expected answer)])."""
    speconly, exchanges, request = False, [], None
    for line in lines:
        if line.startswith("//"):
            speconly = speconly or (not exchanges and request is None and line[2:].strip().startswith("speconly:"))
        elif line.startswith(">>"):
            if request is not None:
                raise UnusableSuite("a request without an answer")
            request = line[2:].strip()
        elif line.startswith("<<"):
            if request is None:
                raise UnusableSuite("an answer without a request")
            exchanges.append((request, json.loads(line[2:])))
            request = None
        elif line.strip():
            raise UnusableSuite(f"a line that is none of the suite's: {line[:60]}")
    if request is not None:
        raise UnusableSuite("a request without an answer")
    return speconly, exchanges


def method_of(request):
    """The method of a request's text; none if the text is not a request."""
    try:
        request = json.loads(request)
    except ValueError:
        return None
    return request.get("method") if isinstance(request, dict) else None


def problem_of(case, suite, node):
    """The first request of a case with an unexpected answer, and the difference; none if there is none."""
    try:
        speconly, exchanges = parse(case.text.splitlines())
    except (UnusableSuite, ValueError) as error:
        return None, f"not a case: {error}"
    for request, expected in exchanges:
        text = node.raw(request)
        try:
            actual = json.loads(text)
        except ValueError:
            return request, f"answer is no JSON: {text[:200]}"
        problem = problem_with(speconly, suite.schemas.get(method_of(request)), actual, expected)
        if problem is not None:
            return request, problem
    return None


def transport_problems(suite, node):
    """Every request over the Unix socket and WebSocket whose answer differs from the answer over HTTP in any byte.

    Returns (transport, request, answer, answer over HTTP), and the number of requests. Signed transactions are first
    sent once over HTTP, so all three answers are about the same state.
    """
    requests = [request for case in suite.in_scope for request in case.requests]
    for request in requests:
        if method_of(request) == "eth_sendRawTransaction":
            node.raw(request)
    wanted = [node.raw(request).strip() for request in requests]
    transports = {"Unix socket": _over_unix_socket(node, requests), "WebSocket": _over_websocket(node, requests)}
    problems = [
        (transport, request, answer, over_http)
        for transport, answers in transports.items()
        for request, answer, over_http in zip(requests, answers, wanted, strict=True)
        if answer != over_http
    ]
    return problems, len(requests)


def _over_unix_socket(node, requests):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(node.ipc_path)
        answers = connection.makefile("rb")
        texts = []
        for request in requests:
            connection.sendall(request.encode())
            texts.append(answers.readline().decode().strip())
        return texts


def _over_websocket(node, requests):
    async def ask():
        async with websockets.connect(node.ws_url, max_size=None) as connection:
            texts = []
            for request in requests:
                await connection.send(request)
                texts.append((await connection.recv()).strip())
            return texts

    return asyncio.run(ask())


def problem_with(speconly, schema, actual, expected):
    """The problem of an answer; none if there is none."""
    if speconly and "error" not in actual:
        if schema is None:
            return "no schema for the result of this method"
        errors = sorted(Draft201909Validator(schema).iter_errors(actual.get("result")), key=lambda error: list(error.path))
        return f"result{list(errors[0].path)}: {errors[0].message[:300]}" if errors else None
    return difference(*without_messages(actual, expected))


def without_messages(actual, expected):
    """Both values with `error.message` dropped wherever both have one."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        actual, expected = dict(actual), dict(expected)
        for key in actual.keys() & expected.keys():
            if key == "error" and all(isinstance(side[key], dict) and "message" in side[key] for side in (actual, expected)):
                for side in (actual, expected):
                    side[key] = {name: value for name, value in side[key].items() if name != "message"}
            elif key != "error":
                actual[key], expected[key] = without_messages(actual[key], expected[key])
        return actual, expected
    if isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected):
        pairs = [without_messages(one, other) for one, other in zip(actual, expected)]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return actual, expected


def difference(actual, expected, path="answer"):
    """The first difference of two values, as text; none if they are equal."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in sorted(actual.keys() | expected.keys()):
            if key not in actual:
                return f"{path}.{key} is missing, want {json.dumps(expected[key])[:200]}"
            if key not in expected:
                return f"{path}.{key} is not expected: {json.dumps(actual[key])[:200]}"
            found = difference(actual[key], expected[key], f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(actual, list) and isinstance(expected, list):
        if len(actual) != len(expected):
            return f"{path} has {len(actual)} items, want {len(expected)}"
        pairs = enumerate(zip(actual, expected))
        return next(filter(None, (difference(one, other, f"{path}[{index}]") for index, (one, other) in pairs)), None)
    # JSON knows one kind of number, but true is not 1.
    same = actual == expected and isinstance(actual, bool) == isinstance(expected, bool)
    return None if same else f"{path} is {json.dumps(actual)[:200]}, want {json.dumps(expected)[:200]}"
