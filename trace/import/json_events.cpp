#include "trace/import/json_events.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <streambuf>

namespace rollcall::trace {
namespace {

class StreamBuffer final : public std::streambuf {
 public:
  explicit StreamBuffer(ByteStream& stream) : stream_(stream), bytes_(1 << 16) {}

 protected:
  int_type underflow() override {
    const size_t got = stream_.read(bytes_.data(), bytes_.size());
    setg(bytes_.data(), bytes_.data(), bytes_.data() + got);
    return got == 0 ? traits_type::eof() : traits_type::to_int_type(bytes_[0]);
  }

 private:
  ByteStream& stream_;
  std::vector<char> bytes_;
};

// What the library calls: true goes on.
class Listener final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Listener(JsonHandler& handler) : handler_(handler) {}

  const std::string& trouble() const { return trouble_; }

  bool null() override { return tell({}); }
  bool boolean(bool value) override {
    return tell({.type = JsonScalar::Type::boolean, .number = value ? 1.0 : 0, .integer = value});
  }
  bool number_integer(number_integer_t value) override {
    return tell(
        {.type = JsonScalar::Type::number, .number = static_cast<double>(value), .integer = value});
  }
  bool number_unsigned(number_unsigned_t value) override {
    return tell({.type = JsonScalar::Type::number,
                 .number = static_cast<double>(value),
                 .integer = static_cast<int64_t>(value)});
  }
  bool number_float(number_float_t value, const string_t&) override {
    constexpr double kBeyond = 9.2e18;
    const bool fits = value > -kBeyond && value < kBeyond;
    return tell({.type = JsonScalar::Type::number,
                 .number = value,
                 .integer = fits ? static_cast<int64_t>(value) : 0});
  }
  bool string(string_t& value) override {
    return tell({.type = JsonScalar::Type::text, .number = 0, .integer = 0, .text = value});
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return begin(); }
  bool start_array(size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t& name) override {
    path_.back().swap(name);
    return true;
  }
  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    const bool is_cut =
        std::string_view(error.what()).find("unexpected end of input") != std::string_view::npos;
    trouble_ = is_cut
                   ? fmt::format("ends in the middle, after {} bytes", position)
                   : fmt::format("is no JSON at byte {} (\"{}\")", position,
                                 token.substr(token.size() - std::min<size_t>(token.size(), 20)));
    return false;
  }

 private:
  static constexpr size_t kDepthMax = 64;

  bool begin() {
    path_.emplace_back();
    if (path_.size() <= kDepthMax) return true;
    trouble_ = fmt::format("is nested deeper than {} levels", kDepthMax);
    return false;
  }
  bool end() {
    path_.pop_back();
    handler_.ended(path_);
    return true;
  }
  bool tell(const JsonScalar& value) {
    handler_.scalar(path_, value);
    return true;
  }

  JsonHandler& handler_;
  std::vector<std::string> path_;
  std::string trouble_;
};

}  // namespace

std::string read_json_events(ByteStream& stream, JsonHandler& handler) {
  StreamBuffer buffer(stream);
  std::istream in(&buffer);
  Listener listener(handler);
  nlohmann::json::sax_parse(in, &listener, nlohmann::json::input_format_t::json, false);
  return listener.trouble();
}

}  // namespace rollcall::trace
