#pragma once

#include <csignal>

namespace sluice::app::suite {

// SIGINT and SIGTERM as something that is asked for, so that what was created is removed before the program ends.
// Blocked on the thread that made it, and on those that it starts.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  ~Signals();

  // Readable once a signal has come: for poll().
  [[nodiscard]] int descriptor() const { return descriptor_; }
  // Whether one has come, ever.
  [[nodiscard]] bool interrupted();
  // The first that came; 0: none.
  [[nodiscard]] int signal() const { return signal_; }

  // In a child: as the program found them.
  void restore() const;

 private:
  sigset_t before_{};
  int descriptor_ = -1;
  int signal_ = 0;
};

}  // namespace sluice::app::suite
