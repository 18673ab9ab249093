#include "cli/ceiling_report.h"

#include <fmt/format.h>

#include <cmath>

#include "report/format.h"

namespace convoy::cli {

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
  return fmt::format("{} GFLOP/s in f32; {}{} GB/s from memory (measured {}{})", report::rate(ceiling.f32_flops), cache,
                     report::rate(ceiling.memory_bytes), ceiling.date,
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
