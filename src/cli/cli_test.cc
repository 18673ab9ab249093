// The command as a person or a script meets it: exit codes, messages, one JSON document.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/conformance_case.h"
#include "cli/demo_picture.h"
#include "cli/inputs.h"
#include "cli/testing/command.h"
#include "io/file.h"
#include "io/nifti.h"
#include "io/npy.h"
#include "io/picture_input.h"
#include "io/volume_input.h"
#include "network/graph/onnx/tensor_proto.h"

namespace convoy::cli {
namespace {

TEST_F(Command, HelpAndVersion) {
  const Finished version = run({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_TRUE(version.out.starts_with("convoy ")) << version.out;
  EXPECT_EQ(run({"--help"}).exit_code, 0);
  for (const std::string name :
       {"run", "bench", "tune", "db", "explain", "verify", "repro", "conformance", "list", "zoo", "doctor", "demo"}) {
    const Finished help = run({name, "--help"});
    EXPECT_EQ(help.exit_code, 0) << name;
    EXPECT_NE(help.out.find("Example:\n  convoy " + name), std::string::npos) << help.out;
    EXPECT_EQ(help.err, "");
  }
}

TEST_F(Command, BadUsageIsExitTwoAndNamesTheFlag) {
  expect_error({"fly"}, 2, "fly");
  expect_error({"run"}, 2, "model");
  expect_error({"run", "zoo:resnet18", "--wings"}, 2, "--wings");
  expect_error({"explain", kConv, "--threads", "0"}, 2, "--threads");
  expect_error({"explain", kConv, "--threads", "x"}, 2, "--threads");
  expect_error({"explain", kConv, "--engines", "nothing.*"}, 2, "--engines: 'nothing.*' matches no engine");
  expect_error({"explain", kConv, "--device", "toaster"}, 2, "'toaster' is not a device");
  expect_error({"bench", kConv, "--vs", "nothing.*"}, 2, "--vs");
  expect_error({"bench", kConv, "--dtype", "f31"}, 2, "--dtype");
  expect_error({"bench", kConv, "--pass", "sideways"}, 2, "--pass");
  expect_error({"demo", "--budget", "31"}, 2, "--budget");
}

TEST_F(Command, OtherDevicesAreNotSupported) {
  ::setenv("CONVOY_CUDA_DRIVER", "off", 1);
  expect_error({"explain", kConv, "--device", "cuda"}, 4, "no CUDA device");
  ::unsetenv("CONVOY_CUDA_DRIVER");
  expect_error({"explain", kConv, "--device", "cuda:x"}, 2, "cpu, cuda and cuda:N are");
  expect_error({"explain", kConv, "--sm-count", "66"}, 2, "--device cuda");
  expect_error({"run", "zoo:resnet18", "--random-inputs", "--device", "cuda:1"}, 4, "no CUDA device");
  for (const char* command : {"plan", "report", "tune", "verify"}) {
    expect_error({command, "zoo:resnet18", "--device", "cuda:1"}, 4, "no CUDA device");
  }
  expect_error({"run", "zoo:resnet18", "--random-inputs", "--memory-limit", "1G"}, 2,
               "--memory-limit: it is for --device cuda");
  for (const char* flag : {"--no-graph", "--sync"}) {
    expect_error({"run", "zoo:resnet18", "--random-inputs", flag}, 2, std::string(flag) + ": it is for --device cuda");
  }
}

TEST_F(Command, BadInputIsExitTwoAndNamesTheFile) {
  expect_error({"run", path("missing.onnx")}, 2, "missing.onnx");
  expect_error({"run", "zoo:unicorn"}, 2, "unicorn");
  expect_error({"run", folder_}, 2, "folder");
  expect_error({"explain", "fprop:x=f32,1x8x6x6:w=f32,8x9x3x3"}, 2, "x.dims");
  expect_error({"explain", "fprop:x=f32,1x8"}, 2, "");
  expect_error({"explain", "op:MaxPool:x=f32,1x8x6x6:@kernel_shape=ints,2,2"}, 2, "convoy bench times these");
  write("garbage.onnx", std::string("\x08\x07\xff\xff\xff\xff garbage", 14));
  expect_error({"run", path("garbage.onnx")}, 2, "garbage.onnx");
  write("list.txt", "# a list\n2 " + kConv + "\nnonsense\n");
  expect_error({"explain", path("list.txt")}, 2, "list.txt:3");
  write("rules.txt", "no arrow here\n");
  expect_error({"explain", kConv, "--rules", path("rules.txt")}, 2, "rules.txt");
}

TEST_F(Command, ErrorsAreOneDocumentToo) {
  const json error = run_json({"run", path("missing.onnx")}, 2);
  EXPECT_EQ(error["error"]["code"], "not_found");
  EXPECT_NE(error["error"]["message"].get<std::string>().find("missing.onnx"), std::string::npos);
}

TEST_F(Command, ListsAndDoctor) {
  const json engines = run_json({"list", "engines"}, 0);
  EXPECT_GE(engines["engines"].size(), 2U);
  EXPECT_EQ(run_json({"list", "layouts"}, 0)["layouts"].size(), 4U);
  const json doctor = run_json({"doctor"}, 0);
  EXPECT_TRUE(doctor["libraries"].contains("oneDNN"));
  bool isa = false;
  for (const json& variable : doctor["environment"]) isa = isa || variable["name"] == "CONVOY_ISA";
  EXPECT_TRUE(isa);
  expect_error({"list", "problems", "--folder", path("nowhere")}, 2, "nowhere");
}

TEST_F(Command, ExplainSaysWhoCanAndWhyNot) {
  const json result = run_json({"explain", kConv}, 0);
  const json& problem = result["problems"][0];
  bool can = false, cannot = false;
  for (const json& engine : problem["engines"]) {
    can = can || engine["can"].get<bool>();
    if (!engine["can"].get<bool>()) {
      cannot = true;
      EXPECT_FALSE(engine["refusal"]["reason"].get<std::string>().empty());
    }
  }
  EXPECT_TRUE(can && cannot);
  EXPECT_TRUE(problem["chosen"].contains("candidate"));
}

TEST_F(Command, RulesDecideOrFail) {
  write("rules.txt", "fprop:* -> reference\n");
  const json result = run_json({"explain", kConv, "--rules", path("rules.txt")}, 0);
  EXPECT_EQ(result["problems"][0]["chosen"]["candidate"], "reference");
  write("rules.txt", "fprop:* -> cpu.int8\n");  // can't: the problem is f32
  EXPECT_NE(run({"explain", kConv, "--rules", path("rules.txt")}).exit_code, 0);
  const json fallback = run_json({"explain", kConv, "--rules", path("rules.txt"), "--rules-fallback"}, 0);
  EXPECT_NE(fallback["problems"][0]["chosen"]["candidate"], "cpu.int8");
}

TEST_F(Command, RulesSpeakOfFields) {
  write("rules.txt", "pass=fprop filter=1x1 -> cpu.int8\ngroups=1 filter>=3 -> reference # the oracle\n");
  const json result = run_json({"explain", kConv, "--rules", path("rules.txt"), "--strict"}, 0);
  EXPECT_EQ(result["problems"][0]["chosen"]["candidate"], "reference");
  write("rules.txt", "colour=red -> reference\n");
  expect_error({"explain", kConv, "--rules", path("rules.txt")}, 2, "'colour' is not a field");
  EXPECT_GT(run_json({"list", "rule-fields"}, 0)["rule_fields"].size(), 30U);
}

TEST_F(Command, FiltersMeanTheSameEverywhere) {
  const auto chosen = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"explain", kConv});
    const json chosen = run_json(flags, 0)["problems"][0]["chosen"];
    return chosen["candidate"].get<std::string>();
  };
  EXPECT_EQ(chosen({"--engines", "reference"}), "reference");
  EXPECT_FALSE(chosen({"--notes", "!TRANSFORMED_WEIGHTS"}).starts_with("cpu.gemm"));
  const json explained = run_json({"explain", kConv, "--notes", "!WINOGRAD", "--threads", "1"}, 0)["problems"][0];
  for (const json& engine : explained["engines"]) {
    if (engine["engine"] != "cpu.winograd" || engine.contains("refusal")) continue;
    EXPECT_EQ(engine["excluded"]["reason"], "notes='!WINOGRAD': this candidate has the note WINOGRAD");
  }
  EXPECT_FALSE(explained.contains("runner_up") &&
               explained["runner_up"]["candidate"].get<std::string>().starts_with("cpu.winograd"));
  EXPECT_NE(chosen({"--deterministic", "--config", "portable", "--objective", "workspace"}), "");
  EXPECT_NE(chosen({"--workspace-limit", "64M", "--no-runtime-compilation", "--allow", "tf32"}), "");
  expect_error({"explain", kConv, "--config", "tiny"}, 2, "--config: 'tiny' is not a configuration");
  expect_error({"explain", kConv, "--objective", "speed"}, 2, "--objective");
  const Finished energy = run({"explain", kConv, "--objective", "energy"});
  EXPECT_EQ(energy.exit_code, 4);
  EXPECT_NE(energy.out.find("energy is known by measuring only"), std::string::npos) << energy.out;
  expect_error({"explain", kConv, "--allow", "everything"}, 2, "--allow");
  expect_error({"explain", kConv, "--workspace-limit", "much"}, 2, "--workspace-limit");
  expect_error({"explain", kConv, "--workspace-limit", "-1"}, 2, "--workspace-limit: -1 is not a size");
  expect_error({"explain", kConv, "--dim", "N=1"}, 2, "--dim N=1: it is for networks");
  expect_error({"verify", kConv, "--timeout", "nan"}, 2, "--timeout: nan is not a number");
  expect_error({"conformance", "/tmp", "--rtol", "nan"}, 2, "--rtol: nan is not a number");
  expect_error({"plan", "zoo:squeezenet1_1", "--resize", "wide"}, 2, "--resize");
  expect_error({"plan", "zoo:squeezenet1_1", "--volume-axes", "abc"}, 2, "--volume-axes");
  expect_error({"plan", "zoo:squeezenet1_1", "--normalize", "loudly"}, 2, "--normalize");
  expect_error({"explain", kConv, "--budget", "10 parsecs"}, 2, "--budget");
  const json bench = run_json({"bench", kConv, "--budget", "200ms", "--warm", "--threads", "1"}, 0);
  EXPECT_FALSE(bench["problems"][0]["candidates"].empty());
}

TEST_F(Command, ConfigurationsAndProviderVariablesAreShown) {
  const json listed = run_json({"list", "engines"}, 0);
  for (const json& engine : listed["engines"]) {
    const std::string name = engine["name"];
    EXPECT_EQ(engine["device"], name.starts_with("cu") ? "cuda" : "cpu") << name;
    const bool oracle = name == "reference" || name == "cuda.reference";
    EXPECT_EQ(engine["dropped_by"].contains("portable"), !name.starts_with("cpu.") && !oracle) << name;
    const bool generates = (name.starts_with("onednn.") && name != "onednn.ref") || name.starts_with("cuda.");
    // Some are compiled for the problem, others beforehand.
    const bool by_candidate = name.starts_with("cudnn.") || name.ends_with(".in_f32") || name == "cpu.nhwc";
    EXPECT_EQ(engine["dropped_by"].contains("jit-only"), !generates && !oracle && !by_candidate) << name;
    EXPECT_FALSE(engine["dropped_by"].contains("full"));
  }
  EXPECT_TRUE(run_json({"doctor"}, 0).contains("provider_environment"));
}

TEST_F(Command, BenchMeasuresEveryCandidateAgainstTheOracle) {
  write("list.txt", "3 " + kConv + " # layer\n");
  const json result = run_json({"bench", path("list.txt"), "--budget", "1", "--threads", "1", "--vs", "reference"}, 0);
  const json& problem = result["problems"][0];
  EXPECT_EQ(problem["count"], 3);
  EXPECT_EQ(problem["partial"], false);
  bool oracle = false;
  for (const json& candidate : problem["candidates"]) {
    EXPECT_EQ(candidate["status"], "ok");
    EXPECT_LE(candidate["max_error"].get<double>(), 1);
    EXPECT_GT(candidate["seconds"].get<double>(), 0);
    oracle = oracle || candidate["engine"] == "reference";
  }
  EXPECT_TRUE(oracle);
  EXPECT_EQ(result["totals"]["layers"], 3);
  const json other = run_json({"bench", kConv, "--pass", "wgrad", "--engines", "reference", "--budget", "1"}, 0);
  EXPECT_TRUE(other["problems"][0]["problem"].get<std::string>().starts_with("wgrad:"));
}

TEST_F(Command, BenchesOperatorsAndConversions) {
  const std::string pool = "op:MaxPool:x=f32,1x16x20x20,nhwc:@kernel_shape=ints,2,2",
                    conversion = "convert:x=f32,1x16x20x20,nhwc:y=f32,1x16x20x20,nchw";
  for (const std::string& problem : {pool, conversion}) {
    const json result = run_json({"bench", problem, "--threads", "1"}, 0);
    EXPECT_TRUE(result["target"].get<std::string>().starts_with(problem.substr(0, 20)));
    for (const char* field : {"seconds", "bytes_per_second", "copy_seconds", "share_of_copy", "predicted_seconds"}) {
      EXPECT_GT(result[field], 0) << field;
    }
    EXPECT_GT(result["samples"], 0);
    EXPECT_EQ(result["caches"], "cold");
  }
  const Finished exported = run({"db", "export"});
  EXPECT_NE(exported.out.find("\"candidate\":\"ops.MaxPool\""), std::string::npos) << exported.out;
  EXPECT_NE(exported.out.find("\"candidate\":\"convert\""), std::string::npos) << exported.out;
  const json listed = run_json({"db", "show"}, 0);
  EXPECT_EQ(listed["records"].size(), 2u);
  const Finished shown = run({"db", "show"});
  EXPECT_EQ(shown.out.find("outdated"), std::string::npos) << shown.out;
  EXPECT_NE(run({"bench", pool, "--threads", "1"}).out.find("copy of as many bytes"), std::string::npos);
  expect_error({"bench", "op:MaxPool:x=f31,1x16"}, 2, "x: ");
  expect_error({"bench", "op:Softmax:x=f32,1x16x8x8,nchw8c"}, 4, "doesn't work in nchw8c");
  expect_error({"bench", pool, "--device", "cuda"}, 4, "");
}

TEST_F(Command, ZooModelsRunAndHumanOutputIsOnStandardOutput) {
  ASSERT_EQ(run({"zoo", "squeezenet1_1", "-o", path("model.onnx")}).exit_code, 0);
  const json result =
      run_json({"run", path("model.onnx"), "--random-inputs", "--top", "3", "--output-dir", path("o")}, 0);
  EXPECT_EQ(result["outputs"][0]["top"][0].size(), 3U);
  const auto output = io::read_npy(result["outputs"][0]["file"]);
  ASSERT_TRUE(output.ok()) << output.error().message;
  EXPECT_EQ(output->desc.elements(), 1000);
  EXPECT_GT(result["peak_memory_bytes"].get<double>(), 0);
  const Finished human = run({"run", "zoo:squeezenet1_1", "--random-inputs", "--verbose"});
  EXPECT_EQ(human.exit_code, 0) << human.err;
  EXPECT_NE(human.out.find("peak memory"), std::string::npos);
  EXPECT_EQ(human.out.find('\x1b'), std::string::npos);  // not a terminal
  expect_error({"run", "zoo:squeezenet1_1"}, 2, "--input NAME=FILE");
  const json beside =
      run_json({"run", "zoo:squeezenet1_1", "--random-inputs", "--beside", "heuristic", "--repeat", "5"}, 0)["beside"];
  EXPECT_GE(beside["turns"], 4);  // a disturbed one is left out
  EXPECT_LE(beside["turns"], 5);
  EXPECT_GT(beside["over_this"], 0);
  expect_error({"run", "zoo:squeezenet1_1", "--random-inputs", "--beside", "luck"}, 2, "--beside");
  expect_error({"run", "zoo:squeezenet1_1", "--input", "nothing=a.npy"}, 2, "no input 'nothing'");
  expect_error({"run", "zoo:squeezenet1_1", "--random-inputs", "--dim", "Q=3"}, 2, "--dim Q=3");
  write("short.npy", "\x93NUMPY");
  expect_error({"run", "zoo:squeezenet1_1", "--input", path("short.npy")}, 2, "short.npy");
  write("labels.txt", "one\ntwo\n");
  expect_error({"run", "zoo:squeezenet1_1", "--random-inputs", "--top", "1", "--labels", path("labels.txt")}, 2,
               "2 lines");
}

TEST_F(Command, ConformanceCountsAndReports) {
  // Two cases of the same model: one with the answer it gives, one with another.
  ASSERT_EQ(run({"zoo", "squeezenet1_1", "-o", path("model.onnx")}).exit_code, 0);
  const json answer = run_json({"run", path("model.onnx"), "--random-inputs", "--output-dir", path("o")}, 0);
  HostTensor output = *io::read_npy(answer["outputs"][0]["file"]);
  // --random-inputs is reproducible, so the same input can be had from a second place.
  HostTensor input = *random_tensor(TensorDesc::packed(DataType::f32, answer["inputs"][0]["dims"].get<Dims>()), 1);
  for (const std::string name : {"right", "wrong", "broken"}) {
    const fs::path set = folder_ / "cases" / name / "test_data_set_0";
    fs::create_directories(set);
    fs::copy_file(path("model.onnx"), set.parent_path() / "model.onnx");
    if (name == "broken") fs::resize_file(set.parent_path() / "model.onnx", 1000);
    if (name == "wrong") output.as<float>()[17] += 1;
    ASSERT_TRUE(onnx_io::write_tensor_file(set / "input_0.pb", input, "").ok());
    ASSERT_TRUE(onnx_io::write_tensor_file(set / "output_0.pb", output, "").ok());
  }
  const json result = run_json({"conformance", path("cases")}, 1);
  EXPECT_EQ(result["passed"], 1) << result.dump(1);
  EXPECT_EQ(result["failed"], 2);
  for (const json& c : result["cases"]) {
    EXPECT_EQ(c["status"], c["name"] == "right" ? "passed" : "failed");
    if (c["name"] == "wrong") {
      EXPECT_NE(c["reason"].get<std::string>().find("element 17"), std::string::npos);
    }
  }
  EXPECT_EQ(run({"conformance", path("cases"), "--filter", "right"}).exit_code, 0);
  EXPECT_EQ(run({"conformance", path("cases"), "--filter", "wrong", "--atol", "2"}).exit_code, 0);
  expect_error({"conformance", path("cases"), "--filter", "none"}, 2, "none");
  const Finished nothing = run({"conformance", path("cases"), "--filter", "right", "--engines", "cpu.depthwise"});
  EXPECT_EQ(nothing.exit_code, 4) << nothing.out;
  EXPECT_NE(nothing.err.find("nothing passed: every case that was found is unsupported"), std::string::npos);
}

TEST_F(Command, PicturesSayWhatTheirNamesSay) {
  const fs::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "skipped: no data";
  const std::pair<const char*, const char*> pictures[] = {{"kitten_224.png", "tabby"},
                                                          {"pelican.jpeg", "pelican"},
                                                          {"bald_eagle.jpeg", "bald eagle"},
                                                          {"fish_720.png", "tench"}};
  for (const auto& [picture, label] : pictures) {
    const json result =
        run_json({"run", data / "models/squeezenet1.1-7/model.onnx", "--input", data / "images" / picture, "--top", "1",
                  "--labels", data / "images/imagenet_labels_1000.txt"},
                 0);
    const json& best = result["outputs"][0]["top"][0][0];
    EXPECT_TRUE(best["label"].get<std::string>().starts_with(label)) << best;
    if (std::string(label) == "tabby") {
      EXPECT_NEAR(best["probability"].get<double>(), 0.76, 0.01);
    }
  }
}

TEST(PictureInput, IsWhatTheReferenceGotOutOfTheSamePicture) {
  const fs::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "skipped: no data";
  const auto expected = onnx_io::read_tensor_file(data / "models/squeezenet1.1-7/test_data_set_4/input_0.pb");
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  const auto picture = io::read_picture(data / "images/pelican.jpeg");
  ASSERT_TRUE(picture.ok()) << picture.error().message;
  io::PictureOptions options;
  options.resize = io::ResizeMode::exact;
  const auto tensor = io::picture_to_tensor(*picture, DataType::f32, {1, 3, 224, 224}, options);
  ASSERT_TRUE(tensor.ok()) << tensor.error().message;
  const double step = 1 / 255.0 / 0.224;  // one pixel value; decoders and rounding differ by no more
  int different = 0;
  for (std::int64_t i = 0; i < tensor->desc.elements(); ++i) {
    const double error = std::abs(tensor->at(i) - expected->tensor.at(i));
    EXPECT_LT(error, 1.05 * step) << i;
    different += error > 1e-5;
  }
  EXPECT_LT(different, tensor->desc.elements() / 100);
}

TEST(VolumeInput, IsWhatTheReferenceGotOutOfTheSameVolume) {
  const fs::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "skipped: no data";
  const auto crop = onnx_io::read_tensor_file(data / "models/meshnet_gwm_5ch/test_data_set_0/input_0.pb");
  ASSERT_TRUE(crop.ok()) << crop.error().message;
  const auto volume = io::read_nifti(data / "images/t1_brain_mri_256.nii.gz");
  ASSERT_TRUE(volume.ok()) << volume.error().message;
  const auto tensor = io::volume_to_tensor(*volume, DataType::f32, {1, 1, -1, -1, -1}, {});
  ASSERT_TRUE(tensor.ok()) << tensor.error().message;
  std::int64_t at = 0;
  for (std::int64_t d = 96; d < 144; ++d) {
    for (std::int64_t h = 96; h < 144; ++h) {
      for (std::int64_t w = 96; w < 144; ++w, ++at) {
        ASSERT_NEAR(tensor->at((d * 256 + h) * 256 + w), crop->tensor.at(at), 1e-6);
      }
    }
  }
}

HostTensor tensor_of(DataType type, Dims dims, const std::vector<double>& values) {
  HostTensor tensor = *HostTensor::zeros(TensorDesc::packed(type, std::move(dims)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_from_double(type, tensor.data.get(), static_cast<std::int64_t>(i), values[i]);
  }
  return tensor;
}

TEST(CompareOutputs, TolerancesFollowTypeModelSizeAndQuantization) {
  const auto ok = [](DataType type, double actual, double expected, int nodes, bool quantized) {
    return compare_outputs(tensor_of(type, {2}, {actual, 100}), tensor_of(type, {2}, {expected, 100}), nodes, quantized,
                           {})
        .ok;
  };
  EXPECT_TRUE(ok(DataType::f32, 1.0009, 1, 1, false));
  EXPECT_FALSE(ok(DataType::f32, 1.0011, 1, 1, false));
  EXPECT_FALSE(ok(DataType::f32, 0.0005, 0, 10, false));
  EXPECT_TRUE(ok(DataType::f32, 2.3e-5, 0, 10, false));
  EXPECT_FALSE(ok(DataType::f32, 2.5e-5, 0, 10, false));  // no more than four roundings of 100
  EXPECT_TRUE(ok(DataType::f32, 0.0005, 0, 11, false));   // 1e-5 of 100
  EXPECT_TRUE(ok(DataType::f16, 1.009, 1, 1, false));
  EXPECT_FALSE(ok(DataType::u8, 4, 5, 1, false));
  EXPECT_TRUE(ok(DataType::u8, 4, 5, 1, true));
  EXPECT_FALSE(ok(DataType::u8, 3, 5, 1, true));
  EXPECT_FALSE(ok(DataType::s64, 4, 5, 1, true));
  EXPECT_TRUE(ok(DataType::f32, NAN, NAN, 1, false));
  EXPECT_FALSE(ok(DataType::f32, NAN, 1, 1, false));
  EXPECT_FALSE(ok(DataType::f32, 1, NAN, 1, false));
  EXPECT_TRUE(ok(DataType::f32, INFINITY, INFINITY, 1, false));
  EXPECT_FALSE(ok(DataType::f32, -INFINITY, INFINITY, 1, false));
  EXPECT_FALSE(
      compare_outputs(tensor_of(DataType::f32, {2}, {}), tensor_of(DataType::f32, {1, 2}, {}), 1, false, {}).ok);
  EXPECT_FALSE(compare_outputs(tensor_of(DataType::f32, {2}, {}), tensor_of(DataType::f64, {2}, {}), 1, false, {}).ok);
}

TEST(DemoPicture, IsAPictureWithContrast) {
  const io::Picture picture = demo_picture(64, 48);
  ASSERT_EQ(picture.rgb.size(), 64U * 48 * 3);
  const auto [low, high] = std::minmax_element(picture.rgb.begin(), picture.rgb.end());
  EXPECT_GT(*high - *low, 150);
}

TEST_F(Command, TuneRemembersAndRunTakesIt) {
  expect_error({"db", "show"}, 2, "there is no tuning database");
  expect_error({"db", "gc"}, 2, "there is no tuning database");
  EXPECT_FALSE(fs::exists(path("tuning.db")));
  EXPECT_EQ(run_json({"db", "path"}, 0)["exists"], false);
  EXPECT_FALSE(fs::exists(path("tuning.db")));

  const json first = run_json({"tune", kConv, "--threads", "1", "-o", path("a.rules")}, 0);
  EXPECT_GT(first["measured"], 0);
  EXPECT_EQ(first["partial"], 0);
  const json second = run_json({"tune", kConv, "--threads", "1", "-o", path("b.rules")}, 0);
  EXPECT_EQ(second["measured"], 0);
  EXPECT_EQ(second["plan"], first["plan"]);
  EXPECT_EQ(second["problems"][0]["reason"], "stored");
  const json again = run_json({"tune", kConv, "--threads", "1", "--again"}, 0);
  EXPECT_EQ(again["measured"], first["measured"]);

  const Finished exported = run({"db", "export"});
  write("export.jsonl", exported.out);
  EXPECT_EQ(run_json({"db", "import", path("export.jsonl")}, 0)["files"][0]["added"], 0);
  EXPECT_EQ(run_json({"db", "merge", path("tuning.db")}, 0)["files"][0]["replaced"], 0);
  EXPECT_EQ(run({"db", "export"}).out, exported.out);
  const json shown = run_json({"db", "show", "--engines", "cpu.gemm"}, 0);
  ASSERT_EQ(shown["records"].size(), 1u);
  EXPECT_EQ(shown["records"][0]["state"] == "partial", false);
  const json verified = run_json({"db", "verify", "--sample", "2", "--budget", "5"}, 0);
  EXPECT_EQ(verified["failed"], 0);
  EXPECT_GT(verified["checked"], 0);
  EXPECT_EQ(run_json({"db", "gc", "--dry-run"}, 0)["old_revisions"], 0);

  write("bad.jsonl", exported.out + "{\"problem\":1}\n");
  expect_error({"db", "import", path("bad.jsonl")}, 2, "'problem' is 1");
  write("tuning.db", "not a database");
  expect_error({"tune", kConv}, 2, "not a tuning database");
  expect_error({"db", "show"}, 2, path("tuning.db"));
  const Finished without = run({"run", "zoo:squeezenet1_1", "--random-inputs", "--dim", "N=1"});
  EXPECT_EQ(without.exit_code, 0);
  EXPECT_NE(without.err.find("without the tuning database"), std::string::npos) << without.err;
}

// Sizes at which a run takes about a millisecond, so that a budget of seconds is enough for everything.
// However short the budget one candidate is measured, unless that would take many seconds: then tune fails.
TEST_F(Command, TuneThatMeasuredNothingFails) {
  EXPECT_EQ(run_json({"tune", kConv, "--budget", "0.000001"}, 0)["measured"], 1);
  const std::string huge = "fprop:x=f32,256x512x112x112,nhwc:w=f32,512x512x3x3,nhwc:pad=1x1";
  EXPECT_EQ(run_json({"tune", huge, "--budget", "0.01"}, 1)["measured"], 0);
  const Finished said = run({"tune", huge, "--budget", "0.01"});
  EXPECT_NE((said.out + said.err).find("nothing was measured: --budget 0.01 ended"), std::string::npos)
      << said.out << said.err;
}

TEST_F(Command, ANetworkIsTunedWhereItRunsWithinItsBudget) {
  const std::vector<std::string> network = {"zoo:squeezenet1_1", "--dim", "H=64", "--dim", "W=64", "--threads", "1"};
  const auto with = [&](const std::string& command, const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {command};
    arguments.insert(arguments.end(), network.begin(), network.end());
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return arguments;
  };
  const auto start = std::chrono::steady_clock::now();
  const json partly = run_json(with("tune", {"--budget", "1s"}), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));  // also on a busy machine
  EXPECT_LT(partly["seconds"], 5);
  EXPECT_GT(partly["measured"], 0);

  const json first = run_json(with("tune", {"--budget", "0", "--again"}), 0);
  EXPECT_EQ(first["partial"], 0);
  int compared = 0;
  for (const json& problem : first["problems"]) {
    EXPECT_FALSE(problem["candidates"].empty());
    if (problem["in_network"].empty()) continue;
    ++compared;
    EXPECT_EQ(problem["reason"], "network hint");
    const auto chosen = std::find_if(problem["in_network"].begin(), problem["in_network"].end(),
                                     [&](const json& m) { return m["candidate"] == problem["candidate"]; });
    ASSERT_NE(chosen, problem["in_network"].end());
    EXPECT_EQ((*chosen)["state"], "complete");
  }
#ifndef __SANITIZE_ADDRESS__  // whose times leave nothing in doubt
  EXPECT_GT(compared, 0);
#endif

  const json second = run_json(with("tune", {}), 0);
  EXPECT_EQ(second["measured"], 0);
  EXPECT_EQ(second["plan"], first["plan"]);
  EXPECT_TRUE(second["plans"].is_null()) << "nothing was measured, so the kept plan stays";
  const json obeyed = run_json(with("run", {"--random-inputs"}), 0);
  for (const json& step : obeyed["steps"]) {
    if (step["kind"] != "conv") continue;
    EXPECT_EQ(step["reason"], "plan");
  }
  const json ran = run_json(with("run", {"--random-inputs", "--how", "greedy"}), 0);
  bool followed = false;
  for (const json& step : ran["steps"]) {
    followed = followed || (step["kind"] == "conv" && step["reason"] == "network hint");
  }
  EXPECT_EQ(followed, compared > 0);
  EXPECT_EQ(run_json({"db", "verify", "--sample", "2", "--budget", "5"}, 0)["failed"], 0);
  const json alone = run_json(with("tune", {"--warm", "--budget", "1ms"}), 0);
  EXPECT_TRUE(alone["speedup"].is_null());
}

TEST_F(Command, AnInterruptedTuneOfANetworkLeavesAPartialRecord) {
  const Finished result = run({"tune", "zoo:densenet121", "--threads", "1", "--budget", "60", "--json"}, 5);
  EXPECT_EQ(result.exit_code, 130) << result.err;
  const json document = json::parse(result.out, nullptr, false);
  ASSERT_TRUE(document.is_object()) << result.out;
  EXPECT_EQ(document["interrupted"], true);
  EXPECT_GT(document["partial"], 0);
  EXPECT_LT(document["seconds"], 20);
  for (const json& problem : document["problems"]) EXPECT_TRUE(problem.contains("candidate"));
  const json rows = run_json({"db", "path"}, 0)["measurements"];
  EXPECT_GT(rows, 0);
  EXPECT_LE(rows, document["stored"]) << "one that was measured further replaces its row";
}

}  // namespace
}  // namespace convoy::cli
