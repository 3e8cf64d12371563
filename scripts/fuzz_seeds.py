#!/usr/bin/env python3
"""Seeds for fuzz_import that chance does not find and that are no text: scripts/fuzz_seeds.py DIR

An export of Nsight Systems with two ranks, the tables and columns that trace/import/nsys.cpp asks
for, in a database whose pages are as small as SQLite allows.
"""
import os
import sqlite3
import struct
import sys

TABLES = """
PRAGMA page_size = 512;
CREATE TABLE StringIds(id INTEGER, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER);
CREATE TABLE NVTX_EVENTS(start INTEGER, "end" INTEGER, eventType INTEGER, text TEXT,
  globalTid INTEGER, textId INTEGER, domainId INTEGER, binaryData BLOB);
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES(domainId INTEGER, schemaId INTEGER, idx INTEGER,
  type INTEGER, name TEXT, offset INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, globalTid INTEGER, correlationId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, "end" INTEGER, correlationId INTEGER,
  globalPid INTEGER, streamId INTEGER);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1750000000000000000);
INSERT INTO StringIds VALUES (3, 'ncclAllReduce'), (4, 'ncclCommInitRank'), (6, 'ncclGroupStart'),
  (7, 'ncclGroupEnd'), (8, 'ncclSend');
INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES
  (1, 5, 0, 18, 'NCCL communicator ID', NULL), (1, 6, 0, 18, 'NCCL communicator ID', NULL),
  (1, 5, 1, 22, 'Message size [bytes]', 8), (1, 5, 2, 16777240, 'Reduction operation', 16),
  (1, 6, 1, 5, 'No. of ranks', 8), (1, 6, 2, 5, 'Rank', 12);
"""
CREATE_COMM, ALL_REDUCE = 4, 3
SCHEMA_CALL, SCHEMA_COMM = 5, 6
COMM = 0xABC


def payload(schema, form, *values):
    return struct.pack("<8I", 1, 0, schema, 0, 24, 0, 56, 0) + struct.pack("<Q" + form, COMM,
                                                                          *values)


def write_nsys(path):
    with sqlite3.connect(path) as database:
        database.executescript(TABLES)
        for rank in range(2):
            thread = (6000 + rank) << 24 | 6000
            events = [(10, CREATE_COMM, payload(SCHEMA_COMM, "2i", 2, rank))]
            events += [(100 + 100 * step, ALL_REDUCE, payload(SCHEMA_CALL, "Qi", 4096, 0))
                       for step in range(3 + rank)]
            for start, name, blob in events:
                database.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, ?, ?, 1, ?)",
                                 (start, start + 5, thread, name, blob))
            database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (101, ?, ?)",
                             (thread, rank))
            database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (110, 150, ?, ?, 20)",
                             (rank, thread >> 24 << 24))
    database.close()


def main():
    path = os.path.join(sys.argv[1], "nsys.sqlite")
    if not os.path.exists(path):
        write_nsys(path)


if __name__ == "__main__":
    main()
