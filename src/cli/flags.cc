#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

namespace convoy::cli {
namespace {

// CLI11's own ranges let NaN pass.
CLI::Validator number(bool (*good)(double), const std::string& what) {
  return CLI::Validator(
      [good, what](const std::string& text) {
        double value = 0;
        return CLI::detail::lexical_cast(text, value) && good(value) ? "" : text + " is not " + what;
      },
      "");
}

// Unsigned numbers would take -1 for a very large one.
CLI::Validator no_sign() {
  return CLI::Validator([](const std::string& text) { return text.starts_with('-') ? text + " is not a size" : ""; },
                        "");
}

}  // namespace

const Option& Option::type_name(const std::string& name) const { return option_->type_name(name), *this; }
const Option& Option::required() const { return option_->required(), *this; }
const Option& Option::expected(int count) const { return option_->expected(count), *this; }
const Option& Option::expected(int least, int most) const { return option_->expected(least, most), *this; }
const Option& Option::take_all() const { return option_->take_all(), *this; }
const Option& Option::delimiter(char delimiter) const { return option_->delimiter(delimiter), *this; }
const Option& Option::allow_extra_args(bool allow) const { return option_->allow_extra_args(allow), *this; }
const Option& Option::excludes(const std::string& option) const { return option_->excludes(option), *this; }
const Option& Option::default_str(const std::string& text) const { return option_->default_str(text), *this; }
const Option& Option::capture_default_str() const { return option_->capture_default_str(), *this; }
const Option& Option::each(const std::function<void(std::string)>& see) const { return option_->each(see), *this; }
const Option& Option::range(int low, int high) const { return option_->check(CLI::Range(low, high)), *this; }
const Option& Option::range(double low, double high) const {
  return option_->check(CLI::Range(low, high))->check(number([](double v) { return v == v; }, "a number")), *this;
}
const Option& Option::non_negative() const {
  return option_->check(number([](double v) { return v >= 0; }, "a number of 0 or more")), *this;
}
const Option& Option::positive() const {
  return option_->check(number([](double v) { return v > 0; }, "a number above 0")), *this;
}
const Option& Option::one_of(const std::vector<std::string>& values) const {
  return option_->check(CLI::IsMember(values)), *this;
}
const Option& Option::bytes() const { return option_->transform(CLI::AsSizeValue(false))->transform(no_sign()), *this; }
const Option& Option::unit(const std::map<std::string, double>& units) const {
  return option_->transform(CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::CASE_SENSITIVE)), *this;
}

Parser Parser::add_subcommand(const std::string& name, const std::string& description,
                              const std::string& footer) const {
  CLI::App* command = app_->add_subcommand(name, description);
  command->footer(footer);
  return Parser(*command);
}

template <class T>
Option Parser::add_option(const std::string& names, T& variable, const std::string& text) const {
  return Option(app_->add_option(names, variable, text));
}

Option Parser::add_flag(const std::string& names, bool& variable, const std::string& text) const {
  return Option(app_->add_flag(names, variable, text));
}

void Parser::callback(const std::function<void()>& call) const { app_->callback(call); }
void Parser::require_subcommand(int count) const { app_->require_subcommand(count); }
void Parser::positionals_at_end() const { app_->positionals_at_end(); }
void Parser::prefix_command() const { app_->prefix_command(); }
void Parser::begin_group(const std::string& name) const { app_->option_defaults()->group(name); }

#define CONVOY_OPTION_TYPE(...) \
  template Option Parser::add_option(const std::string&, __VA_ARGS__&, const std::string&) const;
CONVOY_OPTION_TYPE(int)
CONVOY_OPTION_TYPE(std::int64_t)
CONVOY_OPTION_TYPE(std::uint64_t)
CONVOY_OPTION_TYPE(double)
CONVOY_OPTION_TYPE(std::optional<int>)
CONVOY_OPTION_TYPE(std::optional<double>)
CONVOY_OPTION_TYPE(std::string)
CONVOY_OPTION_TYPE(std::vector<double>)
CONVOY_OPTION_TYPE(std::vector<std::string>)
#undef CONVOY_OPTION_TYPE

}  // namespace convoy::cli
