#include "base/environment.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"

namespace convoy {
namespace {

constexpr std::string_view kSearched = "searched for: docs/gpu.md";

constexpr std::array kVariables = {
    EnvironmentVariable{Variable::isa, "CONVOY_ISA", ValueKind::word, "portable, avx2, avx512",
                        "the highest instruction set that engines may use", "what the processor has"},
    EnvironmentVariable{Variable::onednn, "CONVOY_ONEDNN", ValueKind::library, "a file, a folder",
                        "an oneDNN 3.x of yours, libdnnl.so.3 (docs/selection.md)", "the one that comes with Convoy"},
    EnvironmentVariable{Variable::config, "CONVOY_CONFIG", ValueKind::word, "full, jit-only, portable",
                        "which engines the library has (convoy list engines shows what each drops)", "full"},
    EnvironmentVariable{Variable::log, "CONVOY_LOG", ValueKind::log_setting, "off, error, warning, info, debug[:FILE]",
                        "how much the library writes, and where", "off, standard error"},
    EnvironmentVariable{Variable::db, "CONVOY_DB", ValueKind::file, "a file", "the tuning database",
                        "convoy/tuning.db in XDG_DATA_HOME"},
    EnvironmentVariable{Variable::cuda_driver, "CONVOY_CUDA_DRIVER", ValueKind::library, "a file, a folder, off",
                        "the CUDA driver's library, libcuda.so.1", kSearched},
    EnvironmentVariable{Variable::nvml, "CONVOY_NVML", ValueKind::library, "a file, a folder, off",
                        "NVML, libnvidia-ml.so.1", kSearched},
    EnvironmentVariable{Variable::nvrtc, "CONVOY_NVRTC", ValueKind::library, "a file, a folder, off",
                        "NVRTC, libnvrtc.so", kSearched},
    EnvironmentVariable{Variable::cudnn, "CONVOY_CUDNN", ValueKind::library, "a file, a folder, off",
                        "cuDNN, libcudnn.so.9", kSearched},
    EnvironmentVariable{Variable::cublaslt, "CONVOY_CUBLASLT", ValueKind::library, "a file, a folder, off",
                        "cuBLASLt, libcublasLt.so", kSearched},
    EnvironmentVariable{Variable::kernel_cache, "CONVOY_KERNEL_CACHE", ValueKind::folder_or_off, "a folder, off",
                        "where kernels compiled for the GPU are kept", "convoy/kernels in XDG_CACHE_HOME"},
    EnvironmentVariable{Variable::exec, "CONVOY_EXEC", ValueKind::word, "off",
                        "off: a program under `convoy exec` runs as if it were not", "it is looked at and steered"},
    EnvironmentVariable{Variable::record, "CONVOY_RECORD", ValueKind::file, "a file",
                        "where a program under `convoy exec` writes its convolutions (FILE.PID; set by --record)",
                        "nothing is recorded"},
    EnvironmentVariable{Variable::record_every, "CONVOY_RECORD_EVERY", ValueKind::seconds, "seconds",
                        "how often that file is renewed while the program runs (set by --report)", "60"},
    EnvironmentVariable{Variable::choices, "CONVOY_CHOICES", ValueKind::existing, "a file",
                        "the engines that a program under `convoy exec` is offered first (set by it)", "cuDNN's order"},
    EnvironmentVariable{Variable::tuner, "CONVOY_TUNER", ValueKind::existing, "a socket",
                        "who measures what a program under `convoy exec` asks cuDNN for (set by --tune)", "nobody"},
    EnvironmentVariable{Variable::seen, "CONVOY_SEEN", ValueKind::existing, "a folder",
                        "where programs under `convoy exec` say that they called cuDNN, or had it (set by it)",
                        "nothing is said"},
    EnvironmentVariable{Variable::python_hook, "CONVOY_PYTHON_HOOK", ValueKind::word,
                        "record, steer, no-db; ,channels-last",
                        "what is done with PyTorch's own depthwise convolutions under `convoy exec`, and with weights "
                        "(set by it)",
                        "nothing"},
    EnvironmentVariable{Variable::virtual_env, "VIRTUAL_ENV", ValueKind::anything, "a folder",
                        "the active Python environment: its nvidia-* packages are looked at", "none"},
    EnvironmentVariable{Variable::conda_prefix, "CONDA_PREFIX", ValueKind::anything, "a folder",
                        "the active conda environment: its nvidia-* packages are looked at", "none"},
    EnvironmentVariable{Variable::path, "PATH", ValueKind::anything, "folders",
                        "where python3 is, whose nvidia-* packages are looked at, and cbc", "none"},
    EnvironmentVariable{Variable::ld_library_path, "LD_LIBRARY_PATH", ValueKind::anything, "folders",
                        "where the system's loader looks for libraries first", "none"},
    EnvironmentVariable{Variable::xdg_data_home, "XDG_DATA_HOME", ValueKind::anything, "a folder",
                        "where programs keep a person's data", "~/.local/share"},
    EnvironmentVariable{Variable::xdg_cache_home, "XDG_CACHE_HOME", ValueKind::anything, "a folder",
                        "where programs keep what can be made again", "~/.cache"},
    EnvironmentVariable{Variable::home, "HOME", ValueKind::anything, "a folder", "the person's home",
                        "no default place for the database"},
    EnvironmentVariable{Variable::library, "CONVOY_LIBRARY", ValueKind::library, "a file",
                        "libconvoy.so for the Python module, where it has none beside it (docs/python.md)",
                        "an installed one"},
    EnvironmentVariable{Variable::data, "CONVOY_DATA", ValueKind::existing, "a folder",
                        "where the tests find models and images", "../shared/data beside the sources"},
    EnvironmentVariable{
        Variable::test_full, "CONVOY_TEST_FULL", ValueKind::anything, "anything",
        "property tests run the counts that the project promises, not a sample; kernels: those of a GPU compile "
        "what they would run where there is none (scripts/gpu-check kernels)",
        "a sample"},
    EnvironmentVariable{Variable::no_color, "NO_COLOR", ValueKind::anything, "anything",
                        "switches coloured output off (no-color.org)", "colour on a terminal"},
    EnvironmentVariable{Variable::columns, "COLUMNS", ValueKind::anything, "a number",
                        "how wide the command's output may be", "the terminal's width; no limit in a file or a pipe"},
    EnvironmentVariable{Variable::term, "TERM", ValueKind::anything, "a terminal's name",
                        "dumb: no escape codes and no progress bar", "as dumb"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kVariables.size(); ++i) {
    if (kVariables[i].variable != static_cast<Variable>(i)) return false;
  }
  return true;
}
static_assert(in_order(), "the rows must be in the order of enum Variable");

bool is_one_of(std::string_view value, std::string_view words) {
  for (;;) {
    const std::size_t comma = words.find(", ");
    if (words.substr(0, comma) == value) return true;
    if (comma == std::string_view::npos) return false;
    words.remove_prefix(comma + 2);
  }
}

bool is_duration(std::string_view value) {
  double seconds = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  return error == std::errc() && end == value.data() + value.size() && seconds >= 0 && seconds < 1e9;
}

// What is wrong with the value; empty: nothing.
std::string fault_of(const EnvironmentVariable& variable, const std::string& value) {
  std::error_code error;
  const std::filesystem::path path(value);
  const std::string shown = "'" + value + "'";
  const std::string takes = " is not one of " + std::string(variable.values);
  switch (variable.kind) {
    case ValueKind::word:
      return is_one_of(value, variable.values) ? "" : shown + takes;
    case ValueKind::log_setting:
      return parse_log_setting(value).error;
    case ValueKind::library:
      if (value == "off" && variable.values.ends_with("off")) return "";
      return std::filesystem::exists(path, error) ? "" : shown + " does not exist";
    case ValueKind::existing:
      return std::filesystem::exists(path, error) ? "" : shown + " does not exist";
    case ValueKind::file:
      return std::filesystem::is_directory(path, error) ? shown + " is a folder, not a file" : "";
    case ValueKind::folder_or_off:
      if (value == "off" || !std::filesystem::exists(path, error)) return "";
      return std::filesystem::is_directory(path, error) ? "" : shown + " is a file, not a folder";
    case ValueKind::seconds:
      return is_duration(value) ? "" : shown + " is no number of seconds";
    case ValueKind::anything:
      break;
  }
  return "";
}

}  // namespace

std::vector<std::string> environment_faults() {
  std::vector<std::string> faults;
  for (const EnvironmentVariable& variable : kVariables) {
    const auto value = environment(variable.variable);
    if (!value) continue;
    const std::string fault = fault_of(variable, *value);
    if (!fault.empty()) faults.push_back(std::string(variable.name) + ": " + fault);
  }
  return faults;
}

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

const EnvironmentVariable& describe(Variable variable) { return kVariables[static_cast<std::size_t>(variable)]; }

std::optional<std::string> environment(Variable variable) {
  const char* value = std::getenv(describe(variable).name.data());  // the names are literals, so they end in a zero
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace convoy
