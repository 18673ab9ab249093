// What a subcommand declares its options with: CLI11's App and Option behind the little of them that is used here.
// CLI11 is all header and takes 5 s to compile, so only flags.cc, the help and main include it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace convoy::cli {

// An option as CLI11 keeps it; what each function does is in CLI11's documentation under the same name, but for checks.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  const Option& type_name(const std::string& name) const;  // of its value, in help
  const Option& required() const;
  const Option& expected(int count) const;
  const Option& expected(int least, int most) const;
  const Option& take_all() const;
  const Option& delimiter(char delimiter) const;
  const Option& allow_extra_args(bool allow) const;
  const Option& excludes(const std::string& option) const;
  const Option& default_str(const std::string& text) const;
  const Option& capture_default_str() const;
  const Option& each(const std::function<void(std::string)>& see) const;
  // Values that are errors otherwise.
  const Option& range(int low, int high) const;
  const Option& range(double low, double high) const;
  const Option& non_negative() const;
  const Option& positive() const;
  const Option& one_of(const std::vector<std::string>& values) const;
  // Values with a unit: "64M"; "20ms" by the factors of `units`.
  const Option& bytes() const;
  const Option& unit(const std::map<std::string, double>& units) const;

 private:
  CLI::Option* option_;
};

// The options of a command or subcommand, which CLI11 owns.
class Parser {
 public:
  explicit Parser(CLI::App& app) : app_(&app) {}
  const CLI::App& app() const { return *app_; }
  Parser add_subcommand(const std::string& name, const std::string& description, const std::string& footer) const;
  // `variable` has the default and gets the value. Instantiated in flags.cc for the types in use.
  template <class T>
  Option add_option(const std::string& names, T& variable, const std::string& text) const;
  Option add_flag(const std::string& names, bool& variable, const std::string& text) const;
  void callback(const std::function<void()>& call) const;
  void require_subcommand(int count) const;
  void positionals_at_end() const;
  void prefix_command() const;
  void begin_group(const std::string& name) const;  // of the options that follow

 private:
  CLI::App* app_;
};

}  // namespace convoy::cli
