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
