// convoy list: what there is.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/installed.h"
#include "cli/program.h"
#include "core/problem_list.h"
#include "device/cuda/device.h"
#include "engines/table.h"
#include "report/format.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

template <class Values, class Name>
std::string joined(const Values& values, const Name& name, const char* all) {
  std::string text;
  for (const auto& value : values) text += fmt::format("{}{}", text.empty() ? "" : " ", name(value));
  return text.empty() ? all : text;
}

std::string print(const TypeCombination& t) {
  return fmt::format("{}*{}>{}", convoy::name_of(t.x), convoy::name_of(t.w), convoy::name_of(t.y));
}

std::string print(const LayoutPair& pair) {
  return fmt::format("{}>{}", convoy::name_of(pair.x, 2), convoy::name_of(pair.y, 2));
}

// The distinct types or layouts of x, for the table; the document has every combination.
std::string of_x(const EngineInfo& info, bool types) {
  if (types ? info.any_types : info.any_layouts) return "all";
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
  };
  if (types) {
    for (const TypeCombination& t : info.types) add(convoy::name_of(t.x));
  } else {
    for (const LayoutPair& pair : info.layouts) add(convoy::name_of(pair.x, 2));
  }
  return fmt::format("{}", fmt::join(names, " "));
}

template <class Values>
Json printed(const Values& values, bool any) {
  if (any) return "all";
  Json all = Json::array();
  for (const auto& value : values) all.push_back(print(value));
  return all;
}

// The engines of one kind of device, as a table, or only how many they are; adds them to the document.
void list_engines_on(const Program& program, DeviceKind kind, bool in_full, Json& json) {
  report::Table table;
  using report::Align;
  table.column("engine").column("rev", Align::right, 6).column("passes", Align::left, 2).column("x", Align::left, 3);
  table.column("layout of x", Align::left, 4).column("needs", Align::left, 1).column("not in", Align::left, 5);
  table.column("what it is");
  for (const Engine* engine : engines_on(kind)) {
    const EngineInfo& info = engine->info();
    const Isa isa = info.min_isa.value_or(Isa::portable);
    const int architecture = info.min_architecture.value_or(0);
    const std::string needs = kind == DeviceKind::cpu ? std::string(convoy::name_of(isa))
                              : architecture == 0     ? std::string()
                                                      : fmt::format("sm_{}", architecture);
    const auto pass_name = [](Pass pass) { return convoy::name_of(pass); };
    const std::string passes = joined(info.passes, pass_name, "all");
    std::string not_in;
    Json dropped = Json::object();
    for (const LibraryConfig config : {LibraryConfig::full, LibraryConfig::jit_only, LibraryConfig::portable}) {
      const auto reason = dropped_by(config, info);
      if (!reason) continue;
      not_in += fmt::format("{}{}", not_in.empty() ? "" : " ", convoy::name_of(config));
      dropped[std::string(convoy::name_of(config))] = *reason;
    }
    const bool here = !dropped_by(library_config(), info);
    table.row({info.name, fmt::format("{}", info.revision), passes, of_x(info, true), of_x(info, false), needs, not_in,
               info.summary},
              here ? report::Style::plain : report::Style::bad);
    json.push_back({{"name", info.name},
                    {"device", std::string(convoy::name_of(kind))},
                    {"min_architecture", architecture},
                    {"revision", info.revision},
                    {"summary", info.summary},
                    {"passes", passes},
                    {"types", printed(info.types, info.any_types)},
                    {"layouts", printed(info.layouts, info.any_layouts)},
                    {"min_isa", std::string(convoy::name_of(isa))},
                    {"deterministic", info.deterministic},
                    {"thread_invariant", info.thread_invariant},
                    {"oracle", info.oracle},
                    {"available", here},
                    {"dropped_by", dropped},
                    {"notes", info.notes}});
  }
  if (!in_full) {
    program.say(fmt::format("On NVIDIA GPUs (--device cuda): {} engines; this machine has none (--all lists them)\n",
                            engines_on(kind).size()));
    return;
  }
  program.say(fmt::format("On {}", kind == DeviceKind::cpu ? "the CPU" : "NVIDIA GPUs (--device cuda)"));
  program.say(table, 2);
  program.say("");
}

Result<int> list_engines(const Program& program, bool all) {
  const Result<int> gpus = cuda::device_count();
  Json json = Json::array();
  list_engines_on(program, DeviceKind::cpu, true, json);
  list_engines_on(program, DeviceKind::cuda, all || (gpus.ok() && *gpus > 0), json);
  program.say(fmt::format("The configuration is {} (CONVOY_CONFIG; --config of convoy run, explain and others).",
                          convoy::name_of(library_config())));
  program.document({{"configuration", std::string(convoy::name_of(library_config()))}, {"engines", json}});
  return kDone;
}

