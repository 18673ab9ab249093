// A record for tests, from its lines.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>

#include "report/record.h"

namespace convoy::report {

inline Record record_of(std::initializer_list<std::string> lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  auto record = parse_record(text, "r.jsonl");
  EXPECT_TRUE(record.ok()) << record.error().message;
  return *std::move(record);
}

}  // namespace convoy::report
