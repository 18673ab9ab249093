// Operators as a share of a copy's bandwidth: of each, with vectors and without, and of a memcpy of as many bytes (half
// of them read, half written) by the same threads, samples in turns. A JSON line each.
// usage: ops_bench [SECONDS [BYTES [THREADS [NAME]]]]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "ops/operator_row.h"

namespace convoy::ops {
namespace {

using Clock = std::chrono::steady_clock;

// Of which the first input is the large one.
struct Case {
  std::string name;
  NodeDesc node;
  std::vector<HostTensor> inputs;
};

NodeDesc node_of(std::string op, std::string domain, std::map<std::string, Attribute> attributes) {
  NodeDesc node;
  node.op = std::move(op);
  node.domain = std::move(domain);
  node.opset = 20;
  node.attributes = std::move(attributes);
  return node;
}

HostTensor filled(DataType type, Dims dims, Layout layout = Layout::nchw) {
  HostTensor tensor = *HostTensor::allocate(TensorDesc::packed(type, std::move(dims)).with_layout(layout));
  for (std::int64_t i = 0; i < tensor.desc.elements(); ++i) {
    store_from_double(type, tensor.data.get(), i,
                      static_cast<double>(i * 7919 % 101) - (type == DataType::u8 ? 0 : 50));
  }
  return tensor;
}

HostTensor value(DataType type, double value) {
  HostTensor tensor = *HostTensor::allocate(TensorDesc::packed(type, {}));
  store_from_double(type, tensor.data.get(), 0, value);
  return tensor;
}

Case qlinear(const std::string& op, DataType type, const Dims& a, const Dims& b) {
  const auto scale = [](double v) { return value(DataType::f32, v); };
  const HostTensor zero = value(type, type == DataType::u8 ? 60 : 3);
  return {fmt::format("{} {} {} {}", op, name_of(type), to_string(a), to_string(b)),
          node_of(op, "com.microsoft", {}),
          {filled(type, a), scale(0.0173), zero, filled(type, b), scale(0.0291), zero, scale(0.0412), zero}};
}

using Ints = std::vector<std::int64_t>;

HostTensor integers(const Ints& values) {
  HostTensor tensor =
      *HostTensor::allocate(TensorDesc::packed(DataType::s64, {static_cast<std::int64_t>(values.size())}));
  for (std::size_t i = 0; i < values.size(); ++i) reinterpret_cast<std::int64_t*>(tensor.data.get())[i] = values[i];
  return tensor;
}

HostTensor reals(DataType type, const Dims& dims, double at_all) {
  HostTensor tensor = *HostTensor::allocate(TensorDesc::packed(type, dims));
  for (std::int64_t i = 0; i < tensor.desc.elements(); ++i) store_from_double(type, tensor.data.get(), i, at_all);
  return tensor;
}

Case one(const std::string& name, DataType type, const Dims& dims, std::map<std::string, Attribute> attributes = {},
         std::vector<HostTensor> more = {}, Layout layout = Layout::nchw) {
  std::vector<HostTensor> inputs = {filled(type, dims, layout)};
  for (HostTensor& each : more) inputs.push_back(std::move(each));
  const bool last = layout == Layout::nhwc;
  return {fmt::format("{} {} {}{}", name, name_of(type), to_string(dims), last ? " nhwc" : ""),
          node_of(name, name.starts_with("QLinear") ? "com.microsoft" : "", std::move(attributes)), std::move(inputs)};
}

std::vector<Case> cases(std::int64_t bytes) {
  std::vector<Case> all;
  const DataType u8 = DataType::u8, s8 = DataType::s8, f32 = DataType::f32;
  for (const DataType type : {u8, s8}) all.push_back(qlinear("QLinearAdd", type, {bytes}, {bytes}));
  all.push_back(qlinear("QLinearAdd", u8, {bytes / 256, 256}, {256}));
  all.push_back(qlinear("QLinearMul", u8, {bytes}, {bytes}));
  const auto quantizer = [&] { return std::vector<HostTensor>{value(f32, 0.0173), value(u8, 60)}; };
  const auto twice = [&] {
    auto result = quantizer();
    result.push_back(value(f32, 0.0291));
    result.push_back(value(u8, 70));
    return result;
  };
  all.push_back(one("QLinearLeakyRelu", u8, {bytes}, {{"alpha", 0.1}}, twice()));
  all.push_back(one("QLinearSigmoid", u8, {bytes}, {}, twice()));
  for (const DataType type : {f32, DataType::f16, DataType::bf16}) {
    const HostTensor zero = value(u8, 60);
    all.push_back(one("QuantizeLinear", type, {bytes / 4}, {}, {value(type, 0.5), zero}));
    all.push_back(one("QuantizeLinear", type, {1, bytes / 4 / 4096, 64, 64}, {{"axis", std::int64_t{1}}},
                      {reals(type, {bytes / 4 / 4096}, 0.5), reals(u8, {bytes / 4 / 4096}, 3)}));
    all.push_back(one("DequantizeLinear", u8, {bytes}, {}, {value(type, 0.5), zero}));
  }
  const auto onnx = [](DataType type) {  // its number in ONNX
    return type == DataType::f32 ? std::int64_t{1} : type == DataType::u8 ? 2 : type == DataType::f16 ? 10 : 16;
  };
  for (const auto& [from, to] : {std::pair{f32, DataType::f16},
                                 {DataType::f16, f32},
                                 {f32, DataType::bf16},
                                 {DataType::bf16, f32},
                                 {u8, f32},
                                 {f32, u8}}) {
    all.push_back(one("Cast", from, {bytes / 4}, {{"to", onnx(to)}}));
    all.back().name += fmt::format(" to {}", name_of(to));
  }
  for (const DataType type : {f32, DataType::f16, DataType::bf16, u8}) {
    const std::int64_t size = static_cast<std::int64_t>(size_of(type)), count = bytes / size;
    const std::int64_t side = bytes > (1 << 20) ? 128 : 32, channels = count / (side * side);
    const Dims dims{1, channels, side, side};
    all.push_back(one("MaxPool", type, dims, {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}}));
    all.push_back(
        one("MaxPool", type, dims, {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}}, {}, Layout::nhwc));
    all.push_back(one("Add", type, {count}, {}, {filled(type, {count})}));
    all.push_back(one("Mul", type, dims, {}, {filled(type, {1, channels, 1, 1})}));
    all.push_back(one("Mul", type, dims, {}, {filled(type, {1, channels, 1, 1})}, Layout::nhwc));
    all.push_back(one("Concat", type, dims, {{"axis", std::int64_t{1}}}, {filled(type, dims)}));
    all.push_back(
        one("Concat", type, dims, {{"axis", std::int64_t{1}}}, {filled(type, dims, Layout::nhwc)}, Layout::nhwc));
    all.push_back(one("Pad", type, dims, {}, {integers({0, 0, 1, 1, 0, 0, 1, 1})}));
    all.push_back(one("Transpose", type, dims, {{"perm", Ints{0, 2, 3, 1}}}));
    for (const std::string mode : {"nearest", "linear"}) {
      for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
        all.push_back(one("Resize", type, dims, {{"mode", mode}},
                          {HostTensor(), HostTensor(), integers({1, channels, 2 * side, 2 * side})}, layout));
        all.back().name += " " + mode;
      }
      // As eight channels in blocks are to it.
      all.push_back(one("Resize", type, {channels / 8, 8, side, side}, {{"mode", mode}},
                        {HostTensor(), HostTensor(), integers({channels / 8, 8, 2 * side, 2 * side})}, Layout::nhwc));
      all.back().name += " " + mode;
    }
    if (type == u8) continue;
    all.push_back(one("Relu", type, {count}));
    all.push_back(one("Clip", type, {count}, {}, {value(type, 0), value(type, 6)}));
    for (const std::string name : {"Sigmoid", "HardSwish", "Tanh", "Exp", "Erf", "Gelu"}) {
      all.push_back(one(name, type, {count}));
    }
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      all.push_back(
          one("AveragePool", type, dims, {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}}, {}, layout));
      all.push_back(one("GlobalAveragePool", type, dims, {}, {}, layout));
      all.push_back(one("BatchNormalization", type, dims, {},
                        {reals(type, {channels}, 1), reals(type, {channels}, 0), reals(type, {channels}, 0),
                         reals(type, {channels}, 1)},
                        layout));
      all.push_back(one("InstanceNormalization", type, dims, {},
                        {reals(type, {channels}, 1), reals(type, {channels}, 0)}, layout));
      all.push_back(one("PRelu", type, dims, {}, {filled(type, {channels, 1, 1})}, layout));
    }
    all.push_back(one("Softmax", type, {count / 1024, 1024}, {{"axis", std::int64_t{1}}}));
    all.push_back(one("LayerNormalization", type, {count / 1024, 1024}, {{"axis", std::int64_t{1}}},
                      {reals(type, {1024}, 1), reals(type, {1024}, 0)}));
    all.push_back(one("ReduceMean", type, {count / 1024, 1024}, {}, {integers({1})}));
    all.push_back(one("ReduceMean", type, {1024, count / 1024}, {}, {integers({0})}));
  }
  return all;
}

