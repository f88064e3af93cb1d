"""Tests of the comparison itself: one that accepts everything would make the whole suite worthless."""

import pytest

from comparison import ABSENT, Difference, Rules, compare, is_missing, recorded


@pytest.mark.parametrize(
    ("expected", "found", "differences"),
    [
        ({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1}, []),
        ({"a": 1}, {"a": True}, [Difference("a", 1, True)]),
        ({"a": "0x1"}, {}, [Difference("a", "0x1", ABSENT)]),
        ({}, {"a": None}, [Difference("a", ABSENT, None)]),
        ([1, 2], [2, 1], [Difference("0", 1, 2), Difference("1", 2, 1)]),
        ([1], [1, 2], [Difference("length", 1, 2)]),
        ({"result": None}, {"result": []}, [Difference("result", None, [])]),
    ],
)
def test_without_rules_everything_must_be_equal(expected, found, differences):
    assert list(compare(expected, found, [], "exact")) == differences


@pytest.mark.parametrize(
    ("rules", "expected", "found", "is_allowed"),
    [
        ([("", "kind")], {"error": {"code": 1, "message": "a"}}, {"error": {"code": 1, "message": "b"}}, True),
        ([("", "kind")], {"error": {"code": 1}}, {"error": {"code": 2}}, False),
        ([("", "kind")], {"result": 1}, {"error": {"code": 1}}, False),
        ([("", "shape")], {"a": "x", "b": [1, 2]}, {"a": "y", "b": [3]}, True),
        ([("", "shape")], {"a": "x"}, {"a": 1}, False),
        ([("", "shape")], {"a": "x"}, {"b": "x"}, False),
        ([("", "shape"), ("a", "exact")], {"a": "x"}, {"a": "y"}, False),
        ([("", "type")], {"a": 1}, {"b": 2}, True),
        ([("a", "unordered")], {"a": [{"k": [1, 2]}, {"k": []}]}, {"a": [{"k": []}, {"k": [2, 1]}]}, True),
        ([("a", "unordered")], {"a": [1, 2]}, {"a": [1, 3]}, False),
        ([("a", "ignore")], {"a": 1}, {}, True),
        ([("*.a", "any")], {"x": {"a": 1}}, {"x": {"a": "2"}}, True),
        ([("*.a", "any")], {"x": {"a": 1}}, {"x": {}}, False),
    ],
)
def test_rules_allow_exactly_their_differences(rules, expected, found, is_allowed):
    assert (not list(compare(expected, found, rules, "exact"))) == is_allowed


def test_rules_are_chosen_by_method_and_tag():
    rules = Rules()

    assert rules.skips({"method": "eth_call", "tags": ["bad-params", "reference-crash"]})
    assert not rules.skips({"method": "eth_call"})
    assert ("", "type") in rules.of({"method": "web3_clientVersion"})


def test_a_missing_method_is_one_that_the_reference_has():
    missing = {"error": {"code": -32601, "message": "the method x_y does not exist/is not available"}}

    assert is_missing({"response": {"result": 1}}, missing)
    assert not is_missing({"response": missing}, missing)
    assert not is_missing({"response": {"result": 1}}, {"result": 2})


def test_the_recordings_are_present():
    assert len(recorded("local/eth")) == 3591
