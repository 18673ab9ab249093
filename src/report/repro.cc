#include "report/repro.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "device/cuda/device.h"
#include "report/fnv.h"
#include "select/choose/former_knobs.h"

namespace convoy::report {
namespace {

constexpr int kReproFormat = 1;

struct Extension {
  const char* name;
  bool CpuFeatures::*there;
};
constexpr std::array<Extension, 6> kExtensions = {{{"avx512_vnni", &CpuFeatures::avx512_vnni},
                                                   {"avx512_bf16", &CpuFeatures::avx512_bf16},
                                                   {"avx512_fp16", &CpuFeatures::avx512_fp16},
                                                   {"amx_tile", &CpuFeatures::amx_tile},
                                                   {"amx_bf16", &CpuFeatures::amx_bf16},
                                                   {"amx_int8", &CpuFeatures::amx_int8}}};

Error bad_field(std::string_view field, const std::string& what) {
  return {ErrorCode::invalid_argument, fmt::format("repro.{}: {}", field, what)};
}

// Reads the fields of one object; the path of each is in the errors.
class Reader {
 public:
  Reader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  Result<std::string> text(const char* name) const {
    CONVOY_TRY(const Json* value, at(name));
    if (!value->is_string()) return bad_field(path_ + name, "text is expected, it is " + dump(*value));
    return value->get<std::string>();
  }

  Result<std::int64_t> integer(const char* name, std::int64_t least, std::int64_t most) const {
    CONVOY_TRY(const Json* value, at(name));
    const bool fits =
        value->is_number_integer() &&
        (!value->is_number_unsigned() ||
         value->get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
      return bad_field(path_ + name, fmt::format("{} is not from {} to {}", dump(*value), least, most));
    }
    return value->get<std::int64_t>();
  }

  Result<bool> flag(const char* name) const {
    CONVOY_TRY(const Json* value, at(name));
    if (!value->is_boolean()) return bad_field(path_ + name, "true or false is expected, it is " + dump(*value));
    return value->get<bool>();
  }

  Result<Reader> object(const char* name) const {
    CONVOY_TRY(const Json* value, at(name));
    if (!value->is_object()) return bad_field(path_ + name, "an object is expected");
    return Reader(*value, path_ + name + ".");
  }

  const Json& json() const { return json_; }

 private:
  Result<const Json*> at(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) return bad_field(path_ + name, "it is missing");
    return &*found;
  }

  const Json& json_;
  std::string path_;
};

Result<KnobValues> read_knobs(const Json& json) {
  KnobValues knobs;
  for (const auto& [name, value] : json.items()) {
    if (value.is_number_integer()) {
      knobs.push_back({name, value.get<std::int64_t>()});
      continue;
    }
    // A word is one if it reads back as that.
    const Candidate read{"e", value.is_string() ? KnobValues{{name, value.get<std::string>()}} : KnobValues{}};
    const auto parsed = parse_candidate(print(read));
    if (read.knobs.empty() || !parsed.ok() || *parsed != read) {
      return bad_field("knobs." + name, "a number or a word is expected, it is " + dump(value));
    }
    knobs.push_back(read.knobs.front());
  }
  std::sort(knobs.begin(), knobs.end(), [](const KnobValue& a, const KnobValue& b) { return a.name < b.name; });
  return knobs;
}

Result<CpuFeatures> read_device(const Reader& device) {
  CpuFeatures cpu;
  CONVOY_TRY(cpu.brand, device.text("brand"));
  CONVOY_TRY(const std::string isa, device.text("isa"));
  const auto parsed = parse_isa(isa);
  if (!parsed.ok()) return bad_field("device.isa", parsed.error().message);
  cpu.isa = *parsed;
  CONVOY_TRY(const Reader extensions, device.object("extensions"));
  for (const Extension& extension : kExtensions) {
    CONVOY_TRY(cpu.*extension.there, extensions.flag(extension.name));
  }
  constexpr std::int64_t kMostCache = std::int64_t{1} << 40;
  CONVOY_TRY(cpu.l1d_bytes, device.integer("l1d_bytes", 0, kMostCache));
  CONVOY_TRY(cpu.l2_bytes, device.integer("l2_bytes", 0, kMostCache));
  CONVOY_TRY(cpu.l3_bytes, device.integer("l3_bytes", 0, kMostCache));
  return cpu;
}

Result<CudaDevice> read_gpu(const Reader& device) {
  CudaDevice gpu;
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  CONVOY_TRY(gpu.name, device.text("name"));
  CONVOY_TRY(gpu.ordinal, device.integer("ordinal", 0, cuda::kMostDevices - 1));
  CONVOY_TRY(gpu.architecture, device.integer("architecture", 0, most));
  CONVOY_TRY(gpu.driver, device.text("driver"));
  CONVOY_TRY(gpu.driver_version, device.integer("driver_version", 0, most));
  return gpu;
}

Json device_json(const selection::CheckSetup& setup) {
  if (setup.request.cuda) {
    return {{"kind", "cuda"},
            {"name", setup.request.cuda->name},
            {"ordinal", setup.request.cuda->ordinal},
            {"architecture", setup.request.cuda->architecture},
            {"driver", setup.request.cuda->driver},
            {"driver_version", setup.request.cuda->driver_version},
            {"target_sms", setup.request.target_sms}};
  }
  Json extensions = Json::object();
  for (const Extension& extension : kExtensions) extensions[extension.name] = setup.request.cpu.*extension.there;
  return {{"kind", "cpu"},
          {"brand", setup.request.cpu.brand},
          {"isa", std::string(name_of(setup.request.cpu.isa))},
          {"extensions", extensions},
          {"l1d_bytes", setup.request.cpu.l1d_bytes},
          {"l2_bytes", setup.request.cpu.l2_bytes},
          {"l3_bytes", setup.request.cpu.l3_bytes}};
}

}  // namespace

