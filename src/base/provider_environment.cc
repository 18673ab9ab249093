#include "base/provider_environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace convoy {
namespace {

using enum ProviderEffect;

constexpr std::array kProviderVariables = {
    ProviderVariable{"CUDNN_LIB_CONFIG", results, "which of cuDNN's libraries are loaded: FULL, GRAPH_JIT_ONLY"},
    ProviderVariable{"CUDNN_LOGLEVEL_DBG", logs, "how much cuDNN logs: 0 to 3"},
    ProviderVariable{"CUDNN_LOGDEST_DBG", logs, "where cuDNN logs to"},
    ProviderVariable{"CUDNN_LOGERR_DBG", logs, "1: cuDNN logs errors (older than CUDNN_LOGLEVEL_DBG)"},
    ProviderVariable{"CUDNN_LOGWARN_DBG", logs, "1: cuDNN logs warnings (older than CUDNN_LOGLEVEL_DBG)"},
    ProviderVariable{"CUDNN_LOGINFO_DBG", logs, "1: cuDNN logs its calls (older than CUDNN_LOGLEVEL_DBG)"},
    ProviderVariable{"CUDNN_FRONTEND_LOG_INFO", logs, "1: cudnn-frontend logs what it does"},
    ProviderVariable{"CUDNN_FRONTEND_LOG_FILE", logs, "where cudnn-frontend logs to"},
    ProviderVariable{"CUDA_VISIBLE_DEVICES", speed, "which GPUs this process sees, and in which order"},
    ProviderVariable{"CUDA_DEVICE_ORDER", speed, "how GPUs are numbered: FASTEST_FIRST, PCI_BUS_ID"},
    ProviderVariable{"CUDA_LAUNCH_BLOCKING", speed, "1: every kernel is waited for"},
    ProviderVariable{"CUDA_MODULE_LOADING", speed, "LAZY, EAGER: when GPU code is loaded"},
    ProviderVariable{"CUDA_DEVICE_MAX_CONNECTIONS", speed, "how many streams run beside each other on a GPU"},
    ProviderVariable{"CUDA_FORCE_PTX_JIT", speed, "1: the driver compiles GPU code again"},
    ProviderVariable{"CUBLAS_WORKSPACE_CONFIG", results,
                     "cuBLAS's workspaces, which decide whether it is deterministic"},
    ProviderVariable{"NVIDIA_TF32_OVERRIDE", results, "0: no NVIDIA library uses tf32, whatever is asked for"},
    ProviderVariable{"OMP_NUM_THREADS", speed, "OpenMP's default thread count (Convoy gives its own)"},
    ProviderVariable{"OMP_THREAD_LIMIT", speed, "the most threads OpenMP starts: may be fewer than asked for"},
    ProviderVariable{"OMP_DYNAMIC", speed, "OpenMP may start fewer threads than asked for"},
    ProviderVariable{"OMP_MAX_ACTIVE_LEVELS", speed, "nested OpenMP regions that may be parallel"},
    ProviderVariable{"OMP_PROC_BIND", speed, "whether OpenMP's threads stay on a processor"},
    ProviderVariable{"OMP_PLACES", speed, "the processors that OpenMP's threads may use"},
    ProviderVariable{"OMP_WAIT_POLICY", speed, "whether idle OpenMP threads spin or sleep"},
    ProviderVariable{"OMP_STACKSIZE", speed, "stack of OpenMP's threads"},
    ProviderVariable{"OMP_SCHEDULE", speed, "how OpenMP splits loops that leave it open"},
    ProviderVariable{"OMP_DISPLAY_ENV", logs, "OpenMP prints its settings"},
    ProviderVariable{"OMP_DISPLAY_AFFINITY", logs, "OpenMP prints where its threads run"},
    ProviderVariable{"OMP_AFFINITY_FORMAT", logs, "how OpenMP prints where its threads run"},
    ProviderVariable{"OMP_NESTED", speed, "whether nested OpenMP regions are parallel"},
    ProviderVariable{"OMP_CANCELLATION", speed, "whether OpenMP regions may be left early"},
    ProviderVariable{"OMP_MAX_TASK_PRIORITY", speed, "the highest priority of OpenMP's tasks"},
    ProviderVariable{"GOMP_DEBUG", logs, "GNU OpenMP prints what it does"},
    ProviderVariable{"GOMP_STACKSIZE", speed, "stack of GNU OpenMP's threads"},
    ProviderVariable{"GOMP_CPU_AFFINITY", speed, "processors that the threads of GNU OpenMP are bound to"},
    ProviderVariable{"GOMP_SPINCOUNT", speed, "how long idle threads of GNU OpenMP spin"},
    ProviderVariable{"ONEDNN_MAX_CPU_ISA", results, "the highest instruction set oneDNN uses"},
    ProviderVariable{"DNNL_MAX_CPU_ISA", results, "the highest instruction set oneDNN uses"},
    ProviderVariable{"ONEDNN_CPU_ISA_HINTS", results, "PREFER_YMM: oneDNN uses 256-bit vectors"},
    ProviderVariable{"DNNL_CPU_ISA_HINTS", results, "PREFER_YMM: oneDNN uses 256-bit vectors"},
    ProviderVariable{"ONEDNN_DEFAULT_FPMATH_MODE", results, "oneDNN may compute f32 in less: BF16, F16, TF32, ANY"},
    ProviderVariable{"DNNL_DEFAULT_FPMATH_MODE", results, "oneDNN may compute f32 in less: BF16, F16, TF32, ANY"},
    ProviderVariable{"ONEDNN_PRIMITIVE_CACHE_CAPACITY", speed, "how many primitives oneDNN keeps"},
    ProviderVariable{"DNNL_PRIMITIVE_CACHE_CAPACITY", speed, "how many primitives oneDNN keeps"},
    ProviderVariable{"ONEDNN_VERBOSE", logs, "oneDNN prints what it runs"},
    ProviderVariable{"DNNL_VERBOSE", logs, "oneDNN prints what it runs"},
    ProviderVariable{"ONEDNN_VERBOSE_TIMESTAMP", logs, "1: and when"},
    ProviderVariable{"DNNL_VERBOSE_TIMESTAMP", logs, "1: and when"},
    ProviderVariable{"ONEDNN_JIT_DUMP", logs, "oneDNN writes the code it makes to files"},
    ProviderVariable{"DNNL_JIT_DUMP", logs, "oneDNN writes the code it makes to files"},
    ProviderVariable{"ONEDNN_JIT_PROFILE", logs, "oneDNN tells profilers about the code it makes"},
    ProviderVariable{"DNNL_JIT_PROFILE", logs, "oneDNN tells profilers about the code it makes"},
};

constexpr std::array<std::string_view, 6> kPrefixes = {"CUDNN_", "NVIDIA_TF32_", "OMP_", "GOMP_", "ONEDNN_", "DNNL_"};

}  // namespace

