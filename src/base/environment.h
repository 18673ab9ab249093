// Every environment variable that Convoy reads: one table, printed by `convoy doctor`. Nothing else calls getenv.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace convoy {

// To add one: a value here and a row in environment.cc, in the same order.
enum class Variable {
  isa,
  onednn,
  config,
  log,
  db,
  cuda_driver,
  nvml,
  nvrtc,
  cudnn,
  cublaslt,
  kernel_cache,
  exec,
  record,
  record_every,
  choices,
  tuner,
  seen,
  virtual_env,
  conda_prefix,
  path,
  ld_library_path,
  xdg_data_home,
  xdg_cache_home,
  home,
  library,
  data,
  test_full,
  no_color,
  columns,
  term
};

struct EnvironmentVariable {
  Variable variable;
  std::string_view name;           // "CONVOY_ISA"
  std::string_view values;         // what it may be set to: "portable, avx2, avx512"
  std::string_view meaning;        // one line for people
  std::string_view default_value;  // what happens when it is not set
};

std::span<const EnvironmentVariable> environment_variables();
const EnvironmentVariable& describe(Variable variable);

// Its value; nothing where it is unset or empty.
std::optional<std::string> environment(Variable variable);

}  // namespace convoy
