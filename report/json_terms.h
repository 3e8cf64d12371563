// How single values are spelled in every JSON this command writes: unknown is null, never 0 or "".
//
// For the reports' .cpp files; includes the JSON library. Threads: plain functions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "report/terms.h"
#include "trace/model.h"

namespace rollcall::report {

using Json = nlohmann::ordered_json;

// Empty is null; broken UTF-8 becomes '?'.
inline Json text_or_null(std::string_view text) {
  return text.empty() ? Json(nullptr) : Json(valid_utf8(text));
}

template <typename Number>
Json known_or_null(Number value, bool known) {
  return known ? Json(value) : Json(nullptr);
}

template <typename Number>
Json optional_number(const std::optional<Number>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// {"initial_sync": 1200, "compute": 30000, "final_sync": 0}: nanoseconds of the GPU's clock.
inline Json phases_json(const trace::PhaseTimes& times) {
  Json json;
  for (size_t i = 0; i < kKernelPhaseCount; ++i) json[std::string(kKernelPhases[i])] = times.ns[i];
  return json;
}

// Null where steps were done and nothing is known of what they moved: NCCL up to 2.26 tells no
// bytes.
inline Json step_bytes_json(uint64_t bytes, uint64_t steps) {
  return known_or_null(bytes, bytes != 0 || steps == 0);
}

// {"send_gpu": 1200, ...}: the waits of this side, and any others that are not 0.
inline Json waits_json(const uint64_t (&wait_ns)[kChannelWaitCount], bool is_send) {
  const ChannelSide side = is_send ? ChannelSide::sender : ChannelSide::receiver;
  Json json;
  for (size_t i = 0; i < kChannelWaitCount; ++i) {
    if (kChannelWaitSides[i] != side && wait_ns[i] == 0) continue;
    json[std::string(kChannelWaits[i])] = wait_ns[i];
  }
  return json;
}

// "send" or "recv", of the rank that tells of it.
inline std::string_view direction_of(bool is_send) { return is_send ? "send" : "recv"; }

// What could not be read, or was read with a reservation.
inline Json issues_json(const trace::Run& run) {
  Json list = Json::array();
  for (const trace::Issue& issue : run.issues) {
    list.push_back({{"file", text_or_null(issue.file)},
                    {"text", valid_utf8(issue.text)},
                    {"lost", issue.lost},
                    {"unusable", issue.unusable}});
  }
  return list;
}

}  // namespace rollcall::report
