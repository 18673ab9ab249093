// Networks in main, in an atexit handler, and in the destructor of an object that is older than anything of Convoy's,
// as select/cache/after_exit_test.cc has it for convolutions: loaded, planned, prepared, run and tuned, with all that
// they use kept beyond main (the protobuf's and SQLite's objects, too). A session that was prepared before oneDNN's own
// objects were destroyed returns an error where it would use them. Prints what CTest looks for.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "convoy/network_tuning.h"
#include "convoy/tuning_database.h"

namespace {

using namespace convoy;

constexpr const char* kModel = "zoo:squeezenet1_1";

HostTensor ramp(std::int64_t size) {
  HostTensor tensor = *HostTensor::allocate(TensorDesc::packed(DataType::f32, {1, 3, size, size}));
  for (std::int64_t i = 0; i < tensor.desc.elements(); ++i) tensor.as<float>()[i] = static_cast<float>(i % 17) - 8;
  return tensor;
}

NetworkOptions options_for(const char* engines) {
  NetworkOptions options;
  options.threads = 2;
  options.selection.filter.engines = engines;
  return options;
}

Result<std::vector<HostTensor>> answer(const Network& network, const HostTensor& input, const char* engines) {
  CONVOY_TRY(const auto session, network.prepare({{input.desc}}, options_for(engines)));
  return session->run({{input}});
}

Result<void> tune(const Network& network, const HostTensor& input) {
  const auto folder = std::filesystem::temp_directory_path() / ("convoy_after_exit_" + std::to_string(getpid()));
  CONVOY_TRY(const auto database, TuningDatabase::open(folder / "tuning.db", TuningDatabase::Access::write));
  NetworkOptions options = options_for("*");
  options.selection.mode = SelectionMode::measured;
  options.selection.budget_seconds = 0.5;
  options.selection.store = database.get();
  options.kept_plans = kept_plans_folder(folder / "tuning.db");
  CONVOY_TRY(const auto convolutions, network.convolutions({{input.desc}}, options));
  CONVOY_CHECK(tune_network(network, convolutions, {{input}}, options));
  std::filesystem::remove_all(folder);
  return {};
}

// Another size each time, so that something new is planned.
Result<bool> works(std::int64_t size) {
  CONVOY_TRY(const auto network, Network::load(kModel));
  const HostTensor input = ramp(size);
  CONVOY_TRY(const auto outputs, answer(*network, input, "*"));
  CONVOY_TRY(const auto expected, answer(*network, input, "reference"));
  CONVOY_CHECK(tune(*network, input));
  for (std::int64_t i = 0; i < expected[0].desc.elements(); ++i) {
    const double difference = outputs[0].at(i) - expected[0].at(i);
    if (!(difference < 1e-4 && difference > -1e-4)) return false;
  }
  return true;
}

// Prepared in main, with convolutions and operators of oneDNN's.
struct Early {
  std::unique_ptr<Session> session;
  std::vector<HostTensor> outputs;
};
Early& early() {
  static Early& early = *new Early;
  return early;
}

const char* run_early() {
  const auto outputs = early().session->run({{ramp(40)}});
  if (!outputs.ok()) return outputs.error().code == ErrorCode::unsupported ? "refused" : "wrong";
  const auto bytes = static_cast<std::size_t>(outputs->front().desc.bytes());
  return std::memcmp(outputs->front().data.get(), early().outputs[0].data.get(), bytes) == 0 ? "right" : "wrong";
}

void report(const char* when, std::int64_t size) {
  const Result<bool> right = works(size);
  std::printf("%s: %s, oneDNN's session %s\n", when,
              !right.ok() ? right.error().message.c_str()
              : *right    ? "right"
                          : "wrong",
              run_early());
  std::fflush(stdout);
}

struct LastToGo {
  ~LastToGo() { report("static destructor", 56); }
} last_to_go;

}  // namespace

int main() {
  std::atexit([] { report("older atexit handler", 48); });
  const auto network = Network::load(kModel);
  if (!network.ok()) return 1;
  auto session = (*network)->prepare({{ramp(40).desc}}, options_for("onednn.*"));
  if (!session.ok()) return 1;
  early().session = std::move(*session);
  auto outputs = early().session->run({{ramp(40)}});
  if (!outputs.ok()) return 1;
  early().outputs = std::move(*outputs);
  report("main", 40);
  std::atexit([] { report("newer atexit handler", 64); });
}
