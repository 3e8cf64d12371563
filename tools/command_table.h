// What the command line can take, as data: manual pages and completions derive from it, as the help
// does.
#pragma once

#include <string>
#include <vector>

namespace rollcall::tools {

struct OptionFacts {
  std::vector<std::string> names;  // "-d", "--dir"; a positional argument: "DIR"
  bool is_positional = false;
  bool is_required = false;
  std::string value;               // "DIR"; empty: it takes none
  bool value_is_optional = false;  // "--emulate" and "--emulate=4"
  std::vector<std::string> words;  // the values that it takes, where these are a list
  std::string help;
};

struct CommandFacts {
  std::string name;
  std::string description;
  std::string footer;  // lines, laid out for a terminal
  std::vector<OptionFacts> options;
};

struct CommandTable {
  CommandFacts whole;                  // `rollcall` itself
  std::vector<CommandFacts> commands;  // in the order of the help
};

// A manual page in the language of troff: of one of the commands, or of the whole (nullptr).
std::string manual_page(const CommandTable& table, const CommandFacts* command);

enum class Shell { bash, zsh, fish };
// A script that the shell reads to complete words of the command line.
std::string completion_script(const CommandTable& table, Shell shell);

}  // namespace rollcall::tools
