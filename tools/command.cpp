#include "tools/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>
#include <utility>

#include "build_facts.h"
#include "core/format/ring_layout.h"
#include "core/format/segment_layout.h"
#include "tools/help.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

constexpr uint64_t kCallsMax = uint64_t{1} << 40;

std::string version_text() {
  return fmt::format(
      "rollcall {}{}{}\n"
      "files: rings of version {} to {}, segments of version {} to {}\n"
      "profiler plugin: versions 1 to {} of NCCL's interface\n",
      ROLLCALL_VERSION, *kCommit == 0 ? "" : ", commit ", kCommit, kRingVersionOldest, kRingVersion,
      kSegmentVersionOldest, kSegmentVersion, kPluginVersions);
}

// "SECONDS:FLOAT in [0.1 - 1e6]" is the name, then what the checks add: also a list, as in
// "ACTION:{pause,resume}".
OptionFacts facts_of(const CLI::Option& option) {
  OptionFacts facts;
  facts.help = option.get_description();
  facts.is_positional = option.get_positional();
  facts.is_required = option.get_required();
  const std::string type = option.get_type_name();
  if (const size_t list = type.find('{'); list != std::string::npos) {
    std::stringstream words(type.substr(list + 1, type.find('}') - list - 1));
    for (std::string word; std::getline(words, word, ',');) facts.words.push_back(word);
  }
  if (facts.is_positional) {
    facts.names = {option.get_name(true)};
    return facts;
  }
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  if (option.get_type_size() == 0) return facts;
  facts.value = type.substr(0, type.find(':'));
  facts.value_is_optional = option.get_expected_min() == 0;
  return facts;
}

CommandFacts facts_of(const CLI::App& app) {
  CommandFacts facts;
  facts.name = app.get_name();
  facts.description = app.get_description();
  facts.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) facts.options.push_back(facts_of(*option));
  return facts;
}

}  // namespace

CommandLine::CommandLine(const char* description, const char* footer)
    : app_(std::make_unique<CLI::App>(description, "rollcall")) {
  // Before the subcommands: they inherit it.
  app_->formatter(std::make_shared<HelpFormatter>());
  app_->set_help_flag("-h,--help", "this text");
  app_->footer(footer);
  app_->set_version_flag("--version", ROLLCALL_VERSION, "print the version");
  app_->require_subcommand(0, 1);
}

CommandLine::~CommandLine() = default;

CommandTable CommandLine::table() const {
  CommandTable table;
  table.whole = facts_of(*app_);
  for (const CLI::App* command : std::as_const(*app_).get_subcommands({})) {
    table.commands.push_back(facts_of(*command));
  }
  return table;
}

// -1: go on. Else the exit status, and everything was said.
int CommandLine::read(std::vector<std::string> words) {
  // CLI11 takes the words in reverse.
  std::reverse(words.begin(), words.end());
  // A word that is no command, in the place of one.
  const auto is_unknown = [&] {
    return app_->get_subcommands().empty() && !words.empty() && words.back()[0] != '-';
  };
  const auto no_such_command = [&] {
    return unusable(fmt::format("there is no command \"{}\"; `rollcall --help` lists the commands.",
                                words.back()));
  };
  try {
    app_->parse(std::vector<std::string>(words));
    return -1;
  } catch (const CLI::CallForHelp&) {
    if (is_unknown()) return no_such_command();
    // The help of the subcommand that was named, not the whole command's.
    const auto chosen = app_->get_subcommands();
    fmt::print("{}", chosen.empty() ? app_->help() : chosen.front()->help());
    return kExitGood;
  } catch (const CLI::CallForVersion&) {
    fmt::print("{}", version_text());
    return kExitGood;
  } catch (const CLI::ParseError& error) {
    if (is_unknown()) return no_such_command();
    const auto chosen = app_->get_subcommands();
    const std::string name = chosen.empty() ? "" : chosen.front()->get_name() + " ";
    if (name == "run " && !job_given_) {
      return unusable(
          "put \"--\" in front of the program: rollcall run [OPTIONS] -- PROGRAM [ARGUMENTS]. "
          "`rollcall run --help` shows what can be given.");
    }
    return unusable(
        fmt::format("{}. `rollcall {}--help` shows what can be given.", error.what(), name));
  }
}

