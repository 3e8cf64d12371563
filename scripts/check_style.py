#!/usr/bin/env python3
"""Style that a formatter does not see: sizes, leftovers, calls that a folder must not make.

  scripts/check_style.py              checks the tracked files of this repository
  scripts/check_style.py --self-test  proves that each rule finds its violation and nothing else

Sizes and complexities are a ratchet: scripts/style_exceptions.txt names what is longer or more
complex, with what it may have; an entry that is no longer needed, or larger than needed by more
than a tenth, is an error too.
"""
import argparse
import os
import re
import subprocess
import sys

LINE_COLUMNS = 100
FILE_LINES = 800
FUNCTION_LINES = 70
TRACKED_BYTES = 1 << 20
# McCabe's, in the rules of the verdicts, which people must be able to follow: one, and one more for
# each branch, loop, case, `&&`, `||` and `?`, those of the lambdas inside included.
COMPLEXITY = 15
COMPLEXITY_FOLDERS = ("analysis/rules/", "analysis/explain/")
DECISION = re.compile(r"\b(if|for|while|case)\b|&&|\|\||\?")
EXCEPTIONS = "scripts/style_exceptions.txt"

SOURCES = (".h", ".cpp", ".c", ".inc")
# Checked for width, tabs and trailing space. Markdown tables and JSON samples are as wide as they
# need to be.
TEXTS = SOURCES + (".py", ".sh", ".cmake", "CMakeLists.txt", "Makefile", ".ci/run")

INJECTED = ("core/", "shim/", "profiler_plugin/")
HOT = ("core/ring/", "core/gpu/", "core/capture/", "shim/")


class Rule:
    """What must not occur in the code of some folders; comments and literals do not count."""

    def __init__(self, pattern, folders, reason, except_folders=()):
        self.pattern = re.compile(pattern)
        self.folders = folders
        self.except_folders = except_folders
        self.reason = reason

    def applies(self, path):
        return path.startswith(self.folders) and not path.startswith(self.except_folders)


RULES = [
    Rule(r"\bstd::(cout|cerr|clog|ofstream|ifstream|stringstream|ostringstream)\b", INJECTED,
         "streams drag locale and allocation into the job"),
    Rule(r"(?<![\w.>])(printf|puts|putchar|vprintf)\s*\(", INJECTED, "stdout belongs to the job"),
    Rule(r"\bstdout\b|\bSTDOUT_FILENO\b", INJECTED, "stdout belongs to the job"),
    Rule(r"(?<![\w.>])(std::|::)?(abort|exit|_exit|_Exit|quick_exit|terminate)\s*\(", INJECTED,
         "the job decides when it ends: latch capture off instead (core/base/check.h)",
         except_folders=("core/base/check.cpp", "shim/immediate_exit.cpp")),
    Rule(r"\b(throw|try|catch)\b(?!\.h)", INJECTED, "injected code is built without exceptions"),
    Rule(r"\b(dynamic_cast|typeid)\b", INJECTED, "injected code is built without RTTI"),
    Rule(r"\bstd::(mutex|recursive_mutex|shared_mutex|lock_guard|unique_lock|scoped_lock)\b", HOT,
         "no lock is taken on the path of an operation; a file with cold code only may be listed "
         "in " + EXCEPTIONS),
    Rule(r"\bstd::(function|thread|async|future|shared_ptr|string|vector|map|unordered_map)\b",
         ("core/ring/",), "the ring allocates nothing"),
    Rule(r"\b(system_clock|steady_clock|high_resolution_clock)::now\b", INJECTED,
         "time comes from the recorder's clock"),
    Rule(r"(?<![\w.>])(strcpy|strcat|sprintf|vsprintf|gets|strtok)\s*\(", ("",),
         "no bound: use the counted form"),
    Rule(r"\busing\s+namespace\s+std\b", ("",), "names come with their namespace"),
    Rule(r"(\bsleep_for\b|\bsleep_until\b|(?<![\w.>])(sleep|usleep|nanosleep)\s*\()", ("tests/",),
         "wait for the condition, not for a time", except_folders=("tests/e2e/",)),
]

LEFTOVER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# Folders of one developer's machine; /tmp and the system's own folders are everybody's.
FOREIGN_PATH = re.compile(r"(?<![\w.])/(home|root|work|Users|mnt)/[\w.-]")


