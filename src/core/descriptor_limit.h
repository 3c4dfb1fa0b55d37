#pragma once

#include <cstdint>

namespace sluice::core {

// Raises the process's limit on open files as far as the system allows, and returns it; UINT64_MAX: no limit.
std::uint64_t raise_descriptor_limit() noexcept;

// The limit on the numbers of descriptors for clients. The rest is for everything else that a server opens.
[[nodiscard]] int descriptors_for_clients() noexcept;

}  // namespace sluice::core
