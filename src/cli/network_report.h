// convoy report MODEL|PLAN...: a network's plans, timed interleaved, with what is known of each node.
#pragma once

#include <string>
#include <vector>

#include "cli/inputs.h"
#include "cli/program.h"
#include "report/network_report.h"

namespace convoy::cli {

struct NetworkReportFlags {
  std::vector<std::string> subjects;  // a model, plan files, names as --how has them
  InputFlags input;                   // only --dim
  std::vector<std::string> peers;     // NAME=TIME
  int rounds = 12;
  bool any() const { return !peers.empty() || !input.dims.empty() || subjects.size() > 1; }
};

// Whether `subject` is a network or a plan, rather than a record of a program.
bool is_network_subject(const std::string& subject);

Result<report::NetworkReport> report_on_network(const Program& program, const NetworkReportFlags& flags);

}  // namespace convoy::cli
