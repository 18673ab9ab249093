// convoy run: pictures in and out, times, comparisons.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "cli/testing/command.h"
#include "io/npy.h"
#include "io/picture_input.h"
#include "network/testing/models.h"

namespace convoy::cli {
namespace {

constexpr int kSide = 8;

io::Picture filled(std::uint8_t red, std::uint8_t green, std::uint8_t blue, int width = kSide, int height = kSide) {
  io::Picture picture{width, height, {}};
  for (int i = 0; i < width * height; ++i) picture.rgb.insert(picture.rgb.end(), {red, green, blue});
  return picture;
}

class Run : public Command {
 protected:
  void write_model(const std::string& name, const ::onnx::ModelProto& model) const {
    write(name, model.SerializeAsString());
  }
  void write_picture(const std::string& name, const io::Picture& picture) const {
    ASSERT_TRUE(io::write_png(path(name), picture).ok());
  }

  // Values with `op` and its attributes between an input and an output. A size of -1: the free dim "N".
  static ::onnx::ModelProto model_of(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& nodes,
                                     std::vector<std::int64_t> in, std::vector<std::int64_t> out) {
    ::onnx::ModelProto model = network::empty_model();
    network::add_value(*model.mutable_graph()->add_input(), "x", in);
    network::add_value(*model.mutable_graph()->add_output(), "y", out);
    auto* graph = model.mutable_graph();
    for (auto* value : {graph->mutable_input(0), graph->mutable_output(0)}) {
      auto* shape = value->mutable_type()->mutable_tensor_type()->mutable_shape();
      for (auto& dim : *shape->mutable_dim()) {
        if (dim.dim_value() < 0) dim.set_dim_param("N");
      }
    }
    std::string from = "x";
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::string to = i + 1 == nodes.size() ? "y" : fmt::format("v{}", i);
      std::vector<std::string> inputs = {from};
      if (nodes[i].first == "Reshape") {
        auto& shape = *graph->add_initializer();
        shape.set_name(fmt::format("shape{}", i));
        shape.set_data_type(::onnx::TensorProto::INT64);
        shape.add_dims(static_cast<std::int64_t>(nodes[i].second.size()));
        for (const std::int64_t dim : nodes[i].second) shape.add_int64_data(dim);
        inputs.push_back(shape.name());
      }
      network::add_node(model, nodes[i].first, fmt::format("node{}", i), inputs, {to});
      from = to;
    }
    return model;
  }
  // The mean of each colour as a list of three classes.
  static ::onnx::ModelProto colours(std::int64_t batch) {
    return model_of({{"GlobalAveragePool", {}}, {"Flatten", {}}}, {batch, 3, kSide, kSide}, {batch, 3});
  }

