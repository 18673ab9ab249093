#include "report/listing.h"

#include <fmt/format.h>

namespace convoy::report {

std::string as_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const Json& each : value) text += (text.empty() ? "" : " ") + as_text(each);
  return text;
}
std::string as_seconds(const Json& value) { return seconds(value.get<double>()); }
std::string as_bytes(const Json& value) { return bytes(value.get<double>()); }
std::string as_percent(const Json& value) { return percent(value.get<double>()); }
std::string as_giga(const Json& value) { return rate(value.get<double>() * 1e9); }
std::string as_rate(const Json& value) { return rate(value.get<double>()); }
std::string as_number(const Json& value) { return number(value.get<double>()); }
std::string as_two_places(const Json& value) { return fmt::format("{:.2f}", value.get<double>()); }

std::string spread_of(const Measurement& m) {
  if (m.spread > 0) return percent(m.spread);
  return fmt::format("{} sample{}", m.samples, m.samples == 1 ? "" : "s");
}

Listing<Measurement> measurement_listing(const ConvProblem& problem) {
  // Of candidates that ran and were right.
  const auto ran = [](auto value) {
    return [value](const Measurement& m) { return m.failure ? std::nullopt : std::optional(value(m)); };
  };
  const auto rate_of = [](double amount) {
    return [amount](const Measurement& m) {
      const bool known = !m.failure && m.median_seconds > 0;
      return known ? std::optional(amount / m.median_seconds * 1e-9) : std::nullopt;
    };
  };
  const auto status = [](const Measurement& m) {
    if (!m.failure) return "ok";
    return m.failure->code == ErrorCode::wrong_result ? "wrong" : "failed";
  };
  const auto reason = [](const Measurement& m) { return m.failure ? std::optional(m.failure->message) : std::nullopt; };
  const auto max_error = [](const Measurement& m) {
    const bool known = !m.failure || m.failure->code == ErrorCode::wrong_result;
    return known ? std::optional(number_or_null(m.max_error)) : std::nullopt;
  };
  const auto in_millijoules = [](const Json& value) { return fmt::format("{:.3g} mJ", value.get<double>() * 1e3); };
  const auto in_megahertz = [](const Json& value) { return fmt::format("{:.0f} MHz", value.get<double>()); };
  constexpr Align kRight = Align::right;
  Listing<Measurement> listing;
  listing.column("candidate", "candidate", [](const Measurement& m) { return to_json(m.candidate); })
      .field("engine", [](const Measurement& m) { return m.candidate.engine; })
      .field("status", status)
      .field("reason", reason)
      .column("time", "seconds", ran([](const Measurement& m) { return m.median_seconds; }), as_seconds, kRight)
      .field("spread", ran([](const Measurement& m) { return m.spread; }))
      .field("samples", ran([](const Measurement& m) { return m.samples; }))
      .cell("spread", ran([](const Measurement& m) { return spread_of(m); }), kRight, 2)
      .column("GFLOP/s", "gflops", rate_of(flops(problem)), as_giga, kRight, 1)
      .column("GB/s", "gbytes", rate_of(bytes_moved(problem)), as_giga, kRight, 4)
      .column("workspace", "workspace_bytes", ran([](const Measurement& m) { return m.workspace_bytes; }), as_bytes,
              kRight, 3)
      .column(
          "energy", "energy_joules", [](const Measurement& m) { return m.energy_joules; }, +in_millijoules, kRight, 4)
      .column(
          "clock", "clock_mhz", [](const Measurement& m) { return m.clock_mhz; }, +in_megahertz, kRight, 6)
      .column(
          "kernels", "kernels", [](const Measurement& m) { return m.kernels; }, as_text, kRight, 5)
      .column("error/tol", "max_error", max_error, as_number, kRight, 3)
      .column("error", "max_error_absolute",
              ran([](const Measurement& m) { return number_or_null(m.max_error_absolute); }), as_number, kRight, 5);
  return listing;
}

}  // namespace convoy::report
