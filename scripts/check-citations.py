#!/usr/bin/env python3
"""Checks that every cited section of the specification exists.

A citation is the name of a file of `docs/spec`, with or without its folders, and the section numbers after it, for example
`docs/spec/chain.md` 3.4, 4.1 to 4.3. Inside `docs/spec`, "section 3.4" and "§3.4" refer to the same file, and anchors of links
are checked too. Searches all tracked files: comments (across line ends), texts and documents.

Prints file, line, citation and the missing section, and fails if there is any.
"""

import argparse
import pathlib
import re
import subprocess
import sys

FOLDER = "docs/spec"

# White space, possibly with one line end and the comment prefix of the next line. The number of a list item is not a section.
COMMENT = r"(?://[/!]?|#|\*|--)?"
GAP = rf"[ \t]*(?:\n[ \t]*{COMMENT}[ \t]*(?!\d+\.\s))?"
NUMBER = r"(?:[Aa]ppendix[ ][A-Z]|\d+(?:\.\d+)*)(?![\w%]|\.\d)"
# "rule 11" is a part of a section, not a section.
DETAIL = rf"(?:,?{GAP}(?:rules?|steps?|rows?|items?|tests?){GAP}\d+(?:{GAP}(?:to|and){GAP}\d+)*)"
JOIN = rf"{GAP}(?:,{GAP}and\b|,|and\b|to\b|–){GAP}"
NUMBERS = rf"{NUMBER}{DETAIL}?(?:{JOIN}{NUMBER}{DETAIL}?)*"
CITATION = re.compile(
    r"(?<![\w./-])(?P<folder>(?:[\w.-]+/)*)(?P<name>[\w-]+)\.md(?:#(?P<anchor>[\w-]+))?"
    rf"(?:[`)\]]*{GAP}(?:sections?{GAP}|§{GAP})?(?P<numbers>{NUMBERS}))?"
)
OWN_SECTION = re.compile(rf"(?:\bsections?{GAP}|§{GAP})(?P<numbers>{NUMBERS})")
OWN_ANCHOR = re.compile(r"\]\(#(?P<anchor>[\w-]+)\)")
FENCE = re.compile(r"^\s*(?:```|~~~)")


class Document:
    """The sections and anchors of one file of the specification."""

    def __init__(self, text):
        self.numbers, self.anchors = set(), set()
        is_code = False
        for line in text.splitlines():
            if FENCE.match(line):
                is_code = not is_code
            heading = None if is_code else re.match(r"#{1,6}\s+(.*?)\s*$", line)
            if heading:
                self.anchors.add(self.unused(anchor_of(heading[1])))
                number = re.match(r"(Appendix [A-Z]|\d+[a-z]?(?:\.\d+)*)\.?(?:\s|$)", heading[1])
                if number:
                    self.numbers.add(number[1])

    def unused(self, anchor):
        """GitHub numbers headings of the same text."""
        candidate, count = anchor, 0
        while candidate in self.anchors:
            count += 1
            candidate = f"{anchor}-{count}"
        return candidate


def anchor_of(heading):
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def sections_of(numbers):
    """The sections named by a list, including those inside a range."""
    numbers = re.sub(rf"(?<=[\dA-Z]){DETAIL}", "", numbers).replace("appendix", "Appendix")
    parts = re.split(rf"({JOIN})", numbers)
    sections = [parts[0]]
    for join, number in zip(parts[1::2], parts[2::2]):
        parent, _, last = number.rpartition(".")
        before, _, first = sections[-1].rpartition(".")
        is_range = re.search(r"to|–", join) and parent == before and first.isdigit() and last.isdigit()
        if is_range:
            sections += [".".join(filter(None, (parent, str(between)))) for between in range(int(first) + 1, int(last))]
        sections.append(number)
    return sections


class Checker:
    """Reads the specification once, and finds citations of sections that it does not have."""

    def __init__(self, root):
        self.documents = {
            path.stem: Document(path.read_text(encoding="utf-8")) for path in sorted((root / FOLDER).glob("*.md"))
        }
        self.citations = 0

    def wrong(self, path, text):
        """Yields the line of each wrong citation, the citation, and what is missing."""
        is_own = path.startswith(FOLDER + "/")
        read = []
        for found in CITATION.finditer(text):
            name = found["name"]
            is_bare = not found["folder"] and name != "README" and name in self.documents
            if not is_bare and not re.search(r"(?:^|/)spec/$", found["folder"]):
                continue
            read.append(found.span())
            yield from self.missing(found, name, text)
        if not is_own:
            return
        own = pathlib.PurePath(path).stem
        for found in [*OWN_SECTION.finditer(text), *OWN_ANCHOR.finditer(text)]:
            if not any(start <= found.start() < end for start, end in read):
                yield from self.missing(found, own, text)

    def missing(self, found, name, text):
        self.citations += 1
        line = text.count("\n", 0, found.start()) + 1
        cited = re.sub(rf"\s*\n[ \t]*{COMMENT}[ \t]*", " ", found[0])
        document = self.documents.get(name)
        if document is None:
            yield line, cited, f"there is no file {FOLDER}/{name}.md"
            return
        groups = found.groupdict()
        for section in sections_of(groups["numbers"]) if groups.get("numbers") else []:
            if section not in document.numbers:
                yield line, cited, f"{FOLDER}/{name}.md has no section {section}"
        if groups.get("anchor") and groups["anchor"] not in document.anchors:
            yield line, cited, f"{FOLDER}/{name}.md has no heading with the anchor #{groups['anchor']}"


def texts(root):
    """The text files that are tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"], check=True, capture_output=True
    ).stdout.decode()
    for path in sorted(set(filter(None, listed.split("\0")))):
        try:
            yield path, (root / path).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    checker = Checker(root)
    if not checker.documents:
        sys.exit(f"citations: {root / FOLDER} has no .md file")
    wrong = 0
    for path, text in texts(root):
        for line, cited, what in checker.wrong(path, text):
            wrong += 1
            print(f"{path}:{line}: “{cited}”: {what}", file=sys.stderr)
    if wrong:
        sys.exit(f"citations: {wrong} of {checker.citations} cite missing sections; correct them, or add the sections to {FOLDER}")
    print(f"citations: all {checker.citations} cited sections of {FOLDER} exist")


if __name__ == "__main__":
    main()
