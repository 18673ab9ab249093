#include "select/tunedb/location.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/environment.h"
#include "convoy/tuning_database.h"

namespace convoy {

bool tunedb::is_network_file_system(std::int64_t type) {
  constexpr std::array<std::uint32_t, 13> shared = {
      0x6969,      // NFS
      0x517b,      // SMB
      0xff534d42,  // CIFS
      0xfe534d42,  // SMB 2
      0x5346414f,  // AFS
      0x6b414653,  // kAFS
      0x73757245,  // Coda
      0x65735546,  // FUSE: sshfs and others
      0x01021997,  // 9P: a host's folder in a virtual machine
      0x0bd00bd0,  // Lustre
      0x00c36400,  // Ceph
      0x47504653,  // GPFS
      0x19830326,  // BeeGFS
  };
  return std::find(shared.begin(), shared.end(), static_cast<std::uint32_t>(type)) != shared.end();
}

bool tunedb::on_network_file_system(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  struct statfs status = {};
  return ::statfs(folder.empty() ? "." : folder.c_str(), &status) == 0 && is_network_file_system(status.f_type);
}

Result<std::string> TuningDatabase::default_path() {
  if (const auto named = environment(Variable::db)) return *named;
  // The XDG specification: a relative path is invalid and to be ignored.
  const auto data = environment(Variable::xdg_data_home);
  if (data && data->front() == '/') return *data + "/convoy/tuning.db";
  if (const auto home = environment(Variable::home)) return *home + "/.local/share/convoy/tuning.db";
  return Error{ErrorCode::invalid_argument,
               "no place for the tuning database: CONVOY_DB, XDG_DATA_HOME and HOME are not set"};
}

}  // namespace convoy
