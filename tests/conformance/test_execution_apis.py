"""The public execution-apis cases over HTTP, and the same requests over WebSocket and the Unix socket."""

import pytest

import execution_apis

SUITE = execution_apis.packed()


@pytest.fixture(scope="module")
def node():
    with execution_apis.serving(SUITE) as running:
        yield running


def test_the_imported_chain_ends_at_the_recorded_head(node):
    assert node.call("eth_getBlockByNumber", "latest", False)["hash"] == SUITE.head


@pytest.mark.parametrize("case", SUITE.in_scope, ids=lambda case: case.name)
def test_case(node, case):
    found = execution_apis.problem_of(case, SUITE, node)
    assert found is None, f"{case.name}: {found[0]}\n{found[1]}"


def test_the_unix_socket_and_the_websocket_answer_like_http(node):
    problems, compared = execution_apis.transport_problems(SUITE, node)
    assert compared > 0 and problems == []


def test_no_case_is_skipped_silently():
    left_out = {}
    for case in SUITE.cases:
        if case.left_out:
            left_out[case.left_out] = left_out.get(case.left_out, 0) + 1
    print(f"\nexecution-apis: {len(SUITE.in_scope)} cases in scope, {sum(left_out.values())} out of scope:")
    for reason, count in sorted(left_out.items()):
        print(f"  {count} {reason}")
    assert len(SUITE.cases) == 102 and left_out == {}


def test_files_of_another_folder_with_the_suites_layout_are_accepted(tmp_path):
    (tmp_path / "tests" / "deep" / "er").mkdir(parents=True)
    for name, content in (("genesis.json", SUITE.genesis), ("chain.rlp", SUITE.chain)):
        (tmp_path / "tests" / name).write_bytes(content)
    (tmp_path / "tests" / "headfcu.json").write_text('{"params": [{"headBlockHash": "0x01"}, null]}')
    (tmp_path / "tests" / "deep" / "er" / "odd name.io").write_text('// x\n>> {"method": "testing_buildBlockV1"}\n<< {}\n')

    suite = execution_apis.of_folder(tmp_path)

    assert suite.head == "0x01" and suite.in_scope == []
    assert [(case.name, case.left_out) for case in suite.cases] == [
        ("deep/er/odd name", "testing_buildBlockV1: not in the interface document: it builds blocks for a test driver")
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<< {}", "an answer without a request"),
        (">> {}", "a request without an answer"),
        (">> {}\n>> {}\n<< {}", "a request without an answer"),
        ("what is this", "a line that is none of the suite's: what is this"),
        (">> {}\n<< {", "Expecting property name"),
    ],
)
def test_an_invalid_case_file_fails_by_name(text, problem):
    found = execution_apis.problem_of(execution_apis.Case("x", text), SUITE, AnswersWith("{}"))
    assert found[1].startswith(f"not a case: {problem}")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ('{"result": [1, 2]}', None),
        ('{"result": [1]}', "answer.result has 1 items, want 2"),
        ('{"result": [1, true]}', "answer.result[1] is true, want 2"),
        ('{"result": [1, 2], "more": 0}', "answer.more is not expected: 0"),
        ("{}", "answer.result is missing, want [1, 2]"),
        ("<html>", "answer is no JSON: <html>"),
    ],
)
def test_the_first_difference_is_reported_with_both_values(answer, problem):
    case = execution_apis.Case("x", '>> {"method": "eth_x"}\n<< {"result": [1, 2]}')
    found = execution_apis.problem_of(case, SUITE, AnswersWith(answer))
    assert (found and found[1]) == problem


class AnswersWith:
    """A fake node that gives one answer to everything."""

    def __init__(self, answer):
        self.answer = answer

    def raw(self, _):
        return self.answer
