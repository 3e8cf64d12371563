#!/usr/bin/env python3
"""Writes the documents that derive from tables in the code.

  docs/VARIABLES.md  from core/base/variables.h and tools/variables.h
  docs/VERDICTS.md   from analysis/verdict.h; what the analysis can say is what its sources name
  docs/FORMAT.md     its table of statistics, from core/format/ring_layout.h

  scripts/generate_docs.py              writes them
  scripts/generate_docs.py --check      changes nothing, exit status 1 when one is out of date
  scripts/generate_docs.py --self-test  proves that a table is read whole
"""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

VARIABLES_HEAD = """# Variables

Generated from `core/base/variables.h` by `scripts/generate_docs.py`; `rollcall config` prints the
same with the values that are set. They are read once, when a process makes its first NCCL call; a
relative directory is taken from where the process is then.

Nonsense in a variable costs one line on stderr and leaves the default in force, a number out of its
range the nearest that is allowed. Sizes take the suffixes k, m and g (of 1024); flags take 0, 1,
on, off, true, false, yes, no, in any case.

| variable | type | default | meaning |
| --- | --- | --- | --- |
"""

VARIABLES_COMMAND = """
The command's own, from `tools/variables.h`:

| variable | type | default | meaning |
| --- | --- | --- | --- |
"""

VERDICTS_HEAD = """# Verdicts

Generated from `analysis/verdict.h` by `scripts/generate_docs.py`. Codes are never reused or
renamed.

Every finding carries its code, a severity, the culprits, the victims, the records it rests on, a
confidence (`certain`: follows from records present; `likely`: a named record is missing; `open`),
one sentence, and one line on what to look at next. One defect yields one leading finding; what
follows from it is listed under it, without a code: who waits, in what, for whom.

`rollcall diff` exits with 0 in lockstep, 1 with a finding of severity hang or corruption, 2 on
unusable arguments or input, 3 when it cannot decide, when calls of a running job wait, but not yet
for long enough (RC-WAITING), or when what is on file is in lockstep and something is missing
(RC-RECORD-GAP), 4 with findings of severity slow or risk only.
A corruption that ranks wait for is told as a hang; one that nobody waits for exits with 4 under
`--only-hangs`. A mismatch is a corruption where the job went on, and so is a RC-MISSING-CALL or a
RC-ORDER-MISMATCH that only the lines of the script tell.

## In this version

| code | severity | said when |
| --- | --- | --- |
"""

VERDICTS_RESERVED = """
## Reserved

These need evidence that this version does not collect.

| code | severity | will be said when |
| --- | --- | --- |
"""


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def rows_of(text, macro):
    """The argument lists of X(...) in `#define macro(X)`, literals joined and unquoted."""
    match = re.search(r"#define\s+" + macro + r"\(X\)((?:[^\n]*\\\n)*[^\n]*)", text)
    if not match:
        raise SystemExit(f"generate_docs: no table {macro}")
    body = re.sub(r"\\\n\s*", " ", match.group(1))
    body = re.sub(r"/\*.*?\*/", " ", body)
    rows = []
    for call in re.finditer(r'\bX\(((?:[^()"]|"(?:\\.|[^"\\])*")*)\)', body):
        fields = re.findall(r'((?:"(?:\\.|[^"\\])*"\s*)+|[^,"]+)(?:,|$)', call.group(1))
        rows.append([unquote(field) for field in fields])
    return rows


def unquote(field):
    literals = re.findall(r'"((?:\\.|[^"\\])*)"', field)
    if literals or '"' in field:
        return "".join(literals).replace('\\"', '"')
    return field.strip()


def cell(text):
    return text.replace("|", "\\|") or "–"


def variables():
    def lines_of(path, macro):
        return "".join(
            f"| `{name}` | {kind} | {'`' + default + '`' if default else '–'} | {cell(meaning)} |\n"
            for name, kind, default, meaning in rows_of(read(path), macro))
    return (VARIABLES_HEAD + lines_of("core/base/variables.h", "ROLLCALL_VARIABLES") +
            VARIABLES_COMMAND + lines_of("tools/variables.h", "ROLLCALL_COMMAND_VARIABLES"))


def verdicts():
    sources = "".join(read(os.path.relpath(path, ROOT))
                      for path in sorted(glob.glob(os.path.join(ROOT, "analysis", "**", "*.cpp"),
                                                   recursive=True)))
    said, reserved = [], []
    for name, code, severity, meaning in rows_of(read("analysis/verdict.h"), "ROLLCALL_VERDICTS"):
        line = f"| {code} | {severity} | {cell(meaning)} |\n"
        (said if re.search(rf"\bVerdict::{name}\b", sources) else reserved).append(line)
    return (VERDICTS_HEAD + "".join(said) +
            (VERDICTS_RESERVED + "".join(reserved) if reserved else ""))


def file_format():
    """docs/FORMAT.md is written by hand, but for the table of statistics."""
    rows = rows_of(read("core/format/ring_layout.h"), "ROLLCALL_STATISTICS")
    table = "| offset | name | meaning |\n| --- | --- | --- |\n" + "".join(
        f"| {8 * number} | {name} | {cell(meaning)} |\n"
        for number, (name, meaning) in enumerate(rows))
    begin, end = "<!-- statistics:begin -->\n", "<!-- statistics:end -->"
    before, rest = read("docs/FORMAT.md").split(begin)
    return before + begin + table + end + rest.split(end)[1]


DOCUMENTS = {"docs/VARIABLES.md": variables, "docs/VERDICTS.md": verdicts,
             "docs/FORMAT.md": file_format}


def self_test():
    table = ('#define T(X)    \\\n  X(a, "one, (two)", "") \\\n'
             '  X(b, "x" /* no */ \\\n    " y", "c")\nint X(z);\n')
    assert rows_of(table, "T") == [["a", "one, (two)", ""], ["b", "x y", "c"]], rows_of(table, "T")
    names = re.findall(r"\bX\((ROLLCALL_\w+)", read("core/base/variables.h"))
    assert [row[0] for row in rows_of(read("core/base/variables.h"), "ROLLCALL_VARIABLES")] == names
    codes = re.findall(r'"(RC-[A-Z0-9-]+)"', read("analysis/verdict.h"))
    assert [row[1] for row in rows_of(read("analysis/verdict.h"), "ROLLCALL_VERDICTS")] == codes
    print("generate_docs: self-test passed")


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
        return 0
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = 0
    for path, make in DOCUMENTS.items():
        text = make()
        full = os.path.join(ROOT, path)
        if os.path.isfile(full) and read(path) == text:
            continue
        if arguments:
            print(f"generate_docs: {path} is out of date; run scripts/generate_docs.py")
            stale += 1
        else:
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
