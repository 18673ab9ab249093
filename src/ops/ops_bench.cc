// Operators as a share of a copy's bandwidth: of each, with vectors and without, and of a memcpy of as many bytes (half
// of them read, half written) by the same threads, samples in turns. A JSON line each. usage: ops_bench [SECONDS]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "ops/operator.h"

namespace convoy::ops {
namespace {

using Clock = std::chrono::steady_clock;

struct Case {
  std::string name;
  NodeDesc node;
  std::vector<HostTensor> inputs;
};

NodeDesc node_of(std::string op, std::string domain, std::map<std::string, Attribute> attributes) {
  NodeDesc node;
  node.op = std::move(op);
  node.domain = std::move(domain);
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

Case pooling(const std::string& op, DataType type, const Dims& dims, Layout layout) {
  using Ints = std::vector<std::int64_t>;
  return {fmt::format("{} 3x3 stride 2 {} {} {}", op, name_of(type), to_string(dims), name_of(layout, 2)),
          node_of(op, "", {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}}),
          {filled(type, dims, layout)}};
}

std::vector<Case> cases(std::int64_t bytes) {
  std::vector<Case> all;
  const DataType u8 = DataType::u8, s8 = DataType::s8;
  for (const DataType type : {u8, s8}) all.push_back(qlinear("QLinearAdd", type, {bytes}, {bytes}));
  all.push_back(qlinear("QLinearAdd", u8, {bytes / 256, 256}, {256}));
  all.push_back(qlinear("QLinearMul", u8, {bytes}, {bytes}));
  const std::int64_t side = bytes > (1 << 20) ? 256 : 64;  // of 16-bit elements
  const Dims dims{1, bytes / 2 / (side * side), side, side};
  for (const DataType type : {DataType::f16, DataType::bf16}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) all.push_back(pooling("MaxPool", type, dims, layout));
  }
  all.push_back(pooling("AveragePool", DataType::f16, dims, Layout::nhwc));
  return all;
}

// A plan and what it runs on; nothing where the operator does not take the case.
class Job {
 public:
  Job(const Case& which, Isa isa, ThreadTeam& team) : case_(which), team_(team) {
    const Operator& op = *find_operator(which.node.domain, which.node.op);
    std::vector<Input> inputs;
    for (const HostTensor& tensor : which.inputs) {
      inputs.push_back({true, tensor.desc});
      in_.push_back(tensor.data.get());
    }
    std::vector<TensorDesc> outputs = check(op.infer(which.node, inputs));
    for (TensorDesc& desc : outputs) {
      if (desc.rank() >= 3) desc = desc.with_layout(which.inputs[0].desc.layout());
      outputs_.push_back(check(HostTensor::allocate(desc)));
      out_.push_back(outputs_.back().data.get());
    }
    PlanRequest request;
    request.threads = team.size();
    request.cpu = capped(cpu_features(), isa);
    plan_ = check(op.plan(which.node, inputs, outputs, request));
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
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.5;
  for (const std::int64_t bytes : {std::int64_t{8} << 20, std::int64_t{256} << 10}) {
    for (const auto& each : convoy::ops::cases(bytes)) {
      for (const int threads : {1, 2}) convoy::ops::measure(each, threads, seconds);
    }
  }
}
