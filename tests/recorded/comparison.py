"""Compares recorded answers with the answers of this node.

There are two lists. `rules.json`, made with the recordings, lists what may differ because it depends on the node or on
chance (its data folder, its name, the order of a list). `differences.toml` lists every case in which Tenon answers
differently, with the reason and the exact number of cases. Any other difference is a failure, and so is an entry that no
longer applies.
"""

import collections
import fnmatch
import gzip
import json
import pathlib
import tomllib

from tenon_node import DATA

ANSWERS = DATA / "native" / "answers"
DIFFERENCES = pathlib.Path(__file__).with_name("differences.toml")

Difference = collections.namedtuple("Difference", "path expected found")

# Represents a member that one of the answers lacks.
ABSENT = "(absent)"


def recorded(name):
    """The recorded requests of a file, `<chain>/<name>`, each with its answer."""
    with gzip.open(ANSWERS / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def kind_of_case(case):
    """The method, or a placeholder if the request is a raw text."""
    return case.get("method") or ("http" if "http" in case else "raw")


def kind_of_json(value):
    """The JSON type; Python takes true for 1."""
    kinds = {type(None): "null", bool: "bool", int: "number", float: "number", str: "string", list: "list", dict: "object"}
    return kinds[type(value)]


class Rules:
    """What `rules.json` allows: of the rules that match a path, the last applies."""

    def __init__(self, path=ANSWERS / "rules.json"):
        given = json.loads(path.read_text())
        self.default, self.rules = given["default"], given["rules"]

    def of(self, case):
        """The rules about one request, as (path pattern, mode)."""
        tags = case.get("tags") or [""]
        return [
            (rule.get("path", ""), rule["mode"])
            for rule in self.rules
            if fnmatch.fnmatchcase(kind_of_case(case), rule.get("method", "*"))
            and any(fnmatch.fnmatchcase(tag, rule.get("tag", "*")) for tag in tags)
        ]

    def skips(self, case):
        """Returns whether the request is skipped."""
        whole = [mode for path, mode in self.of(case) if not path]
        return bool(whole) and whole[-1] == "skip"

    def differences(self, case, found):
        """All differences of an answer that the rules do not allow."""
        return list(compare(case["response"], found, self.of(case), self.default))


def mode_at(rules, path):
    """The mode that the rules give to a path; none if there is no rule."""
    matching = [mode for pattern, mode in rules if path == pattern or (pattern and fnmatch.fnmatchcase(path, pattern))]
    return matching[-1] if matching else None


def below(path, name):
    return f"{path}.{name}" if path else str(name)


def compare(expected, found, rules, mode, path=""):
    """Yields the differences of two values; a rule for a path applies to everything below it."""
    mode = mode_at(rules, path) or mode
    if mode in ("any", "ignore"):
        return
    if mode == "kind":
        if outcome(expected) != outcome(found):
            yield Difference(path, expected, found)
    elif kind_of_json(expected) != kind_of_json(found):
        if mode != "shape" or None not in (expected, found):
            yield Difference(path, expected, found)
    elif mode == "type":
        return
    elif isinstance(expected, dict):
        yield from compare_objects(expected, found, rules, mode, path)
    elif isinstance(expected, list):
        yield from compare_lists(expected, found, rules, mode, path)
    elif mode != "shape" and expected != found:
        yield Difference(path, expected, found)


def compare_objects(expected, found, rules, mode, path):
    for name in [*expected, *(name for name in found if name not in expected)]:
        place = below(path, name)
        if name in expected and name in found:
            yield from compare(expected[name], found[name], rules, mode, place)
        elif mode_at(rules, place) != "ignore":
            yield Difference(place, expected.get(name, ABSENT), found.get(name, ABSENT))


def compare_lists(expected, found, rules, mode, path):
    if mode == "shape":
        for one, other in list(zip(expected, found))[:1]:
            yield from compare(one, other, rules, mode, below(path, 0))
        return
    if mode == "unordered":
        expected, found, mode = in_one_order(expected), in_one_order(found), "exact"
    if len(expected) != len(found):
        yield Difference(below(path, "length"), len(expected), len(found))
    for index, (one, other) in enumerate(zip(expected, found)):
        yield from compare(one, other, rules, mode, below(path, index))


def outcome(answer):
    """Whether an answer is a result, or otherwise its error code."""
    error = answer.get("error") if isinstance(answer, dict) else None
    return error.get("code") if isinstance(error, dict) else "result"


def in_one_order(value):
    """The value with every list in it sorted."""
    if isinstance(value, list):
        return sorted(map(in_one_order, value), key=lambda item: json.dumps(item, sort_keys=True))
    return {name: in_one_order(item) for name, item in value.items()} if isinstance(value, dict) else value


def is_missing(case, found):
    """Returns whether this node lacks the method that the reference answered."""
    return outcome(found) == -32601 and outcome(case["response"]) != -32601


class Listed:
    """`differences.toml`."""

    def __init__(self, path=DIFFERENCES):
        given = tomllib.loads(path.read_text())
        self.differences, self.missing = given.get("difference", []), given.get("missing", [])

    def files(self):
        return {file for entry in self.differences for file in entry["cases"]}

    def allows_missing(self, method):
        return any(fnmatch.fnmatchcase(method, entry["method"]) for entry in self.missing)

    def entry_for(self, file, case, difference):
        """Index of the entry that explains a difference; none if no entry does."""
        texts = {
            "method": kind_of_case(case),
            "path": difference.path,
            "request": json.dumps(case.get("params", case.get("raw", case.get("http")))),
            "expected": json.dumps(difference.expected),
            "found": json.dumps(difference.found),
        }
        for index, entry in enumerate(self.differences):
            if file in entry["cases"] and all(fnmatch.fnmatchcase(text, entry.get(name, "*")) for name, text in texts.items()):
                return index
        return None


class Tally:
    """Results of the cases of one file."""

    def __init__(self, file, listed=None):
        self.file, self.listed = file, listed or Listed()
        self.methods = collections.defaultdict(collections.Counter)
        self.by_entry, self.failures, self.served = collections.Counter(), [], set()

    def skip(self, case):
        self.methods[kind_of_case(case)]["skipped"] += 1

    def add(self, case, found, differences):
        """Counts one case."""
        method = kind_of_case(case)
        if differences and is_missing(case, found) and self.listed.allows_missing(method):
            self.methods[method]["missing"] += 1
            return
        self.served.add(method)
        entries = {self.listed.entry_for(self.file, case, difference) for difference in differences}
        if not differences:
            self.methods[method]["equal"] += 1
        elif None in entries:
            self.methods[method]["different"] += 1
            self.failures.append((case, differences))
        else:
            self.methods[method]["listed"] += 1
            self.by_entry.update(entries)

    def total(self, outcome_name):
        return sum(counts[outcome_name] for counts in self.methods.values())

    def problems(self, shown=3):
        """The problems as text; empty if there are none."""
        texts, by_method = [], collections.Counter()
        for case, differences in self.failures:
            by_method[kind_of_case(case)] += 1
            if by_method[kind_of_case(case)] <= shown:
                texts.append(described(self.file, case, differences))
        if self.failures:
            counts = ", ".join(f"{method} {count}" for method, count in by_method.most_common())
            texts.append(f"{self.file}: {len(self.failures)} answers differ that differences.toml does not list: {counts}")
        for index, entry in enumerate(self.listed.differences):
            wanted, counted = entry["cases"].get(self.file), self.by_entry[index]
            if wanted is not None and wanted != counted:
                place = f"{entry.get('method', '*')} {entry.get('path', '*')}"
                texts.append(f"{self.file}: differences.toml lists {wanted} cases of {place} ({entry['reason']}), there are {counted}")
        for entry in self.listed.missing:
            now_served = sorted(method for method in self.served if fnmatch.fnmatchcase(method, entry["method"]))
            if now_served:
                texts.append(f"{self.file}: differences.toml lists {entry['method']} as missing, but it is served: {now_served}")
        return "\n".join(texts)


def described(file, case, differences, limit=300):
    def short(value):
        text = json.dumps(value)
        return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"

    asked = case.get("params", case.get("raw", case.get("http")))
    lines = [f"{file} #{case.get('id', '?')} {kind_of_case(case)} {short(asked)}"]
    for difference in differences[:5]:
        lines += [f"    {difference.path or 'answer'}", f"        recorded {short(difference.expected)}"]
        lines += [f"        found    {short(difference.found)}"]
    return "\n".join(lines)
