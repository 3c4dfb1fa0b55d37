#pragma once

#include <csignal>

namespace sluice::app::suite {

// Turns SIGINT and SIGTERM into a state to poll, so that the program can remove what it created before it ends. The
// signals are blocked on the thread that constructs this object and on threads that it starts.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  ~Signals();

  // Becomes readable after a signal, for poll().
  [[nodiscard]] int descriptor() const { return descriptor_; }
  // Whether a signal has arrived since the start.
  [[nodiscard]] bool interrupted();
  // The first signal that arrived; 0 if none has.
  [[nodiscard]] int signal() const { return signal_; }

  // For a child process: restores the signal mask that the program started with.
  void restore() const;

 private:
  sigset_t before_{};
  int descriptor_ = -1;
  int signal_ = 0;
};

}  // namespace sluice::app::suite
