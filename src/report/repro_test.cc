#include "report/repro.h"

#include <gtest/gtest.h>

#include "select/testing/faulty_engine.h"

namespace convoy::report {
namespace {

using selection::CandidateChecker;
using selection::CheckFault;
using selection::CheckOutcome;
using testing::EngineFault;
using testing::FaultyEngine;

Repro example() {
  Repro repro;
  repro.setup.problem = *parse_problem("fprop:x=f32,1x4x9x9,nchw:w=f32,4x4x3x3:pad=1x1:bias=1:act=clip,0,6");
  repro.setup.request.cpu = cpu_features();
  repro.setup.request.threads = 3;
  repro.setup.repeats = 4;
  repro.setup.seed = 77;
  repro.setup.constant_weights = false;
  repro.setup.trusted = Candidate{"fake.other", {{"m", 4}}};
  repro.candidate = {"fake.engine", {{"order", "rows"}, {"tile", 2}}};
  repro.fault = "wrong_result";
  repro.failure = "out[0] is 1, the oracle says 0";
  repro.revision = 5;
  repro.provider = "Library 1.2";
  repro.versions = {{"convoy", "0.1.0"}};
  repro.date = "2026-11-21T12:00:00Z";
  return repro;
}

TEST(Repro, LosesNothing) {
  const Repro repro = example();
  const auto read = parse_repro(dump(to_json(repro)));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(repro));
  EXPECT_EQ(read->setup.problem, repro.setup.problem);
  EXPECT_EQ(read->setup.trusted, repro.setup.trusted);
  EXPECT_EQ(missing_features(read->setup.request.cpu, cpu_features()), "");
}

TEST(Repro, AGpuIsRecordedToo) {
  Repro repro = example();
  repro.setup.request.cuda = CudaDevice{.ordinal = 1, .name = "NVIDIA H200", .architecture = 90, .driver = "580.1"};
  repro.setup.request.target_sms = 66;
  const auto read = parse_repro(dump(to_json(repro)));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(repro));
  EXPECT_EQ(read->setup.request.cuda->name, "NVIDIA H200");
  EXPECT_EQ(read->setup.request.target_sms, 66);
}

TEST(Repro, KnobsFromBeforeTheyHadNamesAreSaid) {
  Repro old = example();
  old.candidate = {"cpu.direct", {{"tile", 142}}};
  old.setup.trusted = Candidate{"onednn.gemm", {{"layout", 1}}};
  const auto read = parse_repro(dump(to_json(old)));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(print(read->candidate), "cpu.direct{channel_vectors=2,positions=14}");
  EXPECT_EQ(read->remarks,
            (std::vector<std::string>{
                "repro.knobs: cpu.direct{tile=142} is written cpu.direct{channel_vectors=2,positions=14} now",
                "repro.compared_with: onednn.gemm{layout=1} is written onednn.gemm{layout=preferred} now"}));
  EXPECT_EQ(parse_repro(dump(to_json(*read)))->remarks, std::vector<std::string>());
}

TEST(Repro, BrokenFilesAreNamedByField) {
  const auto refused = [](const char* field, Json value) {
    Json json = to_json(example());
    json[Json::json_pointer(field)] = std::move(value);
    const auto read = parse_repro(dump(json));
    return read.ok() ? std::string() : read.error().message;
  };
  EXPECT_NE(refused("/threads", 0).find("repro.threads: 0 is not from 1 to 1024"), std::string::npos);
  EXPECT_NE(refused("/threads", 1.5).find("repro.threads"), std::string::npos);
  EXPECT_NE(refused("/repeats", 18446744073709551615u).find("repro.repeats"), std::string::npos);
  EXPECT_NE(refused("/seed", -1).find("repro.seed"), std::string::npos);
  EXPECT_NE(refused("/problem", "fprop:x=f32,1x4").find("repro.problem"), std::string::npos);
  EXPECT_NE(refused("/problem", "fprop:x=f32,1x4x9x9:w=f32,4x5x3x3").find("repro.problem: "), std::string::npos);
  EXPECT_NE(refused("/knobs", 3).find("repro.knobs"), std::string::npos);
  for (const Json& value : {Json(1.5), Json("2"), Json("a}b"), Json("")}) {
    EXPECT_NE(refused("/knobs/tile", value).find("repro.knobs.tile"), std::string::npos) << dump(value);
  }
  EXPECT_NE(refused("/device/isa", "neon").find("repro.device.isa"), std::string::npos);
  EXPECT_NE(refused("/device/kind", "tpu").find("none of cpu, cuda"), std::string::npos);
  EXPECT_NE(refused("/device/kind", "cuda").find("repro.device.name: it is missing"), std::string::npos);
  EXPECT_NE(refused("/device/extensions/amx_bf16", 1).find("repro.device.extensions.amx_bf16"), std::string::npos);
  EXPECT_NE(refused("/compared_with", "{").find("repro.compared_with"), std::string::npos);
  EXPECT_NE(refused("/convoy_repro", 2).find("newer"), std::string::npos);
  for (const char* text : {"", "[]", "{}", "nonsense", "\xff\xfe"}) EXPECT_FALSE(parse_repro(text).ok()) << text;
  Json incomplete = to_json(example());
  incomplete.erase("engine");
  EXPECT_EQ(parse_repro(dump(incomplete)).error().message, "repro.engine: it is missing");
}

TEST(Repro, SaysWhatTheProcessorLacks) {
  CpuFeatures recorded, here;
  recorded.isa = Isa::avx512;
  recorded.amx_bf16 = true;
  here.isa = Isa::avx2;
  EXPECT_EQ(missing_features(recorded, here), "avx512 amx_bf16");
  EXPECT_EQ(missing_features(here, recorded), "");
}

// What fails fails again from what was written, and only with the engine at fault.
TEST(Repro, AFailureHappensAgainFromItsFile) {
  const FaultyEngine wrong(EngineFault::wrong), good(EngineFault::none);
  Repro repro = example();
  repro.setup.trusted.reset();
  repro.candidate.knobs.clear();  // this engine has none
  const Engine* engines[] = {&wrong};
  const CheckOutcome outcome = CandidateChecker::make(repro.setup, engines)->check(repro.candidate);
  ASSERT_EQ(outcome.fault, CheckFault::wrong_result);
  repro.fault = name_of(outcome.fault);
  repro.failure = outcome.failure;

  const auto read = parse_repro(dump(to_json(repro)));
  ASSERT_TRUE(read.ok());
  const CheckOutcome again = CandidateChecker::make(read->setup, engines)->check(read->candidate);
  EXPECT_EQ(again.fault, CheckFault::wrong_result);
  EXPECT_EQ(again.failure, read->failure);
  const Engine* mended[] = {&good};
  EXPECT_EQ(CandidateChecker::make(read->setup, mended)->check(read->candidate).fault, CheckFault::none);
  EXPECT_EQ(file_name(*read), file_name(repro));
}

}  // namespace
}  // namespace convoy::report
