#include "cli/output_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/errors.h"
#include "cli/input_files.h"
#include "cli/label_map.h"
#include "cli/output_form.h"
#include "cli/target.h"
#include "io/file.h"
#include "io/npy.h"
#include "network/graph/onnx/tensor_proto.h"
#include "report/format.h"
#include "report/listing.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;

using Outputs = std::vector<std::vector<HostTensor>>;  // of each sample

std::string names_of(const std::vector<NetworkValue>& values) {
  std::string text;
  for (const NetworkValue& value : values) text += (text.empty() ? "" : ", ") + cli::describe(value);
  return text;
}

// For each of `wanted` its index in `there`: by name where all names are there, else by position.
Result<std::vector<std::size_t>> matched(const std::vector<NetworkValue>& wanted,
                                         const std::vector<NetworkValue>& there, std::string_view what) {
  std::vector<std::size_t> by_name, by_position;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto found =
        std::find_if(there.begin(), there.end(), [&](const auto& v) { return v.name == wanted[i].name; });
    if (found != there.end()) by_name.push_back(static_cast<std::size_t>(found - there.begin()));
    by_position.push_back(i);
  }
  if (by_name.size() == wanted.size()) return by_name;
  if (wanted.size() == there.size()) return by_position;
  return invalid(fmt::format("its {} are {}; those of the network are {}", what, names_of(there), names_of(wanted)));
}

class WithNetwork final : public OutputComparison {
 public:
  WithNetwork(const Program& program, const Network& network, const std::string& other, std::unique_ptr<Network> model,
              const NetworkOptions& options)
      : OutputComparison(program, network, other),
        model_(std::move(model)),
        options_(options),
        runner_(program, *model_, options_) {}

  Result<void> match() {
    CONVOY_TRY(inputs_, matched(model_->inputs(), network_.inputs(), "inputs"));
    CONVOY_TRY(outputs_, matched(network_.outputs(), model_->outputs(), "outputs"));
    return {};
  }

 protected:
  Result<Outputs> others(const Batch& batch) override {
    std::vector<HostTensor> tensors;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      HostTensor tensor = batch.tensors[inputs_[i]];
      const NetworkValue& value = model_->inputs()[i];
      if (tensor.desc.type != value.type) {
        if (!said_) {
          program_.note(fmt::format("--compare: input '{}' converted from {} to {}", value.name,
                                    convoy::name_of(tensor.desc.type), convoy::name_of(value.type)));
        }
        CONVOY_TRY(tensor, converted(tensor, TensorDesc::packed(value.type, tensor.desc.dims)));
      }
      tensors.push_back(std::move(tensor));
    }
    said_ = true;
    CONVOY_TRY(const Runner::Run run, runner_.run(tensors));
    std::vector<HostTensor> ordered;
    for (const std::size_t index : outputs_) ordered.push_back(run.outputs[index]);
    Outputs all;
    for (std::size_t sample = 0; sample < batch.samples.size(); ++sample) {
      CONVOY_TRY(auto part, outputs_of(network_, batch, sample, ordered));
      all.push_back(std::move(part));
    }
    return all;
  }

 private:
  std::unique_ptr<Network> model_;
  NetworkOptions options_;
  Runner runner_;
  std::vector<std::size_t> inputs_, outputs_;
  bool said_ = false;
};

Result<HostTensor> read_tensor(const std::string& path, DataType type) {
  if (io::lower_extension(path) == "npy") return io::read_npy(path, type);
  CONVOY_TRY(auto named, onnx_io::read_tensor_file(path));
  return std::move(named.tensor);
}

class WithFiles final : public OutputComparison {
 public:
  WithFiles(const Program& program, const Network& network, const std::string& other, bool several)
      : OutputComparison(program, network, other), several_(several), names_(network, several) {}

  // One file for the output of that index.
  Result<void> take_file(std::string file, std::size_t index) {
    if (several_) return invalid("one file for several inputs: give a folder with a file for each");
    file_ = std::move(file);
    index_ = index;
    return {};
  }

