#include "report/perfetto/sequence.h"

#include <utility>

#include "core/base/check.h"
#include "report/perfetto/fields.h"
#include "report/perfetto/protobuf.h"
#include "report/terms.h"

namespace rollcall::report::perfetto {
namespace {

constexpr std::array<uint32_t, kVocabularies> kInternedFields = {
    interned_data::kCategories, interned_data::kEventNames, interned_data::kAnnotationNames,
    interned_data::kStringValues};
constexpr std::array<uint64_t, 4> kTypes = {track_event::kSliceBegin, track_event::kSliceEnd,
                                            track_event::kInstant, track_event::kCounter};

void append_clock(Message& snapshot, uint64_t id, int64_t time_ns, bool is_incremental) {
  Nested clock(snapshot, clock_snapshot::kClock);
  clock.number(clock_snapshot::kClockId, id);
  clock.number(clock_snapshot::kClockTimestamp, static_cast<uint64_t>(time_ns));
  if (is_incremental) clock.number(clock_snapshot::kClockIsIncremental, 1);
}

void append_counter(Message& descriptor, const Track& track) {
  Nested counter(descriptor, track_descriptor::kCounter);
  if (!track.unit.empty()) counter.text(counter_descriptor::kUnitName, track.unit);
  if (!track.axis_share.empty()) counter.text(counter_descriptor::kAxisShareKey, track.axis_share);
}

void append_event(Message& packet, const Event& event, uint64_t default_track) {
  Nested message(packet, packet::kTrackEvent);
  message.number(track_event::kType, kTypes[static_cast<size_t>(event.type)]);
  if (event.category != 0) message.number(track_event::kCategory, event.category);
  if (event.name != 0) message.number(track_event::kName, event.name);
  if (event.track != default_track) message.number(track_event::kTrack, event.track);
  for (const Argument& argument : event.arguments) append_argument(message.bytes(), argument);
  message.bytes().append(event.more_arguments);
  if (event.type == EventType::counter) {
    message.real(track_event::kDoubleCounterValue, event.value);
  }
  for (const uint64_t flow : event.flows) message.fixed64(track_event::kFlow, flow);
  if (event.correlation != 0) message.number(track_event::kCorrelation, event.correlation);
}

}  // namespace

Track make_track(uint64_t uuid, uint64_t parent, std::string name, uint64_t order) {
  Track track;
  track.uuid = uuid;
  track.parent = parent;
  track.name = std::move(name);
  track.order = order;
  return track;
}

void append_track(std::string& bytes, uint32_t sequence, const Track& track) {
  Message file(bytes);
  Nested packet(file, trace_file::kPacket);
  packet.number(packet::kSequence, sequence);
  Nested descriptor(packet, packet::kTrackDescriptor);
  descriptor.number(track_descriptor::kUuid, track.uuid);
  if (track.parent != 0) descriptor.number(track_descriptor::kParent, track.parent);
  descriptor.text(track_descriptor::kName, valid_utf8(track.name));
  if (track.is_counter) append_counter(descriptor, track);
  // Of the tracks below this one, whether or not there are any.
  descriptor.number(track_descriptor::kChildOrdering, track_descriptor::kExplicitOrder);
  descriptor.number(track_descriptor::kSiblingOrderRank, track.order);
  if (!track.description.empty()) {
    descriptor.text(track_descriptor::kDescription, valid_utf8(track.description));
  }
}

void append_argument(std::string& bytes, const Argument& argument) {
  constexpr std::array<uint32_t, 5> kFields = {annotation::kUint, annotation::kString,
                                               annotation::kInt, annotation::kDouble,
                                               annotation::kBool};
  Message event(bytes);
  Nested message(event, track_event::kAnnotation);
  message.number(annotation::kName, argument.name);
  const uint32_t field = kFields[static_cast<size_t>(argument.type)];
  if (argument.type == ArgumentType::real) {
    message.fixed64(field, argument.value);
  } else {
    message.number(field, argument.value);
  }
}

size_t Texts::place_of(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text.front());
  const auto last = static_cast<unsigned char>(text.back());
  return (text.size() + 3 * size_t{first} + 7 * size_t{last}) % kRecent;
}

