// A processor for each thread of a team.
#pragma once

#include <atomic>
#include <memory>

namespace convoy {

// Linux wakes a thread where the one that wakes it runs, and a guest of a virtual machine does so even while another
// processor is idle, since that one looks preempted. The two then share a processor until the kernel balances its load,
// which takes milliseconds, and each part waits until who spins for it goes to sleep: a network of 1.8 ms on two
// threads took 15 after a pause of 10 ms. So who finds itself where an earlier thread of its team runs goes elsewhere.
// It is not bound to that place: the kernel may move it again.
class Apart {
 public:
  explicit Apart(int threads) : threads_(threads), last_runs_(new LastRun[static_cast<std::size_t>(threads)]) {}

  // From before a team's parallel region until after it. Costs 0.1 us where nothing is to do.
  class Region {
   public:
    explicit Region(Apart& apart);
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;
    // By each of `present` threads as it begins. If there was no region for a while, others may be asleep, and thread 0
    // leaves them its processor until they are awake and gone from there.
    void enter(int thread, int present);

   private:
    Apart& apart_;
    const bool may_sleep_;
    std::atomic<int> awake_ = 0;
  };

 private:
  struct LastRun {
    std::atomic<int> processor = -1;  // where the thread was last
    std::atomic<double> moved = 0;    // when; seconds
  };
  void settle(int thread);
  void move(LastRun& own);

  int threads_;
  std::unique_ptr<LastRun[]> last_runs_;
  std::atomic<double> ended_ = 0;  // when the last region did; seconds
};

}  // namespace convoy
