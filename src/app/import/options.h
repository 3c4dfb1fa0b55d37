#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::app::import {

// The command line of `sluice import`.
struct Options {
  std::string table;  // as in the configuration: films, archive.films
  std::string file;   // "-": standard input
  std::string configuration = "sluice.toml";
  std::string database;           // a name in the configuration, or a URL; empty: the only one
  std::string format;             // csv, csj, ndjson, json; empty: by the file's extension
  std::string delimiter;          // of csv: an ASCII character, or "\\t"; empty: a comma
  std::vector<std::string> keys;  // columns; empty: those of the primary key
  std::uint64_t batch = 10'000;   // rows per transaction
  bool dry_run = false;
  bool restart = false;
};

}  // namespace sluice::app::import
