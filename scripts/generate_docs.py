#!/usr/bin/env python3
"""Writes the documents that derive from tables in the code.

  docs/VARIABLES.md  from core/base/variables.h and tools/variables.h
  docs/VERDICTS.md   from analysis/verdict.h and tools/class_status.h; what can be said is what the
                     sources of the analysis and of the stage `slow` name
  docs/FORMAT.md     its table of statistics, from core/format/ring_layout.h
  docs/IMPORTS.md    from trace/import/job_log_formats.h
  docs/MESSAGES.md   from analysis/testimony/catalogue.cpp

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

What the environment does not set, or sets to nothing, is taken from the user's configuration file,
else from the system's, else the default holds:

1. the environment;
2. the user's file: `$ROLLCALL_CONF_FILE`, or where that is not set
   `$XDG_CONFIG_HOME/rollcall.conf`, or `~/.config/rollcall.conf`;
3. the system's file: `/etc/rollcall.conf`.

A file has lines `NAME=VALUE`, without quotes, and comments behind `#` at the begin of a line. In a
path `${NAME}` is a variable of the environment, and `${NAME:-TEXT}` one with a text in its place:

```
# /etc/rollcall.conf: every job of this cluster that loads Rollcall's plugin (/etc/nccl.conf)
ROLLCALL_DIR=/scratch/${USER}/rollcall/${SLURM_JOB_ID:-none}
ROLLCALL_OVERHEAD_BUDGET=2
```

`rollcall run` without `-d` makes the run's folder below a `ROLLCALL_DIR` that stands in a file.
ENVIRONMENT may not stand in a file, and neither may
the command's own. A file that somebody else may have written is not used, since it may name a
library to load: it has to belong to root or to the user of the process, and neither group nor
others may write to it. (Where a container's users are
not the host's, a mounted file may belong to nobody, and is not used.) One of more than 64 KiB, a
pipe, a device or a folder is not read. What is not used costs one line on stderr; `rollcall config`
says it all, and where each value is from, `rollcall doctor` also of a process that runs.

| variable | type | default | meaning |
| --- | --- | --- | --- |
"""

VARIABLES_COMMAND = """
The command's own, from `tools/variables.h`:

| variable | type | default | meaning |
| --- | --- | --- | --- |
"""

VERDICTS_HEAD = """# Verdicts

Generated from `analysis/verdict.h` and `tools/class_status.h` by `scripts/generate_docs.py`. Codes
are never reused or renamed.

Every finding carries its code, a severity, a confidence (see "How sure"), the culprits, the
victims, the records it rests on, one sentence, and one line on what to look at next. One defect
yields one leading finding; what follows from it is listed under it, without a code: who waits, in
what, for whom.

`rollcall diff` exits with 0 in lockstep, 1 with a finding of severity hang or corruption, 2 on
unusable arguments or input, 3 when it cannot decide, when calls of a running job wait, but not yet
for long enough (RC-WAITING), or when what is on file is in lockstep and something is missing
(RC-RECORD-GAP), 4 with findings of severity slow or risk only. Those of severity slow are said by
`rollcall slow` ([SLOW.md](SLOW.md)): 4 where it names a cause, 0 where it names none, 3 where
nothing could be compared.
A corruption that ranks wait for is told as a hang; one that nobody waits for exits with 4 under
`--only-hangs`. A mismatch is a corruption where the job went on, and so is a RC-MISSING-CALL or a
RC-ORDER-MISMATCH that only the lines of the script tell.

The class says where the cause lies, as far as the code alone tells: in the `program`, which a
restart repeats; on a `node`, which another one does not have; in the `fabric` (GPU links, network);
`outside` of the job (a signal, a loader, settings); or `unknown`. A RC-CUDA-ERROR is of the
`node` where CUDA itself calls the memory of the GPU faulty (error 214, an uncorrectable ECC
error). The class is for whoever decides about a restart (`rollcall run --on-verdict`,
`--exit-by-class`). Only a certain verdict of class `node` names a host that should be left out
(`--exclude-file`).

## Exit statuses

Of `rollcall run`, of `rollcall watch` with or without `--probe`, and of `rollcall diff`. Those of
a class stand in place of 1 with `--exit-by-class` alone, so that scripts which know 1 go on; a
verdict of class `unknown` leaves what there is. `rollcall run --exit-by-class` gives them to a job
that it has ended for a hang, and to one that failed by itself and has a verdict of severity hang or
corruption; not to one that was told to end, or had its time.

| status | `run` | `watch` | `diff` |
| --- | --- | --- | --- |
| 0 | the job's | over; `--probe`: or not known to hang | in lockstep, or equal |
| 1 | ended for a hang; or the job's | it hangs | a hang, wrong data, other calls |
| 2 | unusable arguments; or the job's | unusable arguments | arguments or files unusable |
| 3 | the job's | – | not decided, or not yet |
| 4 | the job's | – | slow or risky only |
CLASSES| 124 | `--timeout` is over | – | – |
| 126, 127 | the command cannot be started | – | – |
| 128 + N | the job died of signal N | – | – |

## In this version

| code | severity | class | said when |
| --- | --- | --- | --- |
"""