  void write_colours() const {
    fs::create_directories(path("in"));
    write_picture("in/a_red.png", filled(250, 10, 10));
    write_picture("in/b_green.png", filled(10, 250, 10));
    write_picture("in/c_blue.png", filled(10, 10, 250));
    write("labels.txt", "red\ngreen\nblue\n");
  }
};

std::vector<std::string> best_labels(const json& document) {
  std::vector<std::string> labels;
  for (const json& sample : document["samples"]) labels.push_back(sample["outputs"][0]["top"][0][0]["label"]);
  return labels;
}

TEST_F(Run, SeveralPicturesGiveALabelEach) {
  write_colours();
  write_model("colours.onnx", colours(-1));
  write("in/notes.txt", "not a picture");
  const std::vector<std::string> expected = {"red", "green", "blue"};
  const std::string model = path("colours.onnx"), labels = path("labels.txt");
  const json folder = run_json({"run", model, "--input", path("in"), "--labels", labels}, 0);
  EXPECT_EQ(best_labels(folder), expected);
  EXPECT_EQ(folder["images_per_run"], 1);
  EXPECT_GT(folder["samples_per_second"], 0);
  const json pattern = run_json({"run", model, "--input", path("in/*.png"), "--labels", labels, "--batch", "2"}, 0);
  EXPECT_EQ(best_labels(pattern), expected);
  EXPECT_EQ(pattern["images_per_run"], 2);
  // As a shell expands --input *.png: the first is the flag's, the others stand alone.
  const Finished shell = run({"run", model, "--input", path("in/a_red.png"), path("in/b_green.png"),
                              path("in/c_blue.png"), "--top", "1", "--labels", labels, "--output-dir", path("made")});
  EXPECT_EQ(shell.exit_code, 0) << shell.err;
  for (const std::string& label : expected) EXPECT_NE(shell.out.find(label), std::string::npos) << shell.out;
  EXPECT_NE(shell.out.find("3 inputs in "), std::string::npos) << shell.out;
  EXPECT_TRUE(fs::exists(path("made/b_green.y.npy")));
  const Finished left_out = run({"run", model, "--input", path("in"), "--top", "1"});
  EXPECT_NE(left_out.err.find("3 of 4 files are taken: the pictures"), std::string::npos) << left_out.err;
  expect_error({"run", model, "--input", path("in/*.gif")}, 2, "no file matches");
  fs::create_directories(path("empty"));
  expect_error({"run", model, "--input", path("empty")}, 2, "the folder has no pictures");
}

TEST_F(Run, ABatchHasOneSizeAndComesFromTheModelWhereThatIsFixed) {
  write_colours();
  write_model("two.onnx", colours(2));
  const json two = run_json({"run", path("two.onnx"), "--input", path("in"), "--labels", path("labels.txt")}, 0);
  EXPECT_EQ(best_labels(two), (std::vector<std::string>{"red", "green", "blue"}));
  EXPECT_EQ(two["images_per_run"], 2);
  expect_error({"run", path("two.onnx"), "--input", path("in"), "--batch", "4"}, 2, "--batch 4: the batch of input x");
  ::onnx::ModelProto sizes = model_of({{"Relu", {}}}, {1, 3, 4, 4}, {1, 3, 4, 4});
  const char* names[] = {"N", "", "H", "W"};
  for (auto* value : {sizes.mutable_graph()->mutable_input(0), sizes.mutable_graph()->mutable_output(0)}) {
    auto* shape = value->mutable_type()->mutable_tensor_type()->mutable_shape();
    for (const int axis : {0, 2, 3}) shape->mutable_dim(axis)->set_dim_param(names[axis]);
  }
  write_model("sizes.onnx", sizes);
  write_picture("in/d_wide.png", filled(9, 9, 9, 12, 6));
  const json each = run_json({"run", path("sizes.onnx"), "--input", path("in"), "--output-dir", path("made")}, 0);
  EXPECT_EQ(each["samples"][3]["outputs"][0]["dims"], (Dims{1, 3, 6, 12}));
  expect_error({"run", path("sizes.onnx"), "--input", path("in"), "--batch", "4"}, 2, "a batch has one size");
}

TEST_F(Run, TheTimeIsAWarmOneWhereItIsWhatIsAskedFor) {
  write_colours();
  const std::string model = path("colours.onnx");
  write_model("colours.onnx", colours(-1));
  const json timed = run_json({"run", model, "--random-inputs"}, 0);
  EXPECT_EQ(timed["timing"], "warm");
  EXPECT_GT(timed["runs"], 3);
  EXPECT_GT(timed["warm_up_runs"], 0);
  EXPECT_LE(timed["p10_seconds"], timed["seconds"]);
  EXPECT_LE(timed["seconds"], timed["p90_seconds"]);
  EXPECT_GT(timed["images_per_second"], 0);
  const json answer = run_json({"run", model, "--random-inputs", "--top", "1"}, 0);
  EXPECT_EQ(answer["timing"], "first run");
  EXPECT_TRUE(answer["p10_seconds"].is_null());
  const Finished human = run({"run", model, "--random-inputs", "--top", "1"});
  EXPECT_NE(human.out.find("first run "), std::string::npos) << human.out;
  const json both = run_json({"run", model, "--random-inputs", "--top", "1", "--repeat", "3", "--warmup", "0"}, 0);
  EXPECT_EQ(both["runs"], 3);
  EXPECT_EQ(both["warm_up_runs"], 0);
  const json five = run_json({"run", model, "--random-inputs", "--repeat", "5", "--warmup", "2", "--batch", "4"}, 0);
  EXPECT_EQ(five["runs"], 5);
  EXPECT_EQ(five["warm_up_runs"], 2);
  EXPECT_EQ(five["images_per_run"], 4);
  const Finished text = run({"run", model, "--random-inputs", "--duration", "20ms"});
  EXPECT_NE(text.out.find("median of "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("images a second"), std::string::npos) << text.out;
  expect_error({"run", model, "--random-inputs", "--warmup", "long"}, 2, "--warmup");
  expect_error({"run", model, "--random-inputs", "--duration", "-1"}, 2, "--duration");
}

TEST_F(Run, PreprocessingIsSaidInALineAndFollowsTheNetwork) {
  write_colours();
  const auto said = [&](const std::string& model, std::vector<std::string> flags = {}) {
    std::vector<std::string> arguments = {"run",          path(model), "--input", path("in/a_red.png"),
                                          "--output-dir", path("made")};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Finished result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  write_model("classes.onnx", colours(1));
  EXPECT_NE(said("classes.onnx").find("8x8 as it is, ImageNet mean and deviation (--mean, --std, --raw to change)"),
            std::string::npos);
  EXPECT_NE(said("classes.onnx", {"--raw"}).find("8x8 as it is, values 0 to 255\n"), std::string::npos);
  EXPECT_NEAR(io::read_npy(path("made/y.npy"))->at(0), 250, 1e-3);
  EXPECT_NE(said("classes.onnx", {"--mean", "0.5", "--std", "0.5"}).find("values (pixel/255 - 0.5) / 0.5\n"),
            std::string::npos);
  EXPECT_NEAR(io::read_npy(path("made/y.npy"))->at(0), 250 / 127.5 - 1, 1e-5);
  write_model("picture.onnx", model_of({{"Relu", {}}}, {1, 3, 4, 4}, {1, 3, 4, 4}));
  EXPECT_NE(said("picture.onnx").find("resized to 4x4, values 0 to 1 since the network gives pictures"),
            std::string::npos);
  ::onnx::ModelProto with_metadata = colours(1);
  auto& entry = *with_metadata.add_metadata_props();
  entry.set_key("Image.NominalPixelRange");
  entry.set_value("NominalRange_0_255");
  write_model("metadata.onnx", with_metadata);
  EXPECT_NE(said("metadata.onnx").find("values 0 to 255 as the model's metadata says"), std::string::npos);
  expect_error({"run", path("classes.onnx"), "--input", path("in/a_red.png"), "--raw", "--scale", "2"}, 2, "--raw");
}

TEST_F(Run, PicturesComeOutOfNetworksThatMakeThem) {
  write_model("picture.onnx", model_of({{"Relu", {}}}, {1, 3, 6, 4}, {1, 3, 6, 4}));
  io::Picture picture = filled(20, 40, 60, 4, 6);
  picture.rgb[5] = 255;
  write_picture("in.png", picture);
  const json result = run_json({"run", path("picture.onnx"), "--input", path("in.png"), "--output-dir", path("o")}, 0);
  EXPECT_EQ(result["outputs"][0]["pictures"][0], path("o/y.png"));
  const auto written = io::read_picture(path("o/y.png"));
  ASSERT_TRUE(written.ok()) << written.error().message;
  EXPECT_EQ(written->rgb, picture.rgb);
  EXPECT_EQ(
      run({"run", path("picture.onnx"), "--input", path("in.png"), "--output-dir", path("o"), "--output-range", "0,2"})
          .exit_code,
      0);
  EXPECT_EQ(io::read_picture(path("o/y.png"))->rgb[5], 128);
}

TEST_F(Run, LabelsArePixelsWhereverTheChannelsAre) {
  // x is NHWC, a mask of one channel and a map of three come out of it as they went in.
  write_model("mask.onnx", model_of({{"Relu", {}}}, {1, 6, 4, 1}, {1, 6, 4, 1}));
  HostTensor mask = *HostTensor::zeros(TensorDesc::packed(DataType::f32, {1, 6, 4, 1}));
  for (int i = 0; i < 24; ++i) mask.as<float>()[i] = static_cast<float>(i) / 24;
  ASSERT_TRUE(io::write_npy(path("mask.npy"), mask).ok());
  const json result =
      run_json({"run", path("mask.onnx"), "--input", path("mask.npy"), "--argmax", "--output-dir", path("o")}, 0);
  const json& argmax = result["outputs"][0]["argmax"];
  EXPECT_EQ(argmax["dims"], (Dims{1, 6, 4}));
  EXPECT_EQ(argmax["counts"], (std::vector<int>{13, 11}));
  EXPECT_NE(argmax["rule"].get<std::string>().find("over 0.5"), std::string::npos);
  const auto labels = io::read_picture(path("o/y.labels.png"));
  ASSERT_TRUE(labels.ok()) << labels.error().message;
  EXPECT_EQ(labels->width, 4);
  EXPECT_EQ(labels->rgb[12 * 3], 0);
  EXPECT_EQ(labels->rgb[13 * 3], 128);
  EXPECT_EQ(io::read_picture(path("o/y.png"))->rgb[12 * 3], 128);  // the mask itself, in grey
  const json over =
      run_json({"run", path("mask.onnx"), "--input", path("mask.npy"), "--argmax", "--threshold", "0.9"}, 0);
  EXPECT_EQ(over["outputs"][0]["argmax"]["counts"], (std::vector<int>{22, 2}));
  expect_error({"run", path("mask.onnx"), "--input", path("mask.npy"), "--threshold", "0.9"}, 2, "--argmax");

  write_model("boxes.onnx", model_of({{"Reshape", {1, 96, 2}}}, {1, 3, 8, 8}, {1, 96, 2}));
  expect_error({"run", path("boxes.onnx"), "--random-inputs", "--argmax"}, 2, "y f32 1x96x2");
  expect_error({"run", path("boxes.onnx"), "--random-inputs", "--top", "5"}, 2,
               "--top: no output is a list of classes");
}

TEST_F(Run, LabelsImplyTheTopFive) {
  write_model("classes.onnx", model_of({{"GlobalAveragePool", {}}, {"Flatten", {}}}, {1, 8, 4, 4}, {1, 8}));
  write("labels.txt", "a\nb\nc\nd\ne\nf\ng\nh\n");
  const json result = run_json({"run", path("classes.onnx"), "--random-inputs", "--labels", path("labels.txt")}, 0);
  EXPECT_EQ(result["outputs"][0]["top"][0].size(), 5U);
}

TEST_F(Run, OutputsAreComparedWithAnotherRunAndAnotherNetwork) {
  write_colours();
  const std::string model = path("colours.onnx");
  write_model("colours.onnx", colours(-1));
  ASSERT_EQ(run({"run", model, "--input", path("in"), "--output-dir", path("o")}).exit_code, 0);
  const json same = run_json({"run", model, "--input", path("in"), "--batch", "2", "--compare", path("o")}, 0);
  EXPECT_LT(same["compare"]["outputs"][0]["largest_difference"], 1e-5);
  EXPECT_EQ(same["compare"]["outputs"][0]["top1_same"], 3);
  EXPECT_EQ(same["compare"]["outputs"][0]["top1_of"], 3);
  write_model("relu.onnx",
              model_of({{"Relu", {}}, {"GlobalAveragePool", {}}, {"Flatten", {}}}, {-1, 3, 8, 8}, {-1, 3}));
  const json other = run_json({"run", model, "--input", path("in"), "--compare", path("relu.onnx")}, 0);
  EXPECT_GT(other["compare"]["outputs"][0]["largest_difference"], 1);  // ImageNet's mean makes negative inputs
  EXPECT_EQ(other["compare"]["outputs"][0]["top1_same"], 3);
  const Finished human = run({"run", model, "--input", path("in"), "--compare", path("relu.onnx")});
  EXPECT_NE(human.out.find("3 of 3"), std::string::npos) << human.out;
  ASSERT_TRUE(io::write_npy(path("four.npy"), *HostTensor::zeros(TensorDesc::packed(DataType::f32, {1, 4}))).ok());
  const std::string red = path("in/a_red.png");
  expect_error({"run", model, "--input", red, "--compare", path("four.npy")}, 2,
               "output 'y' is 1x4 there, and 1x3 here");
  EXPECT_EQ(run({"run", model, "--input", red, "--compare", path("o/a_red.y.npy")}).exit_code, 0);
  expect_error({"run", model, "--input", path("in"), "--compare", path("four.npy")}, 2, "give a folder");
  expect_error({"run", model, "--input", red, "--compare", path("nothing.npy")}, 2, "nothing.npy");
  expect_error({"run", model, "--input", red, "--compare", path("in")}, 2, "the folder has no y.npy");
}

TEST_F(Run, StepsSayWhatTheyTakeAndWhereTheyAreExplained) {
  const Finished human = run(
      {"run", "zoo:squeezenet1_1", "--random-inputs", "--dim", "H=64", "--dim", "W=64", "--verbose", "--repeat", "3"});
  EXPECT_EQ(human.exit_code, 0) << human.err;
  for (const char* text :
       {"share", "GFLOP/s", "slowest convolution: step ", "convoy explain zoo:squeezenet1_1 --node '"}) {
    EXPECT_NE(human.out.find(text), std::string::npos) << text << "\n" << human.out;
  }
  const json steps =
      run_json({"run", "zoo:squeezenet1_1", "--random-inputs", "--dim", "H=64", "--dim", "W=64"}, 0)["steps"];
  // The command it names finds the step.
  const std::string flag = "--node '";
  const std::size_t start = human.out.find(flag) + flag.size();
  const std::string node = human.out.substr(start, human.out.find('\'', start) - start);
  const Finished explained = run({"explain", "zoo:squeezenet1_1", "--dim", "H=64", "--dim", "W=64", "--node", node});
  EXPECT_EQ(explained.exit_code, 0) << node << "\n" << explained.err;
  // A number means the same there and here.
  const json layers = run_json({"explain", "zoo:squeezenet1_1", "--dim", "H=64", "--dim", "W=64"}, 0)["problems"];
  const Finished third = run({"run", "zoo:squeezenet1_1", "--random-inputs", "--dim", "H=64", "--dim", "W=64", "--node",
                              "3", "--repeat", "1", "--wide"});
  EXPECT_EQ(third.exit_code, 0) << third.err;
  for (const json& step : steps) {
    if (step["kind"] != "conv") continue;
    const auto number = step["number"].get<std::size_t>();
    ASSERT_LE(number, layers.size());
    EXPECT_EQ(layers[number - 1]["problem"], step["problem"]);
    EXPECT_EQ(layers[number - 1]["number"], number);
    const bool shown = third.out.find(step["nodes"].get<std::string>()) != std::string::npos;
    EXPECT_EQ(shown, number == 3) << step["nodes"] << "\n" << third.out;
  }
  double share = 0;
  for (const json& step : steps) {
    share += step["share"].get<double>();
    EXPECT_EQ(step.contains("gflops"), step["kind"] == "conv");
    EXPECT_GE(step["threads"], 1);
  }
  EXPECT_NEAR(share, 1, 1e-9);
}

TEST_F(Run, TrainedModelsGivePicturesAndMasks) {
  const fs::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "skipped: no data";
  const auto of = [&](const std::string& model, const std::string& picture, std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"run",          data / "models" / model / "model.onnx",
                                          "--input",      data / "images" / picture,
                                          "--output-dir", path(model)};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return run_json(arguments, 0);
  };
  const json selfie = of("selfie-segmentation-landscape", "man_unsplash.jpg", {"--argmax"})["outputs"][0];
  EXPECT_EQ(selfie["argmax"]["dims"], (Dims{1, 144, 256}));
  EXPECT_EQ(selfie["argmax"]["counts"].size(), 2U);
  EXPECT_GT(selfie["argmax"]["counts"][1], 144 * 256 / 20);  // there is a man
  EXPECT_LT(selfie["argmax"]["counts"][1], 144 * 256 * 19 / 20);

  const json waifu = of("waifu2x-upconv7-scale2x", "kitten_224.png", {});
  EXPECT_NE(waifu["inputs"][0]["remarks"][0].get<std::string>().find("values 0 to 1"), std::string::npos);
  EXPECT_GT(waifu["outputs"][0]["smallest"], -0.2);  // as ImageNet's numbers went in, it was -1.9
  EXPECT_LT(waifu["outputs"][0]["largest"], 1.2);
  EXPECT_EQ(io::read_picture(waifu["outputs"][0]["pictures"][0])->width, 284);
  const json super = of("super-resolution-10", "kitten_224.png", {});
  const auto enlarged = io::read_picture(super["outputs"][0]["pictures"][0]);
  ASSERT_TRUE(enlarged.ok());
  EXPECT_EQ(enlarged->width, 672);
  const io::Picture kitten = *io::read_picture(data / "images/kitten_224.png");
  const io::Picture plain = io::resize_bilinear(kitten, 672, 672);
  double error = 0;
  for (std::size_t i = 0; i < plain.rgb.size(); ++i) error += std::abs(plain.rgb[i] - enlarged->rgb[i]);
  EXPECT_LT(error / static_cast<double>(plain.rgb.size()), 10);  // in colour, and the same picture

  const fs::path ultraface = data / "models/ultraface-RFB-320/model.onnx";
  const std::string hopper = data / "images/grace_hopper.jpg";
  expect_error({"run", ultraface, "--input", hopper, "--top", "5"}, 2, "scores f32 1x4420x2");
  expect_error({"run", ultraface, "--input", hopper, "--argmax"}, 2, "boxes f32 1x4420x4");
}

TEST_F(Run, TraceHasAStepForEachStepAndWhatThreadsDid) {
  const json ran = run_json(
      {"run", "zoo:resnet18", "--random-inputs", "--threads", "2", "--no-db", "--trace", path("trace.json")}, 0);
  std::ifstream file(path("trace.json"));
  const json trace = json::parse(file, nullptr, false);
  ASSERT_TRUE(trace.is_object());
  std::map<int, std::string> rows;  // by number
  std::vector<json> steps, threads;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "M" && event["name"] == "thread_name") rows[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "X") (event["cat"] == "thread" ? threads : steps).push_back(event);
  }
  EXPECT_EQ(rows, (std::map<int, std::string>{{0, "steps"}, {1, "thread 0"}, {2, "thread 1"}}));
  ASSERT_EQ(steps.size(), ran["steps"].size());
  double end = 0, sum = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i]["name"], ran["steps"][i]["nodes"]);
    EXPECT_EQ(steps[i]["cat"], ran["steps"][i]["kind"]);
    EXPECT_EQ(steps[i]["args"]["runs on"], ran["steps"][i]["implementation"]);
    EXPECT_GE(steps[i]["ts"].get<double>(), end) << i;
    end = steps[i]["ts"].get<double>() + steps[i]["dur"].get<double>();
    sum += steps[i]["dur"].get<double>();
  }
  const double seconds = trace["otherData"]["seconds"];
  EXPECT_LE(sum * 1e-6, seconds);
  EXPECT_GT(sum * 1e-6, 0.5 * seconds);  // hardly anything else happens
  std::set<int> seen;
  for (const json& event : threads) {
    const json& step = steps[event["args"]["step"].get<std::size_t>()];
    EXPECT_EQ(event["name"], step["name"]);
    EXPECT_GE(event["ts"], step["ts"]);
    EXPECT_LE(event["ts"].get<double>() + event["dur"].get<double>(),
              step["ts"].get<double>() + step["dur"].get<double>());
    seen.insert(event["tid"].get<int>());
  }
  EXPECT_EQ(seen, (std::set<int>{1, 2}));
}

TEST_F(Run, AFolderOfPicturesIsLabelled) {
  const fs::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "skipped: no data";
  const json result = run_json({"run", data / "models/squeezenet1.1-7/model.onnx", "--input", data / "images",
                                "--labels", data / "images/imagenet_labels_1000.txt", "--top", "1"},
                               0);
  std::map<std::string, std::string> labels;
  for (const json& sample : result["samples"]) {
    labels[fs::path(sample["inputs"][0]["source"].get<std::string>()).filename()] =
        sample["outputs"][0]["top"][0][0]["label"];
  }
  EXPECT_EQ(labels.size(), 8U);
  EXPECT_TRUE(labels["kitten_224.png"].starts_with("tabby")) << labels["kitten_224.png"];
  EXPECT_TRUE(labels["pelican.jpeg"].starts_with("pelican")) << labels["pelican.jpeg"];
  EXPECT_TRUE(labels["bald_eagle.jpeg"].starts_with("bald eagle")) << labels["bald_eagle.jpeg"];
}

}  // namespace
}  // namespace convoy::cli
