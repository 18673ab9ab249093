// `convoy exec --tune`: measures what a program's processes ask cuDNN for, while they wait for it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "cli/choice_file.h"
#include "cli/program.h"
#include "convoy/tuning_database.h"

namespace convoy::cli {

class TuningServer {
 public:
  // Programs may ask at `socket`, a path that nobody has, and stores in the database. Of each problem that a process
  // asks for what cuDNN offers first and Convoy's own engines are measured, for `seconds` in all; from then on answers
  // are what is stored. `options`: of the choice file that the program has.
  static Result<std::unique_ptr<TuningServer>> listen(const Program& program, const ChoiceOptions& options,
                                                      const std::string& socket, double seconds);
  ~TuningServer();
  TuningServer(const TuningServer&) = delete;

  // Answers, on a thread of its own, from now on; before that who asks waits. (What forks does so before.)
  void begin();
  // Ends what is being measured. What was done, a sentence.
  std::string end();

 private:
  struct State;
  explicit TuningServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  std::jthread thread_;
};

}  // namespace convoy::cli