uint64_t Texts::intern(Vocabulary vocabulary, std::string_view text) {
  Recent& recent = recent_[static_cast<size_t>(vocabulary)][place_of(text)];
  if (recent.id != 0 && recent.text == text) return recent.id;
  auto& known = known_[static_cast<size_t>(vocabulary)];
  const auto found = known.find(text);
  if (found != known.end()) {
    recent = {found->first, found->second};
    return found->second;
  }
  const auto added = known.emplace(text, known.size() + 1).first;
  new_.push_back({vocabulary, added->second, &added->first});
  constexpr size_t kNodeBytes = 4 * sizeof(void*);
  memory_bytes_ += text.size() + sizeof(*added) + kNodeBytes + sizeof(Entry);
  return added->second;
}

void Texts::append_new(Message& packet, size_t bytes_max) {
  Nested data(packet, packet::kInternedData);
  size_t bytes = 0;
  for (; !new_.empty() && bytes < bytes_max; new_.pop_front()) {
    const Entry& entry = new_.front();
    Nested value(data, kInternedFields[static_cast<size_t>(entry.vocabulary)]);
    value.number(interned_data::kId, entry.id);
    value.text(interned_data::kText, valid_utf8(*entry.text));
    bytes += entry.text->size();
  }
}

Sequence::Sequence(std::string& bytes, uint32_t id, int64_t base_ns, uint64_t default_track,
                   Texts texts)
    : bytes_(bytes),
      id_(id),
      default_track_(default_track),
      newest_ns_(base_ns),
      texts_(std::move(texts)) {
  Message file(bytes_);
  {
    Nested packet(file, trace_file::kPacket);
    packet.number(packet::kSequence, id_);
    packet.number(packet::kSequenceFlags, packet::kIsCleared);
    Nested snapshot(packet, packet::kClockSnapshot);
    append_clock(snapshot, clock_snapshot::kRealtime, base_ns, false);
    append_clock(snapshot, clock_snapshot::kOwnClock, 0, true);
    snapshot.number(clock_snapshot::kPrimaryTraceClock, clock_snapshot::kRealtime);
  }
  Nested packet(file, trace_file::kPacket);
  packet.number(packet::kSequence, id_);
  Nested defaults(packet, packet::kDefaults);
  {
    Nested events(defaults, packet_defaults::kTrackEventDefaults);
    events.number(track_event::kTrack, default_track);
  }
  defaults.number(packet_defaults::kTimestampClock, clock_snapshot::kOwnClock);
}

void Sequence::describe(const Track& track) { append_track(bytes_, id_, track); }

void Sequence::write(const Event& event) {
  ROLLCALL_CHECK(event.time_ns >= newest_ns_);
  Message file(bytes_);
  Nested packet(file, trace_file::kPacket);
  packet.number(packet::kTimestamp, static_cast<uint64_t>(event.time_ns - newest_ns_));
  newest_ns_ = event.time_ns;
  packet.number(packet::kSequence, id_);
  packet.number(packet::kSequenceFlags, packet::kNeedsState);
  if (!texts_.are_written()) texts_.append_new(packet, SIZE_MAX);
  append_event(packet, event, default_track_);
}

bool Sequence::write_texts(size_t bytes_max) {
  if (texts_.are_written()) return false;
  Message file(bytes_);
  Nested packet(file, trace_file::kPacket);
  packet.number(packet::kSequence, id_);
  packet.number(packet::kSequenceFlags, packet::kNeedsState);
  texts_.append_new(packet, bytes_max);
  return true;
}

}  // namespace rollcall::report::perfetto
