#pragma once

#include <cstddef>

// How often this process has allocated memory: calls of malloc, calloc, realloc, and of the functions for aligned
// memory.
extern "C" std::size_t allocations_made();
