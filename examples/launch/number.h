// A number that a user has written.
#pragma once

#include <charconv>
#include <stdexcept>
#include <string>

namespace examples {

// Throws std::invalid_argument with a sentence that begins with `name`.
template <typename Number>
Number parse_number(const std::string& text, const char* name, Number smallest) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end || value < smallest) {
    throw std::invalid_argument(std::string(name) + " " + text + ": a number of at least " +
                                std::to_string(smallest) + " is needed");
  }
  return value;
}

}  // namespace examples
