"""The check of citations (`make lint`) must find one without a heading, and accept the others."""

import pathlib
import subprocess
import sys

import pytest

# Separate from the file names, so that the check does not treat this test's examples as citations.
FOLDER = "docs/spec"
SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "check-citations.py"

SPECIFICATION = """# Rules

See section 2, [2.3](#23-the-third) and §2.1.

## 1. First

```
## 9. No heading: this is an example
```

## 2. Second

### 2.1 The first
### 2.2 The second
### 2.3 The third

## Appendix A. Tables
"""


def cited(numbers, before="", name="rules"):
    """A citation with these numbers."""
    return f"{before}spec/{name}.md{numbers}"


def check(folder, **files):
    """Runs the script on a repository with this specification and these files; returns its exit code and output."""
    files = {f"{FOLDER}/rules.md": SPECIFICATION, **files}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)
    done = subprocess.run([sys.executable, str(SCRIPT), "--root", str(folder)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "text",
    [
        cited("` 2.1, 2.2 and Appendix A", "`docs/"),
        cited(" 1 to 2; then 77 other things"),
        cited(" 2.2 rule 11, 2.3, steps 4 to 9"),
        f"//! A rule (`{cited('`')}\n//! 2.1).",
        f"See `{cited('`')}.\n\n99. Item of a list.",
        "[there](" + cited("#22-the-second", "docs/") + ")",
        "`rules.md` 2.3, and other.md 99",
        "src/spec/native.rs 99",
    ],
)
def test_a_citation_with_a_heading_passes(tmp_path, text):
    code, words = check(tmp_path, **{"src/lib.rs": text})

    assert code == 0, words


@pytest.mark.parametrize(
    ("text", "line", "missing"),
    [
        (cited(" 2.4"), 1, "has no section 2.4"),
        ("\n\n" + cited("` 2.1, 7", "`docs/"), 3, "has no section 7"),
        (cited(" 2.1 to 2.5"), 1, "has no section 2.4"),
        (cited(" 2.2 rule 1, 2.9"), 1, "has no section 2.9"),
        (cited(" 9"), 1, "has no section 9"),
        (cited(" Appendix B"), 1, "has no section Appendix B"),
        (f"\n//! A rule (`{cited('`')}\n//! 3.1).", 2, "has no section 3.1"),
        ("`rules.md` 4", 1, "has no section 4"),
        (cited(" 1", name="other"), 1, f"there is no file {FOLDER}/other.md"),
        (cited("#22-the-other", "docs/"), 1, "no heading with the anchor #22-the-other"),
    ],
)
def test_a_citation_without_a_heading_is_reported_with_its_position(tmp_path, text, line, missing):
    code, words = check(tmp_path, **{"src/lib.rs": text})

    assert code == 1
    assert f"src/lib.rs:{line}: " in words
    assert missing in words


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("# More\n\nAs section 3 says.\n\n## 1. One\n", f"{FOLDER}/more.md has no section 3"),
        ("# More\n\nSee §1.1.\n\n## 1. One\n", f"{FOLDER}/more.md has no section 1.1"),
        ("# More\n\n[One](#2-one)\n\n## 1. One\n", f"{FOLDER}/more.md has no heading with the anchor #2-one"),
        ("# More\n\nrules.md section 5, section 1.\n\n## 1. One\n", f"{FOLDER}/rules.md has no section 5"),
    ],
)
def test_citations_within_the_specification_are_checked(tmp_path, text, missing):
    code, words = check(tmp_path, **{f"{FOLDER}/more.md": text})

    assert code == 1
    assert missing in words


def test_ignored_files_and_binary_ones_are_left_out(tmp_path):
    (tmp_path / "data.bin").write_bytes(b"\xff\xfe" + cited(" 99").encode())

    code, words = check(tmp_path, **{".gitignore": "made/\n", "made/page.md": cited(" 99")})

    assert code == 0, words


def test_a_folder_without_a_specification_is_an_error(tmp_path):
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q"], check=True)

    done = subprocess.run([sys.executable, str(SCRIPT), "--root", str(tmp_path)], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "has no .md file" in done.stderr
