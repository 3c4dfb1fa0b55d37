#pragma once

#include <expected>
#include <string>

#include "app/options.h"
#include "core/reactor.h"

namespace sluice::app {

// How the cores wait for their sockets.
struct Io {
  core::BackEnd back_end = core::BackEnd::epoll;
};

[[nodiscard]] const char* name_of(core::BackEnd back_end);

// The back end that [server] io selects on this system for this many cores. It is tested by creating as many reactors
// as the cores will need. The error says why the back end asked for is not available.
[[nodiscard]] std::expected<Io, std::string> choose_io(IoChoice choice, unsigned cores);

}  // namespace sluice::app
