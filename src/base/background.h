// Work whose outcome somebody may want later.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <stop_token>
#include <thread>

namespace convoy {

// Threads of lower priority than others, which end when nothing is left to do.
class Background {
 public:
  // Ends soon once it is asked to stop. It may add others. What it throws is dropped.
  using Job = std::function<void(const std::stop_token&)>;

  explicit Background(int most_threads) : most_threads_(most_threads) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background() { stop(); }

  // Returns at once.
  void add(Job job);
  // Waits until all is done.
  void finish() { wait(); }
  // Drops what waits, asks what is under way to stop, and waits for it. Nothing is taken any more.
  void stop();

 private:
  using Threads = std::list<std::jthread>;
  void run(Threads::iterator own);
  void wait();

  const int most_threads_;
  std::mutex mutex_;
  std::condition_variable ended_;  // a thread
  Threads running_, over_;
  std::stop_source stop_;
  std::deque<Job> waiting_;
};

// Whether this process has a background: it may run on 8 processors or more, and was not forked from one that had jobs.
bool has_background();

// A job of the process's background, if it has one. A process that ends stops it.
void in_background(Background::Job job);

// What has been registered for the exit so far, as libraries do when they are first used, is to run after the
// background has been stopped.
void stop_background_first();

}  // namespace convoy
