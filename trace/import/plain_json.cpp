#include "trace/import/plain_json.h"

#include <nlohmann/json.hpp>

namespace rollcall::trace {
namespace {

PlainPointer plain_from(const nlohmann::json& json, uint32_t depth) {
  auto plain = std::make_shared<PlainValue>();
  if (depth > kPlainDepthMax) return plain;
  if (json.is_boolean()) {
    plain->value = json.get<bool>();
  } else if (json.is_number_float()) {
    plain->value = json.get<double>();
  } else if (json.is_number()) {
    plain->value = json.get<int64_t>();
  } else if (json.is_string()) {
    plain->value = json.get<std::string>();
  } else if (json.is_array()) {
    PlainList list;
    for (const auto& item : json) list.push_back(plain_from(item, depth + 1));
    plain->value = std::move(list);
  } else if (json.is_object()) {
    PlainDict dict;
    for (const auto& [key, item] : json.items()) dict[key] = plain_from(item, depth + 1);
    plain->value = std::move(dict);
  }
  return plain;
}

}  // namespace

PlainPointer read_plain_json(std::string_view text) {
  const auto document = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  return document.is_discarded() ? nullptr : plain_from(document, 0);
}

}  // namespace rollcall::trace