 protected:
  Result<Outputs> others(const Batch& batch) override {
    Outputs all;
    for (const Sample& sample : batch.samples) {
      const std::vector<std::string> names = names_.next(sample);
      std::vector<HostTensor> outputs(names.size());
      bool any = false;
      for (std::size_t i = 0; i < names.size(); ++i) {
        const std::string path = file_of(names[i], i);
        if (path.empty()) continue;
        CONVOY_TRY(outputs[i], read_tensor(path, network_.outputs()[i].type));
        any = true;
      }
      if (!any) return invalid(fmt::format("the folder has no {}.npy or output_0.pb", names.empty() ? "" : names[0]));
      all.push_back(std::move(outputs));
    }
    return all;
  }

 private:
  std::string file_of(const std::string& name, std::size_t index) const {
    if (!file_.empty()) return index == index_ ? file_ : "";
    std::error_code ignored;
    std::vector<std::string> paths = {fmt::format("{}/{}.npy", name_, name)};
    if (!several_) paths.push_back(fmt::format("{}/output_{}.pb", name_, index));
    for (std::string& path : paths) {
      if (fs::exists(path, ignored)) return std::move(path);
    }
    return "";
  }

  bool several_;
  OutputNames names_;
  std::string file_;  // empty: a folder
  std::size_t index_ = 0;
};

}  // namespace

double OutputDifference::cosine() const { return dot / std::sqrt(squares * other_squares); }

void add_difference(OutputDifference& difference, const HostTensor& output, const HostTensor& other,
                    const InputForm& input, const std::string& sample) {
  const std::int64_t count = output.desc.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const double a = load_as_double(output.desc.type, output.data.get(), i);
    const double b = load_as_double(other.desc.type, other.data.get(), i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    const bool finite = std::isfinite(a) && std::isfinite(b);
    const double error = same ? 0 : finite ? std::abs(a - b) : std::numeric_limits<double>::infinity();
    if (error > difference.largest || difference.sample.empty()) {
      difference.largest = error;
      difference.at = i;
      difference.sample = sample;
    }
    if (!finite) continue;
    difference.largest_magnitude = std::max(difference.largest_magnitude, std::abs(b));
    difference.dot += a * b;
    difference.squares += a * a;
    difference.other_squares += b * b;
  }
  const OutputForm form = form_of_output(output.desc.dims, input, io::ChannelsAt::automatic);
  io::PixelMap map = form.map;
  if (form.kind == OutputKind::classes) map = {.items = form.items, .channels = form.classes, .spatial = {1}};
  if (form.kind == OutputKind::other || map.channels < 2) return;
  const auto mine = label_map(output, map), theirs = label_map(other, map);
  if (!mine.ok() || !theirs.ok()) return;
  for (std::int64_t i = 0; i < mine->tensor.desc.elements(); ++i) {
    difference.agree += mine->tensor.as<std::int32_t>()[i] == theirs->tensor.as<std::int32_t>()[i] ? 1 : 0;
  }
  difference.decisions += mine->tensor.desc.elements();
}

Result<std::unique_ptr<OutputComparison>> OutputComparison::open(const Program& program, const Network& network,
                                                                 const NetworkOptions& options,
                                                                 const std::string& other, bool several_samples) {
  const auto opened = [&]() -> Result<std::unique_ptr<OutputComparison>> {
    std::error_code ignored;
    if (fs::is_directory(other, ignored)) {
      return std::unique_ptr<OutputComparison>(new WithFiles(program, network, other, several_samples));
    }
    if (kind_of_file(other) != FileKind::tensor) {
      CONVOY_TRY(auto model, open_network(other));
      auto comparison = std::make_unique<WithNetwork>(program, network, other, std::move(model), options);
      CONVOY_CHECK(comparison->match());
      return std::unique_ptr<OutputComparison>(std::move(comparison));
    }
    const std::vector<NetworkValue>& outputs = network.outputs();
    std::string file = other;
    std::size_t index = outputs.size();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!other.starts_with(outputs[i].name + "=")) continue;
      index = i;
      file = other.substr(outputs[i].name.size() + 1);
    }
    if (index == outputs.size() && outputs.size() > 1) {
      return invalid(fmt::format("say which output, as OUTPUT=FILE, or give a folder; they are {}", names_of(outputs)));
    }
    auto comparison = std::make_unique<WithFiles>(program, network, other, several_samples);
    CONVOY_CHECK(comparison->take_file(file, index == outputs.size() ? 0 : index));
    return std::unique_ptr<OutputComparison>(std::move(comparison));
  };
  auto comparison = opened();
  if (!comparison.ok()) return comparison.error().within(fmt::format("--compare {}", other));
  return comparison;
}

