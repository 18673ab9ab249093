#include "cli/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/errors.h"
#include "io/file.h"
#include "io/npy.h"
#include "report/format.h"
#include "report/table.h"

namespace convoy::cli {
namespace {

constexpr int kTopOfLabels = 5;  // --labels without --top

// "\n  scores f32 1x4420x2\n  boxes .."
std::string listed(const Network& network, const std::vector<HostTensor>& outputs) {
  std::string text;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    text += fmt::format("\n  {} {} {}", network.outputs()[i].name, convoy::name_of(outputs[i].desc.type),
                        to_string(outputs[i].desc.dims));
  }
  return text;
}

// One file by its name, several by how many and the first.
std::string files_text(const std::vector<std::string>& files) {
  if (files.empty()) return "";
  return files.size() == 1 ? files[0] : fmt::format("{} .. ({} files)", files[0], files.size());
}

}  // namespace

void add_output_flags(Parser app, OutputFlags& flags) {
  begin(app, Subject::output);
  app.add_option("--output-dir", flags.folder,
                 "Write each output to this folder as .npy (bf16 and f8 widened to f32), and pictures, masks and label "
                 "maps as .png too")
      .type_name("DIR");
  app.add_option("--top", flags.top, "Print the K most probable classes of the first output that is a list of them")
      .type_name("K")
      .range(1, 1000000);
  app.add_option("--labels", flags.labels_file, "Names of the classes, one a line (without --top: --top 5)")
      .type_name("FILE");
  app.add_flag("--argmax", flags.argmax,
               "Label every pixel or voxel by its largest channel, print how many have each label; written as .png, "
               "and as .nii.gz when the input was a volume");
  app.add_option(
         "--threshold", flags.threshold,
         "With --argmax and a mask of one channel: label 1 over this value, else 0 (default 0.5 for values of 0 to "
         "1, else 0)")
      .type_name("X");
  app.add_option("--output-layout", flags.layout, "Where outputs that are maps have their channels")
      .one_of({"auto", "nchw", "nhwc"});
  app.add_option("--output-range", flags.range,
                 "The values of black and white in written pictures (default: 0,1 -1,1 or 0,255, by the values)")
      .type_name("LOW,HIGH")
      .delimiter(',')
      .expected(2);
}

Result<void> prepare_outputs(OutputFlags& flags) {
  if (flags.threshold && !flags.argmax) return invalid("--threshold: it is for --argmax");
  if (flags.range.size() == 2 && flags.range[0] == flags.range[1])
    return invalid("--output-range: the two are the same");
  if (!flags.folder.empty()) CONVOY_CHECK(io::make_folder(flags.folder));
  if (flags.labels_file.empty()) return {};
  if (flags.top == 0 && !flags.argmax) flags.top = kTopOfLabels;
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
  if (flags.labels.empty()) return invalid(fmt::format("--labels {}: the file is empty", flags.labels_file));
  return {};
}

OutputReport::OutputReport(const Program& program, const Network& network, const OutputFlags& flags,
                           const InputFlags& input_flags, bool several_samples)
    : program_(program),
      network_(network),
      flags_(flags),
      input_flags_(input_flags),
      several_(several_samples),
      names_(network, several_samples),
      seen_(network.outputs().size()) {}

OutputReport::Range OutputReport::look_at(const HostTensor& output, Seen& seen, Json& json) {
  Range range;
  const std::int64_t count = output.desc.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = output.desc.type == DataType::f32 ? output.as<float>()[i]
                                                       : load_as_double(output.desc.type, output.data.get(), i);
    if (!std::isfinite(v)) {
      ++range.not_finite;
    } else {
      range.low = std::min(range.low, v);
      range.high = std::max(range.high, v);
    }
  }
  seen.type = output.desc.type;
  seen.same_dims = seen.same_dims && (seen.dims.empty() || seen.dims == output.desc.dims);
  seen.dims = output.desc.dims;
  seen.range.low = std::min(seen.range.low, range.low);
  seen.range.high = std::max(seen.range.high, range.high);
  seen.range.not_finite += range.not_finite;
  json["type"] = std::string(convoy::name_of(output.desc.type));
  json["dims"] = output.desc.dims;
  json["smallest"] = report::number_or_null(range.low);
  json["largest"] = report::number_or_null(range.high);
  json["not_finite"] = range.not_finite;
  return range;
}

