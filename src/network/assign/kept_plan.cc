#include "network/assign/kept_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "convoy/network_tuning.h"
#include "core/hash.h"
#include "select/measure/step_measurement.h"

namespace convoy {

std::string kept_plans_folder(const std::string& database) {
  return database.empty() ? "" : std::filesystem::path(database).replace_extension("plans").string();
}

std::string kept_plan_path(const std::string& folder, const NetworkPlanHeader& header, const CpuFeatures& cpu) {
  const MeasurementKey key = selection::step_key("", {.threads = header.threads, .cpu = cpu}, CacheState::network);
  Hash hash;
  hash.add(std::string_view(key.device), std::string_view(key.isa), key.threads, static_cast<int>(header.math));
  if (header.precision != DataType::f32) hash.add(std::string_view(name_of(header.precision)));
  if (!header.device.empty()) hash.add(std::string_view(header.device));
  return fmt::format("{}/{:016x}-{:08x}.plan", folder, header.graph, hash.value() & 0xffffffffu);
}

}  // namespace convoy

namespace convoy::network {

Result<NetworkPlan> read_kept_plan(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::not_found, path + ": there is none"};
  std::ostringstream text;
  text << file.rdbuf();
  return parse_plan(text.view());
}

Result<void> keep_plan(const std::string& path, const NetworkPlan& plan) {
  const std::string part = fmt::format("{}.{}.part", path, getpid());
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  {
    std::ofstream file(part, std::ios::binary);
    file << print(plan);
    file.close();
    if (!file) return Error{ErrorCode::internal, fmt::format("{}: cannot be written: {}", part, std::strerror(errno))};
  }
  std::filesystem::rename(part, path, error);
  if (!error) return {};
  return Error{ErrorCode::internal, fmt::format("{}: cannot be written: {}", path, error.message())};
}

}  // namespace convoy::network
