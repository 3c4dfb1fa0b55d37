#pragma once

#include <expected>
#include <string>

#include "app/options.h"
#include "core/reactor.h"

namespace sluice::app {

// What the cores wait for their sockets with.
struct Io {
  core::BackEnd back_end = core::BackEnd::epoll;
};

[[nodiscard]] const char* name_of(core::BackEnd back_end);

// What [server] io gives on this system for so many cores: tried, by making what they will make. The failure is why
// it cannot be what was asked for.
[[nodiscard]] std::expected<Io, std::string> choose_io(IoChoice choice, unsigned cores);

}  // namespace sluice::app
