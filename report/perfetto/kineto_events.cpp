#include "report/perfetto/kineto_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <optional>

#include "trace/import/kineto_records.h"
#include "trace/saturated.h"

namespace rollcall::report::perfetto {
namespace {

constexpr size_t kTextBytesMax = 1 << 14;   // of one argument or name
constexpr size_t kLabelBytesMax = 1 << 10;  // of a process or thread, or its number
constexpr size_t kRowsMax = 1 << 14;        // a file of PyTorch has some dozen

std::string_view cut(std::string_view text) { return text.substr(0, kTextBytesMax); }

std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_integer(const trace::JsonScalar& value) {
  return static_cast<double>(value.integer) == value.number;
}

// As an identifier or as part of an array.
std::string text_of(const trace::JsonScalar& value) {
  switch (value.type) {
    case trace::JsonScalar::Type::null:
      return "null";
    case trace::JsonScalar::Type::boolean:
      return value.integer != 0 ? "true" : "false";
    case trace::JsonScalar::Type::number:
      return is_integer(value) ? fmt::format("{}", value.integer) : fmt::format("{}", value.number);
    case trace::JsonScalar::Type::text:
      return std::string(value.text);
  }
  return "";
}

std::string label_of(const trace::JsonScalar& value) {
  return text_of(value).substr(0, kLabelBytesMax);
}

// The text of an array or object, put together again from what the reader tells of it.
class NestedText {
 public:
  // `names`: those of the value and of what it is in, from that of the whole text on.
  void add(std::vector<std::string>::const_iterator names, size_t count,
           const trace::JsonScalar& value) {
    open(names, count - 1);
    separate(names[static_cast<ptrdiff_t>(count) - 1]);
    append(value.type == trace::JsonScalar::Type::text ? quoted(cut(value.text)) : text_of(value));
  }
  // The array or object with these names is through. True: it was the whole text.
  bool end(std::vector<std::string>::const_iterator names, size_t count) {
    if (levels_.size() < count) {  // nothing was in it, which may have been an object
      open(names, count - 1);
      if (count > 1) separate(names[static_cast<ptrdiff_t>(count) - 1]);
      append("[]");
    } else {
      append(levels_.back().is_array ? "]" : "}");
      levels_.pop_back();
    }
    return count == 1;
  }
  std::string take() {
    levels_.clear();
    return std::exchange(text_, {});
  }

 private:
  struct Level {
    bool is_array;
    bool has_values;
  };

  void open(std::vector<std::string>::const_iterator names, size_t levels) {
    while (levels_.size() < levels) {
      const auto at = static_cast<ptrdiff_t>(levels_.size());
      if (at > 0) separate(names[at]);
      const bool is_array = names[at + 1].empty();
      append(is_array ? "[" : "{");
      levels_.push_back({is_array, false});
    }
  }
  void separate(const std::string& name) {
    Level& level = levels_.back();
    if (std::exchange(level.has_values, true)) append(", ");
    if (!level.is_array) append(quoted(cut(name)) + ": ");
  }
  void append(std::string_view text) {
    if (text_.size() < kTextBytesMax) text_ += text;
  }

  std::string text_;
  std::vector<Level> levels_;
};

class Reader final : public trace::JsonHandler {
 public:
  Reader(int64_t offset_ns, const KinetoLimits& limits, KinetoLosses& losses)
      : offset_ns_(offset_ns), limits_(limits), losses_(losses) {}

  void scalar(const std::vector<std::string>& path, const trace::JsonScalar& value) override {
    if (path.size() < kFieldDepth || path[0] != "traceEvents") return;
    if (path.size() == kFieldDepth) return take_field(path.back(), value);
    if (path[2] != "args") return;
    if (path.size() == kArgumentDepth) return take_argument(path.back(), value);
    nested_.add(path.begin() + kArgumentDepth - 1, path.size() - kArgumentDepth + 1, value);
  }

  void ended(const std::vector<std::string>& path) override {
    if (path.size() < kFieldDepth - 1 || path[0] != "traceEvents") return;
    if (path.size() == kFieldDepth - 1) return end_event();
    if (path.size() < kArgumentDepth || path[2] != "args") return;
    const size_t count = path.size() - kArgumentDepth + 1;
    if (!nested_.end(path.begin() + kArgumentDepth - 1, count)) return;
    add_argument(path[kArgumentDepth - 1], ArgumentType::text, 0, nested_.take());
  }

  KinetoEvents events;

 private:
  // traceEvents, an event, its field; or "args" and in it an argument.
  static constexpr size_t kFieldDepth = 3;
  static constexpr ptrdiff_t kArgumentDepth = 4;

