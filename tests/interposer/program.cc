// Calls cuDNN as PyTorch does. In heuristic mode: a graph, its heuristics, the first plan that builds, and the fallback
// list only where none does. In benchmark mode: both lists, all plans, each executed once. Then the cached plan.
// usage: program [--benchmark] [--one] [--deterministic] [--fork] [--threads N] [--norm] [--list] [--pointers] CALLS
//   --one            asks for one configuration first, as newer ones do, and for all where that can't be built
//   --deterministic  takes no engine that has the note
//   --list           prints what it is offered
//   --channels C     convolves so many channels instead of 8; several, one after the other
//   --fail           describes a tensor that can't be, and prints cuDNN's words
//   --handles N      makes so many handles in threads
//   --device FILE    asks for a device that cuDNN is told of: its properties as JSON
//   --pointers       executes with pointers (the letter of each tensor) and the workspace that the plan says, and
//   prints
//                    that
//   --sms N          wants plans for so many SMs
//   --without P      leaves one of them out: x, w, or s, the workspace
//   --time N         prints the nanoseconds of an execution of a plan, of so many
//   --plans N        with --time: of an execution, where N plans of other channels each run in turn
//   --cold KB        before each of them so much other memory is read, and as much other code is run, as a program's
//                    own work between two layers does
#include <cudnn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#ifdef CUDNN_FILE
#include "by_name.h"
#endif

namespace {

using Raw = cudnnBackendDescriptor_t;

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) { cudnnBackendCreateDescriptor(type, &raw); }
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() { cudnnBackendDestroyDescriptor(raw); }
  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    cudnnBackendSetAttribute(raw, name, type, static_cast<int64_t>(values.size()), values.data());
  }
  cudnnStatus_t finalize() { return cudnnBackendFinalize(raw); }
  Raw raw = nullptr;
};

void tensor(Descriptor& made, int64_t uid, std::vector<int64_t> dims, std::vector<int64_t> strides) {
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_BFLOAT16});
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, std::vector<int64_t>{uid});
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::vector<int64_t>{16});
  made.finalize();
}

// What pushes other memory and other code out of the caches.
class Elsewhere {
 public:
  explicit Elsewhere(int kilobytes) : size_(static_cast<std::size_t>(kilobytes) * 1024) {
    if (size_ == 0) return;
    constexpr unsigned char ret = 0xc3;
    memory_.assign(size_, 1);
    code_ =
        static_cast<unsigned char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(code_, ret, size_);
    mprotect(code_, size_, PROT_READ | PROT_EXEC);
  }
  Elsewhere(const Elsewhere&) = delete;
  ~Elsewhere() {
    if (code_ != nullptr) munmap(code_, size_);
  }
  void visit() {
    for (std::size_t at = 0; at < size_; at += 64) {
      reinterpret_cast<void (*)()>(code_ + at)();
      volatile char& byte = memory_[at];
      byte = static_cast<char>(byte + 1);
    }
  }

 private:
  std::size_t size_;
  std::vector<char> memory_;
  unsigned char* code_ = nullptr;
};

struct Options {
  bool benchmark = false, one = false, deterministic = false, list = false, pointers = false;
  int timed = 0, cold = 0;
  std::string device;   // JSON
  std::string without;  // a pointer
  int sms = 0;          // 0: the program says nothing of them
  std::size_t plans = 1;
  std::vector<const Descriptor*>* made = nullptr;  // by plans of other channels, which are there too
};

std::string name_of(const Descriptor& config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  int64_t count = 0, index = -1;
  cudnnBackendGetAttribute(config.raw, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                           &engine.raw);
  cudnnBackendGetAttribute(engine.raw, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &index);
  return "eng" + std::to_string(index);
}

bool is_deterministic(const Descriptor& config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  int64_t count = 0;
  cudnnBackendNumericalNote_t notes[16];
  cudnnBackendGetAttribute(config.raw, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                           &engine.raw);
  cudnnBackendGetAttribute(engine.raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 16, &count, notes);
  for (int64_t i = 0; i < count; ++i) {
    if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
  }
  return true;
}

using Configs = std::vector<std::unique_ptr<Descriptor>>;

