// Repro files: one failed check with all it takes to run it again, as JSON that a person can read and edit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/json.h"
#include "select/tune/check.h"

namespace convoy::report {

struct Repro {
  selection::CheckSetup setup;
  Candidate candidate;
  std::string fault;    // "wrong_result", ... (name_of(CheckFault)), or "crash"
  std::string failure;  // the sentence
  int revision = 1;     // of the engine, and what it comes from (EngineInfo)
  std::string provider;
  Json versions;  // {"convoy": "0.1.0", "oneDNN": ...}: for people, not read back as a condition
  std::string date;
  std::vector<std::string> remarks;  // of reading it: what is written otherwise today. Not written
};

Json to_json(const Repro& repro);

// Errors name the field at fault: "repro.threads: 0 is not from 1 to 1024".
Result<Repro> parse_repro(std::string_view text);

// What this processor lacks of the one that `recorded` describes, "avx512 amx_bf16"; empty: it can run the check.
std::string missing_features(const CpuFeatures& recorded, const CpuFeatures& here);

// A name for the file that the problem, the candidate and the fault decide:
// "repro-cpu.direct-wrong_result-1a2b3c4d.json".
std::string file_name(const Repro& repro);

}  // namespace convoy::report