  // Its texts are interned once it is known whether the event is kept.
  struct HeldArgument {
    uint32_t name_bytes;
    uint32_t text_bytes;
    ArgumentType type;
    uint64_t value;
  };
  struct Now {
    std::string phase, name, category, process, thread, id, told;
    double ts_us = -1;
    double duration_us = 0;
    double told_order = 0;
    std::vector<HeldArgument> arguments;
    std::string texts;     // names of the arguments, and their texts
    uint64_t surplus = 0;  // arguments
  };

  void take_field(const std::string& name, const trace::JsonScalar& value) {
    constexpr size_t kPhaseBytesMax = 8;
    const bool is_number = value.type == trace::JsonScalar::Type::number;
    if (name == "ph") now_.phase = value.text.substr(0, kPhaseBytesMax);
    if (name == "name") now_.name = cut(value.text);
    if (name == "cat") now_.category = cut(value.text);
    if (name == "ts" && is_number) now_.ts_us = value.number;
    if (name == "dur" && is_number) now_.duration_us = value.number;
    if (name == "pid") now_.process = label_of(value);
    if (name == "tid") now_.thread = label_of(value);
    if (name == "id") now_.id = label_of(value);
  }

  void take_argument(const std::string& name, const trace::JsonScalar& value) {
    if (name == "name" || name == "labels") now_.told = label_of(value);
    const bool is_number = value.type == trace::JsonScalar::Type::number;
    if (name == "sort_index" && is_number) now_.told_order = value.number;
    constexpr double kBeyondSigned = 0x1p63;
    switch (value.type) {
      case trace::JsonScalar::Type::null:
        return add_argument(name, ArgumentType::text, 0, "null");
      case trace::JsonScalar::Type::text:
        return add_argument(name, ArgumentType::text, 0, value.text);
      case trace::JsonScalar::Type::boolean:
        return add_argument(name, ArgumentType::boolean, static_cast<uint64_t>(value.integer));
      case trace::JsonScalar::Type::number:
        break;
    }
    if (is_integer(value)) {
      add_argument(name, ArgumentType::integer, static_cast<uint64_t>(value.integer));
    } else if (value.number >= kBeyondSigned && value.number <= 2 * kBeyondSigned &&
               value.integer < 0) {
      add_argument(name, ArgumentType::number, static_cast<uint64_t>(value.integer));
    } else {
      add_argument(name, ArgumentType::real, std::bit_cast<uint64_t>(value.number));
    }
  }

  void add_argument(std::string_view name, ArgumentType type, uint64_t value,
                    std::string_view text = {}) {
    if (now_.arguments.size() >= kKinetoArgumentsMax) {
      ++now_.surplus;
      return;
    }
    name = cut(name);
    text = cut(text);
    now_.arguments.push_back(
        {static_cast<uint32_t>(name.size()), static_cast<uint32_t>(text.size()), type, value});
    now_.texts += name;
    now_.texts += text;
  }

  void end_event() {
    if (now_.phase == "M") {
      take_name();
    } else {
      keep_event();
    }
    for (std::string* text : {&now_.phase, &now_.name, &now_.category, &now_.process, &now_.thread,
                              &now_.id, &now_.told, &now_.texts}) {
      text->clear();
    }
    now_.arguments.clear();
    now_.surplus = 0;
    now_.ts_us = -1;
    now_.duration_us = now_.told_order = 0;
    nested_.take();
  }

  void take_name() {
    const std::optional<uint32_t> at = process_of(now_.process);
    if (!at) return;
    KinetoProcess& process = events.processes[*at];
    if (now_.name == "process_name") process.name = now_.told;
    if (now_.name == "process_labels") process.labels = now_.told;
    if (now_.name == "process_sort_index") process.order = now_.told_order;
    if (now_.name != "thread_name" && now_.name != "thread_sort_index") return;
    const std::optional<uint32_t> row = row_of(now_.process, now_.thread);
    if (row && now_.name == "thread_name") events.rows[*row].name = now_.told;
    if (row && now_.name == "thread_sort_index") events.rows[*row].order = now_.told_order;
  }

