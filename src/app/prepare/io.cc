#include "app/prepare/io.h"

#include <memory>
#include <system_error>
#include <vector>

namespace sluice::app {

const char* name_of(core::BackEnd back_end) { return back_end == core::BackEnd::uring ? "io_uring" : "epoll"; }

std::expected<Io, std::string> choose_io(IoChoice choice, unsigned cores) {
  // With keep-alive connections, epoll needs less CPU time (docs/decisions/0004-io_uring.md).
  if (choice != IoChoice::uring) return Io{};
  // Creates all reactors at the same time, because the limits of the system apply to their sum.
  std::vector<std::unique_ptr<core::Reactor>> tried;
  try {
    while (tried.size() < cores) tried.push_back(core::make_uring_reactor());
  } catch (const std::system_error& error) {
    return std::unexpected(error.what());
  }
  return Io{core::BackEnd::uring};
}

}  // namespace sluice::app