def strip_comments_and_literals(text):
    """Blanks comments and the inside of literals; positions and line breaks stay."""
    out = []
    position = 0
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<delimiter>[^()\s\\]{0,16})\(.*?\)(?P=delimiter)"'
        r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
    for match in token.finditer(text):
        out.append(text[position:match.start()])
        out.append(re.sub(r"[^\n]", " ", match.group(0)))
        position = match.end()
    out.append(text[position:])
    return "".join(out)


RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)


def lines_of_raw_strings(text):
    """Numbers of the lines a raw string touches: what a program prints cannot be folded."""
    lines = set()
    for match in RAW_STRING.finditer(text):
        first = text.count("\n", 0, match.start()) + 1
        lines.update(range(first, first + match.group(0).count("\n") + 1))
    return lines


HEAD_NOT_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern)\b")
NAME_BEFORE_PARENTHESIS = re.compile(r"([~\w:]+(?:\s*operator\s*[^\s\w(]+)?)\s*\(")


def function_name_of(head):
    """The name a `{` belongs to, given the text before it; None when it opens no function."""
    lines = [line for line in head.split("\n") if not line.lstrip().startswith("#")]
    head = " ".join(lines).strip()
    head = re.sub(r"^template\s*<[^{}]*?>\s*(?=[\w:~])", "", head)
    head = re.sub(r"^(public|private|protected)\s*:", "", head).strip()
    if not head or head.endswith(("=", ",", "(")) or "(" not in head:
        return None
    if HEAD_NOT_FUNCTION.match(head) and not re.match(r"^\s*extern\s+\w", head):
        # A function may return `struct x`; a type's definition has no parenthesis behind its name.
        if re.match(r"^\s*(namespace|class|enum)\b", head) or not re.search(r"\)\s*\w*$", head):
            return None
    match = NAME_BEFORE_PARENTHESIS.search(head)
    return match.group(1) if match else None


def functions_of(text):
    """(name, first line, lines) of each outermost function body. `text` is stripped."""
    text = re.sub(r"^\s*#(?:\\\n|[^\n])*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text,
                  flags=re.MULTILINE)
    depth_of_function = None
    depth = 0
    head_start = 0
    name, start = None, 0
    for position, character in enumerate(text):
        if character == "{":
            if depth_of_function is None:
                found = function_name_of(text[head_start:position])
                if found:
                    depth_of_function, name = depth, found
                    head = text[head_start:position]
                    start = head_start + len(head) - len(head.lstrip())
            depth += 1
            head_start = position + 1
        elif character == "}":
            depth -= 1
            if depth_of_function is not None and depth == depth_of_function:
                first = text.count("\n", 0, start) + 1
                yield name, first, text.count("\n", 0, position) + 1 - first + 1
                depth_of_function = None
            head_start = position + 1
        elif character == ";" and depth_of_function is None:
            head_start = position + 1


def complexity_of(text, first, lines):
    """Of the function in these lines of a stripped text; what stands before its body counts not."""
    function = "\n".join(text.split("\n")[first - 1:first - 1 + lines])
    return 1 + len(DECISION.findall(function[function.index("{"):]))


