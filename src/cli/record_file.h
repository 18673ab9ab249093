// The file that `convoy exec --record` writes: parts of a run's processes, put together at its end.
#pragma once

#include <string>
#include <vector>

#include "convoy/result.h"

namespace convoy::cli {

class RecordFile {
 public:
  // Refuses what would be lost: a path that can't be written, one that is the problem list's or a report's, and one
  // that another `convoy exec` is recording to. Removes the parts that a killed run left.
  static Result<RecordFile> open(const std::string& path, const std::vector<std::string>& reports);

  RecordFile() = default;
  RecordFile(RecordFile&& other) noexcept;
  RecordFile& operator=(RecordFile&& other) noexcept;
  ~RecordFile();

  bool empty() const { return path_.empty(); }
  const std::string& path() const { return path_; }
  // Beside it.
  std::string problem_list() const;
  // FILE.PID of each process, and FILE.PID.torch of the hook, become FILE: its text. Empty: there are none.
  Result<std::string> collect() const;

 private:
  std::string path_;  // absolute
  int lock_ = -1;     // a file beside it, locked until the end of the run
};

}  // namespace convoy::cli
