// `rollcall manual`: manual pages, of the same table as the help.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <sstream>

#include "tools/command.h"
#include "tools/command_table.h"
#include "tools/output_file.h"
#include "tools/terminal.h"

namespace rollcall::tools {
namespace {

// Text that troff shows as it is: no line of it is a request, no dash becomes a hyphen.
std::string escaped(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const bool is_start = shown.empty() || shown.back() == '\n';
    if (is_start && (c == '.' || c == '\'')) shown += "\\&";
    if (c == '\\') {
      shown += "\\e";
    } else if (c == '-') {
      shown += "\\-";
    } else {
      shown += c;
    }
  }
  return shown;
}

// Each line stays a line.
std::string as_laid_out(std::string text) {
  text.erase(0, text.find_first_not_of('\n'));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? text : ".nf\n" + escaped(text) + "\n.fi\n";
}

std::string option_name(const OptionFacts& option) {
  std::string shown;
  for (const std::string& name : option.names) {
    shown += fmt::format("{}\\fB{}\\fR", shown.empty() ? "" : ", ", escaped(name));
  }
  if (option.value.empty()) return shown;
  const std::string value = fmt::format("\\fI{}\\fR", escaped(option.value));
  return shown + (option.value_is_optional ? "[=" + value + "]" : " " + value);
}

std::string options_of(const CommandFacts& command) {
  std::string text;
  for (const OptionFacts& option : command.options) {
    text += fmt::format(".TP\n{}\n{}\n", option_name(option), escaped(option.help));
  }
  return text;
}

std::string synopsis(const CommandFacts& command) {
  std::string text = fmt::format("\\fBrollcall {}\\fR [options]", escaped(command.name));
  for (const OptionFacts& option : command.options) {
    if (!option.is_positional) continue;
    const std::string name = fmt::format("\\fI{}\\fR", escaped(option.names[0]));
    text += option.is_required ? " " + name : " [" + name + "]";
  }
  if (command.name == "run") text += " \\-\\- \\fICOMMAND\\fR [arguments]";
  return text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// "Start a job." is the name's explanation without its full stop.
std::string summary(const CommandFacts& command) {
  std::string text = first_line(command.description);
  while (!text.empty() && text.back() == '.') text.pop_back();
  return escaped(text);
}

std::string of_whole(const CommandTable& table) {
  const std::string& text = table.whole.description;
  // "rollcall: which rank ...": the name stands in front already.
  const std::string sentence = first_line(text).substr(text.find(' ') + 1);
  const size_t examples = std::min(text.find('\n'), text.size());
  std::string page = fmt::format(
      ".TH ROLLCALL 1 \"\" \"rollcall {}\" \"User Commands\"\n"
      ".SH NAME\nrollcall \\- {}\n.SH SYNOPSIS\n\\fBrollcall\\fR \\fICOMMAND\\fR [options]\n"
      ".SH EXAMPLES\n{}.SH COMMANDS\n",
      ROLLCALL_VERSION, escaped(sentence), as_laid_out(text.substr(examples)));
  for (const CommandFacts& command : table.commands) {
    page += fmt::format(".TP\n\\fBrollcall\\-{}\\fR(1)\n{}\n", escaped(command.name),
                        escaped(command.description));
  }
  return page + ".SH OPTIONS\n" + options_of(table.whole);
}

bool write_page(const OpenDirectory& folder, const std::string& command, const std::string& page) {
  const std::string name = command + ".1";
  OutputFile file(folder, name, Privacy::shared);
  file.write(page);
  if (file.put_in_place()) return true;
  say(fmt::format("{}/{} could not be written: {}; name another folder with -o.", folder.path(),
                  name, file.why()));
  return false;
}

int write_all(const CommandTable& table, const std::string& path) {
  const OpenDirectory folder(path);
  if (folder.error() != 0) {
    return unusable(fmt::format("{} cannot be written to: {}; name a folder that exists with -o.",
                                path, std::strerror(folder.error())));
  }
  if (!write_page(folder, "rollcall", manual_page(table, nullptr))) return kExitUnusable;
  for (const CommandFacts& command : table.commands) {
    const std::string name = "rollcall-" + command.name;
    if (!write_page(folder, name, manual_page(table, &command))) return kExitUnusable;
  }
  return kExitGood;
}

struct Arguments {
  std::string command;
  std::string folder;
};

int manual(const Arguments& arguments, const CommandTable& table) {
  if (!arguments.folder.empty()) return write_all(table, arguments.folder);
  const CommandFacts* chosen = nullptr;
  for (const CommandFacts& command : table.commands) {
    if (command.name == arguments.command) chosen = &command;
  }
  if (chosen == nullptr && !arguments.command.empty()) {
    return unusable(fmt::format("there is no command \"{}\"; `rollcall --help` lists the commands.",
                                arguments.command));
  }
  print_out(manual_page(table, chosen));
  return finish_output(kExitGood);
}

}  // namespace

std::string manual_page(const CommandTable& table, const CommandFacts* command) {
  if (command == nullptr) return of_whole(table);
  std::string title = command->name;
  std::transform(title.begin(), title.end(), title.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  std::string page = fmt::format(
      ".TH ROLLCALL\\-{} 1 \"\" \"rollcall {}\" \"User Commands\"\n"
      ".SH NAME\nrollcall\\-{} \\- {}\n.SH SYNOPSIS\n{}\n.SH DESCRIPTION\n{}\n.SH OPTIONS\n{}",
      escaped(title), ROLLCALL_VERSION, escaped(command->name), summary(*command),
      synopsis(*command), escaped(command->description), options_of(*command));
  if (!command->footer.empty()) page += ".SH NOTES\n" + as_laid_out(command->footer);
  return page + ".SH SEE ALSO\n\\fBrollcall\\fR(1)\n";
}

void add_manual(CommandLine& line) {
  Subcommand command(line, "manual", "Print a manual page, of a command or of all of rollcall.");
  const auto arguments = std::make_shared<Arguments>();
  command.option("COMMAND", arguments->command, "the command; without one, all of rollcall");
  command
      .option("-o,--output", arguments->folder,
              "write the pages of all commands there: rollcall.1, rollcall-run.1, ...")
      .value_name("DIR")
      .not_empty();
  command.footer(
      "\nExamples:\n"
      "  rollcall manual diff | man -l -");
  command.action([arguments, &line] { return manual(*arguments, line.table()); });
}

}  // namespace rollcall::tools
