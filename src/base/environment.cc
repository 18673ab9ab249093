#include "base/environment.h"

#include <array>
#include <cstdlib>

namespace convoy {
namespace {

constexpr std::string_view kSearched = "searched for: docs/gpu.md";

constexpr std::array kVariables = {
    EnvironmentVariable{Variable::isa, "CONVOY_ISA", "portable, avx2, avx512",
                        "the highest instruction set that engines may use", "what the processor has"},
    EnvironmentVariable{Variable::onednn, "CONVOY_ONEDNN", "a file, a folder",
                        "an oneDNN 3.x of yours, libdnnl.so.3 (docs/selection.md)", "the one that comes with Convoy"},
    EnvironmentVariable{Variable::config, "CONVOY_CONFIG", "full, jit-only, portable",
                        "which engines the library has (convoy list engines shows what each drops)", "full"},
    EnvironmentVariable{Variable::log, "CONVOY_LOG", "off, error, warning, info, debug[:FILE]",
                        "how much the library writes, and where", "off, standard error"},
    EnvironmentVariable{Variable::db, "CONVOY_DB", "a file", "the tuning database",
                        "convoy/tuning.db in XDG_DATA_HOME"},
    EnvironmentVariable{Variable::cuda_driver, "CONVOY_CUDA_DRIVER", "a file, a folder, off",
                        "the CUDA driver's library, libcuda.so.1", kSearched},
    EnvironmentVariable{Variable::nvml, "CONVOY_NVML", "a file, a folder, off", "NVML, libnvidia-ml.so.1", kSearched},
    EnvironmentVariable{Variable::nvrtc, "CONVOY_NVRTC", "a file, a folder, off", "NVRTC, libnvrtc.so", kSearched},
    EnvironmentVariable{Variable::cudnn, "CONVOY_CUDNN", "a file, a folder, off", "cuDNN, libcudnn.so.9", kSearched},
    EnvironmentVariable{Variable::cublaslt, "CONVOY_CUBLASLT", "a file, a folder, off", "cuBLASLt, libcublasLt.so",
                        kSearched},
    EnvironmentVariable{Variable::kernel_cache, "CONVOY_KERNEL_CACHE", "a folder, off",
                        "where kernels compiled for the GPU are kept", "convoy/kernels in XDG_CACHE_HOME"},
    EnvironmentVariable{Variable::exec, "CONVOY_EXEC", "off",
                        "off: a program under `convoy exec` runs as if it were not", "it is looked at and steered"},
    EnvironmentVariable{Variable::record, "CONVOY_RECORD", "a file",
                        "where a program under `convoy exec` writes its convolutions (FILE.PID; set by --record)",
                        "nothing is recorded"},
    EnvironmentVariable{Variable::record_every, "CONVOY_RECORD_EVERY", "seconds",
                        "how often that file is renewed while the program runs (set by --report)", "60"},
    EnvironmentVariable{Variable::choices, "CONVOY_CHOICES", "a file",
                        "the engines that a program under `convoy exec` is offered first (set by it)", "cuDNN's order"},
    EnvironmentVariable{Variable::tuner, "CONVOY_TUNER", "a socket",
                        "who measures what a program under `convoy exec` asks cuDNN for (set by --tune)", "nobody"},
    EnvironmentVariable{Variable::seen, "CONVOY_SEEN", "a folder",
                        "where programs under `convoy exec` say that they called cuDNN, or had it (set by it)",
                        "nothing is said"},
    EnvironmentVariable{Variable::virtual_env, "VIRTUAL_ENV", "a folder",
                        "the active Python environment: its nvidia-* packages are looked at", "none"},
    EnvironmentVariable{Variable::conda_prefix, "CONDA_PREFIX", "a folder",
                        "the active conda environment: its nvidia-* packages are looked at", "none"},
    EnvironmentVariable{Variable::path, "PATH", "folders",
                        "where python3 is, whose nvidia-* packages are looked at, and cbc", "none"},
    EnvironmentVariable{Variable::ld_library_path, "LD_LIBRARY_PATH", "folders",
                        "where the system's loader looks for libraries first", "none"},
    EnvironmentVariable{Variable::xdg_data_home, "XDG_DATA_HOME", "a folder", "where programs keep a person's data",
                        "~/.local/share"},
    EnvironmentVariable{Variable::xdg_cache_home, "XDG_CACHE_HOME", "a folder",
                        "where programs keep what can be made again", "~/.cache"},
    EnvironmentVariable{Variable::home, "HOME", "a folder", "the person's home", "no default place for the database"},
    EnvironmentVariable{Variable::library, "CONVOY_LIBRARY", "a file",
                        "libconvoy.so for the Python module, where it has none beside it (docs/python.md)",
                        "an installed one"},
    EnvironmentVariable{Variable::data, "CONVOY_DATA", "a folder", "where the tests find models and images",
                        "../shared/data beside the sources"},
    EnvironmentVariable{Variable::test_full, "CONVOY_TEST_FULL", "anything",
                        "property tests run the counts that the project promises, not a sample", "a sample"},
    EnvironmentVariable{Variable::no_color, "NO_COLOR", "anything", "switches coloured output off (no-color.org)",
                        "colour on a terminal"},
    EnvironmentVariable{Variable::columns, "COLUMNS", "a number", "how wide the command's output may be",
                        "the terminal's width; no limit in a file or a pipe"},
    EnvironmentVariable{Variable::term, "TERM", "a terminal's name", "dumb: no escape codes and no progress bar",
                        "as dumb"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kVariables.size(); ++i) {
    if (kVariables[i].variable != static_cast<Variable>(i)) return false;
  }
  return true;
}
static_assert(in_order(), "the rows must be in the order of enum Variable");

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

const EnvironmentVariable& describe(Variable variable) { return kVariables[static_cast<std::size_t>(variable)]; }

std::optional<std::string> environment(Variable variable) {
  const char* value = std::getenv(describe(variable).name.data());  // the names are literals, so they end in a zero
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace convoy
