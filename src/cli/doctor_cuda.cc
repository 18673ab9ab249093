#include "cli/doctor_cuda.h"

#include <fmt/format.h>

#include "device/cuda/cudnn.h"
#include "device/cuda/device.h"
#include "device/cuda/libraries.h"
#include "engines/cudnn/known.h"
#include "report/format.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

Json json_of(const CudaDevice& device) {
  return {{"device", fmt::format("cuda:{}", device.ordinal)},
          {"name", device.name},
          {"architecture", device.architecture},
          {"sm_count", device.sm_count},
          {"memory_bytes", device.memory_bytes},
          {"l2_bytes", device.l2_bytes},
          {"shared_bytes_per_block", device.shared_bytes_per_block},
          {"shared_bytes_per_sm", device.shared_bytes_per_sm},
          {"registers_per_sm", device.registers_per_sm},
          {"threads_per_sm", device.threads_per_sm},
          {"driver_version", device.driver_version},
          {"driver", device.driver}};
}

std::string device_text(const CudaDevice& device) {
  const auto size = [](std::int64_t bytes) { return report::bytes(static_cast<double>(bytes)); };
  return fmt::format(
      "cuda:{} {}, sm_{}, {} multiprocessors, {} (L2 {}), {} of shared memory a block, driver {} (CUDA {})",
      device.ordinal, device.name, device.architecture, device.sm_count, size(device.memory_bytes),
      size(device.l2_bytes), size(device.shared_bytes_per_block),
      device.driver.empty() ? "of unknown version" : device.driver, cuda::version_text(device.driver_version));
}

void find_devices(CudaFindings& findings) {
  Json devices = Json::array();
  Json error = nullptr;
  const Result<int> count = cuda::device_count();
  for (int ordinal = 0; count.ok() && ordinal < *count; ++ordinal) {
    const Result<CudaDevice> device = cuda::describe(ordinal);
    if (device.ok()) devices.push_back(json_of(*device));
    if (!device.ok()) error = device.error().message;
    findings.devices.push_back(device.ok() ? device_text(*device) : device.error().message);
  }
  if (!count.ok()) {
    error = count.error().message;
    findings.devices.push_back(count.error().message);
  }
  findings.json["devices"] = std::move(devices);
  findings.json["error"] = std::move(error);
}

}  // namespace

CudaFindings cuda_findings() {
  CudaFindings findings;
  report::Table& taken = findings.libraries;
  report::Table& others = findings.not_taken;
  taken.column("NVIDIA library").column("version").column("file").column("found by");
  others.column("not taken").column("looked for by").column("file").column("why not");
  Json libraries = Json::array();
  for (const LibraryReport& report : cuda::library_reports()) {
    const auto or_dash = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
    taken.row({report.name, or_dash(report.version), or_dash(report.file), or_dash(report.from)});
    std::string remark;
    if (report.name == cuda::cudnn_names().name && report.found())
      remark = cudnn::not_verified((*cuda::cudnn())->version);
    if (!remark.empty()) findings.remarks.push_back(remark);
    Json passed_over = Json::array();
    for (const LibraryAttempt& attempt : report.others) {
      others.row({report.name, attempt.from, or_dash(attempt.file), attempt.why_not});
      passed_over.push_back({{"from", attempt.from}, {"file", attempt.file}, {"why_not", attempt.why_not}});
    }
    libraries.push_back({{"name", report.name},
                         {"file", report.found() ? Json(report.file) : Json(nullptr)},
                         {"version", report.found() ? Json(report.version) : Json(nullptr)},
                         {"from", report.found() ? Json(report.from) : Json(nullptr)},
                         {"not_verified", remark.empty() ? Json(nullptr) : Json(remark)},
                         {"not_taken", std::move(passed_over)}});
  }
  findings.json["libraries"] = std::move(libraries);
  find_devices(findings);
  return findings;
}

}  // namespace convoy::cli
