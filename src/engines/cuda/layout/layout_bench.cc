// Times the conversions between NCHW and NHWC of a few sizes on a GPU, beside a copy of as many bytes.
//   cuda_layout_bench [BATCH]     (64)
// A line each: JSON. Tensors take turns, so that the L2 cache serves none.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "engines/cuda/layout/layout.h"
#include "engines/cuda/testing/device_data.h"

namespace convoy::cuda {
namespace {

constexpr std::size_t kRotated = 300u << 20;  // bytes that repeated runs go through
constexpr int kRuns = 20;
constexpr int kRounds = 7;

struct Spread {
  double least = 0, median = 0, most = 0;
};

// Seconds of one of what run(i) enqueues.
template <class Run>
Result<Spread> timed(const Stream& stream, int ordinal, const Run& run) {
  CONVOY_TRY(const Event begin, Event::create(ordinal));
  CONVOY_TRY(const Event end, Event::create(ordinal));
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 4; ++i) CONVOY_CHECK(run(i));  // keep the device busy while the host enqueues
    CONVOY_CHECK(begin.record(stream.get()));
    for (int i = 0; i < kRuns; ++i) CONVOY_CHECK(run(i));
    CONVOY_CHECK(end.record(stream.get()));
    CONVOY_CHECK(end.synchronize());
    CONVOY_TRY(const double seconds, Event::seconds(begin, end));
    times.push_back(seconds / kRuns);
  }
  std::sort(times.begin(), times.end());
  return Spread{times.front(), times[times.size() / 2], times.back()};
}

Result<void> bench(const TensorDesc& from, const TensorDesc& to, const CudaDevice& device) {
  CONVOY_TRY(const LayoutConversion conversion, LayoutConversion::make(from, to, device));
  CONVOY_TRY(const LayoutDesign design, layout_design(from, to, device));
  const auto read = static_cast<std::size_t>(from.bytes()), written = static_cast<std::size_t>(to.bytes());
  struct Set {
    DeviceMemory in, out;
  };
  CONVOY_TRY(const DeviceMemory random, testing::random_memory(from.type, read, 1, device.ordinal));
  std::vector<Set> sets;
  for (std::size_t i = 0; i < std::clamp<std::size_t>(kRotated / (read + written) + 1, 1, 16); ++i) {
    CONVOY_TRY(DeviceMemory in, DeviceMemory::allocate(device.ordinal, std::max(read, written), "in"));
    CONVOY_CHECK(copy_on_device(in.data(), random.data(), read, nullptr));
    CONVOY_TRY(DeviceMemory out, DeviceMemory::allocate(device.ordinal, std::max(read, written), "out"));
    sets.push_back({std::move(in), std::move(out)});
  }
  CONVOY_TRY(const Stream stream, Stream::create(device.ordinal));
  const auto at = [&](int i) -> const Set& { return sets[static_cast<std::size_t>(i) % sets.size()]; };
  CONVOY_TRY(const Spread converting, timed(stream, device.ordinal, [&](int i) {
               return conversion.enqueue(at(i).in.data(), at(i).out.data(), stream.get());
             }));
  CONVOY_TRY(const Spread copying, timed(stream, device.ordinal, [&](int i) {
               return copy_on_device(at(i).out.data(), at(i).in.data(), (read + written) / 2, stream.get());
             }));
  const double bytes = static_cast<double>(read + written);
  fmt::print(
      "{{\"from\":\"{},{},{}\",\"to\":\"{},{}\",\"us\":{:.2f},\"us_least\":{:.2f},\"us_most\":{:.2f},\"gb_per_s\":{:."
      "0f},"
      "\"copy_us\":{:.2f},\"predicted_us\":{:.2f},\"tile\":\"{}x{}\",\"vectors\":\"{}{} {}{}\"}}\n",
      name_of(from.type), to_string(from.dims), name_of(from.layout(), from.spatial_dims()), name_of(to.type),
      name_of(to.layout(), to.spatial_dims()), converting.median * 1e6, converting.least * 1e6, converting.most * 1e6,
      bytes / converting.median * 1e-9, copying.median * 1e6, predicted_layout_seconds(from, to, device) * 1e6,
      design.tile_a, design.tile_b, design.from_vector, design.from_dense ? " dense" : "", design.to_vector,
      design.to_dense ? " dense" : "");
  std::fflush(stdout);
  return {};
}

Result<void> bench_all(std::int64_t batch) {
  CONVOY_TRY(const CudaDevice device, describe(0));
  CONVOY_CHECK(make_current(0));
  using enum DataType;
  std::vector<std::pair<TensorDesc, TensorDesc>> pairs;
  for (const auto& [from, to] : {std::pair{bf16, bf16}, {f32, f32}, {s8, s8}, {f32, bf16}, {bf16, f32}}) {
    for (const Dims& dims :
         {Dims{batch, 3, 224, 224}, Dims{batch, 64, 56, 56}, Dims{batch, 96, 112, 112}, Dims{batch, 128, 28, 28},
          Dims{batch, 256, 14, 14}, Dims{batch, 512, 7, 7}, Dims{batch, 1000, 7, 7}}) {
      pairs.emplace_back(TensorDesc::packed(from, dims), TensorDesc::packed(to, dims, Layout::nhwc));
      pairs.emplace_back(TensorDesc::packed(from, dims, Layout::nhwc), TensorDesc::packed(to, dims));
    }
  }
  std::vector<KernelRequest> requests;
  for (const auto& [from, to] : pairs) {
    CONVOY_TRY(const LayoutDesign design, layout_design(from, to, device));
    requests.push_back(layout_request(from, to, design, device.architecture));
  }
  CONVOY_CHECK(compile_all(requests));  // side by side, into the disk cache
  for (const auto& [from, to] : pairs) CONVOY_CHECK(bench(from, to, device));
  return {};
}

}  // namespace
}  // namespace convoy::cuda

int main(int count, char** words) {
  const auto done = convoy::cuda::bench_all(count > 1 ? std::atoll(words[1]) : 64);
  if (done.ok()) return 0;
  fmt::print(stderr, "{}\n", done.error().message);
  return 1;
}
