// Stacks of a process as `py-spy dump` prints them, with --json or as text.
//
// They hold no calls, and no rank: what they tell is where a process stands. That is said beside
// the verdict, in the same words for processes that stand alike, so that the odd one shows.
#include "trace/import/py_spy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "trace/import/importer.h"
#include "trace/import/lines.h"
#include "trace/import/plain_json.h"
#include "trace/import/torch_names.h"
#include "trace/stacks.h"

namespace rollcall::trace {
namespace {

struct Frame {
  std::string function;
  std::string file;
  int64_t line = 0;
};

struct Stack {
  std::string thread;
  std::vector<Frame> frames;  // innermost first
};

// Frames that tell nobody where the script is: of the interpreter, of libraries, of symbols.
bool is_script(const Frame& frame) {
  const auto in = [&](std::string_view part) { return frame.file.find(part) != std::string::npos; };
  return frame.file.ends_with(".py") && !in("site-packages") && !in("torch/") &&
         !in("lib/python") && !in("threading.py") && !in("queue.py") && !in("selectors.py");
}

std::string text_of(const Frame& frame) {
  const std::string file = frame.file.substr(frame.file.rfind('/') + 1);
  if (frame.line == 0) return fmt::format("{} ({})", frame.function, file);
  return fmt::format("{} ({}:{})", frame.function, file, frame.line);
}

// The main thread's innermost frames, as many as tell something, and the script's innermost.
std::string place_of(const Stack& stack) {
  constexpr size_t kInnermost = 3;
  std::string text;
  size_t shown = 0;
  for (; shown < std::min(kInnermost, stack.frames.size()); ++shown) {
    text += (shown == 0 ? "" : " < ") + text_of(stack.frames[shown]);
  }
  for (size_t i = 0; i < stack.frames.size(); ++i) {
    if (!is_script(stack.frames[i])) continue;
    if (i >= shown) text += " < … < " + text_of(stack.frames[i]);
    break;
  }
  return text;
}

std::vector<Stack> stacks_from_json(std::string_view text) {
  std::vector<Stack> stacks;
  const PlainPointer document = read_plain_json(text);
  if (document == nullptr || document->list() == nullptr) return stacks;
  for (const PlainPointer& thread : *document->list()) {
    Stack& stack = stacks.emplace_back();
    stack.thread = thread->text_of("thread_name");
    const PlainValue* frames = thread->find("frames");
    if (frames == nullptr || frames->list() == nullptr) continue;
    for (const PlainPointer& frame : *frames->list()) {
      stack.frames.push_back(
          {frame->text_of("name"), frame->text_of("filename"), frame->integer_of("line", 0)});
    }
  }
  return stacks;
}

// "    wait (threading.py:324)"; false: the line is of another kind.
bool read_frame(std::string_view line, Frame& frame) {
  const size_t colon = line.rfind(':');
  const size_t bracket = line.rfind(" (", colon);
  if (!line.starts_with("    ") || !line.ends_with(')') || colon == line.npos ||
      bracket == line.npos || bracket < 4) {
    return false;
  }
  frame.function = line.substr(4, bracket - 4);
  frame.file = line.substr(bracket + 2, colon - bracket - 2);
  std::from_chars(line.data() + colon + 1, line.data() + line.size(), frame.line);
  return frame.function.find(' ') != 0;  // arguments and locals stand deeper
}

std::vector<Stack> stacks_from_text(std::span<const uint8_t> bytes) {
  std::vector<Stack> stacks;
  for_each_line(bytes, [&](std::string_view line) {
    Frame frame;
    if (line.starts_with("Thread ")) {
      const size_t quote = line.find('"');
      stacks.push_back({quote == line.npos ? "" : std::string(line.substr(quote)), {}});
    } else if (!stacks.empty() && read_frame(line, frame)) {
      stacks.back().frames.push_back(std::move(frame));
    }
  });
  return stacks;
}

// The main thread, or else the first that stands anywhere.
const Stack* main_of(const std::vector<Stack>& stacks) {
  const Stack* main = nullptr;
  for (const Stack& stack : stacks) {
    const bool is_main = stack.thread.find("MainThread") != std::string::npos;
    if (!stack.frames.empty() && (main == nullptr || is_main)) main = &stack;
    if (is_main && !stack.frames.empty()) break;
  }
  return main;
}

}  // namespace

std::string place_in_dump(std::span<const uint8_t> text) {
  const std::vector<Stack> stacks = stacks_from_text(text);
  const Stack* main = main_of(stacks);
  return main == nullptr ? std::string() : place_of(*main);
}

void import_py_spy(const std::string& path, std::span<const uint8_t> bytes,
                   std::vector<JobLog>& logs, std::vector<Issue>& issues) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const bool is_json = text.substr(first).starts_with('[');
  const std::vector<Stack> stacks = is_json ? stacks_from_json(text) : stacks_from_text(bytes);
  const Stack* main = main_of(stacks);
  if (main == nullptr) {
    issues.push_back({path,
                      "is a dump of py-spy without a Python frame, or it is cut off: it does not "
                      "tell where the process stood",
                      0, true});
    return;
  }
  const std::string place = place_of(*main);
  issues.push_back(
      {path, fmt::format("is a dump of py-spy: the main thread stood in {}", place), 0, false});
  Saying stands;
  stands.kind = SayingKind::outside;
  stands.line = 1;
  stands.op = kStackOp;
  stands.rank = rank_in_file_name(path);
  stands.writer = path.substr(path.rfind('/') + 1);
  stands.text = stands.quote = place;
  logs.push_back({.file = path, .sayings = {std::move(stands)}, .attempts = {}});
}

}  // namespace rollcall::trace
