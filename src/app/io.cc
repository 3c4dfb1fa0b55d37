#include "app/io.h"

#include <memory>
#include <system_error>
#include <vector>

namespace sluice::app {

const char* name_of(core::BackEnd back_end) { return back_end == core::BackEnd::uring ? "io_uring" : "epoll"; }

std::string Io::text() const {
  std::string text = name_of(back_end);
  if (!why.empty()) text += " (" + why + ")";
  return text;
}

std::expected<Io, std::string> choose_io(IoChoice choice, unsigned cores) {
  if (choice == IoChoice::epoll) return Io{};
  // All at the same time: what runs out with the number of cores runs out here.
  std::vector<std::unique_ptr<core::Reactor>> tried;
  try {
    while (tried.size() < cores) tried.push_back(core::make_uring_reactor());
  } catch (const std::system_error& error) {
    if (choice == IoChoice::uring) return std::unexpected(error.what());
    return Io{core::BackEnd::epoll, error.what()};
  }
  return Io{core::BackEnd::uring, {}};
}

}  // namespace sluice::app
