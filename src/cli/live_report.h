// The report of a program while it runs: written anew every so often, and when SIGUSR2 comes.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "convoy/result.h"

namespace convoy::cli {

class LiveReport {
 public:
  // Of the record `record`, whose parts the program's processes write; to `files`, each by its ending.
  LiveReport(std::string record, std::vector<std::string> files, double every_seconds);
  LiveReport(const LiveReport&) = delete;
  LiveReport& operator=(const LiveReport&) = delete;
  ~LiveReport() { stop(); }

  // From here on SIGUSR2 is for the report; one at a time in a process. Call it once the program is started, which
  // would inherit nothing of it anyway.
  Result<void> start();
  // Waits for a report that is being written. The one at the end is write_report's.
  void stop();

 private:
  void run();

  const std::string record_;
  const std::vector<std::string> files_;
  const double every_seconds_;
  int wake_[2] = {-1, -1};
  std::thread thread_;
};

// The report of a record (its parts, while there are some) to each of `files`.
Result<void> write_report(const std::string& record, const std::vector<std::string>& files);

// "5m", "90s", "1h" -> seconds. The error names what is expected.
Result<double> parse_period(const std::string& text);

}  // namespace convoy::cli