Result<int> list_rule_fields(const Program& program) {
  report::Table table;
  table.column("field").column("meaning");
  Json json = Json::array();
  for (const RuleField& field : rule_fields()) {
    table.row({std::string(field.name), std::string(field.meaning)});
    json.push_back({{"name", std::string(field.name)}, {"meaning", std::string(field.meaning)}});
  }
  program.say(table);
  program.say("A rule: pass=fprop filter=3x3|5x5 channels>=64 -> cpu.winograd{m=4}");
  program.document({{"rule_fields", json}});
  return kDone;
}

Result<int> list_layouts(const Program& program) {
  constexpr std::pair<Layout, const char*> kLayouts[] = {
      {Layout::nchw, "row-major: channels outermost"},
      {Layout::nhwc, "channels innermost"},
      {Layout::nchw8c, "blocks of 8 channels, the last one padded with zeros"},
      {Layout::nchw16c, "blocks of 16 channels, the last one padded with zeros"},
  };
  report::Table table;
  table.column("1D").column("2D").column("3D").column("meaning");
  Json json = Json::array();
  for (const auto& [layout, meaning] : kLayouts) {
    std::vector<std::string> cells;
    for (int dims = 1; dims <= 3; ++dims) cells.emplace_back(convoy::name_of(layout, dims));
    json.push_back({{"names", cells}, {"channel_block", channel_block(layout)}, {"meaning", meaning}});
    cells.emplace_back(meaning);
    table.row(std::move(cells));
  }
  program.say(table);
  program.say("Any other strides: TYPE,DIMS,strides=AxBxC in a problem string.");
  program.document({{"layouts", json}});
  return kDone;
}

Result<int> list_problems(const Program& program, const std::string& given) {
  const std::string folder = installed_or_here(given);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return Error{ErrorCode::not_found, fmt::format("{}: not a folder; say where the lists are with --folder", given)};
  }
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  report::Table table;
  table.column("list").column("problems", report::Align::right).column("layers", report::Align::right);
  table.column("GFLOP", report::Align::right);
  Json json = Json::array();
  for (const std::string& path : paths) {
    CONVOY_TRY(const auto problems, read_problem_list(path));
    std::int64_t layers = 0;
    double work = 0;
    for (const ListedProblem& p : problems) {
      layers += p.count;
      work += flops(p.problem) * static_cast<double>(p.count);
    }
    // As commands take it, from any folder where it is the installed one.
    const std::string target = (std::filesystem::path(given) / std::filesystem::path(path).filename()).string();
    table.row({target, fmt::format("{}", problems.size()), fmt::format("{}", layers), report::rate(work)});
    json.push_back(
        {{"list", target}, {"file", path}, {"problems", problems.size()}, {"layers", layers}, {"flops", work}});
  }
  program.say(table);
  program.document({{"problems", json}});
  return kDone;
}

Result<int> list_passes(const Program& program) {
  report::Table table;
  table.column("pass").column("what it does").column("skipped by");
  Json json = Json::array();
  for (const NetworkPass& pass : network_passes()) {
    const std::string name(pass.name);
    table.row({name, std::string(pass.summary), pass.can_be_skipped ? "--skip-pass " + name : ""});
    json.push_back({{"name", name}, {"summary", std::string(pass.summary)}, {"can_be_skipped", pass.can_be_skipped}});
  }
  program.say(table);
  program.document({{"passes", json}});
  return kDone;
}

Result<int> list_zoo(const Program& program) {
  report::Table table;
  table.column("target").column("what it is");
  Json json = Json::array();
  for (const std::string& name : zoo_names()) {
    CONVOY_TRY(const std::string description, zoo_description(name));
    table.row({"zoo:" + name, description});
    json.push_back({{"name", name}, {"target", "zoo:" + name}, {"description", description}});
  }
  program.say(table);
  program.document({{"zoo", json}});
  return kDone;
}

}  // namespace

void add_list(Parser app, Program& program) {
  Parser command = add_subcommand(app, "list", "List engines, rule fields, layouts, passes, problem lists or the zoo",
                                  "  convoy list engines");
  command.require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& description,
                       const std::function<Result<int>(const Program&)>& list) -> Parser {
    Parser kind = add_subcommand(command, name, description, fmt::format("  convoy list {} --json", name));
    add_display_flags(kind, program);
    kind.callback([&program, list] { program.action = [&program, list] { return list(program); }; });
    return kind;
  };
  auto all = std::make_shared<bool>(false);
  Parser engines = add("engines", "Every convolution engine of this build and what it takes",
                       [all](const Program& p) { return list_engines(p, *all); });
  begin(engines, Subject::output);
  engines.add_flag("--all", *all, "Those for GPUs, too, where there is none");
  add("rule-fields", "What the rules of --rules can speak of", list_rule_fields);
  add("layouts", "The named layouts of tensors", list_layouts);
  add("passes", "What improves a network's graph before anything is chosen", list_passes);
  auto folder = std::make_shared<std::string>("problems");
  Parser problems = add("problems", "The problem lists in a folder",
                        [folder](const Program& p) { return list_problems(p, *folder); });
  begin(problems, Subject::input);
  problems.add_option("--folder", *folder, "Where the lists are").type_name("DIR").capture_default_str();
  add("zoo", "The networks that need no file", list_zoo);
}

}  // namespace convoy::cli
