"""The OpenRPC document: every method describes its parameters and its result, and recorded answers match."""

import json

import jsonschema
import pytest

import chains
import comparison

FILES = ("local/eth", "local/net", "local/web3", "local/txpool", "local/debug")
# Namespaces whose methods all describe their results.
DESCRIBED = ("eth", "net", "web3", "txpool", "debug", "Consensus")


@pytest.fixture(scope="module")
def node():
    with chains.prepared("local", with_blocks=False) as path, chains.node_with(path) as running:
        yield running


@pytest.fixture(scope="module")
def methods(node):
    return {method["name"]: method for method in node.call("rpc_discover")["methods"]}


def test_every_method_describes_its_parameters_and_result(methods):
    described = {name: method for name, method in methods.items() if name.partition("_")[0] in DESCRIBED}
    assert len(described) > 120
    for name, method in described.items():
        for schema in (method["result"]["schema"], *(parameter["schema"] for parameter in method["params"])):
            jsonschema.Draft202012Validator.check_schema(schema)
    assert sorted(name for name, method in described.items() if not method["result"]["schema"]) == []


@pytest.mark.parametrize("file", FILES)
def test_recorded_answers_satisfy_the_schemas(methods, file):
    validators = {
        name: jsonschema.Draft202012Validator(method["result"]["schema"]) for name, method in methods.items()
    }
    checked, wrong = 0, []
    for case in comparison.recorded(file):
        validator = validators.get(case.get("method"))
        if validator is None or "result" not in case["response"]:
            continue
        if case["method"].startswith("debug_getModifiedAccounts") and case["response"]["result"] is None:
            # This node returns an empty list (differences.toml).
            continue
        checked += 1
        error = next(validator.iter_errors(case["response"]["result"]), None)
        if error:
            wrong.append(f"{case['method']} {json.dumps(case.get('params'))[:120]}: {error.message[:200]} at {list(error.path)}")
    assert not wrong, "\n".join(wrong[:20])
    assert checked > 0 or file == "local/net"
