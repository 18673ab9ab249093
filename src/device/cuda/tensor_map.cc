#include "device/cuda/tensor_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "device/cuda/errors.h"

namespace convoy::cuda {
namespace {

std::vector<std::uint32_t> steps_of(const TensorMapSource& source) {
  return source.steps.empty() ? std::vector<std::uint32_t>(source.sizes.size(), 1) : source.steps;
}

std::string text_of(const TensorMapSource& source) {
  return fmt::format("a tensor of {}, strides of {} bytes, at {}", fmt::join(source.sizes, "x"),
                     fmt::join(source.strides, "x"), source.data);
}

}  // namespace

Result<CUtensorMap> tiled_map(const TensorMapSource& source, const std::vector<std::uint32_t>& box) {
  CONVOY_TRY(const DriverApi* api, driver());
  CUtensorMap map{};
  const CUresult status = api->TensorMapEncodeTiled(
      &map, source.type, static_cast<std::uint32_t>(source.sizes.size()), const_cast<void*>(source.data),
      source.sizes.data(), source.strides.data(), box.data(), steps_of(source).data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      source.swizzle, source.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CONVOY_CHECK(
      check(status, "cuTensorMapEncodeTiled", fmt::format("{} in boxes of {}", text_of(source), fmt::join(box, "x"))));
  return map;
}

Result<CUtensorMap> im2col_map(const TensorMapSource& source, const std::vector<int>& lower,
                               const std::vector<int>& upper, std::uint32_t channels, std::uint32_t pixels) {
  CONVOY_TRY(const DriverApi* api, driver());
  CUtensorMap map{};
  const CUresult status = api->TensorMapEncodeIm2col(
      &map, source.type, static_cast<std::uint32_t>(source.sizes.size()), const_cast<void*>(source.data),
      source.sizes.data(), source.strides.data(), lower.data(), upper.data(), channels, pixels, steps_of(source).data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, source.swizzle, source.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  CONVOY_CHECK(check(status, "cuTensorMapEncodeIm2col",
                     fmt::format("{}, corners {} and {}, {} channels of {} pixels", text_of(source),
                                 fmt::join(lower, ","), fmt::join(upper, ","), channels, pixels)));
  return map;
}

}  // namespace convoy::cuda