Result<void> OutputReport::rank(const Sample& sample, const std::vector<HostTensor>& outputs,
                                const std::vector<OutputForm>& forms, Json& json) {
  const auto classes =
      std::find_if(forms.begin(), forms.end(), [](const auto& form) { return form.kind == OutputKind::classes; });
  if (classes == forms.end()) {
    return invalid(fmt::format("--top: no output is a list of classes, one value a class for each input; there are{}",
                               listed(network_, outputs)));
  }
  const auto index = static_cast<std::size_t>(classes - forms.begin());
  ranked_output_ = network_.outputs()[index].name;
  CONVOY_TRY(auto rankings, rank_classes(outputs[index], classes->items, flags_.top, flags_.labels));
  json[index]["top"] = Json::array();
  for (std::size_t item = 0; item < rankings.size(); ++item) {
    Json ranked = Json::array();
    for (const RankedClass& c : rankings[item].classes) {
      ranked.push_back(
          {{"class", c.index}, {"probability", report::number_or_null(c.probability)}, {"label", c.label}});
    }
    json[index]["top"].push_back(std::move(ranked));
    json[index]["softmax"] = rankings[item].softmax;
    rankings_.push_back(
        {rankings.size() > 1 ? fmt::format("{}[{}]", sample.name, item) : sample.name, std::move(rankings[item])});
  }
  return {};
}

Result<void> OutputReport::write_pictures(const OutputPictures& pictures, const std::string& stem, Json& json) {
  std::vector<std::string> paths;
  for (std::size_t item = 0; item < pictures.items.size(); ++item) {
    paths.push_back(pictures.items.size() > 1 ? fmt::format("{}_{}.png", stem, item) : stem + ".png");
    CONVOY_CHECK(io::write_png(paths.back(), pictures.items[item]));
  }
  json["pictures"] = paths;
  std::vector<std::string>& all = pictures_[pictures.how];
  all.insert(all.end(), paths.begin(), paths.end());
  return {};
}

Result<void> OutputReport::label(const Sample& sample, std::size_t index, const HostTensor& output,
                                 const OutputForm& form, const std::string& stem, Json& json) {
  const std::string& name = network_.outputs()[index].name;
  auto labels = label_map(output, form.map, flags_.threshold);
  if (!labels.ok()) return labels.error().within(fmt::format("output '{}'", name));
  if (flags_.argmax) {
    if (flags_.top == 0 && !flags_.labels.empty() && flags_.labels.size() != labels->counts.size()) {
      return invalid(fmt::format("--labels: the file has {} lines, output '{}' {} labels", flags_.labels.size(), name,
                                 labels->counts.size()));
    }
    labels_.push_back({sample.name, name, labels->rule, labels->counts});
    json["argmax"] = {{"dims", labels->tensor.desc.dims}, {"rule", labels->rule}, {"counts", labels->counts}};
  }
  if (flags_.folder.empty()) return {};
  CONVOY_TRY(const auto pictures, label_pictures(*labels));
  Json& about = flags_.argmax ? json["argmax"] : json["segmentation"];
  if (pictures) CONVOY_CHECK(write_pictures(*pictures, stem + ".labels", about));
  if (!flags_.argmax) return {};
  const auto volume = std::find_if(sample.inputs.begin(), sample.inputs.end(),
                                   [](const auto& input) { return input.volume_header.has_value(); });
  std::string path = stem + ".labels.npy";
  if (volume != sample.inputs.end() && output.desc.rank() >= 4) {
    auto voxels = io::labels_to_voxels(labels->tensor, input_flags_.volume_axes);
    if (voxels.ok()) {
      path = stem + ".labels.nii.gz";
      CONVOY_CHECK(io::write_nifti(path, *voxels, *volume->volume_header));
      json["argmax"]["file"] = path;
      pictures_["labels"].push_back(path);
      return {};
    }
  }
  CONVOY_CHECK(io::write_npy(path, labels->tensor));
  json["argmax"]["file"] = path;
  pictures_["labels"].push_back(path);
  return {};
}