// A plan and what it runs on; nothing where the operator does not take the case.
class Job {
 public:
  Job(const Case& which, Isa isa, ThreadTeam& team) : case_(which), team_(team) {
    const OperatorRow& row = *find_row(which.node.domain, which.node.op);
    std::vector<Input> inputs;
    for (const HostTensor& tensor : which.inputs) {
      const bool constant = tensor.desc.type == DataType::s64;  // axes, sizes
      inputs.push_back({tensor.data != nullptr, tensor.desc, constant ? tensor.data.get() : nullptr});
      in_.push_back(tensor.data.get());
    }
    std::vector<TensorDesc> outputs = check(row.infer(which.node, inputs));
    for (TensorDesc& desc : outputs) {
      if (desc.rank() >= 3) desc = desc.with_layout(which.inputs[0].desc.layout());
      outputs_.push_back(check(HostTensor::allocate(desc)));
      out_.push_back(outputs_.back().data.get());
    }
    PlanRequest request;
    request.threads = team.size();
    request.cpu = capped(cpu_features(), isa);
    plan_ = check(row.implementation->plan(which.node, inputs, outputs, request));
    workspace_ = allocate_aligned(std::max<std::size_t>(plan_->workspace_bytes(), 64));
  }
  void run() {
    if (!plan_->execute(in_, out_, ExecContext{team_, workspace_.get(), plan_->workspace_bytes()}).ok()) std::abort();
  }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const HostTensor& tensor : case_.inputs) sum += static_cast<std::int64_t>(tensor.desc.bytes());
    for (const HostTensor& tensor : outputs_) sum += static_cast<std::int64_t>(tensor.desc.bytes());
    return sum;
  }

 private:
  template <class T>
  static T check(Result<T> result) {
    if (!result.ok()) {
      fmt::print(stderr, "{}\n", result.error().message);
      std::exit(1);
    }
    return *std::move(result);
  }
  const Case& case_;
  ThreadTeam& team_;
  std::vector<const void*> in_;
  std::vector<HostTensor> outputs_;
  std::vector<void*> out_;
  std::unique_ptr<OpPlan> plan_;
  decltype(allocate_aligned(0)) workspace_;
};