Json to_json(const Repro& repro) {
  const selection::CheckSetup& setup = repro.setup;
  Json knobs = Json::object();
  for (const KnobValue& knob : repro.candidate.knobs) knobs[knob.name] = to_json(knob.value);
  return {{"convoy_repro", kReproFormat},
          {"date", repro.date},
          {"fault", repro.fault},
          {"failure", repro.failure},
          {"problem", print(setup.problem)},
          {"engine", repro.candidate.engine},
          {"knobs", knobs},
          {"revision", repro.revision},
          {"provider", repro.provider},
          {"seed", setup.seed},
          {"threads", setup.request.threads},
          {"repeats", setup.repeats},
          {"constant_weights", setup.constant_weights},
          {"compared_with", setup.trusted ? Json(print(*setup.trusted)) : Json(nullptr)},
          {"device", device_json(setup)},
          {"versions", repro.versions}};
}

Result<Repro> parse_repro(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("convoy_repro")) {
    return Error{ErrorCode::invalid_argument,
                 "not a repro file: a JSON object with the field convoy_repro is expected"};
  }
  const Reader file(json, "");
  CONVOY_TRY(const std::int64_t format, file.integer("convoy_repro", 1, std::numeric_limits<std::int64_t>::max()));
  if (format > kReproFormat) {
    return bad_field("convoy_repro",
                     fmt::format("format {} is newer than this convoy, which knows {}", format, kReproFormat));
  }
  Repro repro;
  selection::CheckSetup& setup = repro.setup;
  CONVOY_TRY(repro.date, file.text("date"));
  CONVOY_TRY(repro.fault, file.text("fault"));
  CONVOY_TRY(repro.failure, file.text("failure"));
  CONVOY_TRY(const std::string problem, file.text("problem"));
  auto parsed = parse_problem(problem);
  if (!parsed.ok()) return bad_field("problem", parsed.error().message);
  setup.problem = std::move(*parsed);
  if (const auto valid = validate(setup.problem); !valid.ok()) return bad_field("problem", valid.error().message);
  CONVOY_TRY(repro.candidate.engine, file.text("engine"));
  CONVOY_TRY(const Reader knobs, file.object("knobs"));
  CONVOY_TRY(repro.candidate.knobs, read_knobs(knobs.json()));
  repro.candidate = selection::named_today(std::move(repro.candidate), &setup.problem, "repro.knobs", repro.remarks);
  CONVOY_TRY(repro.revision, file.integer("revision", 0, std::numeric_limits<int>::max()));
  CONVOY_TRY(repro.provider, file.text("provider"));
  CONVOY_TRY(setup.seed, file.integer("seed", 0, std::numeric_limits<std::int64_t>::max()));
  CONVOY_TRY(setup.request.threads, file.integer("threads", 1, 1024));
  CONVOY_TRY(setup.repeats, file.integer("repeats", 1, 1'000'000));
  CONVOY_TRY(setup.constant_weights, file.flag("constant_weights"));
  if (const auto with = json.find("compared_with"); with != json.end() && !with->is_null()) {
    CONVOY_TRY(const std::string name, file.text("compared_with"));
    auto trusted = parse_candidate(name);
    if (!trusted.ok()) return bad_field("compared_with", trusted.error().message);
    setup.trusted = selection::named_today(*std::move(trusted), &setup.problem, "repro.compared_with", repro.remarks);
  }
  CONVOY_TRY(const Reader device, file.object("device"));
  CONVOY_TRY(const std::string kind, device.text("kind"));
  if (kind == "cpu") {
    CONVOY_TRY(setup.request.cpu, read_device(device));
  } else if (kind == "cuda") {
    CONVOY_TRY(setup.request.cuda, read_gpu(device));
    CONVOY_TRY(setup.request.target_sms, device.integer("target_sms", 0, std::numeric_limits<int>::max()));
  } else {
    return bad_field("device.kind", fmt::format("'{}' is none of cpu, cuda", kind));
  }
  if (const auto versions = json.find("versions"); versions != json.end()) repro.versions = *versions;
  return repro;
}

std::string missing_features(const CpuFeatures& recorded, const CpuFeatures& here) {
  std::string missing;
  if (recorded.isa > here.isa) missing = name_of(recorded.isa);
  for (const Extension& extension : kExtensions) {
    if (recorded.*extension.there && !(here.*extension.there)) {
      missing += fmt::format("{}{}", missing.empty() ? "" : " ", extension.name);
    }
  }
  return missing;
}

std::string file_name(const Repro& repro) {
  const std::string what = print(repro.setup.problem) + print(repro.candidate) + repro.fault;
  return fmt::format("repro-{}-{}-{:08x}.json", repro.candidate.engine, repro.fault, fnv1a(what));
}

}  // namespace convoy::report