// Appends the configurations that one mode of the heuristics offers, at most so many (-1: all).
void ask(Configs& configs, const Descriptor& graph, cudnnBackendHeurMode_t mode, const Options& options,
         int64_t most = -1) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<Raw>{graph.raw});
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode});
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  if (!options.device.empty()) {
    device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
               std::vector<char>(options.device.begin(), options.device.end()));
    device.finalize();
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<Raw>{device.raw});
  }
  if (options.sms > 0) heuristic.set(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, std::vector{options.sms});
  if (heuristic.finalize() != CUDNN_STATUS_SUCCESS) return;
  int64_t count = most;
  if (most < 0) {
    const cudnnStatus_t status = cudnnBackendGetAttribute(heuristic.raw, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
    if (status != CUDNN_STATUS_SUCCESS) {
      std::printf("refused: %s\n", cudnnGetErrorString(status));
      return;
    }
  }
  std::vector<Raw> raw;
  Configs given;
  for (int64_t i = 0; i < count; ++i) {
    given.push_back(std::make_unique<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(given.back()->raw);
  }
  const int64_t places = count;
  const cudnnStatus_t status = cudnnBackendGetAttribute(heuristic.raw, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, places, &count, raw.data());
  if (status != CUDNN_STATUS_SUCCESS) {
    std::printf("refused: %s\n", cudnnGetErrorString(status));
    return;
  }
  if (options.list) std::printf("mode %d, %ld places:", mode, static_cast<long>(places));
  for (int64_t i = 0; i < count; ++i) {
    if (options.list) std::printf(" %s", name_of(*given[i]).c_str());
    if (!options.deterministic || is_deterministic(*given[i])) configs.push_back(std::move(given[i]));
  }
  if (options.list) std::printf("\n");
}

// The plans that can be built of configurations: the first, or all.
void build(Configs& plans, const Configs& configs, bool all, const Options& options) {
  for (const auto& config : configs) {
    auto plan = std::make_unique<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<Raw>{config->raw});
    if (plan->finalize() != CUDNN_STATUS_SUCCESS) continue;
    if (options.pointers) {
      int64_t count = 0, bytes = 0;
      cudnnBackendGetAttribute(plan->raw, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                               &bytes);
      std::printf("%s: %ld bytes\n", name_of(*config).c_str(), static_cast<long>(bytes));
    }
    plans.push_back(std::move(plan));
    if (!all) return;
  }
}

void execute(const Descriptor& plan, const Options& options) {
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::vector<int64_t>{'x', 'y', 'w'});
  if (options.pointers) {
    const auto at = [&](char letter) {
      const bool left_out = !options.without.empty() && options.without[0] == std::tolower(letter);
      return left_out ? nullptr : reinterpret_cast<void*>(letter);
    };
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::vector<void*>{at('X'), at('Y'), at('W')});
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector<void*>{at('S')});
  }
  pack.finalize();
  cudnnBackendExecute(reinterpret_cast<cudnnHandle_t>(64), plan.raw, pack.raw);
}

// A 3x3 convolution of `channels` channels, channels last, called `calls` times.
void convolve(int64_t channels, int calls, const Options& options) {
  const int64_t c = channels;
  Descriptor x(CUDNN_BACKEND_TENSOR_DESCRIPTOR), w(CUDNN_BACKEND_TENSOR_DESCRIPTOR), y(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor(x, 'x', {2, c, 5, 5}, {25 * c, 1, 5 * c, c});
  tensor(w, 'w', {c, c, 3, 3}, {9 * c, 1, 3 * c, c});
  tensor(y, 'y', {2, c, 5, 5}, {25 * c, 1, 5 * c, c});
  Descriptor window(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  window.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::vector<int64_t>{2});
  window.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
  window.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, std::vector{CUDNN_CROSS_CORRELATION});
  window.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, std::vector<int64_t>{1, 1});
  window.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, std::vector<int64_t>{1, 1});
  window.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, std::vector<int64_t>{1, 1});
  window.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, std::vector<int64_t>{1, 1});
  window.finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  const auto refer = [&](cudnnBackendAttributeName_t name, const Descriptor& to) {
    operation.set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<Raw>{to.raw});
  };
  refer(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  refer(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  refer(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  refer(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, window);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, std::vector{1.0f});
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, std::vector{0.0f});
  operation.finalize();
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<Raw>{operation.raw});
  graph.finalize();

  Configs configs, plans;
  if (options.benchmark) {
    ask(configs, graph, CUDNN_HEUR_MODE_INSTANT, options);
    ask(configs, graph, CUDNN_HEUR_MODE_FALLBACK, options);
    build(plans, configs, true, options);
    for (const auto& plan : plans) execute(*plan, options);  // timed once each; the first is taken here
  } else {
    if (options.one) {
      ask(configs, graph, CUDNN_HEUR_MODE_INSTANT, options, 1);
      build(plans, configs, false, options);
    }
    for (const auto mode : {CUDNN_HEUR_MODE_INSTANT, CUDNN_HEUR_MODE_FALLBACK}) {
      if (!plans.empty()) continue;
      configs.clear();
      ask(configs, graph, mode, options);
      build(plans, configs, false, options);
    }
  }
  if (plans.empty()) std::printf("unable to find an engine\n");
  for (int i = 0; i < calls && !plans.empty(); ++i) execute(*plans.front(), options);
  if (options.timed == 0 || plans.empty()) return;
  options.made->push_back(plans.front().get());
  if (options.made->size() < options.plans) return convolve(channels + 8, calls, options);
  using Clock = std::chrono::steady_clock;
  Elsewhere elsewhere(options.cold);
  double best = 0;
  for (int round = 0; round < 10; ++round) {  // the least of ten: other processes disturb
    Clock::duration took{};
    if (options.cold == 0) {
      const auto began = Clock::now();
      for (int i = 0; i < options.timed; ++i) execute(*(*options.made)[i % options.plans], options);
      took = Clock::now() - began;
    }
    for (int i = 0; options.cold > 0 && i < options.timed; ++i) {
      elsewhere.visit();
      const auto began = Clock::now();
      execute(*(*options.made)[i % options.plans], options);
      took += Clock::now() - began;
    }
    const double nanoseconds = std::chrono::duration<double, std::nano>(took).count();
    if (round == 0 || nanoseconds < best) best = nanoseconds;
  }
  std::printf("%.1f\n", best / options.timed);
}

