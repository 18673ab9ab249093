// convoy list: what there is.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/installed.h"
#include "cli/program.h"
#include "core/problem_list.h"
#include "device/cuda/device.h"
#include "engines/table.h"
#include "report/listing.h"

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

// The configurations that leave an engine out, each with its reason.
Json reasons_of(const EngineInfo& info) {
  Json reasons = Json::object();
  for (const LibraryConfig config : {LibraryConfig::full, LibraryConfig::jit_only, LibraryConfig::portable}) {
    if (const auto reason = dropped_by(config, info)) reasons[std::string(convoy::name_of(config))] = *reason;
  }
  return reasons;
}

std::string keys_of(const Json& object) {
  std::string keys;
  for (const auto& [key, value] : object.items()) keys += (keys.empty() ? "" : " ") + key;
  return keys;
}

// The engines of one kind of device, as a table, or only how many they are; adds them to the document.
void list_engines_on(const Program& program, DeviceKind kind, bool in_full, Json& json) {
  using report::Align;
  const auto isa = [](const EngineInfo& info) { return convoy::name_of(info.min_isa.value_or(Isa::portable)); };
  const auto architecture = [](const EngineInfo& info) { return info.min_architecture.value_or(0); };
  const auto here = [](const EngineInfo& info) { return !dropped_by(library_config(), info); };
  report::Listing<EngineInfo> listing;
  listing.column("engine", "name", [](const EngineInfo& info) { return info.name; })
      .field("device", [kind](const EngineInfo&) { return convoy::name_of(kind); })
      .field("min_architecture", architecture)
      .column(
          "rev", "revision", [](const EngineInfo& info) { return info.revision; }, report::as_text, Align::right, 6)
      .column(
          "passes", "passes",
          [](const EngineInfo& info) {
            return joined(
                info.passes, [](Pass pass) { return convoy::name_of(pass); }, "all");
          },
          report::as_text, Align::left, 2)
      .field("types", [](const EngineInfo& info) { return printed(info.types, info.any_types); })
      .field("layouts", [](const EngineInfo& info) { return printed(info.layouts, info.any_layouts); })
      .cell(
          "x", [](const EngineInfo& info) { return of_x(info, true); }, Align::left, 3)
      .cell(
          "layout of x", [](const EngineInfo& info) { return of_x(info, false); }, Align::left, 4)
      .field("min_isa", isa)
      .cell(
          "needs",
          [=](const EngineInfo& info) {
            if (kind == DeviceKind::cpu) return std::string(isa(info));
            return architecture(info) == 0 ? std::string() : fmt::format("sm_{}", architecture(info));
          },
          Align::left, 1)
      .field("deterministic", [](const EngineInfo& info) { return info.deterministic; })
      .field("thread_invariant", [](const EngineInfo& info) { return info.thread_invariant; })
      .field("oracle", [](const EngineInfo& info) { return info.oracle; })
      .field("available", here)
      .column("not in", "dropped_by", reasons_of, keys_of, Align::left, 5)
      .field("notes", [](const EngineInfo& info) { return info.notes; })
      .column("what it is", "summary", [](const EngineInfo& info) { return info.summary; });
  report::Table table = listing.table();
  for (const Engine* engine : engines_on(kind)) {
    listing.add(table, engine->info(), here(engine->info()) ? report::Style::plain : report::Style::bad);
    json.push_back(listing.json(engine->info()));
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
  report::Listing<RuleField> listing;
  listing.column("field", "name", [](const RuleField& field) { return field.name; })
      .column("meaning", "meaning", [](const RuleField& field) { return field.meaning; });
  auto [table, json] = listing.both(rule_fields());
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
  struct List {
    std::string target, file;
    std::size_t problems = 0;
    std::int64_t layers = 0;
    double work = 0;
  };
  std::vector<List> lists;
  for (const std::string& path : paths) {
    CONVOY_TRY(const auto problems, read_problem_list(path));
    // As commands take it, from any folder where it is the installed one.
    List list{(std::filesystem::path(given) / std::filesystem::path(path).filename()).string(), path, problems.size()};
    for (const ListedProblem& p : problems) {
      list.layers += p.count;
      list.work += flops(p.problem) * static_cast<double>(p.count);
    }
    lists.push_back(std::move(list));
  }
  using report::Align;
  report::Listing<List> listing;
  listing.column("list", "list", [](const List& list) { return list.target; })
      .field("file", [](const List& list) { return list.file; })
      .column(
          "problems", "problems", [](const List& list) { return list.problems; }, report::as_text, Align::right)
      .column(
          "layers", "layers", [](const List& list) { return list.layers; }, report::as_text, Align::right)
      .column(
          "GFLOP", "flops", [](const List& list) { return list.work; }, report::as_rate, Align::right);
  auto [table, json] = listing.both(lists);
  program.say(table);
  program.document({{"problems", json}});
  return kDone;
}

Result<int> list_passes(const Program& program) {
  report::Listing<NetworkPass> listing;
  listing.column("pass", "name", [](const NetworkPass& pass) { return pass.name; })
      .column("what it does", "summary", [](const NetworkPass& pass) { return pass.summary; })
      .field("can_be_skipped", [](const NetworkPass& pass) { return pass.can_be_skipped; })
      .cell("skipped by",
            [](const NetworkPass& pass) { return pass.can_be_skipped ? "--skip-pass " + std::string(pass.name) : ""; });
  auto [table, json] = listing.both(network_passes());
  program.say(table);
  program.document({{"passes", json}});
  return kDone;
}

Result<int> list_zoo(const Program& program) {
  std::vector<std::pair<std::string, std::string>> networks;
  for (const std::string& name : zoo_names()) {
    CONVOY_TRY(std::string description, zoo_description(name));
    networks.emplace_back(name, std::move(description));
  }
  using Named = std::pair<std::string, std::string>;
  report::Listing<Named> listing;
  listing.field("name", [](const Named& network) { return network.first; })
      .column("target", "target", [](const Named& network) { return "zoo:" + network.first; })
      .column("what it is", "description", [](const Named& network) { return network.second; });
  auto [table, json] = listing.both(networks);
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