Result<void> OutputComparison::add(const Batch& batch, const Outputs& outputs) {
  auto all = others(batch);
  if (!all.ok()) return all.error().within(fmt::format("--compare {}", name_));
  for (std::size_t s = 0; s < outputs.size(); ++s) {
    std::vector<TensorDesc> inputs;
    for (const PreparedInput& input : batch.samples[s].inputs) inputs.push_back(input.tensor.desc);
    const InputForm form = form_of_inputs(inputs, io::ChannelsAt::automatic);
    for (std::size_t i = 0; i < outputs[s].size(); ++i) {
      const HostTensor &mine = outputs[s][i], &theirs = (*all)[s][i];
      if (theirs.data == nullptr) continue;
      if (mine.desc.dims != theirs.desc.dims) {
        return invalid(fmt::format("--compare {}: output '{}' is {} there, and {} here", name_,
                                   network_.outputs()[i].name, to_string(theirs.desc.dims), to_string(mine.desc.dims)));
      }
      add_difference(differences_[i].difference, mine, theirs, form, batch.samples[s].name);
      differences_[i].dims = mine.desc.dims;
      ++differences_[i].samples;
    }
  }
  return {};
}

report::Listing<OutputComparison::Compared> OutputComparison::listing() {
  using report::Align;
  const auto of = [](auto value) { return [value](const Compared& c) { return value(c.difference); }; };
  const auto relative = [](const OutputDifference& d) {
    const double part = d.largest_magnitude > 0 ? d.largest / d.largest_magnitude : 0;
    return part > 0 && part < 1e-3 ? report::number(part) : report::percent(part);
  };
  const auto six_places = [](const Json& value) { return fmt::format("{:.6f}", value.get<double>()); };
  const auto same = [](const OutputDifference& d) {
    return d.decisions > 0 ? fmt::format("{} of {}", report::thousands(d.agree), report::thousands(d.decisions)) : "";
  };
  const auto where = [](const Compared& c) {
    const std::string sample = c.samples > 1 ? " of " + c.difference.sample : "";
    return c.difference.largest > 0 ? fmt::format("element {}{}", c.difference.at, sample) : "";
  };
  report::Listing<Compared> listing;
  listing.column("output", "name", &Compared::name)
      .cell("shape", [](const Compared& c) { return to_string(c.dims); })
      .field("dims", &Compared::dims)
      .field("samples", &Compared::samples)
      .cell("largest difference", of([](const auto& d) { return report::number(d.largest); }), Align::right)
      .field("largest_difference", of([](const auto& d) { return report::number_or_null(d.largest); }))
      .cell("of largest", of(relative), Align::right)
      .field("largest_magnitude", of([](const auto& d) { return d.largest_magnitude; }))
      .column("cosine", "cosine", of([](const auto& d) { return report::number_or_null(d.cosine()); }), +six_places,
              Align::right)
      .cell("same top-1", of(same), Align::right)
      .field("top1_same", of([](const auto& d) { return d.agree; }))
      .field("top1_of", of([](const auto& d) { return d.decisions; }))
      .cell("largest at", where)
      .field("element", of([](const auto& d) { return d.at; }));
  return listing;
}

Json OutputComparison::say() const {
  std::vector<Compared> there;
  for (const Compared& compared : differences_) {
    if (compared.samples > 0) {
      there.push_back(compared);
    } else {
      program_.note(fmt::format("--compare {}: it has no output '{}'", name_, compared.name));
    }
  }
  auto [table, outputs] = listing().both(there);
  program_.say(fmt::format("\nbeside {}:", name_));
  program_.say(table, 2);
  return {{"with", name_}, {"outputs", std::move(outputs)}};
}

}  // namespace convoy::cli
