// How --help looks: for a reader who has never seen the command.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace rollcall::tools {

// CLI11's layout without its notes for programmers (types, ranges, exclusions), with a usage line
// that can be typed.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_description(const CLI::App* app) const override;
};

}  // namespace rollcall::tools