std::span<const ProviderVariable> provider_variables() { return kProviderVariables; }

std::string_view name_of(ProviderEffect effect) {
  return effect == results ? "results" : effect == speed ? "speed" : "logs";
}

std::vector<SetVariable> set_provider_variables() {
  std::vector<SetVariable> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals + 1 == text.size()) continue;
    const std::string_view name = text.substr(0, equals);
    const auto is_prefix = [&](std::string_view prefix) { return name.starts_with(prefix); };
    const auto known = std::find_if(kProviderVariables.begin(), kProviderVariables.end(),
                                    [&](const auto& v) { return v.name == name; });
    const bool prefixed = std::any_of(kPrefixes.begin(), kPrefixes.end(), is_prefix);
    if (!prefixed && known == kProviderVariables.end()) continue;
    found.push_back({std::string(name), std::string(text.substr(equals + 1)),
                     known == kProviderVariables.end() ? nullptr : &*known});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

const std::string& result_changing_environment() {
  static const std::string& text = *new std::string([] {  // never destroyed: keys are made until the process ends
    std::string all;
    for (const SetVariable& variable : set_provider_variables()) {
      if (variable.known != nullptr && variable.known->effect != results) continue;
      if (!all.empty()) all += ' ';
      all.append(variable.name).append("=").append(variable.value);
    }
    return all;
  }());
  return text;
}

}  // namespace convoy