  void keep_event() {
    const bool is_slice = now_.phase == "X";
    const bool is_moment = now_.phase == "i" || now_.phase == "I" || now_.phase == "R";
    const bool is_arrow = now_.phase == "s" || now_.phase == "t" || now_.phase == "f";
    const int64_t time_ns = time_of(now_.ts_us);
    if (!is_slice && !is_moment && !is_arrow) {
      if (now_.phase.size() != 1) return leave_out("of other kinds");
      return leave_out(fmt::format("of the kind \"{}\"", now_.phase));
    }
    if (time_ns < 0) return leave_out("without a time");
    if (events.items.size() + events.arrows.size() >= limits_.events) {
      return leave_out(fmt::format("beyond the first {}", limits_.events));
    }
    if (events.texts.memory_bytes() + events.arguments.size() >= limits_.text_bytes) {
      return leave_out(fmt::format("beyond the first {} bytes of texts", limits_.text_bytes));
    }
    const std::optional<uint32_t> row = row_of(now_.process, now_.thread);
    if (!row) return leave_out(fmt::format("of more than {} threads", kRowsMax));
    if (is_arrow) {
      events.arrows.push_back({*row, time_ns, arrow_id()});
    } else if (is_moment) {
      events.rows[*row].moments.emplace_back(time_ns, add_item());
    } else {
      const int64_t end_ns = trace::saturated_sum(time_ns, trace::ns_of_us(now_.duration_us));
      events.rows[*row].slices.push_back(
          {time_ns, std::clamp(end_ns, time_ns, trace::kTimeMaxNs), add_item()});
    }
  }

  void leave_out(const std::string& why) { ++losses_.left_out[why]; }

  // -1: none.
  int64_t time_of(double us) const {
    const int64_t relative_ns = trace::ns_of_us(us);
    if (relative_ns < 0) return -1;
    const int64_t time_ns = trace::saturated_sum(relative_ns, offset_ns_);
    return time_ns >= 0 && time_ns <= trace::kTimeMaxNs ? time_ns : -1;
  }

  uint32_t add_item() {
    KinetoItem item;
    item.arguments = events.arguments.size();
    append_arguments();
    item.argument_bytes = static_cast<uint32_t>(events.arguments.size() - item.arguments);
    item.name = static_cast<uint32_t>(events.texts.intern(Vocabulary::name, now_.name));
    item.category = static_cast<uint32_t>(events.texts.intern(Vocabulary::category, now_.category));
    events.items.push_back(item);
    return static_cast<uint32_t>(events.items.size() - 1);
  }
  void append_arguments() {
    losses_.arguments += now_.surplus;
    std::string_view texts = now_.texts;
    const auto next = [&texts](size_t bytes) {
      const std::string_view text = texts.substr(0, bytes);
      texts.remove_prefix(bytes);
      return text;
    };
    for (const HeldArgument& held : now_.arguments) {
      Argument argument;
      argument.name = events.texts.intern(Vocabulary::argument_name, next(held.name_bytes));
      argument.type = held.type;
      const std::string_view text = next(held.text_bytes);
      argument.value = held.type == ArgumentType::text ? events.texts.intern(Vocabulary::text, text)
                                                       : held.value;
      append_argument(events.arguments, argument);
    }
  }

  // Arrows of one category and number are one.
  uint64_t arrow_id() const {
    uint64_t hash = 0xcbf29ce484222325;
    for (const std::string* text : {&now_.category, &now_.id}) {
      for (const char one : *text) hash = (hash ^ static_cast<unsigned char>(one)) * 0x100000001b3;
      hash = (hash ^ 0xff) * 0x100000001b3;
    }
    return hash;
  }

  // Nothing: there are too many.
  std::optional<uint32_t> process_of(const std::string& id) {
    const auto known = processes_.find(id);
    if (known != processes_.end()) return known->second;
    if (processes_.size() >= kRowsMax) return std::nullopt;
    events.processes.push_back({id, "", "", 0});
    return processes_[id] = static_cast<uint32_t>(events.processes.size() - 1);
  }
  std::optional<uint32_t> row_of(const std::string& process, const std::string& thread) {
    const std::optional<uint32_t> of = process_of(process);
    if (!of) return std::nullopt;
    const std::pair key(*of, thread);
    const auto known = rows_.find(key);
    if (known != rows_.end()) return known->second;
    if (rows_.size() >= kRowsMax) return std::nullopt;
    events.rows.push_back({*of, thread, "", 0, {}, {}});
    return rows_[key] = static_cast<uint32_t>(events.rows.size() - 1);
  }

  const int64_t offset_ns_;
  const KinetoLimits limits_;
  KinetoLosses& losses_;
  Now now_;
  NestedText nested_;
  std::map<std::string, uint32_t> processes_;
  std::map<std::pair<uint32_t, std::string>, uint32_t> rows_;
};

}  // namespace

KinetoEvents read_kineto_events(trace::ByteStream& stream, int64_t offset_ns,
                                const KinetoLimits& limits, KinetoLosses& losses) {
  Reader reader(offset_ns, limits, losses);
  losses.trouble = trace::read_json_events(stream, reader);
  return std::move(reader.events);
}

}  // namespace rollcall::report::perfetto