// The medians of each task's seconds, samples in turns for about `seconds`.
std::vector<double> medians(const std::vector<std::function<void()>>& tasks, double seconds) {
  std::vector<int> repeats;
  for (const auto& task : tasks) {  // a sample takes 200 us or more
    const auto start = Clock::now();
    int count = 0;
    while (std::chrono::duration<double>(Clock::now() - start).count() < 200e-6) task(), ++count;
    repeats.push_back(count);
  }
  std::vector<std::vector<double>> samples(tasks.size());
  const auto begin = Clock::now();
  while (samples[0].size() < 11 || std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const auto start = Clock::now();
      for (int n = 0; n < repeats[i]; ++n) tasks[i]();
      samples[i].push_back(std::chrono::duration<double>(Clock::now() - start).count() / repeats[i]);
    }
  }
  std::vector<double> result;
  for (auto& each : samples) {
    std::nth_element(each.begin(), each.begin() + each.size() / 2, each.end());
    result.push_back(each[each.size() / 2]);
  }
  return result;
}

void measure(const Case& which, int threads, double seconds) {
  const auto team = make_cpu_team(threads);
  Job vectors(which, Isa::avx512, *team), loops(which, Isa::portable, *team);
  const std::int64_t half = vectors.bytes() / 2;
  const auto from = allocate_aligned(half), to = allocate_aligned(half);
  std::memset(from.get(), 1, half);
  const auto copy = [&] {
    parallel_ranges(*team, half, [&](std::int64_t begin, std::int64_t end, int) {
      std::memcpy(to.get() + begin, from.get() + begin, end - begin);
    });
  };
  const std::vector<double> s = medians({copy, [&] { vectors.run(); }, [&] { loops.run(); }}, seconds);
  fmt::print(
      "{{\"operator\":\"{}\",\"threads\":{},\"bytes\":{},\"copy_GB_per_s\":{:.1f},\"GB_per_s\":{:.1f},\"share\":{:.2f},"
      "\"microseconds\":{:.1f},\"microseconds_without_vectors\":{:.1f}}}\n",
      which.name, threads, 2 * half, 2e-9 * half / s[0], 2e-9 * half / s[1], s[0] / s[1], s[1] * 1e6, s[2] * 1e6);
  std::fflush(stdout);
}

}  // namespace
}  // namespace convoy::ops

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--rates") {  // for scripts/fit-steps
    for (const auto* const row : convoy::ops::operator_rows()) fmt::print("{} {}\n", row->op, name_of(row->rate));
    return 0;
  }
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  const std::int64_t only_bytes = argc > 2 ? std::atoll(argv[2]) : 0;
  const int only_threads = argc > 3 ? std::atoi(argv[3]) : 0;
  const std::string text = argc > 4 ? argv[4] : "";
  for (const std::int64_t bytes : {std::int64_t{8} << 20, std::int64_t{256} << 10}) {
    if (only_bytes != 0 && bytes != only_bytes) continue;
    for (const auto& each : convoy::ops::cases(bytes)) {
      if (each.name.find(text) == std::string::npos) continue;
      for (const int threads : {1, 2}) {
        if (only_threads == 0 || threads == only_threads) convoy::ops::measure(each, threads, seconds);
      }
    }
  }
}
