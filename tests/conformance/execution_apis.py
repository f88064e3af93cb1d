"""The comparison rule of the public execution-apis suite (hive rpc-compat), in our own words.

A case is a file of lines: `//` comments, `>>` a request, `<<` the answer expected. A case marked `speconly` whose answer
is no error is validated against the method's JSON Schema; every other answer must equal the recorded one, except that an
`error.message` is dropped where both sides have one.
"""

import gzip
import json
import tarfile

from jsonschema import Draft201909Validator

from tenon_node import DATA

FOLDER = DATA / "execution-apis"

# Methods that the interface document does not list and that the reference does not serve either
# (spec/conformance.md 2.5). Every other method of the suite must pass.
OUT_OF_SCOPE = {
    "eth_baseFee": "not in the interface document",
    "eth_capabilities": "not in the interface document",
    "eth_config": "not in the interface document",
    "eth_getStorageValues": "not in the interface document",
    "eth_simulateV1": "not in the interface document",
}


def cases():
    """All cases in the suite's order: (name, lines)."""
    with tarfile.open(FOLDER / "cases.tar.gz") as archive:
        members = sorted((member for member in archive if member.name.endswith(".io")), key=lambda member: member.name)
        return [
            (member.name.removeprefix("tests/").removesuffix(".io"), archive.extractfile(member).read().decode().splitlines())
            for member in members
        ]


def schemas():
    """Result schema by method."""
    document = json.loads(gzip.decompress((FOLDER / "openrpc.json.gz").read_bytes()))
    return {method["name"]: method["result"]["schema"] for method in document["methods"]}


def parse(lines):
    """Gives (speconly, [(request text, expected answer)])."""
    speconly, exchanges, request = False, [], None
    for line in lines:
        if line.startswith("//"):
            speconly = speconly or (not exchanges and request is None and line[2:].strip().startswith("speconly:"))
        elif line.startswith(">>"):
            request = line[2:].strip()
        elif line.startswith("<<"):
            assert request is not None, "an answer without a request"
            exchanges.append((request, json.loads(line[2:])))
            request = None
        else:
            assert not line.strip(), f"a line that is none of the suite's: {line[:60]}"
    assert request is None, "a request without an answer"
    return speconly, exchanges


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
    """The first place where two values differ, in words; none when they are equal."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        for key in sorted(actual.keys() | expected.keys()):
            if key not in actual:
                return f"{path}.{key} is missing, want {json.dumps(expected[key])[:200]}"
            if key not in expected:
                return f"{path}.{key} is too much: {json.dumps(actual[key])[:200]}"
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


def problem(speconly, method_schema, actual, expected):
    """What is wrong with an answer; none when nothing is."""
    if speconly and "error" not in actual:
        errors = sorted(Draft201909Validator(method_schema).iter_errors(actual.get("result")), key=lambda error: list(error.path))
        return f"result{list(errors[0].path)}: {errors[0].message[:300]}" if errors else None
    return difference(*without_messages(actual, expected))