VERDICTS_MISSTEPS = """
## What was done

The JSON's field `misstep` of a finding says what its culprits did, so that what one code covers can
be told apart without its sentence. It is null where that is no matter of calls (RC-RANK-DEAD,
RC-STUCK-ON-GPU), and where nothing on file tells what it was, or which of two sides did it.

| misstep | the culprits … |
| --- | --- |
"""

VERDICTS_CONFIDENCE = """
## How sure

`certain`: the verdict follows from records, and every witness that was asked agrees. `likely`: a
witness tells, but another slip would have left the same record, or something is assumed that is not
on file. `open`: the witnesses contradict each other, or what decides is not on file. The sentence
names the witness and what is assumed.

| it rests on | confidence |
| --- | --- |
| calls at one position that differ, where most ranks agree, and so do the calls behind | certain |
| the same, where ranks are equally many on both sides: all of them are named | likely |
| the same, where only the steps before tell which side is right | likely |
| a call left out, one made more, another communicator, another peer | likely |
| a collective that a rank has not made, which waits for nobody | certain |
| the same, where more ranks are without the call than have made it | open |
| a transfer that a rank has not made: its peer may have made one more | likely |
| two numbers of transfers in a step, where other ranks or earlier steps tell | likely |
| the same, where nothing tells: both ranks are named | likely |
| a process that is stopped, that ended by itself, or is gone while the job runs | certain |
| a process that was gone when the files were read, as all others were | likely |
| an error, an abort, or a call that did not come back, as the recorder wrote it | certain |
| a circle of waits, all calls made, where most ranks or earlier steps tell the order | certain |
| the same, where calls of it are still to be made, or only positions tell the order | likely |
| a circle of waits, all its calls made, where nothing tells the order: all are named | certain |
| two sizes of one transfer | certain |
| what GPUs did, where all of them were watched | certain |
| the same, where some were not | likely |
| a call that a rank ended its communicator without; a creation that it has not made | certain |
| two calls that PyTorch itself compared, and printed | certain |
| a rank that prints, at a time-out, that it is some calls behind | likely |
| ranks that print nothing at a time-out of others, in a log that goes on behind it | open |

What is assumed lowers it, and never raises it:

| assumed, or in doubt | at most |
| --- | --- |
| streams run in the order of the host's calls; replays ran as launched | likely |
| nothing after the first rank gave up counts | likely |
| the members of a communicator, which are not on file | likely |
| a file of another recorder is complete | likely |
| the profiler plugin alone heard every call | likely; open where most ranks are blamed |
| calls of several threads come in one order | likely |
| a report of RAS shows one moment; states that contradict the sequence | open |
| a damaged file; a log that may be cut off, has no numbers or no Init lines | open |
| which lines of a log are of which attempt of the job | open |
"""

