// Every environment variable that Convoy reads: one table, printed by `convoy doctor`. Nothing else calls getenv.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  python_hook,
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

// What its values may be, so that a wrong one is noticed.
enum class ValueKind {
  word,           // one of `values`
  log_setting,    // base/log.h
  library,        // a file or folder that exists, or "off" where `values` says so
  existing,       // a file or folder that exists
  file,           // that is made where there is none
  folder_or_off,  // likewise
  seconds,
  anything,  // or not Convoy's own
};

struct EnvironmentVariable {
  Variable variable;
  std::string_view name;  // "CONVOY_ISA"
  ValueKind kind;
  std::string_view values;         // what it may be set to: "portable, avx2, avx512"
  std::string_view meaning;        // one line for people
  std::string_view default_value;  // what happens when it is not set
};

std::span<const EnvironmentVariable> environment_variables();
const EnvironmentVariable& describe(Variable variable);

// Its value; nothing where it is unset or empty.
std::optional<std::string> environment(Variable variable);

// What is wrong with the values of this process: "CONVOY_ISA: 'avx9' is not one of portable, avx2, avx512".
std::vector<std::string> environment_faults();

}  // namespace convoy
