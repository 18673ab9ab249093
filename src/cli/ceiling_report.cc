#include "cli/ceiling_report.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "report/format.h"

namespace convoy::cli {
namespace {

// Of a date such as "2026-11-22"; nothing where it is none.
std::optional<long> days_since(const std::string& date) {
  int year = 0, month = 0, day = 0;
  if (std::sscanf(date.c_str(), "%d-%d-%d", &year, &month, &day) != 3) return std::nullopt;
  namespace chrono = std::chrono;
  const chrono::year_month_day then{chrono::year{year}, chrono::month{static_cast<unsigned>(month)},
                                    chrono::day{static_cast<unsigned>(day)}};
  if (!then.ok()) return std::nullopt;
  const auto now = chrono::floor<chrono::days>(chrono::system_clock::now());
  return (now - chrono::sys_days{then}).count();
}

}  // namespace

std::string share_of_ceiling(const std::optional<double>& least_seconds, double seconds) {
  return least_seconds && std::isfinite(seconds) && seconds > 0 ? report::percent(*least_seconds / seconds) : "";
}

std::string text_of(const selection::MachineCeiling& ceiling) {
  if (ceiling.date.empty()) {
    return fmt::format("{} GB/s from memory, as predictions take it; the rate of arithmetic isn't known",
                       report::rate(ceiling.memory_bytes));
  }
  const std::string cache = ceiling.cache_bytes > 0
                                ? fmt::format("{} GB/s from the shared cache, ", report::rate(ceiling.cache_bytes))
                                : std::string();
  const auto days = days_since(ceiling.date);
  return fmt::format("{} GFLOP/s in f32; {}{} GB/s from memory (measured {}{}{})", report::rate(ceiling.f32_flops),
                     cache, report::rate(ceiling.memory_bytes), ceiling.date,
                     days && *days > 0 ? fmt::format(", {} day{} ago", *days, *days == 1 ? "" : "s") : "",
                     ceiling.kept ? "" : ", can't be kept: no cache folder to write to");
}

Json to_json(const selection::MachineCeiling& ceiling) {
  const auto or_null = [](double rate) { return rate > 0 ? Json(rate) : Json(); };
  return {{"f32_flops_per_second", or_null(ceiling.f32_flops)},
          {"cache_bytes_per_second", or_null(ceiling.cache_bytes)},
          {"memory_bytes_per_second", or_null(ceiling.memory_bytes)},
          {"date", ceiling.date.empty() ? Json() : Json(ceiling.date)},
          {"file", selection::ceilings_file()}};
}

}  // namespace convoy::cli
