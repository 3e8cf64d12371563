// Packets of one sequence of a Perfetto trace: what one writer wrote, in the order of its times.
//
// Texts that occur again are interned, times are differences to the packet before, and the track
// that most events are on is a default: a packet is 15 to 45 bytes long.
//
// Threads: an object belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "report/perfetto/protobuf.h"

namespace rollcall::report::perfetto {

// Handed to a sink at once, about.
inline constexpr size_t kChunkBytes = 1 << 16;

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

Track make_track(uint64_t uuid, uint64_t parent, std::string name, uint64_t order);

// Each has numbers of its own for the texts that are interned.
enum class Vocabulary : uint8_t { category, name, argument_name, text };
inline constexpr size_t kVocabularies = 4;

enum class ArgumentType : uint8_t { number, text, integer, real, boolean };

struct Argument {
  uint64_t name = 0;  // interned
  ArgumentType type = ArgumentType::number;
  // A number, an interned text, the bits of an int64_t or of a double, or whether it is true.
  uint64_t value = 0;
};

// As an event holds it.
void append_argument(std::string& bytes, const Argument& argument);

enum class EventType : uint8_t { slice_begin, slice_end, instant, counter };

struct Event {
  EventType type = EventType::instant;
  int64_t time_ns = 0;  // since the epoch
  uint64_t track = 0;
  uint64_t category = 0;             // interned; 0: none
  uint64_t name = 0;                 // interned; 0: none
  uint64_t correlation = 0;          // events of one number belong together; 0: none
  double value = 0;                  // of a counter
  std::vector<uint64_t> flows = {};  // an arrow joins two events of one number, which is not 0
  std::vector<Argument> arguments = {};
  std::string_view more_arguments = {};  // as append_argument() leaves them
};

// Texts, each of which has a number in its vocabulary, from 1 on.
class Texts {
 public:
  uint64_t intern(Vocabulary vocabulary, std::string_view text);
  bool are_written() const { return new_.empty(); }
  uint64_t memory_bytes() const { return memory_bytes_; }  // of all of them, about
  // About so many bytes of those that were not appended before. Broken UTF-8 becomes '?'.
  void append_new(Message& packet, size_t bytes_max);

 private:
  struct Entry {
    Vocabulary vocabulary;
    uint64_t id;
    const std::string* text;
  };
  // What was asked for lately: every event asks for the same few. A made file can have many texts
  // in one place here; then the maps are asked, whose order it cannot spoil.
  struct Recent {
    std::string_view text;  // of a key in known_
    uint64_t id = 0;        // 0: nobody
  };
  static constexpr size_t kRecent = 32;  // of each vocabulary
  static size_t place_of(std::string_view text);

  std::array<std::map<std::string, uint64_t, std::less<>>, kVocabularies> known_;
  std::array<std::array<Recent, kRecent>, kVocabularies> recent_;
  std::deque<Entry> new_;
  uint64_t memory_bytes_ = 0;
};

class Sequence {
 public:
  // Packets are appended to `bytes`, which outlives the object and may be emptied between calls.
  // `id` is not 0, and the sequence's alone. No event is older than `base_ns`.
  Sequence(std::string& bytes, uint32_t id, int64_t base_ns, uint64_t default_track,
           Texts texts = {});

  void describe(const Track& track);
  // The number of the text in the vocabulary.
  uint64_t intern(Vocabulary vocabulary, std::string_view text) {
    return texts_.intern(vocabulary, text);
  }
  // Times never go backwards. Texts that are new go with it.
  void write(const Event& event);
  // A packet of about `bytes_max` bytes of texts that are new. False: there are none.
  bool write_texts(size_t bytes_max);

 private:
  std::string& bytes_;
  const uint32_t id_;
  const uint64_t default_track_;
  int64_t newest_ns_;
  Texts texts_;
};

// The place of a track in the tree: a packet for itself.
void append_track(std::string& bytes, uint32_t sequence, const Track& track);

}  // namespace rollcall::report::perfetto
