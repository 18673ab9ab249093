#include <fmt/format.h>

#include "convoy/network.h"
#include "core/text.h"

namespace convoy {

constexpr std::string_view kWhole = "whole", kEach = "/thread";

Result<BatchParts> parse_batch_parts(std::string_view text) {
  if (text == kWhole) return BatchParts{};
  BatchParts parts;
  std::string_view number = text;
  if ((parts.a_thread_each = number.ends_with(kEach))) number.remove_suffix(kEach.size());
  const auto images = parse_integer(number);
  if (!images.ok() || *images < 1) {
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("parts of a batch: {} is not whole, a number of images (4) or one for each thread (1/thread)",
                    convoy::quoted(text))};
  }
  parts.images = *images;
  return parts;
}

std::string print(const BatchParts& parts) {
  return parts.images == 0 ? std::string(kWhole) : fmt::format("{}{}", parts.images, parts.a_thread_each ? kEach : "");
}

}  // namespace convoy
