#include "cli/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "io/file.h"
#include "io/npy.h"
#include "report/format.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  std::int64_t not_finite = 0;
};

Range range_of(const HostTensor& tensor) {
  Range range;
  const std::int64_t count = tensor.desc.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = tensor.desc.type == DataType::f32 ? tensor.as<float>()[i]
                                                       : load_as_double(tensor.desc.type, tensor.data.get(), i);
    if (!std::isfinite(v)) {
      ++range.not_finite;
    } else {
      range.low = std::min(range.low, v);
      range.high = std::max(range.high, v);
    }
  }
  return range;
}

// A file name from an output's name, which may hold anything.
std::string file_stem(const std::string& name, std::size_t index) {
  std::string stem;
  for (const char c : name.substr(0, 100)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
    stem += plain ? c : '_';
  }
  return stem.empty() || stem[0] == '.' ? fmt::format("output_{}{}", index, stem) : stem;
}

void say_ranking(const Program& program, const std::vector<Ranking>& rankings, const std::string& name, Json& json) {
  json["top"] = Json::array();
  for (std::size_t item = 0; item < rankings.size(); ++item) {
    report::Table table;
    table.column("probability", report::Align::right).column("class", report::Align::right).column("label");
    Json ranked = Json::array();
    for (const RankedClass& c : rankings[item].classes) {
      table.row({fmt::format("{:.4f}", c.probability), fmt::format("{}", c.index), c.label});
      ranked.push_back(
          {{"class", c.index}, {"probability", report::number_or_null(c.probability)}, {"label", c.label}});
    }
    json["top"].push_back(std::move(ranked));
    program.say(fmt::format("\n{}{}: {}", name, rankings.size() > 1 ? fmt::format("[{}]", item) : "",
                            rankings[item].softmax ? "softmax of the output, which is not probabilities itself"
                                                   : "probabilities as the model gives them"));
    program.say(table.render(program.colour(), 2));
  }
  if (!rankings.empty()) json["softmax"] = rankings[0].softmax;
}

Result<void> report_labels(const Program& program, const HostTensor& output, const std::string& name,
                           const std::string& stem, const std::vector<PreparedInput>& inputs,
                           const InputFlags& input_flags, const OutputFlags& flags, Json& json) {
  auto labels = argmax_labels(output);
  if (!labels.ok()) return labels.error().within(fmt::format("--argmax: output '{}'", name));
  report::Table table;
  table.column("label", report::Align::right)
      .column("count", report::Align::right)
      .column("share", report::Align::right);
  const auto total = static_cast<double>(labels->tensor.desc.elements());
  for (std::size_t i = 0; i < labels->counts.size(); ++i) {
    table.row({fmt::format("{}", i), report::thousands(labels->counts[i]),
               report::percent(static_cast<double>(labels->counts[i]) / total)});
  }
  program.say(fmt::format("\n{}: label (argmax over channels) counts", name));
  program.say(table.render(program.colour(), 2));
  json["argmax"] = {{"dims", labels->tensor.desc.dims}, {"counts", labels->counts}};
  if (flags.folder.empty()) return {};
  const auto volume =
      std::find_if(inputs.begin(), inputs.end(), [](const auto& i) { return i.volume_header.has_value(); });
  std::string path = fmt::format("{}/{}.labels.npy", flags.folder, stem);
  if (volume != inputs.end() && output.desc.rank() >= 4) {
    auto voxels = io::labels_to_voxels(labels->tensor, input_flags.volume_axes);
    if (voxels.ok()) {
      path = fmt::format("{}/{}.labels.nii.gz", flags.folder, stem);
      CONVOY_CHECK(io::write_nifti(path, *voxels, *volume->volume_header));
      program.say(fmt::format("  written to {}", path));
      json["argmax"]["file"] = path;
      return {};
    }
  }
  CONVOY_CHECK(io::write_npy(path, labels->tensor));
  program.say(fmt::format("  written to {}", path));
  json["argmax"]["file"] = path;
  return {};
}

}  // namespace

