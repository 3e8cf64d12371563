#!/usr/bin/env python3
"""pyarrow and DuckDB read what `rollcall export` writes, and read in it what `rollcall dump` says.

  tests/clients/parquet_reads.py

Two jobs run on emulated GPUs: one of 12 ranks that hangs, and a longer one; a third run, on two
hosts, is synthetic. Needs
requirements-views.txt, in this interpreter or in BUILD/clients/views, which `make test-clients`
makes; where they are absent the exit status is 77.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import views
from views import check

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/VIEWS.md")
# 12 in a large table. Of a small one the metadata take their part, and times of a busy machine
# differ more.
BYTES_PER_ROW_MAX = 14


def export(run, file):
    subprocess.run([views.ROLLCALL, "export", run, "-o", file], check=True,
                   stderr=subprocess.DEVNULL)


def dumped(run):
    """What `rollcall dump` says of each call, by process and ticket."""
    calls = {}
    for ring in glob.glob(os.path.join(run, "*.ring")):
        lines = subprocess.run([views.ROLLCALL, "dump", ring], check=True, capture_output=True,
                               text=True).stdout.splitlines()
        for line in lines:
            told = json.loads(line)
            if told["type"] == "op":
                calls[told["pid"], told["ticket"]] = told
    return calls


def differences(row, told):
    """Fields in which a row and a line of dump differ."""
    pairs = {name: (row[name], told[name]) for name in (
        "comm_rank", "dtype", "redop", "root", "peer", "state", "called_ns", "returned_ns",
        "started_ns", "finished_ns")}
    pairs["rank"] = row["rank"], told["job_rank"]
    pairs["comm_key"] = row["comm_key"], told["comm"]
    pairs["kind"] = row["kind"], told["op"]
    pairs["seq"] = row["seq"], told["p2p_seq"] if told["seq"] is None else told["seq"]
    if row["kind"] != "GroupEnd":
        pairs["count"] = row["count"], told["count"]
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def compare(run, file):
    import pyarrow.parquet
    table = pyarrow.parquet.read_table(file)
    calls = dumped(run)
    rows = {(row["pid"], row["ticket"]): row for row in table.to_pylist()}
    check(calls and rows.keys() == calls.keys(), "every call is a row, and every row a call",
          (len(rows), len(calls)))
    found = [(key, differences(row, calls[key])) for key, row in rows.items() if key in calls]
    found = [one for one in found if one[1]]
    check(not found, "each row says what `rollcall dump` says of the call", found[:3])
    open_calls = [row for row in rows.values() if row["finished_ns"] is None]
    check(len(open_calls) > 0, "a time that there is not is null")
    metadata = table.schema.metadata
    check(metadata.get(b"rollcall.schema") == b"rollcall.calls/1"
          and b"rollcall.clock_bound_ns" in metadata, "the file says what it is", metadata)


def bounds(file):
    import pyarrow.parquet
    metadata = pyarrow.parquet.ParquetFile(file).metadata
    group = metadata.row_group(0)
    by_name = {group.column(i).path_in_schema: group.column(i).statistics
               for i in range(group.num_columns)}
    check((by_name["rank"].min, by_name["rank"].max) == (0, 11), "ranks have their bounds",
          by_name["rank"])
    check(by_name["called_ns"].has_min_max, "times have their bounds")


def queries(file):
    import duckdb
    with open(DOCUMENT, encoding="utf-8") as document:
        texts = [text for text in re.findall(r"```sql\n(.*?)```", document.read(), re.DOTALL)
                 if "calls.parquet" in text]
    check(len(texts) == 3, "the document has three queries", len(texts))
    for text in texts:
        try:
            rows = duckdb.sql(text.replace("calls.parquet", file)).fetchall()
            check(len(rows) > 0, f"DuckDB answers: {text.splitlines()[0]}", rows)
        except duckdb.Error as error:
            check(False, f"DuckDB answers: {text.splitlines()[0]}", error)


def partitions(folder):
    """Of a run on two hosts."""
    import duckdb
    run, file = os.path.join(folder, "hosts"), os.path.join(folder, "hosts.parquet")
    subprocess.run([views.ROLLCALL, "synth", "-o", run, "--ranks", "12", "--ops", "50"],
                   check=True, stdout=subprocess.DEVNULL)
    export(run, file)
    whole = duckdb.sql(f"SELECT * FROM '{file}' ORDER BY rank, ticket").fetchall()
    for kind, files in (("rank", 12), ("host", 2)):
        parts = os.path.join(folder, kind)
        subprocess.run([views.ROLLCALL, "export", run, "--partition", kind, "-o", parts],
                       check=True, stderr=subprocess.DEVNULL)
        rows = duckdb.sql(f"SELECT * FROM '{parts}/*.parquet' ORDER BY rank, ticket").fetchall()
        check(rows == whole, f"files by {kind} have together the rows of one file", len(rows))
        values = duckdb.sql(f"SELECT COUNT(DISTINCT {kind}) FROM "
                            f"read_parquet('{parts}/*.parquet', filename = true) "
                            "GROUP BY filename").fetchall()
        check(values == [(1,)] * files, f"each of the {files} files by {kind} is about one",
              values)


def main():
    views.find_packages("pyarrow", "duckdb")
    with tempfile.TemporaryDirectory(prefix="rollcall-views-") as folder:
        run, file = os.path.join(folder, "run"), os.path.join(folder, "calls.parquet")
        views.record_training(run, 12, "--fault", "missing-call@4:2")
        export(run, file)
        compare(run, file)
        bounds(file)
        queries(file)
        partitions(folder)
        run = os.path.join(folder, "long")
        views.record_training(run, 4, "--steps", "500")
        export(run, file)
        import pyarrow.parquet
        rows = pyarrow.parquet.ParquetFile(file).metadata.num_rows
        size = os.path.getsize(file) / max(rows, 1)
        check(rows > 20000 and size <= BYTES_PER_ROW_MAX,
              f"a row takes {size:.1f} bytes, {BYTES_PER_ROW_MAX} at most", rows)
    return 1 if views.failures else 0


if __name__ == "__main__":
    sys.exit(main())
