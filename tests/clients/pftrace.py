"""Slices of a native Perfetto trace, by a reader that needs no package.

Numbers of fields are those of Perfetto's messages, release 59; report/perfetto/fields.h has them.
"""
import collections
import struct

PACKET, CLOCKS, TIME, SEQUENCE, EVENT, INTERNED, DEFAULTS, TRACK = 1, 6, 8, 10, 11, 12, 59, 60
BEGIN, END, INSTANT = 1, 2, 3
CATEGORIES, NAMES, ARGUMENT_NAMES, TEXTS = 1, 2, 3, 29

Slice = collections.namedtuple("Slice", "path name category begin_ns end_ns arguments flows")


def fields(data):
    """(number, value) of a message of Protocol Buffers: integers, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            size = 8 if tag & 7 == 1 else varint()
            yield tag >> 3, data[at:at + size]
            at += size


class Trace:
    """`slices` in the order of their begins; one without an end has None as its `end_ns`. `moments`
    are slices that end where they begin."""

    def __init__(self, data):
        self.tracks = {}
        self.slices, self.moments = [], []
        self.texts = collections.defaultdict(dict)
        self.now, self.default = {}, {}
        self.open = collections.defaultdict(list)
        for number, packet in fields(data):
            if number == PACKET:
                self.read(packet)
        self.slices += [one for track in self.open.values() for one in track]
        self.slices.sort(key=lambda one: one.begin_ns)

    def path(self, track):
        """"ranks/rank 0 node0 pid 100/world/calls"."""
        name, parent = self.tracks[track]
        return f"{self.path(parent)}/{name}" if parent else name

    def read(self, packet):
        told = dict(fields(packet))
        sequence = told.get(SEQUENCE)
        if CLOCKS in told:
            clock = dict(fields(next(value for _, value in fields(told[CLOCKS]))))
            self.now[sequence] = clock[2]
        if DEFAULTS in told:
            self.default[sequence] = dict(fields(dict(fields(told[DEFAULTS]))[11]))[11]
        if TRACK in told:
            track = dict(fields(told[TRACK]))
            self.tracks[track[1]] = track[2].decode(), track.get(5, 0)
        for kind, entry in fields(told.get(INTERNED, b"")):
            entry = dict(fields(entry))
            self.texts[sequence][kind, entry[1]] = entry[2].decode()
        if EVENT in told:
            self.now[sequence] += told.get(TIME, 0)
            self.read_event(sequence, list(fields(told[EVENT])))

    def read_event(self, sequence, event):
        told = dict(event)
        texts = self.texts[sequence]
        track = told.get(11, self.default[sequence])
        if told[9] == END:
            begun = self.open[track].pop()
            self.slices.append(begun._replace(end_ns=self.now[sequence]))
        if told[9] not in (BEGIN, INSTANT):
            return
        arguments = {}
        for value in (value for number, value in event if number == 4):
            value = dict(fields(value))
            name = texts[ARGUMENT_NAMES, value.pop(1)]
            (kind, number), = value.items()
            if kind == 4 and number >= 1 << 63:
                number -= 1 << 64
            if kind == 5:
                number = struct.unpack("<d", number)[0]
            arguments[name] = texts[TEXTS, number] if kind == 17 else number
        one = Slice(self.path(track), texts.get((NAMES, told.get(10)), ""),
                    texts.get((CATEGORIES, told.get(3)), ""), self.now[sequence], None, arguments,
                    [value for number, value in event if number == 47])
        if told[9] == BEGIN:
            self.open[track].append(one)
        else:
            self.moments.append(one._replace(end_ns=one.begin_ns))