void add_output_flags(CLI::App& app, OutputFlags& flags) {
  app.add_option("--output-dir", flags.folder, "Write each output to this folder as .npy (bf16 and f8 widened to f32)")
      ->type_name("DIR");
  app.add_option("--top", flags.top, "Print the K most probable classes of the first output that is a list of them")
      ->type_name("K")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--labels", flags.labels_file, "Names of the classes, one a line (with --top)")->type_name("FILE");
  app.add_flag("--argmax", flags.argmax,
               "Label every pixel or voxel by its largest channel, print how many have each label; written as .nii.gz "
               "when the input was a volume");
}

Result<void> prepare_outputs(OutputFlags& flags) {
  if (!flags.folder.empty()) CONVOY_CHECK(io::make_folder(flags.folder));
  if (flags.labels_file.empty()) return {};
  CONVOY_TRY(const auto bytes, io::read_file(flags.labels_file));
  std::string line;
  for (const std::byte byte : bytes) {
    const char c = static_cast<char>(byte);
    if (c == '\n') {
      flags.labels.push_back(line);
      line.clear();
    } else if (static_cast<unsigned char>(c) >= 32) {
      line += c;
    }
  }
  if (!line.empty()) flags.labels.push_back(line);
  if (flags.labels.empty()) {
    return Error{ErrorCode::invalid_argument, fmt::format("--labels {}: the file is empty", flags.labels_file)};
  }
  return {};
}

Result<std::vector<Ranking>> rank_classes(const HostTensor& output, int top, const std::vector<std::string>& labels) {
  const Dims& dims = output.desc.dims;
  const std::int64_t items = dims.size() > 1 ? dims[0] : 1;
  const std::int64_t classes = items > 0 ? output.desc.elements() / items : 0;
  if (!labels.empty() && static_cast<std::int64_t>(labels.size()) != classes) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--labels: the file has {} lines, the output {} classes", labels.size(), classes)};
  }
  std::vector<Ranking> rankings;
  for (std::int64_t item = 0; item < items; ++item) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < classes; ++i) values.push_back(output.at(item * classes + i));
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    const double low = *std::min_element(values.begin(), values.end());
    const double high = *std::max_element(values.begin(), values.end());
    Ranking ranking;
    ranking.softmax = !(low >= 0 && std::abs(sum - 1) <= 1e-3);
    if (ranking.softmax) {
      double total = 0;
      for (double& v : values) total += v = std::exp(v - high);
      for (double& v : values) v /= total;
    }
    std::vector<std::int64_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    const auto shown = std::min<std::ptrdiff_t>(top, static_cast<std::ptrdiff_t>(order.size()));
    const auto key = [&](std::int64_t i) { return std::isnan(values[i]) ? -1.0 : values[i]; };
    std::partial_sort(order.begin(), order.begin() + shown, order.end(),
                      [&](std::int64_t a, std::int64_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
    for (std::ptrdiff_t i = 0; i < shown; ++i) {
      const std::int64_t index = order[i];
      ranking.classes.push_back({index, values[index], labels.empty() ? std::string() : labels[index]});
    }
    rankings.push_back(std::move(ranking));
  }
  return rankings;
}

