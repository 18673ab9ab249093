// The C++ interface through its one header, from an installed Convoy: a convolution, a network, an engine of the
// program's own, the log, errors. With the C header beside it, for programs that have both.
#include <convoy.h>
#include <convoy/all.h>

#include <cstdio>
#include <string>
#include <vector>

using namespace convoy;

namespace {

// Engines are classes that programs may add: the library's base class, its name and its destructor are exported.
class Own final : public Engine {
 public:
  const EngineInfo& info() const override { return reference().info(); }
  double predict_seconds(const ConvProblem&, const KnobValues&, const PlanRequest&) const override { return 1; }
  Result<std::unique_ptr<ConvPlan>> plan(const ConvProblem& problem, const KnobValues& knobs,
                                         const PlanRequest& request) const override {
    return reference().plan(problem, knobs, request);
  }

 private:
  static const Engine& reference() {
    for (const Engine* engine : all_engines()) {
      if (engine->info().name == "reference") return *engine;
    }
    return *all_engines().front();
  }
};

int fail(const std::string& what) {
  std::printf("FAILED: %s\n", what.c_str());
  return 1;
}

}  // namespace

int main() {
  std::vector<std::string> events;
  if (!set_log(LogLevel::info, [&](LogLevel, std::string_view event) { events.emplace_back(event); })) return 1;
  const auto problem = parse_problem("fprop:x=f32,1x8x12x12,nhwc:w=f32,8x8x3x3:pad=1x1");
  if (!problem) return fail(problem.error().message);
  PlanRequest request;
  request.cpu = cpu_features();
  const auto selection = select(*problem, all_engines(), {}, request);
  if (!selection) return fail(selection.error().message);
  std::printf("%s: %s\n", print(*problem).c_str(), print(selection->candidate).c_str());
  if (events.empty()) return fail("nothing was logged");
  if (!set_log(LogLevel::off, {})) return 1;

  const Own own;
  const Engine& engine = own;
  if (dynamic_cast<const Own*>(&engine) == nullptr) return fail("an engine of its own");
  if (const auto refusal = refuse(engine, *problem, request)) return fail(refusal->reason);
  const auto wrong = parse_problem("fprop:x=f32,1x8x12x12:w=f32,8x7x3x3");
  if (wrong || wrong.error().code != ErrorCode::invalid_argument) return fail("an error");

  const auto network = Network::load("zoo:squeezenet1_1");
  if (!network) return fail(network.error().message);
  const TensorDesc input = TensorDesc::packed(DataType::f32, {1, 3, 64, 64});
  const auto session = (*network)->prepare({&input, 1}, {.cpu = cpu_features()});
  if (!session) return fail(session.error().message);
  const HostTensor zeros = *HostTensor::zeros(input);
  const auto outputs = (*session)->run({&zeros, 1});
  if (!outputs || outputs->empty()) return fail("a network");
  std::printf("%s: %zu steps, as %s\n", (*network)->name().c_str(), (*session)->steps().size(), convoy_version_text());
  return 0;
}
