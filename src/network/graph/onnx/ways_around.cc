#include "network/graph/onnx/ways_around.h"

#include <algorithm>
#include <span>

namespace convoy::onnx_io {
namespace {

constexpr std::string_view kTextAndFiles[] = {"ImageDecoder",     "RegexFullMatch", "StringConcat",
                                              "StringNormalizer", "StringSplit",    "TfIdfVectorizer"};
constexpr std::string_view kLinearAttention[] = {"LinearAttention"};

struct Workaround {
  std::span<const std::string_view> operators;
  std::string_view text;
};
constexpr Workaround kWorkarounds[] = {
    {kTextAndFiles, "do it before the network, which is given numbers"},
    {kLinearAttention, "write its steps out with a fixed number of them"},
};

}  // namespace

std::string_view way_around(std::string_view op) {
  for (const Workaround& way : kWorkarounds) {
    if (std::ranges::find(way.operators, op) != way.operators.end()) return way.text;
  }
  return {};
}

}  // namespace convoy::onnx_io