VERDICTS_RESERVED = """
## Reserved

These need evidence that this version does not collect.

| code | severity | class | will be said when |
| --- | --- | --- | --- |
"""


IMPORTS_HEAD = """# Lines of job logs that are read

Generated from `trace/import/job_log_formats.h` by `scripts/generate_docs.py`. `rollcall diff` looks
for these wherever they stand in a log; what launchers and collectors put in front of a line is
taken off first. `<name>` is a value, `{...}` may be there or not, `...` passes over anything, and a
blank stands for one or more. What NCCL's own warnings mean is in [MESSAGES.md](MESSAGES.md).

| kind | line | written by | since | until | what it tells |
| --- | --- | --- | --- | --- | --- |
"""

IMPORTS_HARMLESS = """
Healthy jobs print these behind `NCCL WARN`; they are passed over, unless they say that a GPU was
lost:

"""

MESSAGES_HEAD = """# Messages and what they mean

Generated from `analysis/testimony/catalogue.cpp` by `scripts/generate_docs.py`. This is what
`rollcall diff` knows of texts that NCCL, launchers, the kernel and the driver print. The first row
that fits decides. A text that is in no row is quoted as it is.

A cause may be what the other ranks wait for. A consequence follows from something that went wrong
before, and context is what a healthy job may print, too: neither leads a report.

| kind | text | code | role | meaning | what to do next | since |
| --- | --- | --- | --- | --- | --- | --- |
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


def table_of(text, name):
    """The rows of `name[] = {{...}, ...};` in C++, literals joined and unquoted."""
    match = re.search(re.escape(name) + r"\[\] = \{\n(.*?)\n\};", text, re.DOTALL)
    if not match:
        raise SystemExit(f"generate_docs: no table {name}[]")
    body = re.sub(r"^\s*//.*$", "", match.group(1), flags=re.MULTILINE)
    rows = []
    for row in re.finditer(r'\{((?:[^{}"]|"(?:\\.|[^"\\])*")*)\}', body):
        fields = re.findall(r'((?:"(?:\\.|[^"\\])*"\s*)+|[^,"]+)(?:,|$)', row.group(1))
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
            for name, kind, _, default, meaning in rows_of(read(path), macro))
    alone = [f"`{name}`" for name, _, source, _, _ in
             rows_of(read("core/base/variables.h"), "ROLLCALL_VARIABLES")
             if source == "environment"]
    head = VARIABLES_HEAD.replace("ENVIRONMENT", " and ".join(alone))
    return (head + lines_of("core/base/variables.h", "ROLLCALL_VARIABLES") +
            VARIABLES_COMMAND + lines_of("tools/variables.h", "ROLLCALL_COMMAND_VARIABLES"))


def verdicts():
    sources = "".join(read(os.path.relpath(path, ROOT))
                      for folder in ("analysis", "slow")
                      for path in sorted(glob.glob(os.path.join(ROOT, folder, "**", "*.cpp"),
                                                   recursive=True)))
    said, reserved = [], []
    for name, code, severity, origin, meaning in rows_of(read("analysis/verdict.h"),
                                                         "ROLLCALL_VERDICTS"):
        line = f"| {code} | {severity} | {origin} | {cell(meaning)} |\n"
        (said if re.search(rf"\bVerdict::{name}\b", sources) else reserved).append(line)
    classes = "".join(
        f"| {status} | class `{name.lower()}`: {cell(meaning)} | the same | the same |\n"
        for name, status, meaning in
        re.findall(r"kExit(\w+) = (\d+); +// (.*)", read("tools/class_status.h")))
    missteps = "".join(f"| {name} | {cell(meaning)} |\n" for name, meaning in
                       rows_of(read("analysis/verdict.h"), "ROLLCALL_MISSTEPS"))
    head = VERDICTS_HEAD.replace("CLASSES", classes)
    return (head + "".join(said) + VERDICTS_MISSTEPS + missteps + VERDICTS_CONFIDENCE +
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


def versions_of(source):
    """"PyTorch 2.4 to 2.5, DETAIL" as who writes it, since when, and until when."""
    match = re.match(r"(.*?) (\d[\d.]*)(?: to (\d[\d.]*)| and later)?(?:, (.*))?$", source)
    if not match:
        return source, "all", ""
    writer, since, until, rest = match.groups()
    return writer + (f" ({rest})" if rest else ""), since, until or ""


def code(text):
    return f"`{text}`" if text else ""


def imports():
    header = read("trace/import/job_log_formats.h")
    lines = ""
    for kind, _, pattern, source, meaning in table_of(header, "kLogFormats"):
        writer, since, until = versions_of(source)
        cells = [kind.split("::")[-1], code(pattern), writer, since, until, meaning]
        lines += "| " + " | ".join(cell(text) for text in cells) + " |\n"
    match = re.search(r"kHarmlessWarnings\[\] = \{\n(.*?)\n\};", header, re.DOTALL)
    harmless = [unquote(field) for field in
                re.findall(r'^\s*("(?:\\.|[^"\\])*")', match.group(1), re.MULTILINE)]
    return (IMPORTS_HEAD + lines + IMPORTS_HARMLESS +
            "".join(f"- `{words}`\n" for words in harmless))


def messages():
    lines = ""
    for kind, words, number, role, since, meaning, following, *subject in table_of(
            read("analysis/testimony/catalogue.cpp"), "kMessages"):
        # Of whoever said the text it is told without a subject.
        meaning = "it " + meaning if subject else meaning
        cells = [kind, code(words), "" if number == "kAny" else number, role, meaning, following,
                 since]
        lines += "| " + " | ".join(cell(text) for text in cells) + " |\n"
    return MESSAGES_HEAD + lines


DOCUMENTS = {"docs/VARIABLES.md": variables, "docs/VERDICTS.md": verdicts,
             "docs/FORMAT.md": file_format, "docs/IMPORTS.md": imports,
             "docs/MESSAGES.md": messages}


def self_test():
    table = ('#define T(X)    \\\n  X(a, "one, (two)", "") \\\n'
             '  X(b, "x" /* no */ \\\n    " y", "c")\nint X(z);\n')
    assert rows_of(table, "T") == [["a", "one, (two)", ""], ["b", "x y", "c"]], rows_of(table, "T")
    names = re.findall(r"\bX\((ROLLCALL_\w+)", read("core/base/variables.h"))
    assert [row[0] for row in rows_of(read("core/base/variables.h"), "ROLLCALL_VARIABLES")] == names
    codes = re.findall(r'"(RC-[A-Z0-9-]+)"', read("analysis/verdict.h"))
    assert [row[1] for row in rows_of(read("analysis/verdict.h"), "ROLLCALL_VERDICTS")] == codes
    table = ('T t[] = {\n    // a {comment}\n    {K::a, "one {x}, (two)",\n     "a \\"b\\" "\n'
             '     "c", kAny},\n    {K::b, "", "|", -6},\n};\n')
    assert table_of(table, "t") == [["K::a", "one {x}, (two)", 'a "b" c', "kAny"],
                                    ["K::b", "", "|", "-6"]], table_of(table, "t")
    assert versions_of("PyTorch 2.4 to 2.5") == ("PyTorch", "2.4", "2.5")
    assert versions_of("torchrun of PyTorch 1.9 and later") == ("torchrun of PyTorch", "1.9", "")
    assert versions_of("PyTorch 1.9 and later, DETAIL") == ("PyTorch (DETAIL)", "1.9", "")
    assert versions_of("Linux") == ("Linux", "all", "")
    for path, name, widths in (("trace/import/job_log_formats.h", "kLogFormats", [5]),
                               ("analysis/testimony/catalogue.cpp", "kMessages", [7, 8])):
        rows = table_of(read(path), name)
        begins = len(re.findall(r"^    \{", read(path).split(name + "[] = {")[1].split("\n};")[0],
                                re.MULTILINE))
        assert len(rows) == begins and all(len(row) in widths for row in rows), (path, rows)
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