Result<Labels> argmax_labels(const HostTensor& output) {
  const Dims& dims = output.desc.dims;
  if (dims.size() < 2 || output.desc.elements() == 0) {
    return Error{ErrorCode::invalid_argument, fmt::format("{} has no channels to choose from", to_string(dims))};
  }
  Dims label_dims = dims;
  label_dims.erase(label_dims.begin() + 1);
  Labels labels;
  CONVOY_TRY(labels.tensor, HostTensor::zeros(TensorDesc::packed(DataType::s32, label_dims)));
  labels.counts.resize(static_cast<std::size_t>(dims[1]));
  const std::int64_t inner = output.desc.elements() / dims[0] / dims[1];
  auto* out = labels.tensor.as<std::int32_t>();
  const bool f32 = output.desc.type == DataType::f32;
  std::vector<double> best(static_cast<std::size_t>(inner));
  for (std::int64_t n = 0; n < dims[0]; ++n) {
    // A channel at a time: the reads run through memory in order.
    std::fill(best.begin(), best.end(), -std::numeric_limits<double>::infinity());
    for (std::int64_t c = 0; c < dims[1]; ++c) {
      const std::int64_t first = (n * dims[1] + c) * inner;
      for (std::int64_t i = 0; i < inner; ++i) {
        const double v =
            f32 ? output.as<float>()[first + i] : load_as_double(output.desc.type, output.data.get(), first + i);
        if (v > best[i]) {
          best[i] = v;
          out[n * inner + i] = static_cast<std::int32_t>(c);
        }
      }
    }
  }
  for (std::int64_t i = 0; i < labels.tensor.desc.elements(); ++i) ++labels.counts[out[i]];
  return labels;
}

Result<Json> report_outputs(const Program& program, const Network& network, const std::vector<HostTensor>& outputs,
                            const std::vector<PreparedInput>& inputs, const InputFlags& input_flags,
                            const OutputFlags& flags) {
  const auto classes = std::find_if(outputs.begin(), outputs.end(), [](const HostTensor& output) {
    return output.desc.rank() > 0 && output.desc.elements() > output.desc.dims[0];
  });
  std::vector<Ranking> rankings;
  if (flags.top > 0) {
    if (classes == outputs.end()) return Error{ErrorCode::invalid_argument, "--top: no output is a list of classes"};
    CONVOY_TRY(rankings, rank_classes(*classes, flags.top, flags.labels));
  }
  Json all = Json::array();
  report::Table table;
  table.column("output").column("type").column("shape").column("smallest", report::Align::right);
  table.column("largest", report::Align::right).column("file");
  std::vector<std::string> stems;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = network.outputs()[i].name;
    std::string stem = file_stem(name, i);
    if (std::find(stems.begin(), stems.end(), stem) != stems.end()) stem += fmt::format("_{}", i);
    stems.push_back(stem);
    std::string path;
    if (!flags.folder.empty()) {
      path = fmt::format("{}/{}.npy", flags.folder, stem);
      CONVOY_CHECK(io::write_npy(path, outputs[i]));
    }
    const Range range = range_of(outputs[i]);
    const bool any = range.low <= range.high;
    table.row({name, std::string(convoy::name_of(outputs[i].desc.type)), to_string(outputs[i].desc.dims),
               any ? fmt::format("{:.6g}", range.low) : "-", any ? fmt::format("{:.6g}", range.high) : "-", path});
    Json json = {{"name", name},
                 {"type", std::string(convoy::name_of(outputs[i].desc.type))},
                 {"dims", outputs[i].desc.dims},
                 {"smallest", report::number_or_null(range.low)},
                 {"largest", report::number_or_null(range.high)},
                 {"not_finite", range.not_finite}};
    if (!path.empty()) json["file"] = path;
    all.push_back(std::move(json));
    if (range.not_finite > 0) {
      program.note(fmt::format("output '{}' has {} values that are not finite", name, range.not_finite));
    }
  }
  program.say(table.render(program.colour()));
  if (flags.top > 0) {
    const auto index = static_cast<std::size_t>(classes - outputs.begin());
    say_ranking(program, rankings, network.outputs()[index].name, all[index]);
  }
  if (flags.argmax) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].desc.rank() < 3) continue;
      CONVOY_CHECK(
          report_labels(program, outputs[i], network.outputs()[i].name, stems[i], inputs, input_flags, flags, all[i]));
    }
  }
  return all;
}

}  // namespace convoy::cli