Result<void> OutputReport::add(const Sample& sample, const std::vector<HostTensor>& outputs) {
  std::vector<TensorDesc> inputs;
  for (const PreparedInput& input : sample.inputs) inputs.push_back(input.tensor.desc);
  const InputForm input_form = form_of_inputs(inputs, channels_at(input_flags_.picture.layout));
  std::vector<OutputForm> forms;
  std::vector<Range> ranges;
  Json json = Json::array();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    forms.push_back(form_of_output(outputs[i].desc.dims, input_form, channels_at(flags_.layout)));
    json.push_back({{"name", network_.outputs()[i].name}});
    ranges.push_back(look_at(outputs[i], seen_[i], json[i]));
  }
  if (flags_.top > 0) CONVOY_CHECK(rank(sample, outputs, forms, json));
  const bool any_map = std::any_of(forms.begin(), forms.end(), [](const auto& f) { return f.kind == OutputKind::map; });
  if (flags_.argmax && !any_map) {
    return invalid(fmt::format("--argmax: no output has values for each pixel or voxel of the input; there are{}",
                               listed(network_, outputs)));
  }
  std::optional<io::ValueRange> range;
  if (flags_.range.size() == 2) range = {flags_.range[0], flags_.range[1]};
  const std::vector<std::string> names = names_.next(sample);
  const bool writes = !flags_.folder.empty();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OutputForm& form = forms[i];
    const std::string stem = fmt::format("{}/{}", flags_.folder, names[i]);
    const bool labels =
        form.kind == OutputKind::map && (flags_.argmax || (writes && is_segmentation(outputs[i], form)));
    if (labels) CONVOY_CHECK(label(sample, i, outputs[i], form, stem, json[i]));
    if (!writes) continue;
    CONVOY_CHECK(io::write_npy(stem + ".npy", outputs[i]));
    json[i]["file"] = stem + ".npy";
    seen_[i].files.push_back(stem + ".npy");
    if (labels && form.map.channels > 1) continue;
    CONVOY_TRY(const auto pictures,
               output_pictures(outputs[i], form, input_form, sample, ranges[i].low, ranges[i].high, range));
    if (pictures) CONVOY_CHECK(write_pictures(*pictures, stem, json[i]));
  }
  json_.push_back(std::move(json));
  return {};
}

void OutputReport::say_rankings() const {
  if (rankings_.empty()) return;
  const bool named = rankings_.size() > 1;
  report::Table table;
  if (named) table.column("input");
  table.column("probability", report::Align::right).column("class", report::Align::right).column("label");
  bool softmax = false;
  for (const Ranked& ranked : rankings_) {
    softmax = softmax || ranked.ranking.softmax;
    for (std::size_t i = 0; i < ranked.ranking.classes.size(); ++i) {
      const RankedClass& c = ranked.ranking.classes[i];
      std::vector<std::string> cells = {fmt::format("{:.4f}", c.probability), fmt::format("{}", c.index), c.label};
      if (named) cells.insert(cells.begin(), i == 0 ? ranked.name : "");
      table.row(std::move(cells));
    }
  }
  program_.say(fmt::format(
      "\n{}: {}", ranked_output_,
      softmax ? "softmax of the output, which is not probabilities itself" : "probabilities as the model gives them"));
  program_.say(table, 2);
}

void OutputReport::say_labels() const {
  for (const NetworkValue& output : network_.outputs()) {
    std::string rule;
    bool names = false;
    report::Table table;
    if (several_) table.column("input");
    table.column("label", report::Align::right)
        .column("count", report::Align::right)
        .column("share", report::Align::right)
        .column("name");
    for (const Labelled& labelled : labels_) {
      if (labelled.output != output.name) continue;
      rule = labelled.rule;
      names = flags_.labels.size() == labelled.counts.size();
      double total = 0;
      for (const std::int64_t count : labelled.counts) total += static_cast<double>(count);
      bool first = true;
      for (std::size_t i = 0; i < labelled.counts.size(); ++i) {
        const std::int64_t count = labelled.counts[i];
        if (count == 0) continue;
        std::vector<std::string> cells = {fmt::format("{}", i), report::thousands(count),
                                          report::percent(static_cast<double>(count) / total),
                                          names ? flags_.labels[i] : ""};
        if (several_) cells.insert(cells.begin(), first ? labelled.name : "");
        first = false;
        table.row(std::move(cells));
      }
    }
    if (table.empty()) continue;
    program_.say(fmt::format("\n{}: labels of the pixels or voxels, {}", output.name, rule));
    program_.say(table, 2);
  }
}

void OutputReport::say() const {
  report::Table table;
  table.column("output").column("type").column("shape").column("smallest", report::Align::right);
  table.column("largest", report::Align::right).column("file");
  for (std::size_t i = 0; i < seen_.size(); ++i) {
    const Seen& seen = seen_[i];
    const std::string& name = network_.outputs()[i].name;
    const Range& range = seen.range;
    const bool any = range.low <= range.high;
    table.row({name, std::string(convoy::name_of(seen.type)),
               to_string(seen.dims) + (seen.same_dims ? "" : " and others"),
               any ? fmt::format("{:.6g}", range.low) : "-", any ? fmt::format("{:.6g}", range.high) : "-",
               files_text(seen.files)});
    if (range.not_finite > 0) {
      program_.note(fmt::format("output '{}' has {} values that are not finite", name, range.not_finite));
    }
  }
  program_.say(table);
  for (const auto& [how, files] : pictures_) program_.say(fmt::format("written to {}: {}", files_text(files), how));
  say_rankings();
  say_labels();
}

}  // namespace convoy::cli