int CommandLine::run(std::vector<std::string> words) {
  // What follows "--" is the job's and none of our business.
  const auto mark = std::find(words.begin(), words.end(), "--");
  if (mark != words.end()) {
    job_.assign(mark + 1, words.end());
    job_given_ = true;
    words.erase(mark, words.end());
  }
  // `rollcall help diff`, as others have it.
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (const int status = read(std::move(words)); status >= 0) return status;
  if (!action_) {
    fmt::print("{}", app_->help());
    return kExitUnusable;
  }
  const std::string name = app_->get_subcommands().front()->get_name();
  if (job_given_ && name != "run" && name != "doctor") {
    return unusable(fmt::format("`rollcall {}` takes no command behind \"--\"; remove it.", name));
  }
  return action_();
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::value_name(const char* name) {
  option_->type_name(name);
  return *this;
}

Option& Option::value_is_optional() {
  option_->expected(0, 1);
  return *this;
}

Option& Option::one_of(std::initializer_list<const char*> words) {
  option_->check(CLI::IsMember(std::vector<std::string>(words.begin(), words.end())));
  return *this;
}

Option& Option::between(uint64_t low, uint64_t high) {
  option_->check(CLI::Range(low, high));
  return *this;
}

Option& Option::seconds_between(double low, double high) {
  // CLI::Range lets a NaN through, which is on neither side of a limit.
  option_->type_name("SECONDS")->check([low, high](const std::string& text) {
    double seconds = 0;
    const bool fits = CLI::detail::lexical_cast(text, seconds) && seconds >= low && seconds <= high;
    return fits ? std::string() : fmt::format("Value {} not in range [{} - {}]", text, low, high);
  });
  return *this;
}

Option& Option::not_empty() {
  option_->check([](const std::string& text) {
    return text.empty() ? std::string("the name is empty; give one or leave the option out") : "";
  });
  return *this;
}

Option& Option::calls() { return value_name("CALLS").between(0, kCallsMax); }

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

Subcommand::Subcommand(CommandLine& line, const char* name, const char* description)
    : line_(line), app_(line.app_->add_subcommand(name, description)) {}

Option Subcommand::flag(const char* names, bool& value, const char* help) {
  return Option(app_->add_flag(names, value, help));
}

Option Subcommand::option(const char* names, std::string& value, const char* help) {
  return Option(app_->add_option(names, value, help));
}

Option Subcommand::option(const char* names, std::vector<std::string>& values, const char* help) {
  return Option(app_->add_option(names, values, help));
}

Option Subcommand::option(const char* names, double& value, const char* help) {
  return Option(app_->add_option(names, value, help));
}

Option Subcommand::option(const char* names, int32_t& value, const char* help) {
  return Option(app_->add_option(names, value, help));
}

Option Subcommand::option(const char* names, int64_t& value, const char* help) {
  return Option(app_->add_option(names, value, help));
}

Option Subcommand::option(const char* names, uint32_t& value, const char* help) {
  return Option(app_->add_option(names, value, help));
}

Option Subcommand::option(const char* names, uint64_t& value, const char* help) {
  return Option(app_->add_option(names, value, help));
}

Option Subcommand::pair(const char* names, std::vector<int32_t>& values, const char* help) {
  const auto take = [&values](const std::string& text) {
    const size_t comma = text.find(',');
    int32_t first = 0;
    int32_t second = 0;
    const bool is_pair = comma != std::string::npos &&
                         CLI::detail::lexical_cast(text.substr(0, comma), first) &&
                         CLI::detail::lexical_cast(text.substr(comma + 1), second);
    if (!is_pair) {
      throw CLI::ValidationError(fmt::format("\"{}\" are not two numbers such as 1,2", text));
    }
    values = {first, second};
  };
  return Option(app_->add_option_function<std::string>(names, take, help));
}

void Subcommand::unlisted() { app_->group(""); }

void Subcommand::footer(const char* text) { app_->footer(text); }

void Subcommand::action(Action action) {
  app_->callback([&line = line_, action = std::move(action)] { line.action_ = action; });
}

int unusable(const std::string& sentence) {
  std::fflush(stdout);
  say(sentence);
  return kExitUnusable;
}

}  // namespace rollcall::tools
