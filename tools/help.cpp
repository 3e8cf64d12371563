#include "tools/help.h"

namespace rollcall::tools {

HelpFormatter::HelpFormatter() {
  constexpr size_t kOptionsWidth = 26;
  column_width(kOptionsWidth);
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string) const {
  if (app->get_parent() == nullptr) return "Usage: rollcall COMMAND [options]\n";
  std::string line = "Usage: rollcall " + app->get_name() + " [options]";
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_positional()) line += " " + option->get_name(true);
  }
  if (app->get_name() == "run") line += " -- COMMAND [arguments]";
  return line + "\n";
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_positional() || option->get_type_size() == 0) return {};
  // "SECONDS:FLOAT in [0.1 - 1e6]" is the name, then what the checks add.
  const std::string type = option->get_type_name();
  const std::string name = type.substr(0, type.find(':'));
  if (name.empty()) return {};  // a flag
  return option->get_expected_min() == 0 ? "[=" + name + "]" : " " + name;
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  const std::string text = app->get_description();
  return text.empty() ? text : text + "\n\n";
}

}  // namespace rollcall::tools
