#!/usr/bin/env python3
"""Writes the table of bench.json into the documents, between their bench:begin and bench:end marks.

  scripts/bench_table.py build/release/bench.json            prints the table
  scripts/bench_table.py build/release/bench.json FILE.md …  puts it into the files
"""
import json
import re
import sys

MARKS = re.compile(r"(<!-- bench:begin -->\n).*?(<!-- bench:end -->)", re.DOTALL)


def number(value):
    if value is None:
        return "–"
    if isinstance(value, bool) or isinstance(value, str):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table_of(rows):
    lines = ["| what | measured | unit | goal | holds |", "| --- | ---: | --- | --- | --- |"]
    for row in rows:
        holds = row.get("holds")
        said = "–" if row.get("goal") is None or holds is None else "yes" if holds else "**no**"
        lines.append(f"| {row['name']} | {number(row['value'])} | {row['unit']} | "
                     f"{number(row.get('goal'))} | {said} |")
    return "\n".join(lines) + "\n"


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    with open(arguments[0], encoding="utf-8") as file:
        table = table_of(json.load(file))
    if len(arguments) == 1:
        print(table, end="")
    for path in arguments[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        replaced, count = MARKS.subn(lambda match: match.group(1) + table + match.group(2), text)
        if count != 1:
            print(f"bench_table: {path} has {count} pairs of bench:begin and bench:end, not one",
                  file=sys.stderr)
            return 1
        with open(path, "w", encoding="utf-8") as file:
            file.write(replaced)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
