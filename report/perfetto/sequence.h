// Packets of one sequence of a Perfetto trace: what one writer wrote, in the order of its times.
//
// Texts that occur again are interned, times are differences to the packet before, and the track
// that most events are on is a default: a packet is 15 to 45 bytes long.
//
// Threads: an object belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::report::perfetto {

struct Track {
  uint64_t uuid = 0;    // of the whole trace; not 0
  uint64_t parent = 0;  // 0: none
  std::string name;     // tracks of one name below one parent are drawn as one
  std::string description;
  uint64_t order = 0;  // among those below one parent, rising from the top
  bool is_counter = false;
  std::string unit;        // of a counter
  std::string axis_share;  // counters of one key have one scale
};

// Each has numbers of its own for the texts that are interned.
enum class Vocabulary : uint8_t { category, name, argument_name, text };
inline constexpr size_t kVocabularies = 4;

struct Argument {
  uint64_t name = 0;  // interned
  bool is_text = false;
  uint64_t value = 0;  // a number, or an interned text
};

enum class EventType : uint8_t { slice_begin, slice_end, instant, counter };

struct Event {
  EventType type = EventType::instant;
  int64_t time_ns = 0;  // since the epoch
  uint64_t track = 0;
  uint64_t category = 0;     // interned; 0: none
  uint64_t name = 0;         // interned; 0: none
  uint64_t correlation = 0;  // events of one number belong together; 0: none
  uint64_t flow = 0;         // an arrow joins two events of one number; 0: none
  double value = 0;          // of a counter
  std::vector<Argument> arguments = {};
};

class Sequence {
 public:
  // Packets are appended to `bytes`, which outlives the object and may be emptied between calls.
  // `id` is not 0, and the sequence's alone. No event is older than `base_ns`.
  Sequence(std::string& bytes, uint32_t id, int64_t base_ns, uint64_t default_track);

  void describe(const Track& track);
  // The number of the text in the vocabulary. Broken UTF-8 becomes '?'.
  uint64_t intern(Vocabulary vocabulary, std::string_view text);
  // Times never go backwards.
  void write(const Event& event);

 private:
  struct Entry {
    Vocabulary vocabulary;
    uint64_t id;
    std::string text;
  };

  std::string& bytes_;
  const uint32_t id_;
  const uint64_t default_track_;
  int64_t newest_ns_;
  std::array<std::map<std::string, uint64_t, std::less<>>, kVocabularies> interned_;
  std::vector<Entry> pending_;  // go into the next packet
};

// The place of a track in the tree: a packet for itself.
void append_track(std::string& bytes, uint32_t sequence, const Track& track);

}  // namespace rollcall::report::perfetto
