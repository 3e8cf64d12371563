// `rollcall completion`: what a shell offers at TAB, of the same table as the help.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tools/command.h"
#include "tools/command_table.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

// What an option's value is, by the name that the help gives it.
enum class Value { none, folder, file, words, other };

Value value_of(const OptionFacts& option) {
  if (!option.words.empty()) return Value::words;
  const std::string& name = option.is_positional ? option.names[0] : option.value;
  if (name.empty()) return Value::none;
  if (name == "DIR") return Value::folder;
  if (name == "FILE" || name == "PATH") return Value::file;
  // What is read is a run directory, or a file in one.
  return option.is_positional ? Value::file : Value::other;
}

std::vector<std::string> names_of(const CommandTable& table) {
  std::vector<std::string> names;
  for (const CommandFacts& command : table.commands) names.push_back(command.name);
  return names;
}

std::vector<std::string> option_names(const CommandFacts& command) {
  std::vector<std::string> names;
  for (const OptionFacts& option : command.options) {
    if (option.is_positional) continue;
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// --- bash ----------------------------------------------------------------------------------------

std::string bash_values(const OptionFacts& option) {
  switch (value_of(option)) {
    case Value::words:
      return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$current\"))",
                         fmt::join(option.words, " "));
    case Value::folder:
      return "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$current\"))";
    case Value::file:
      return "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$current\"))";
    default:
      return ":";
  }
}

std::string bash_command(const CommandFacts& command) {
  std::string text = fmt::format("    {})\n      case $previous in\n", command.name);
  std::string positional = ":";
  for (const OptionFacts& option : command.options) {
    if (option.is_positional) {
      // Of several the first that has values to offer speaks for all.
      if (positional == ":") positional = bash_values(option);
    } else if (!option.value.empty() && !option.value_is_optional) {
      text += fmt::format("        {}) {}; return ;;\n", fmt::join(option.names, " | "),
                          bash_values(option));
    }
  }
  return text + fmt::format(
                    "      esac\n"
                    "      if [[ $current == -* ]]; then\n"
                    "        COMPREPLY=($(compgen -W '{}' -- \"$current\"))\n"
                    "      else\n        {}\n      fi ;;\n",
                    fmt::join(option_names(command), " "), positional);
}

std::string for_bash(const CommandTable& table) {
  std::string text = fmt::format(
      "# bash completion of rollcall; made by `rollcall completion bash`.\n"
      "_rollcall() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} at\n"
      "  COMPREPLY=()\n"
      "  for ((at = 1; at < COMP_CWORD; ++at)); do\n"
      "    [[ ${{COMP_WORDS[at]}} == -- ]] || continue\n"
      "    # Behind the mark stands a command line of its own.\n"
      "    if declare -F _command_offset >/dev/null; then _command_offset $((at + 1)); return; fi\n"
      "    compopt -o filenames 2>/dev/null\n"
      "    COMPREPLY=($(compgen -c -f -- \"$current\"))\n"
      "    return\n"
      "  done\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '{} {}' -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n"
      "    help) COMPREPLY=($(compgen -W '{}' -- \"$current\")) ;;\n",
      fmt::join(names_of(table), " "), fmt::join(option_names(table.whole), " "),
      fmt::join(names_of(table), " "));
  for (const CommandFacts& command : table.commands) text += bash_command(command);
  return text + "  esac\n}\ncomplete -F _rollcall rollcall rollcall-nccl\n";
}

// --- zsh -----------------------------------------------------------------------------------------

// For a word in single quotes; `also`: characters that _arguments takes for its own.
std::string quoted(const std::string& text, const char* also) {
  std::string shown;
  for (const char c : text) {
    if (c == '\'') {
      shown += "'\\''";
    } else {
      if (std::string_view(also).find(c) != std::string_view::npos) shown += '\\';
      shown += c;
    }
  }
  return shown;
}

std::string zsh_values(const OptionFacts& option) {
  switch (value_of(option)) {
    case Value::words:
      return fmt::format("({})", fmt::join(option.words, " "));
    case Value::folder:
      return "_files -/";
    case Value::file:
      return "_files";
    default:
      return " ";
  }
}

std::string zsh_option(const OptionFacts& option) {
  const std::string help = quoted(option.help, "[]:\\");
  const std::string& value = option.is_positional ? option.names[0] : option.value;
  if (option.is_positional) return fmt::format("        '*:{}:{}' \\\n", value, zsh_values(option));
  std::string text;
  for (const std::string& name : option.names) {
    if (option.value.empty()) {
      text += fmt::format("        '{}[{}]' \\\n", name, help);
    } else if (option.value_is_optional) {
      text += fmt::format("        '{}=-[{}]::{}:{}' \\\n", name, help, value, zsh_values(option));
    } else {
      text += fmt::format("        '{}{}[{}]:{}:{}' \\\n", name, name.size() > 2 ? "=" : "+", help,
                          value, zsh_values(option));
    }
  }
  return text;
}

std::string for_zsh(const CommandTable& table) {
  std::string text =
      "#compdef rollcall rollcall-nccl\n"
      "# zsh completion of rollcall; made by `rollcall completion zsh`.\n"
      "local mark=${words[(i)--]}\n"
      "if ((mark < CURRENT)); then\n"
      "  # Behind the mark stands a command line of its own.\n"
      "  words=(\"${(@)words[mark+1,-1]}\")\n"
      "  ((CURRENT -= mark))\n"
      "  _normal\n"
      "  return\n"
      "fi\n"
      "local -a commands\ncommands=(\n";
  for (const CommandFacts& command : table.commands) {
    text += fmt::format("  '{}:{}'\n", command.name, quoted(command.description, ":\\"));
  }
  text +=
      ")\n"
      "if ((CURRENT == 2)); then\n"
      "  _describe command commands\n"
      "  return\n"
      "fi\n"
      "local command=$words[2]\n"
      "shift words\n"
      "((CURRENT -= 1))\n"
      "case $command in\n";
  for (const CommandFacts& command : table.commands) {
    text += fmt::format("    {})\n      _arguments -s \\\n", command.name);
    bool has_positional = false;
    for (const OptionFacts& option : command.options) {
      // All that stand behind each other are of one kind.
      if (option.is_positional && std::exchange(has_positional, true)) continue;
      text += zsh_option(option);
    }
    text += "        ;;\n";
  }
  return text + "esac\n";
}

// --- fish ----------------------------------------------------------------------------------------

std::string fish_values(const OptionFacts& option) {
  switch (value_of(option)) {
    case Value::words:
      return fmt::format(" -x -a '{}'", fmt::join(option.words, " "));
    case Value::folder:
      return " -x -a '(__fish_complete_directories)'";
    case Value::file:
      return " -r -F";
    case Value::other:
      return option.value_is_optional ? "" : " -x";
    case Value::none:
      return "";
  }
  return "";
}

std::string fish_option(const std::string& condition, const OptionFacts& option) {
  if (option.is_positional) {
    return option.words.empty() ? fmt::format("complete -c rollcall -n '{}' -F\n", condition)
                                : fmt::format("complete -c rollcall -n '{}' -f -a '{}'\n",
                                              condition, fmt::join(option.words, " "));
  }
  std::string text = fmt::format("complete -c rollcall -n '{}'", condition);
  for (const std::string& name : option.names) {
    text += name.size() == 2 ? " -s " + name.substr(1) : " -l " + name.substr(2);
  }
  return text + fmt::format("{} -d '{}'\n", fish_values(option), [&] {
           std::string help = option.help;
           for (size_t at = 0; (at = help.find_first_of("'\\", at)) != std::string::npos; at += 2) {
             help.insert(at, "\\");
           }
           return help;
         }());
}

std::string for_fish(const CommandTable& table) {
  std::string text =
      "# fish completion of rollcall; made by `rollcall completion fish`.\n"
      "complete -c rollcall -f\n"
      "complete -c rollcall-nccl -w rollcall\n"
      "# Behind the mark stands a command line of its own.\n"
      "complete -c rollcall -n 'contains -- -- (commandline -opc)' "
      "-x -a '(__fish_complete_subcommand --commandline (string split -f2 -- \" -- \" "
      "(commandline -cp)))'\n";
  for (const CommandFacts& command : table.commands) {
    std::string help = command.description;
    help.erase(std::remove(help.begin(), help.end(), '\''), help.end());
    text += fmt::format("complete -c rollcall -n __fish_use_subcommand -f -a {} -d '{}'\n",
                        command.name, help);
  }
  for (const CommandFacts& command : table.commands) {
    const std::string condition = fmt::format("__fish_seen_subcommand_from {}", command.name);
    for (const OptionFacts& option : command.options) text += fish_option(condition, option);
  }
  return text;
}

struct Name {
  const char* text;
  Shell shell;
};
constexpr Name kShells[] = {{"bash", Shell::bash}, {"zsh", Shell::zsh}, {"fish", Shell::fish}};

int completion(const std::string& name, const CommandTable& table) {
  const auto* found = std::find_if(std::begin(kShells), std::end(kShells),
                                   [&](const Name& shell) { return name == shell.text; });
  print_out(completion_script(table, found->shell));
  return finish_output(kExitGood);
}

}  // namespace

std::string completion_script(const CommandTable& table, Shell shell) {
  switch (shell) {
    case Shell::bash:
      return for_bash(table);
    case Shell::zsh:
      return for_zsh(table);
    case Shell::fish:
      return for_fish(table);
  }
  return {};
}

void add_completion(CommandLine& line) {
  Subcommand command(line, "completion", "Print what a shell needs to complete rollcall's words.");
  const auto shell = std::make_shared<std::string>();
  command.option("SHELL", *shell, "bash, zsh or fish").required().one_of({"bash", "zsh", "fish"});
  command.footer(
      "\nExamples:\n"
      "  eval \"$(rollcall completion bash)\"                      in ~/.bashrc\n"
      "  rollcall completion zsh > ~/.zfunc/_rollcall            a folder of $fpath\n"
      "  rollcall completion fish > ~/.config/fish/completions/rollcall.fish");
  command.action([shell, &line] { return completion(*shell, line.table()); });
}

}  // namespace rollcall::tools
