#pragma once

#include <cstdlib>
#include <cstring>
#include <string_view>

#include <unistd.h>

// Code that all rungs of the exports' ladder share. Each program writes the rows of a query to standard output.
namespace exports {

// The bytes are those of `COPY ... (FORMAT csv, HEADER)`, or JSON values separated by commas after a line of names.
enum class Format : bool { csv, csj };

struct Arguments {
  const char* connection;  // an address as libpq takes it
  const char* sql;
  Format format;
};

// usage: NAME CONNECTION SQL csv|csj
inline Arguments arguments(int count, char** values) {
  if (count != 4) std::exit(2);
  return {values[1], values[2], std::strcmp(values[3], "csj") == 0 ? Format::csj : Format::csv};
}

// A rung that collects text writes it when it has at least this many bytes.
inline constexpr std::size_t full = 64 * 1024;

inline void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0) std::exit(1);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace exports
