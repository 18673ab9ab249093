#include "engines/cuda/reference/verification.h"

#include <bit>
#include <cmath>
#include <limits>

#include "core/epilogue.h"
#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "engines/cuda/reference/reference_kernels.h"

namespace convoy::cuda {
namespace {

constexpr const char* kPurpose = "verification";
constexpr std::int64_t kCorners = 32;

// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Corners, edges and a scatter of a tensor with five dims, that only the dims decide.
std::vector<std::int64_t> sampled(const ReferenceTensor& out, std::int64_t samples) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < kCorners + samples; ++i) {
    std::int64_t index = 0;
    std::uint64_t state = mix(static_cast<std::uint64_t>(i) + 0x9e3779b97f4a7c15U);
    for (int dim = 0; dim < 5; ++dim) {
      const std::int64_t last = out.dims[dim] - 1;
      state = mix(state + static_cast<std::uint64_t>(last) + 1);
      std::int64_t at = static_cast<std::int64_t>((state >> 8) % static_cast<std::uint64_t>(out.dims[dim]));
      if (i < kCorners) {
        at = (i >> dim & 1) != 0 ? last : 0;
      } else if ((state & 7) < 2) {  // a quarter of the coordinates lie on an edge
        at = (state & 1) != 0 ? last : 0;
      }
      index = index * out.dims[dim] + at;
    }
    indices.push_back(index);
  }
  return indices;
}

Dims coords_of(const ReferenceTensor& out, std::int64_t index, int rank) {
  Dims all(5);
  for (int dim = 4; dim >= 0; --dim) {
    all[dim] = index % out.dims[dim];
    index /= out.dims[dim];
  }
  all.erase(all.begin() + 2, all.begin() + 2 + (5 - rank));
  return all;
}

double as_stored(DataType type, double value) {
  std::uint64_t buffer = 0;
  store_from_double(type, &buffer, 0, value);
  return load_as_double(type, &buffer, 0);
}

template <class T>
Result<std::vector<T>> fetched(const DeviceMemory& memory, std::int64_t count, CUstream stream) {
  std::vector<T> values(static_cast<std::size_t>(count));
  CONVOY_CHECK(copy_to_host(values.data(), memory.data(), values.size() * sizeof(T), stream));
  CONVOY_CHECK(synchronize(stream, kPurpose));
  return values;
}

}  // namespace

VerifyOptions device_verify_options() {
  VerifyOptions options;
  options.full_terms = 20'000'000'000;
  options.full_outputs = 262'144;
  return options;
}

Result<DeviceExpectation> DeviceExpectation::make(const ConvProblem& problem, const ConvArgs& args,
                                                  const VerifyOptions& options, const CudaDevice& device,
                                                  void* stream) {
  DeviceExpectation made;
  made.problem_ = problem;
  made.args_ = args;
  made.ordinal_ = device.ordinal;
  const std::int64_t outputs = problem.out().elements();
  made.full_ = outputs <= options.samples ||
               (flops(problem) / 2 <= static_cast<double>(options.full_terms) && outputs <= options.full_outputs);
  if (outputs == 0) return made;
  CONVOY_CHECK(make_current(device.ordinal));
  CONVOY_TRY(made.kernels_, ReferenceKernels::get(problem, device));
  const ReferenceArgs kernel_args = reference_args(problem, args);
  const auto on = static_cast<CUstream>(stream);

  std::int64_t count = outputs;
  if (!made.full_) {
    made.indices_ = sampled(kernel_args.out, options.samples);
    count = static_cast<std::int64_t>(made.indices_.size());
    const std::size_t bytes = made.indices_.size() * sizeof(std::int64_t);
    CONVOY_TRY(made.device_indices_, DeviceMemory::allocate(device.ordinal, bytes, kPurpose));
    CONVOY_CHECK(copy_to_device(made.device_indices_.data(), made.indices_.data(), bytes, on));
  }
  CONVOY_TRY(const DeviceMemory records,
             DeviceMemory::allocate(device.ordinal, count * sizeof(ReferenceRecord), kPurpose));
  CONVOY_CHECK(made.kernels_->evaluate(kernel_args, static_cast<const std::int64_t*>(made.device_indices_.data()),
                                       count, static_cast<ReferenceRecord*>(records.data()), stream));
  CONVOY_TRY(const DeviceMemory most, DeviceMemory::allocate(device.ordinal, sizeof(std::uint64_t), kPurpose));
  CONVOY_CHECK(fill_bytes(most.data(), 0, sizeof(std::uint64_t), on));
  CONVOY_CHECK(made.kernels_->largest(kernel_args, static_cast<std::uint64_t*>(most.data()), stream));
  CONVOY_TRY(const auto largest_bits, fetched<std::uint64_t>(most, 1, on));
  CONVOY_TRY(const auto found, fetched<ReferenceRecord>(records, count, on));

  const double largest = std::bit_cast<double>(largest_bits[0]);
  const DataType type = problem.out().type;
  const bool has_zero_point = problem.epilogue.requantize != Requantize::none && is_integer(type);
  const std::int64_t window_terms = reference_terms(problem);
  made.elements_.reserve(found.size());
  for (const ReferenceRecord& r : found) {
    const EpilogueValues values{r.prior, r.bias, r.z, r.slope, r.scale};
    const double v = epilogue_before_rounding(problem, r.sum, values);
    made.elements_.push_back(
        {has_zero_point ? v + problem.y_zero_point : v, as_stored(type, quantize(problem, v)),
         error_before_rounding(problem, {r.terms, r.sum_abs}, r.sum, values, Arithmetic::direct),
         error_before_rounding(problem, {window_terms, largest * r.window_b}, r.sum, values, Arithmetic::spreading)});
  }
  return made;
}

