// convoy repro: a failure again, from the file that convoy verify wrote.
#include "report/repro.h"

#include <fmt/format.h>

#include "cli/checks.h"
#include "device/cuda/device.h"
#include "engines/table.h"
#include "io/file.h"
#include "report/pytorch_script.h"

namespace convoy::cli {
namespace {

using selection::CandidateChecker;
using selection::CheckFault;

void say_versions(const Program& program, const report::Repro& wanted) {
  const Json versions = library_versions();
  for (const auto& [library, version] : wanted.versions.items()) {
    const auto here = versions.find(library);
    if (here == versions.end() || *here != version) {
      program.say(fmt::format("{} was {}, it is {}", library, report::dump(version),
                              here == versions.end() ? "missing" : report::dump(*here)));
    }
  }
}

Result<int> conclude(const Program& program, const std::string& path, const report::Repro& wanted, Json result) {
  const std::string fault = result["fault"], failure = result["failure"];
  if (fault == "not_checked") return Error{ErrorCode::invalid_argument, fmt::format("{}: {}", path, failure)};
  const bool right = fault == name_of(CheckFault::none);
  program.say(right ? fmt::format("now it is right (largest error {} of the tolerance; again: {}; other threads: {})",
                                  number_or_dash(result, "max_error"), result["deterministic"].get<std::string>(),
                                  result["thread_invariant"].get<std::string>())
                    : fmt::format("now it says {}: {}", fault, failure));
  result["recorded_fault"] = wanted.fault;
  result["recorded_failure"] = wanted.failure;
  program.document(result);
  if (right) return kDone;
  return fault == "crash" ? kFailed : fault == name_of(CheckFault::refused) ? kUnsupported : kWrongResult;
}

// In this process: a child of one that has used CUDA can't.
Result<int> repro_on_gpu(const Program& program, const std::string& path, const report::Repro& wanted) {
  selection::CheckSetup setup = wanted.setup;
  CONVOY_TRY(const CudaDevice here, cuda::describe(setup.request.cuda->ordinal));
  program.say(fmt::format("{}\n{} on cuda:{}, recorded {} on {}\nit said {}: {}", print(setup.problem),
                          print(wanted.candidate), here.ordinal, wanted.date, setup.request.cuda->name, wanted.fault,
                          wanted.failure));
  if (here.name != setup.request.cuda->name) program.say("this is another GPU: " + here.name);
  setup.request.cuda = here;
  setup.request.cpu = cpu_features();
  say_versions(program, wanted);
  auto checker = CandidateChecker::make(setup, engines_on(DeviceKind::cuda));
  if (!checker.ok()) return checker.error().within(path);
  return conclude(program, path, wanted, check_json(checker->check(wanted.candidate)));
}

// The problem of a repro file, or a problem string, as a script that makes PyTorch ask cuDNN for it.
Result<int> pytorch_repro(const Program& program, const std::string& subject) {
  report::ScriptFacts facts;
  auto problem = parse_problem(subject);
  if (!problem.ok()) {
    auto bytes = io::read_file(subject);
    if (!bytes.ok()) return bytes.error().code == ErrorCode::not_found ? problem.error() : bytes.error();
    auto read = report::parse_repro({reinterpret_cast<const char*>(bytes->data()), bytes->size()});
    if (!read.ok()) return read.error().within(subject);
    for (const std::string& remark : read->remarks) program.note(fmt::format("{}: {}", subject, remark));
    facts.failure = fmt::format("{}: {}: {}", print(read->candidate), read->fault, read->failure);
    problem = std::move(read->setup.problem);
  }
  CONVOY_CHECK(validate(*problem));
  CONVOY_TRY(const std::string script, report::pytorch_script(*problem, facts));
  program.raw(script);
  return kDone;
}

// Exit codes: 0 the check passes now, 3 it fails as before, 4 its engine refuses it, 1 it crashes, 2 the file is not
// usable.
Result<int> repro(const Program& program, const std::string& path) {
  CONVOY_TRY(const auto bytes, io::read_file(path));
  const auto read = report::parse_repro({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!read.ok()) return read.error().within(path);
  const report::Repro& wanted = *read;
  for (const std::string& remark : wanted.remarks) program.note(fmt::format("{}: {}", path, remark));
  if (wanted.setup.request.cuda) return repro_on_gpu(program, path, wanted);
  const std::string lacks = report::missing_features(wanted.setup.request.cpu, cpu_features());
  if (!lacks.empty()) {
    return Error{ErrorCode::unsupported, fmt::format("{}: recorded on {}, this processor has no {}", path,
                                                     wanted.setup.request.cpu.brand, lacks)};
  }
  program.say(fmt::format("{}\n{} on {} threads, recorded {} on {}\nit said {}: {}", print(wanted.setup.problem),
                          print(wanted.candidate), wanted.setup.request.threads, wanted.date,
                          wanted.setup.request.cpu.brand, wanted.fault, wanted.failure));
  if (wanted.setup.request.cpu.brand != cpu_features().brand)
    program.say("this is another processor: " + cpu_features().brand);
  say_versions(program, wanted);
  Json result;
  run_jobs(
      1, 3600,
      [&](int) {
        auto checker = CandidateChecker::make(wanted.setup, all_engines());
        if (!checker.ok()) return report::dump({{"fault", "not_checked"}, {"failure", checker.error().message}});
        return report::dump(check_json(checker->check(wanted.candidate)));
      },
      [&](int, const JobOutcome& outcome) { result = read_check(outcome); });
  return conclude(program, path, wanted, std::move(result));
}

}  // namespace

void add_repro(Parser app, Program& program) {
  Parser command = add_subcommand(app, "repro", "Run a failure again from the file that convoy verify wrote",
                                  "  convoy repro repro-cpu.direct-wrong_result-1a2b3c4d.json\n"
                                  "  convoy repro --pytorch fprop:x=f16,8x64x56x56,nhwc:w=f16,64x64x3x3:pad=1x1");
  auto path = std::make_shared<std::string>();
  auto pytorch = std::make_shared<bool>(false);
  command.add_option("file", *path, "The repro file; with --pytorch also a problem string").required();
  begin(command, Subject::output);
  command.add_flag("--pytorch", *pytorch,
                   "Print a Python script that makes PyTorch ask cuDNN for the same convolution, forward and backward");
  add_display_flags(command, program);
  command.callback([path, pytorch, &program] {
    program.action = [path, pytorch, &program] {
      return *pytorch ? pytorch_repro(program, *path) : repro(program, *path);
    };
  });
}

}  // namespace convoy::cli