class Checker:
    def __init__(self, exceptions_text=""):
        self.found = []
        self.exceptions = {}  # (kind, path, name) -> limit
        self.used = set()
        for number, line in enumerate(exceptions_text.split("\n"), 1):
            line = line.split("#")[0].split()
            if not line:
                continue
            if line[0] in ("file", "function", "complexity") and line[-1].isdigit():
                self.exceptions[(line[0], line[1], " ".join(line[2:-1]))] = int(line[-1])
            elif line[0] in ("lock", "sleep") and len(line) == 2:
                self.exceptions[(line[0], line[1], "")] = 0
            else:
                self.say(EXCEPTIONS, number,
                         "is not: file PATH LINES, function PATH NAME LINES, "
                         "complexity PATH NAME NUMBER, lock PATH, or sleep PATH")

    def say(self, path, line, text):
        self.found.append(f"{path}:{line}: {text}" if line else f"{path}: {text}")

    def size(self, kind, path, name, line, lines, limit):
        key = (kind, path, name)
        allowed = self.exceptions.get(key)
        what = f"function {name} has" if name else "has"
        unit = "paths" if kind == "complexity" else "lines"
        if lines <= limit:
            return
        if allowed is None:
            self.say(path, line, f"{what} {lines} {unit}; {limit} are the limit")
            return
        self.used.add(key)
        if lines > allowed:
            self.say(path, line, f"{what} {lines} {unit}; {EXCEPTIONS} allows {allowed}")
        elif allowed > lines * 1.1:
            self.say(path, line, f"{what} {lines} {unit}; lower its {allowed} in {EXCEPTIONS}")

    def check_lines(self, path, text):
        is_test_data = re.match(r"tests/.*/(data|golden|goldens|samples)/", path)
        if is_test_data:
            return
        if path.endswith(TEXTS):
            verbatim = lines_of_raw_strings(text)
            for number, line in enumerate(text.split("\n"), 1):
                if len(line) > LINE_COLUMNS and "http" not in line and number not in verbatim:
                    self.say(path, number, f"{len(line)} columns; {LINE_COLUMNS} are the limit")
                if "\t" in line and not path.endswith("Makefile"):
                    self.say(path, number, "holds a tab")
                if line != line.rstrip():
                    self.say(path, number, "ends in white space")
            if text and not text.endswith("\n"):
                self.say(path, 0, "does not end in a line break")
        if path not in ("scripts/check_style.py", "CONTRIBUTING.md"):
            for number, line in enumerate(text.split("\n"), 1):
                if LEFTOVER.search(line):
                    self.say(path, number, "leftover marker; open an issue instead")
                if FOREIGN_PATH.search(line):
                    self.say(path, number, "names a path of one machine")

    def check_source(self, path, text):
        stripped = strip_comments_and_literals(text)
        for rule in RULES:
            if not rule.applies(path):
                continue
            excused = [key for key in (("lock", path, ""), ("sleep", path, ""))
                       if key[0] in rule.pattern.pattern and key in self.exceptions]
            if excused:
                self.used.update(excused)
                continue
            for match in rule.pattern.finditer(stripped):
                line = stripped.count("\n", 0, match.start()) + 1
                self.say(path, line, f"`{match.group(0).strip()}`: {rule.reason}")
        self.size("file", path, "", 0, text.count("\n"), FILE_LINES)
        for name, line, lines in functions_of(stripped):
            self.size("function", path, name, line, lines, FUNCTION_LINES)
            if path.startswith(COMPLEXITY_FOLDERS):
                self.size("complexity", path, name, line, complexity_of(stripped, line, lines),
                          COMPLEXITY)
        guarded = "#pragma once" in text or re.search(r"^#ifndef (\w+)\n#define \1$", text, re.M)
        if path.endswith(".h") and not guarded:
            self.say(path, 1, "has no #pragma once")

    def check_markdown(self, path, text, root):
        for match in re.finditer(r"\]\(([^)#\s]+)(#[^)]*)?\)", text):
            target = match.group(1)
            if "://" in target or target.startswith("mailto:"):
                continue
            resolved = os.path.join(root, os.path.dirname(path), target)
            if not os.path.exists(resolved):
                self.say(path, text.count("\n", 0, match.start()) + 1,
                         f"links to {target}, which does not exist")

    def check_file(self, path, text, root="."):
        self.check_lines(path, text)
        if path.endswith(SOURCES):
            self.check_source(path, text)
        if path.endswith(".md"):
            self.check_markdown(path, text, root)

    def check_exceptions(self):
        for key in sorted(set(self.exceptions) - self.used):
            entry = " ".join(part for part in key if part)
            self.say(EXCEPTIONS, 0, f"`{entry}` is no longer needed")


