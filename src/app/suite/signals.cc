#include "app/suite/signals.h"

#include <cerrno>
#include <system_error>

#include <sys/signalfd.h>
#include <unistd.h>

namespace sluice::app::suite {

Signals::Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  descriptor_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ < 0) throw std::system_error(errno, std::generic_category(), "signalfd");
}

Signals::~Signals() {
  ::close(descriptor_);
  restore();
}

bool Signals::interrupted() {
  signalfd_siginfo info{};
  if (signal_ == 0 && ::read(descriptor_, &info, sizeof info) == sizeof info)
    signal_ = static_cast<int>(info.ssi_signo);
  return signal_ != 0;
}

void Signals::restore() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace sluice::app::suite