void fail() {
  Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_HALF});
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::vector<int64_t>{2, 3, 5, 5});
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::vector<int64_t>{75, 25, 5});
  const cudnnStatus_t status = made.finalize();
  char words[256] = "";
  cudnnGetLastErrorString(words, sizeof words);
  std::printf("%s: %s\n", cudnnGetErrorString(status), words);
  cudnnGetLastErrorString(words, sizeof words);
  std::printf("then '%s'\n", words);
}

void make_handles(int count) {
  std::vector<std::thread> team;
  for (int i = 0; i < count; ++i) {
    team.emplace_back([] {
      cudnnHandle_t handle = nullptr;
      cudnnCreate(&handle);
    });
  }
  for (std::thread& thread : team) thread.join();
}

void normalise() {
  Descriptor operation(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  operation.finalize();
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector<Raw>{operation.raw});
  graph.finalize();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  bool forks = false, norm = false;
  int threads = 1, calls = 1;
  std::vector<int> channels;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--benchmark") == 0) {
      options.benchmark = true;
    } else if (std::strcmp(argv[i], "--one") == 0) {
      options.one = true;
    } else if (std::strcmp(argv[i], "--deterministic") == 0) {
      options.deterministic = true;
    } else if (std::strcmp(argv[i], "--sms") == 0) {
      options.sms = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--without") == 0) {
      options.without = argv[++i];
    } else if (std::strcmp(argv[i], "--pointers") == 0) {
      options.pointers = true;
    } else if (std::strcmp(argv[i], "--list") == 0) {
      options.list = true;
    } else if (std::strcmp(argv[i], "--channels") == 0) {
      channels.push_back(std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--device") == 0) {
      std::ifstream file(argv[++i]);
      options.device.assign(std::istreambuf_iterator<char>(file), {});
    } else if (std::strcmp(argv[i], "--time") == 0) {
      options.timed = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--plans") == 0) {
      options.plans = static_cast<std::size_t>(std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--cold") == 0) {
      options.cold = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--handles") == 0) {
      make_handles(std::atoi(argv[++i]));
    } else if (std::strcmp(argv[i], "--fail") == 0) {
      fail();
    } else if (std::strcmp(argv[i], "--fork") == 0) {
      forks = true;
    } else if (std::strcmp(argv[i], "--norm") == 0) {
      norm = true;
    } else if (std::strcmp(argv[i], "--threads") == 0) {
      threads = std::atoi(argv[++i]);
    } else {
      calls = std::atoi(argv[i]);
    }
  }
  if (channels.empty()) channels.push_back(8);
  for (const int each : channels) {
    std::vector<const Descriptor*> made;
    options.made = &made;
    convolve(each, calls, options);
  }
  if (norm) normalise();
  std::vector<std::thread> team;
  for (int i = 1; i < threads; ++i) {
    team.emplace_back([=] {
      for (int round = 0; round < 50; ++round) convolve(8 * (i % 4 + 1), calls, options);
    });
  }
  if (forks) {  // in the middle of what the threads do
    const pid_t child = fork();
    if (child == 0) {
      convolve(16, 2, options);
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) std::printf("the child ended with %d\n", status);
  }
  for (std::thread& thread : team) thread.join();
  return forks ? 3 : 0;
}
