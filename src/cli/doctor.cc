// convoy doctor: what this machine and this build have.
#include <fmt/format.h>
#include <google/protobuf/stubs/common.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <CLI/Version.hpp>
#include <filesystem>

#include "base/cpu.h"
#include "base/environment.h"
#include "base/provider_environment.h"
#include "cli/ceiling_report.h"
#include "cli/doctor_cuda.h"
#include "cli/environment_warnings.h"
#include "cli/installed.h"
#include "cli/program.h"
#include "convoy/version.h"
#include "device/onednn_api.h"
#include "io/build_id.h"
#include "io/versions.h"
#include "report/format.h"
#include "report/listing.h"
#include "select/tunedb/location.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::pair<std::string, std::string>> libraries() {
  const LibraryReport& dnnl = onednn::library();
  std::vector<std::pair<std::string, std::string>> found = {
      {"oneDNN", dnnl.version + (dnnl.from.empty() ? "" : fmt::format(" ({}: {})", dnnl.from, dnnl.file))},
      {"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)},
      {"OpenMP", fmt::format("{}", CONVOY_OPENMP)},
      {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"nlohmann/json",
       fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
      {"CLI11", CLI11_VERSION},
      {"SQLite", tunedb::sqlite_version()},
  };
  for (auto& library : io::library_versions()) found.push_back(std::move(library));
  return found;
}

std::vector<std::pair<std::string, bool>> instruction_sets(const CpuFeatures& cpu) {
  return {{"AVX2+FMA", cpu.isa >= Isa::avx2},
          {"AVX-512", cpu.isa >= Isa::avx512},
          {"AVX512_VNNI", cpu.avx512_vnni},
          {"AVX512_VBMI", cpu.avx512_vbmi},
          {"AVX512_BF16", cpu.avx512_bf16},
          {"AVX512_FP16", cpu.avx512_fp16},
          {"AMX", cpu.amx_tile},
          {"AMX-BF16", cpu.amx_bf16},
          {"AMX-INT8", cpu.amx_int8}};
}

// Of what this build made, where it is beside the command. A stack trace is read with their separate debug files.
struct BuiltFile {
  std::string name;
  std::string path;
  std::string id;
};
std::vector<BuiltFile> built_files() {
  std::vector<BuiltFile> files;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  files.push_back({"convoy", self.string(), io::build_id(self.string())});
  for (const char* name : {"libconvoy.so", "libconvoy-interposer.so"}) {
    for (const char* folder : {"../lib", "../lib/x86_64-linux-gnu", "../lib64"}) {
      const fs::path file = (self.parent_path() / folder / name).lexically_normal();
      if (!fs::exists(file, error)) continue;
      files.push_back({name, file.string(), io::build_id(file.string())});
      break;
    }
  }
  return files;
}

// A table after an empty line; its JSON.
template <class Row, class Rows>
Json say_listing(const Program& program, const report::Listing<Row>& listing, const Rows& rows) {
  auto [table, json] = listing.both(rows);
  program.say("");
  program.say(table);
  return json;
}

// Variables that the libraries below read; only those that are set have a row.
Json say_provider_variables(const Program& program) {
  const std::vector<SetVariable> set = set_provider_variables();
  if (set.empty()) {
    std::string names;
    for (const ProviderVariable& variable : provider_variables()) names += fmt::format(" {}", variable.name);
    program.say("\nNone of the variables is set that the libraries below read:" + names);
    return Json::array();
  }
  const auto effect = [](const SetVariable& v) { return v.known ? name_of(v.known->effect) : "unknown"; };
  const auto meaning = [](const SetVariable& v) { return v.known ? v.known->meaning : "not known to Convoy"; };
  report::Listing<SetVariable> listing;
  listing.column("read by libraries", "name", &SetVariable::name)
      .column("value", "value", &SetVariable::value)
      .column("changes", "changes", effect)
      .column("meaning", "meaning", meaning);
  return say_listing(program, listing, set);
}

// The document's fields of the machine.
Json say_machine(const Program& program, const CudaFindings& cuda, bool measure) {
  const CpuFeatures& cpu = cpu_features();
  const CpuFeatures& detected = detected_cpu_features();
  struct utsname system = {};
  ::uname(&system);
  struct sysinfo memory = {};
  ::sysinfo(&memory);
  const double memory_bytes = static_cast<double>(memory.totalram) * memory.mem_unit;
  const std::string system_text = fmt::format("{} {} {}", system.sysname, system.release, system.machine);
  std::string has, has_not;
  Json sets = Json::object();
  for (const auto& [name, there] : instruction_sets(detected)) {
    (there ? has : has_not) += " " + name;
    sets[name] = there;
  }
  PlanRequest request;
  request.cpu = cpu;
  request.threads = cpu.logical_cpus;
  const selection::MachineCeiling ceiling = selection::machine_ceiling(request, measure);
  const std::string files = files_folder();

  report::Table machine;
  machine.column("machine").column("");
  machine.row({"processor", cpu.brand});
  machine.row({"processors for this process", fmt::format("{}", cpu.logical_cpus)});
  machine.row({"instruction sets", has.empty() ? "baseline x86-64" : has.substr(1)});
  if (!has_not.empty()) machine.row({"it has not", has_not.substr(1)});
  machine.row({"engines use up to", fmt::format("{}{}", convoy::name_of(cpu.isa),
                                                cpu.isa != detected.isa ? " (capped by CONVOY_ISA)" : "")});
  machine.row({"caches", fmt::format("L1d {} a core, L2 {} a core, L3 {} shared",
                                     report::bytes(static_cast<double>(cpu.l1d_bytes)),
                                     report::bytes(static_cast<double>(cpu.l2_bytes)),
                                     report::bytes(static_cast<double>(cpu.l3_bytes)))});
  machine.row({"memory", report::bytes(memory_bytes)});
  machine.row(
      {"ceiling", fmt::format("{} thread{}, {}", request.threads, request.threads == 1 ? "" : "s", text_of(ceiling))});
  machine.row({"system", system_text});
  if (!files.empty()) machine.row({"problems, examples, docs in", files});
  for (const std::string& device : cuda.devices) machine.row({"GPU", device});
  program.say(machine);
  return {{"processor",
           {{"brand", cpu.brand},
            {"logical_cpus", cpu.logical_cpus},
            {"instruction_sets", sets},
            {"isa", std::string(convoy::name_of(cpu.isa))},
            {"detected_isa", std::string(convoy::name_of(detected.isa))},
            {"l1d_bytes", cpu.l1d_bytes},
            {"l2_bytes", cpu.l2_bytes},
            {"l3_bytes", cpu.l3_bytes}}},
          {"memory_bytes", memory_bytes},
          {"system", system_text},
          {"ceiling", cli::to_json(ceiling)},
          {"files", files.empty() ? Json(nullptr) : Json(files)}};
}

Json say_libraries(const Program& program) {
  report::Table table;
  table.column("library").column("version");
  Json json = Json::object();
  for (const auto& [name, version] : libraries()) {
    table.row({name, version});
    json[name] = version;
  }
  program.say("");
  program.say(table);
  return json;
}

Json say_built_files(const Program& program) {
  report::Listing<BuiltFile> listing;
  listing.column("built", "name", &BuiltFile::name)
      .cell("build id", [](const BuiltFile& file) { return file.id.empty() ? "none" : file.id; })
      .column("file", "file", &BuiltFile::path, report::as_text, report::Align::left, 1)
      .field("build_id", [](const BuiltFile& file) { return file.id.empty() ? Json() : Json(file.id); });
  return say_listing(program, listing, built_files());
}

void say_cuda(const Program& program, const CudaFindings& cuda) {
  for (const report::Table* table : {&cuda.libraries, &cuda.not_taken}) {
    if (table->empty()) continue;
    program.say("");
    program.say(*table);
  }
  for (const std::string& remark : cuda.remarks) program.say(remark);
}

Json say_variables(const Program& program) {
  using Variable = EnvironmentVariable;
  constexpr report::Align kLeft = report::Align::left;
  const auto value = [](const Variable& v) { return environment(v.variable); };
  report::Listing<Variable> listing;
  listing.column("variable", "name", &Variable::name)
      .cell("value", [value](const Variable& v) { return value(v).value_or("-"); })
      .field("value", [value](const Variable& v) { return value(v) ? Json(*value(v)) : Json(); })
      .column("may be", "values", &Variable::values, report::as_text, kLeft, 2)
      .column("meaning", "meaning", &Variable::meaning)
      .cell("when not set", &Variable::default_value, kLeft, 1);
  return say_listing(program, listing, environment_variables());
}

Result<int> doctor(const Program& program, bool measure) {
  const CudaFindings cuda = cuda_findings();
  program.say(fmt::format("convoy {}\n", version()));
  Json document = {{"version", version()}};
  document.update(say_machine(program, cuda, measure));
  document["devices"] = {"cpu"};
  for (const Json& device : cuda.json["devices"]) document["devices"].push_back(device["device"]);
  document["cuda"] = cuda.json;
  document["libraries"] = say_libraries(program);
  document["built"] = say_built_files(program);
  say_cuda(program, cuda);
  document["environment"] = say_variables(program);
  document["provider_environment"] = say_provider_variables(program);
  const std::vector<std::string> faults = environment_warnings();
  for (const std::string& each : faults) {
    program.say(report::styled("\n" + each, report::Style::warning, program.colour()));
  }
  program.document(document);
  return faults.empty() ? kDone : kBadInput;
}

}  // namespace

Json library_versions() {
  Json versions = {{"convoy", CONVOY_VERSION}};
  for (const auto& [name, version] : libraries()) versions[name] = version;
  return versions;
}

void add_doctor(Parser app, Program& program) {
  Parser command =
      add_subcommand(app, "doctor", "Show the processor, GPUs, the libraries and every environment variable",
                     "  convoy doctor --json");
  auto measure = std::make_shared<bool>(false);
  begin(command, Subject::timing);
  command.add_flag("--measure", *measure, "Measure the machine's ceiling anew: what bench and explain compare with");
  add_display_flags(command, program);
  command.callback([measure, &program] { program.action = [measure, &program] { return doctor(program, *measure); }; });
}

}  // namespace convoy::cli
