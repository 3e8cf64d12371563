// A native Perfetto trace, its packets put together as a viewer does.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/report/proto_reader.h"

namespace rollcall::test {

struct PerfettoTrack {
  std::string name;
  uint64_t parent = 0;
  uint64_t order = 0;
  bool is_counter = false;
  std::string axis = {};  // of a counter
  std::string description = {};
};

struct PerfettoEvent {
  int64_t time_ns = 0;
  uint64_t track = 0;
  uint64_t type = 0;  // 1: a slice begins, 2: the innermost one ends, 4: a counter's value
  std::string name, category;
  uint64_t correlation = 0;
  std::vector<uint64_t> flows = {};
  double value = 0;
  std::map<std::string, std::string> arguments = {};
};

// The packets as a viewer puts them together.
class PerfettoReader {
 public:
  explicit PerfettoReader(const std::string& bytes) {
    for (const std::string& packet : ProtoReader(bytes).texts(1)) read(ProtoReader(packet));
  }

  // "ranks/rank 0 node0 pid 100/communicator ddeeff00"
  std::string path(uint64_t track) const {
    const PerfettoTrack& one = tracks.at(track);
    return (one.parent == 0 ? "" : path(one.parent) + "/") + one.name;
  }
  std::vector<PerfettoEvent> on(const std::string& ending) const {
    std::vector<PerfettoEvent> found;
    for (const PerfettoEvent& event : events) {
      if (path(event.track).ends_with(ending)) found.push_back(event);
    }
    return found;
  }

  std::map<uint64_t, PerfettoTrack> tracks;
  std::vector<PerfettoEvent> events;

 private:
  struct Sequence {
    uint64_t now_ns = 0;
    uint64_t track = 0;
    std::map<std::pair<uint32_t, uint64_t>, std::string> interned;
  };

  void read(const ProtoReader& packet) {
    Sequence& sequence = sequences_[packet.number(10)];
    if (packet.has(6)) {
      const std::vector<std::string> clocks = packet.message(6).texts(1);
      REQUIRE(clocks.size() == 2);
      CHECK(ProtoReader(clocks[0]).number(1) == 1);   // the realtime clock ...
      CHECK(ProtoReader(clocks[1]).number(1) == 64);  // ... when the sequence's own was 0
      CHECK(ProtoReader(clocks[1]).number(3) == 1);
      sequence.now_ns = ProtoReader(clocks[0]).number(2);
    }
    if (packet.has(59)) {
      CHECK(packet.message(59).number(58) == 64);
      sequence.track = packet.message(59).message(11).number(11);
    }
    if (packet.has(60)) {
      const ProtoReader track = packet.message(60);
      CHECK(track.number(11) == 3);
      CHECK(tracks.count(track.number(1)) == 0);
      tracks[track.number(1)] = {track.text(2), track.number(5),          track.number(12),
                                 track.has(8),  track.message(8).text(7), track.text(14)};
    }
    for (const uint32_t kind : {1u, 2u, 3u, 29u}) {
      for (const std::string& entry : packet.message(12).texts(kind)) {
        sequence.interned[{kind, ProtoReader(entry).number(1)}] = ProtoReader(entry).text(2);
      }
    }
    if (packet.has(11)) read_event(packet, sequence);
  }

  void read_event(const ProtoReader& packet, Sequence& sequence) {
    CHECK(packet.number(13) == 2);
    sequence.now_ns += packet.number(8);
    const ProtoReader told = packet.message(11);
    PerfettoEvent event;
    event.time_ns = static_cast<int64_t>(sequence.now_ns);
    event.track = told.has(11) ? told.number(11) : sequence.track;
    event.type = told.number(9);
    if (told.has(10)) event.name = sequence.interned.at({2, told.number(10)});
    if (told.has(3)) event.category = sequence.interned.at({1, told.number(3)});
    event.correlation = told.number(52);
    event.flows = told.numbers(47);
    event.value = told.real(44);
    for (const std::string& text : told.texts(4)) {
      const ProtoReader argument(text);
      event.arguments[sequence.interned.at({3, argument.number(1)})] =
          argument.has(17)  ? sequence.interned.at({29, argument.number(17)})
          : argument.has(2) ? (argument.number(2) != 0 ? "true" : "false")
          : argument.has(4) ? std::to_string(static_cast<int64_t>(argument.number(4)))
          : argument.has(5) ? std::to_string(argument.real(5))
                            : std::to_string(argument.number(3));
    }
    events.push_back(std::move(event));
  }

  std::map<uint64_t, Sequence> sequences_;
};

}  // namespace rollcall::test
