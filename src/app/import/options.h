#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::app::import {

// The command line of `sluice import`.
struct Options {
  std::string table;  // as the configuration would write it: films, archive.films
  std::string file;   // "-": standard input
  std::string configuration = "sluice.toml";
  std::string database;           // a name in the configuration, or a URL; empty: the only one
  std::string format;             // csv, csj, ndjson, json; empty: the file's extension says it
  std::string delimiter;          // of csv: one character of ASCII, or "\\t"; empty: a comma
  std::vector<std::string> keys;  // columns; empty: those of the primary key
  std::uint64_t batch = 10'000;   // rows of a transaction
  bool dry_run = false;
  bool restart = false;
};

}  // namespace sluice::app::import