def self_test():
    def found(path, text, exceptions=""):
        checker = Checker(exceptions)
        checker.check_file(path, text)
        checker.check_exceptions()
        return checker.found

    def body(lines, head="int long_one(int a)"):
        return head + " {\n" + "  a += 1;\n" * (lines - 2) + "}\n"

    good = {
        "core/ring/a.cpp": "// throw, printf( and std::mutex\nchar s[] = \"abort(\";\n",
        "core/capture/b.cpp": "int x = 1'0; char c = '\"';\nvoid my_exit(); y = a.exit(2);\n",
        "tests/core/c.cpp": body(FUNCTION_LINES, "TEST_CASE(a)"),
        "trace/d.cpp": "namespace x {\nclass Y {\n" + "  int a;\n" * 300 + "};\n}\n",
        "trace/table.cpp": "const int kTable[] = {\n" + "  1,\n" * 300 + "};\n",
        "tools/e.cpp": 'R"(\nif (x) {{{ abort(\n)";\n',
        "docs/f.md": "[here](https://example.org/x) " + "wide " * 80 + "\n",
    }
    for path, text in good.items():
        assert found(path, text) == [], (path, found(path, text))
    bad = {
        "core/ring/a.cpp": "void f() { std::cout << 1; }\n",
        "shim/b.cpp": "void f() { printf(1); }\n",
        "core/capture/c.cpp": "\nvoid f() { ::abort(); }\n",
        "core/capture/d.cpp": "void f() { throw 1; }\n",
        "core/capture/e.cpp": "std::lock_guard g(m);\n",
        "core/capture/f.cpp": "\tint x;\n",
        "trace/g.cpp": "int x; \n",
        "trace/h.cpp": "int x; // " + "FIX" "ME\n",
        "trace/i.cpp": "int x; // " + "x" * 100 + "\n",
        "trace/j.cpp": body(FUNCTION_LINES + 1),
        "trace/k.cpp": "namespace a {\nstruct B {\n" + body(FUNCTION_LINES + 1, "B::B() : a(1)")
                       + "};\n}\n",
        "trace/l.cpp": "int x;\n" * (FILE_LINES + 1),
        "trace/m.h": "int x;\n",
        "trace/n.cpp": "int x;",
        "tests/core/o.cpp": "void f() { std::this_thread::sleep_for(x); }\n",
        "trace/p.cpp": "// see /ho" "me/me/notes\n",
        "docs/q.md": "[gone](no-such-file.md)\n",
        "tools/r.cpp": "void f() { strcpy(a, b); }\n",
    }
    for path, text in bad.items():
        assert len(found(path, text)) == 1, (path, found(path, text))
    long_one = body(90)
    assert found("trace/s.cpp", long_one, "function trace/s.cpp long_one 90\n") == []
    assert len(found("trace/s.cpp", long_one, "function trace/s.cpp long_one 89\n")) == 1
    assert len(found("trace/s.cpp", long_one, "function trace/s.cpp long_one 120\n")) == 1
    assert len(found("trace/s.cpp", body(9), "function trace/s.cpp long_one 90\n")) == 1
    forked = "int forked(int a) {\n" + "  if (a && a) a += a ? 1 : 2;  // if\n" * 5 + "}\n"
    assert found("trace/u.cpp", forked) == []
    assert len(found("analysis/rules/u.cpp", forked)) == 1
    entry = "complexity analysis/rules/u.cpp forked"
    assert found("analysis/rules/u.cpp", forked, f"{entry} 16\n") == []
    assert len(found("analysis/rules/u.cpp", forked, f"{entry} 15\n")) == 1
    assert found("shim/t.cpp", "std::mutex m;\n", "lock shim/t.cpp  # cold\n") == []
    print("check_style: self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    exceptions = ""
    if os.path.isfile(os.path.join(root, EXCEPTIONS)):
        with open(os.path.join(root, EXCEPTIONS), encoding="utf-8") as file:
            exceptions = file.read()
    checker = Checker(exceptions)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True,
                            text=True).stdout.split("\0")
    for path in sorted(filter(None, listed)):
        full = os.path.join(root, path)
        if not os.path.isfile(full) or os.path.islink(full):
            continue
        if os.path.getsize(full) > TRACKED_BYTES:
            checker.say(path, 0, f"is larger than {TRACKED_BYTES >> 20} MiB; is it a source?")
            continue
        with open(full, "rb") as file:
            content = file.read()
        if b"\0" in content:
            continue  # a binary golden
        checker.check_file(path, content.decode("utf-8", "replace"), root)
    checker.check_exceptions()
    for line in checker.found:
        print(line)
    if checker.found:
        print(f"check_style: {len(checker.found)} places", file=sys.stderr)
    return 1 if checker.found else 0


if __name__ == "__main__":
    sys.exit(main())