Result<Verification> DeviceExpectation::compare(const void* actual, Arithmetic arithmetic, bool exact,
                                                void* stream) const {
  Verification result;
  result.full = full_;
  result.checked = static_cast<std::int64_t>(elements_.size());
  if (elements_.empty()) return result;
  CONVOY_CHECK(make_current(ordinal_));
  const auto on = static_cast<CUstream>(stream);
  const ReferenceArgs kernel_args = reference_args(problem_, args_);
  CONVOY_TRY(const DeviceMemory values,
             DeviceMemory::allocate(ordinal_, 2 * elements_.size() * sizeof(double), kPurpose));
  auto* first = static_cast<double*>(values.data());
  CONVOY_CHECK(kernels_->gather(kernel_args, actual, static_cast<const std::int64_t*>(device_indices_.data()),
                                result.checked, first, first + elements_.size(), stream));
  CONVOY_TRY(const auto found, fetched<double>(values, 2 * result.checked, on));

  const auto coords = [&](std::size_t i) {
    return coords_of(kernel_args.out, indices_.empty() ? static_cast<std::int64_t>(i) : indices_[i],
                     problem_.out().rank());
  };
  result.max_error = -1;
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    const Element& element = elements_[i];
    const double bound = exact ? 0 : arithmetic == Arithmetic::direct ? element.bound : element.spreading_bound;
    double error = error_in_tolerances(problem_.out().type, found[i], element.exact, element.stored, bound);
    const double filler = found[elements_.size() + i];
    const bool dirty = filler != 0 && !(error > std::numeric_limits<double>::max());
    if (dirty) error = std::numeric_limits<double>::infinity();
    if (error <= result.max_error) continue;
    result.max_error = error;
    result.worst = coords(i);
    result.actual = dirty ? filler : found[i];
    result.expected = dirty ? 0 : element.stored;
    if (dirty) result.worst[1] = problem_.out().dims[1];  // the first channel of the padding
  }
  return result;
}

std::vector<double> DeviceExpectation::tolerances(Arithmetic arithmetic) const {
  ChannelTolerances tolerances(problem_.out());
  if (elements_.empty()) return std::move(tolerances).by_channel();
  const ReferenceTensor out = reference_args(problem_, args_).out;
  for (std::size_t i = 0; i < elements_.size(); ++i) {
    const Element& element = elements_[i];
    const double bound = arithmetic == Arithmetic::direct ? element.bound : element.spreading_bound;
    const std::int64_t index = indices_.empty() ? static_cast<std::int64_t>(i) : indices_[i];
    tolerances.add(coords_of(out, index, problem_.out().rank())[1], element.exact, bound);
  }
  return std::move(tolerances).by_channel();
}

Result<WholeDifference> whole_difference(const ConvProblem& problem, const void* expected, const void* actual,
                                         const CudaDevice& device, void* stream) {
  CONVOY_CHECK(make_current(device.ordinal));
  CONVOY_TRY(const auto kernels, ReferenceKernels::get(problem, device));
  const auto on = static_cast<CUstream>(stream);
  CONVOY_TRY(const DeviceMemory results, DeviceMemory::allocate(device.ordinal, 2 * sizeof(std::uint64_t), kPurpose));
  CONVOY_CHECK(fill_bytes(results.data(), 0, results.bytes(), on));
  CONVOY_CHECK(kernels->difference(expected, actual, problem.out().storage_elements(),
                                   static_cast<std::uint64_t*>(results.data()), stream));
  CONVOY_TRY(const auto bits, fetched<std::uint64_t>(results, 2, on));
  return WholeDifference{std::bit_cast<double>(bits[0]), std::bit_cast<double>(bits[1])};
}

Result<Verification> verify_on_device(const ConvProblem& problem, const ConvArgs& args, const void* actual,
                                      const VerifyOptions& options, const CudaDevice& device, void* stream) {
  CONVOY_TRY(const DeviceExpectation expectation, DeviceExpectation::make(problem, args, options, device, stream));
  return expectation.compare(actual, options.arithmetic, options.exact, stream);
}

}  // namespace convoy::cuda
