#include "cli/doctor_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "device/cuda/cudnn.h"
#include "device/cuda/device.h"
#include "device/cuda/libraries.h"
#include "engines/cudnn/known.h"
#include "report/format.h"
#include "report/listing.h"

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

struct NotTaken {
  std::string library;
  LibraryAttempt attempt;
};

report::Listing<NotTaken> not_taken_listing() {
  report::Listing<NotTaken> listing;
  listing.cell("not taken", &NotTaken::library)
      .column("looked for by", "from", [](const NotTaken& n) { return n.attempt.from; })
      .column("file", "file", [](const NotTaken& n) { return n.attempt.file; })
      .column("why not", "why_not", [](const NotTaken& n) { return n.attempt.why_not; });
  return listing;
}

// What is not known of a library's version; null where all is.
Json not_verified(const LibraryReport& library) {
  if (library.name != cuda::cudnn_names().name || !library.found()) return nullptr;
  const std::string remark = cudnn::not_verified((*cuda::cudnn())->version);
  return remark.empty() ? Json(nullptr) : Json(remark);
}

std::vector<NotTaken> not_taken(const LibraryReport& library) {
  std::vector<NotTaken> all;
  for (const LibraryAttempt& attempt : library.others) all.push_back({library.name, attempt});
  return all;
}

report::Listing<LibraryReport> library_listing() {
  const auto if_found = [](std::string LibraryReport::*text) {
    return [text](const LibraryReport& library) { return library.found() ? Json(library.*text) : Json(nullptr); };
  };
  report::Listing<LibraryReport> listing;
  listing.column("NVIDIA library", "name", &LibraryReport::name)
      .column("version", "version", if_found(&LibraryReport::version))
      .column("file", "file", if_found(&LibraryReport::file))
      .column("found by", "from", if_found(&LibraryReport::from))
      .field("not_verified", not_verified)
      .field("not_taken",
             [](const LibraryReport& library) { return not_taken_listing().both(not_taken(library)).second; });
  return listing;
}

}  // namespace

CudaFindings cuda_findings() {
  CudaFindings findings;
  const std::vector<LibraryReport> libraries = cuda::library_reports();
  std::vector<NotTaken> others;
  for (const LibraryReport& library : libraries) {
    if (const Json remark = not_verified(library); !remark.is_null()) findings.remarks.push_back(remark);
    std::ranges::move(not_taken(library), std::back_inserter(others));
  }
  std::tie(findings.libraries, findings.json["libraries"]) = library_listing().both(libraries);
  findings.not_taken = not_taken_listing().both(others).first;
  find_devices(findings);
  return findings;
}

}  // namespace convoy::cli
