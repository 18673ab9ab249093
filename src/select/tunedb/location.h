// Where the tuning database lives, and what its file system can do.
#pragma once

#include <cstdint>
#include <string>

namespace convoy::tunedb {

// Whether a file system (statfs's f_type) may be shared by several machines: there the shared memory that write-ahead
// logs need is not shared, and SQLite's rollback journal is used instead.
bool is_network_file_system(std::int64_t type);

// Of the file's folder, which must exist.
bool on_network_file_system(const std::string& path);

// "3.40.1"
std::string sqlite_version();

}  // namespace convoy::tunedb
