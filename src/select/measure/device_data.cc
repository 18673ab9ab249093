#include "select/measure/device_data.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "select/measure/problem_data.h"

namespace convoy::selection {
namespace {

// Elements of random contents; larger tensors repeat them. A prime: no dimension is a multiple of it.
constexpr std::int64_t kPatternElements = 1'048'573;

// A set of tensors begins on such an address, as the first one's do, which are the driver's.
constexpr std::int64_t kSetAlignment = 512;
constexpr std::int64_t kMostSets = 64;
constexpr std::size_t kMostPatterns = 16;  // of up to 8 MB

// Of a type and seed, made once: random numbers for a problem's tensors took longer than timing a candidate.
Result<HostTensor> pattern_of(DataType type, std::uint64_t seed) {
  static std::mutex& mutex = *new std::mutex;
  static auto& made = *new std::map<std::pair<DataType, std::uint64_t>, HostTensor>;
  const std::lock_guard lock(mutex);
  if (const auto found = made.find({type, seed}); found != made.end()) return found->second;
  CONVOY_TRY(HostTensor pattern, HostTensor::allocate(TensorDesc::packed(type, {kPatternElements})));
  fill_random(pattern.desc, pattern.data.get(), seed);
  if (made.size() >= kMostPatterns) made.clear();
  return made[{type, seed}] = std::move(pattern);
}

// A tensor's storage on the device. Contents as fill_operand's, repeated after pattern_elements.
Result<Buffer> random_on_device(const ConvProblem& problem, Operand operand, const TensorDesc& desc, std::uint64_t seed,
                                const Device& device, Queue& queue, const char* name) {
  const auto bytes = static_cast<std::size_t>(desc.bytes());
  CONVOY_TRY(Buffer memory, device.allocate(bytes, name));
  if (bytes == 0) return memory;
  const bool whole = desc.channel_block > 1 || desc.storage_elements() <= kPatternElements;
  HostTensor host;
  if (whole || problem.compute == DataType::s32) {
    CONVOY_TRY(host, HostTensor::allocate(whole ? desc : TensorDesc::packed(desc.type, {kPatternElements})));
    fill_operand(problem, operand, host.desc, host.data.get(), seed);
  } else {
    CONVOY_TRY(host, pattern_of(desc.type, seed));
  }
  std::size_t filled = std::min(bytes, static_cast<std::size_t>(host.desc.bytes()));
  CONVOY_CHECK(queue.copy_in(memory.data(), host.data.get(), filled));
  CONVOY_CHECK(queue.finish());  // `host` goes away
  for (; filled < bytes; filled *= 2) {
    auto* const to = static_cast<std::byte*>(memory.data()) + filled;
    CONVOY_CHECK(queue.copy(to, memory.data(), std::min(filled, bytes - filled)));
  }
  return memory;
}

Result<Buffer> uploaded(const HostTensor& tensor, const Device& device, Queue& queue, const char* name) {
  if (!tensor.data) return Buffer{};
  const auto bytes = static_cast<std::size_t>(tensor.desc.bytes());
  CONVOY_TRY(Buffer memory, device.allocate(bytes, name));
  CONVOY_CHECK(queue.copy_in(memory.data(), tensor.data.get(), bytes));
  CONVOY_CHECK(queue.finish());
  return memory;
}

}  // namespace

Result<DeviceData> DeviceData::make(const ConvProblem& problem, std::uint64_t seed, const Device& device,
                                    Queue& queue) {
  DeviceData data;
  CONVOY_TRY(data.x, random_on_device(problem, Operand::x, problem.x, seed, device, queue, "x"));
  CONVOY_TRY(data.w, random_on_device(problem, Operand::w, problem.w, seed + 1, device, queue, "w"));
  CONVOY_TRY(data.y, random_on_device(problem, Operand::y, problem.y, seed + 2, device, queue, "y"));
  if (problem.epilogue.takes_z()) {
    CONVOY_TRY(data.z, random_on_device(problem, Operand::z, problem.out(), seed + 4, device, queue, "z"));
  }
  CONVOY_TRY(const ProblemData small, ProblemData::make_small(problem, seed));
  CONVOY_TRY(data.bias, uploaded(small.bias, device, queue, "bias"));
  CONVOY_TRY(data.slopes, uploaded(small.slopes, device, queue, "slopes"));
  CONVOY_TRY(data.scales, uploaded(small.scales, device, queue, "scales"));
  CONVOY_TRY(data.x_zero, uploaded(small.x_zero, device, queue, "the zero point of x"));
  CONVOY_TRY(data.w_zeros, uploaded(small.w_zeros, device, queue, "the zero points of w"));
  CONVOY_TRY(data.gate, uploaded(small.gate, device, queue, "gate"));
  return data;
}

ConvArgs DeviceData::args(void* out) const {
  return {.x = x.data(),
          .w = w.data(),
          .y = y.data(),
          .out = out,
          .bias = bias.data(),
          .z = z.data(),
          .slopes = static_cast<const float*>(slopes.data()),
          .scales = static_cast<const float*>(scales.data()),
          .x_zero_point = static_cast<const std::int32_t*>(x_zero.data()),
          .w_zero_points = static_cast<const std::int32_t*>(w_zeros.data()),
          .gate = gate.data()};
}

Result<Produced> Produced::make(const Buffer& tensor, std::int64_t l2_bytes, const Device& device, Queue& queue) {
  const std::size_t bytes = std::min(tensor.bytes(), static_cast<std::size_t>(2 * l2_bytes));
  Produced produced;
  produced.end_ = static_cast<std::byte*>(tensor.data()) + (tensor.bytes() - bytes);
  CONVOY_TRY(produced.copy_, device.allocate(bytes, "a copy of the activations"));
  if (bytes > 0) CONVOY_CHECK(queue.copy(produced.copy_.data(), produced.end_, bytes));
  return produced;
}

Result<void> Produced::produce(Queue& queue) const {
  if (copy_.bytes() == 0) return {};
  return queue.copy(end_, copy_.data(), copy_.bytes());
}

Result<Rotation> Rotation::make(const ConvProblem& problem, const ConvArgs& first, std::int64_t l2_bytes,
                                const Device& device, Queue& queue) {
  // What an execution reads or writes of the size of an activation or of the weights.
  struct Part {
    const void* from;
    std::int64_t bytes, offset;
    const void* ConvArgs::*input;  // null: the output
  };
  Rotation rotation;
  std::vector<Part> parts;
  const auto add = [&](const TensorDesc& desc, const void* from, const void* ConvArgs::*input) {
    const std::int64_t bytes = desc.bytes();
    parts.push_back({from, bytes, rotation.bytes_, input});
    rotation.bytes_ += (bytes + kSetAlignment - 1) / kSetAlignment * kSetAlignment;
  };
  if (problem.pass != Pass::dgrad) add(problem.x, first.x, &ConvArgs::x);
  if (problem.pass != Pass::wgrad) add(problem.w, first.w, &ConvArgs::w);
  if (problem.pass != Pass::fprop) add(problem.y, first.y, &ConvArgs::y);
  if (first.z != nullptr) add(problem.out(), first.z, &ConvArgs::z);
  add(problem.out(), first.out, nullptr);
  const std::int64_t cached = 4 * l2_bytes;
  const std::int64_t sets = std::clamp<std::int64_t>((cached + rotation.bytes_ - 1) / rotation.bytes_, 1, kMostSets);
  CONVOY_TRY(rotation.memory_,
             device.allocate(static_cast<std::size_t>((sets - 1) * rotation.bytes_), "tensors to rotate among"));
  rotation.sets_.push_back(first);
  for (std::int64_t i = 0; i + 1 < sets; ++i) {
    ConvArgs args = first;
    for (const Part& part : parts) {
      auto* const to = static_cast<std::byte*>(rotation.memory_.data()) + i * rotation.bytes_ + part.offset;
      CONVOY_CHECK(queue.copy(to, part.from, static_cast<std::size_t>(part.bytes)));
      if (part.input != nullptr) {
        args.*part.input = to;
      } else {
        args.out = to;
      }
    }
    rotation.sets_.push_back(args);
  }
  return rotation;
}

}  // namespace convoy::selection
