// Numbers of the fields of a Perfetto trace that are written here, and of their values.
//
// They are those of Perfetto's published .proto files (github.com/google/perfetto, protos/perfetto:
// trace/trace_packet.proto, trace/track_event/*.proto, trace/clock_snapshot.proto,
// trace/interned_data/interned_data.proto, common/builtin_clock.proto), release 59. A number never
// changes its meaning there, and a reader passes over what it does not know. One namespace a
// message.
#pragma once

#include <cstdint>

namespace rollcall::report::perfetto {

namespace trace_file {
inline constexpr uint32_t kPacket = 1;
}

namespace packet {
inline constexpr uint32_t kClockSnapshot = 6;
inline constexpr uint32_t kTimestamp = 8;
inline constexpr uint32_t kSequence = 10;  // trusted_packet_sequence_id
inline constexpr uint32_t kTrackEvent = 11;
inline constexpr uint32_t kInternedData = 12;
inline constexpr uint32_t kSequenceFlags = 13;
inline constexpr uint32_t kDefaults = 59;  // trace_packet_defaults
inline constexpr uint32_t kTrackDescriptor = 60;
// Values of kSequenceFlags: what was interned before is void; what was interned is needed.
inline constexpr uint64_t kIsCleared = 1;
inline constexpr uint64_t kNeedsState = 2;
}  // namespace packet

namespace packet_defaults {
inline constexpr uint32_t kTrackEventDefaults = 11;
inline constexpr uint32_t kTimestampClock = 58;
}  // namespace packet_defaults

namespace clock_snapshot {
inline constexpr uint32_t kClock = 1;
inline constexpr uint32_t kPrimaryTraceClock = 2;
inline constexpr uint32_t kClockId = 1;  // of a clock
inline constexpr uint32_t kClockTimestamp = 2;
inline constexpr uint32_t kClockIsIncremental = 3;
// Ids of clocks: one of the built-in ones, and the first that a sequence may define for itself.
inline constexpr uint64_t kRealtime = 1;
inline constexpr uint64_t kOwnClock = 64;
}  // namespace clock_snapshot

namespace track_descriptor {
inline constexpr uint32_t kUuid = 1;
inline constexpr uint32_t kName = 2;
inline constexpr uint32_t kParent = 5;
inline constexpr uint32_t kCounter = 8;
inline constexpr uint32_t kChildOrdering = 11;
inline constexpr uint32_t kSiblingOrderRank = 12;
inline constexpr uint32_t kDescription = 14;
inline constexpr uint64_t kExplicitOrder = 3;  // a value of kChildOrdering
}  // namespace track_descriptor

namespace counter_descriptor {
inline constexpr uint32_t kUnitName = 6;
inline constexpr uint32_t kAxisShareKey = 7;
}  // namespace counter_descriptor

namespace track_event {
inline constexpr uint32_t kCategory = 3;    // category_iids
inline constexpr uint32_t kAnnotation = 4;  // debug_annotations
inline constexpr uint32_t kType = 9;
inline constexpr uint32_t kName = 10;  // name_iid
inline constexpr uint32_t kTrack = 11;
inline constexpr uint32_t kDoubleCounterValue = 44;
inline constexpr uint32_t kFlow = 47;
inline constexpr uint32_t kCorrelation = 52;
// Values of kType.
inline constexpr uint64_t kSliceBegin = 1;
inline constexpr uint64_t kSliceEnd = 2;
inline constexpr uint64_t kInstant = 3;
inline constexpr uint64_t kCounter = 4;
}  // namespace track_event

namespace annotation {
inline constexpr uint32_t kName = 1;  // name_iid
inline constexpr uint32_t kBool = 2;
inline constexpr uint32_t kUint = 3;
inline constexpr uint32_t kInt = 4;
inline constexpr uint32_t kDouble = 5;
inline constexpr uint32_t kString = 17;  // string_value_iid
}  // namespace annotation

namespace interned_data {
inline constexpr uint32_t kCategories = 1;
inline constexpr uint32_t kEventNames = 2;
inline constexpr uint32_t kAnnotationNames = 3;
inline constexpr uint32_t kStringValues = 29;
// Of each entry.
inline constexpr uint32_t kId = 1;
inline constexpr uint32_t kText = 2;
}  // namespace interned_data

}  // namespace rollcall::report::perfetto
