#include "device/onednn_signals.h"

#include <omp.h>

namespace convoy::onednn {

WithoutSignals::WithoutSignals(int threads) : before_(static_cast<std::size_t>(threads)) {
  if (before_.empty()) return;
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&blocked, fault);
#pragma omp parallel num_threads(threads)
  pthread_sigmask(SIG_BLOCK, &blocked, &before_[static_cast<std::size_t>(omp_get_thread_num())]);
}

WithoutSignals::~WithoutSignals() {
  if (before_.empty()) return;
#pragma omp parallel num_threads(static_cast <int>(before_.size()))
  pthread_sigmask(SIG_SETMASK, &before_[static_cast<std::size_t>(omp_get_thread_num())], nullptr);
}

}  // namespace convoy::onednn
