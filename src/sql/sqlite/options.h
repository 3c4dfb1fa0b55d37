#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::sql {

// Identifies the file that a path led to.
struct SqliteFile {
  std::string path;  // without symbolic links; SQLite keeps `path`-wal and `path`-shm beside it
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const SqliteFile&) const = default;
};

// One SQLite file. The file must exist: a mistyped path is an error at start, never a new and empty database.
struct SqliteOptions {
  std::string path;
  std::optional<SqliteFile> file{};  // if set, exactly this file, even if `path` now leads to another
  bool read_only = false;            // open nothing for writing; the file keeps its journal mode
  bool untrusted = false;  // the file comes from somebody else: its schema may use only what SQLite calls innocuous
  std::uint32_t busy_timeout_ms = 2'000;  // how long a pool thread or the writer waits for another process's lock
  std::uint64_t mmap_bytes = 1ull << 30;  // how much of the file look-ups on a core read through memory mapping
  std::uint32_t cache_kib = 2'048;        // page cache of each connection
  std::uint32_t scan_connections = 2;     // statements of one core that may run in the blocking pool at the same time
  std::uint32_t scan_queue = 1024;        // statements of one core that may wait for that; further ones are refused
  std::uint32_t scan_wait_ms = 5'000;     // how long they wait before they are refused
  std::uint32_t statement_timeout_ms =
      30'000;                // limit for SQLite's work on one block of a scan, unless the query sets one; 0: unbounded
  bool durable = true;       // synchronous=FULL: an answered write survives a power cut
  bool foreign_keys = true;  // the writer enforces foreign keys
  std::uint32_t row_bytes = 64 << 20;  // limit for a row of an answer, and for each value
  std::uint32_t write_queue = 1'024;   // requests that may wait for the writer; further ones are refused
  std::uint32_t write_batch = 256;     // the most requests in one commit
  std::uint32_t hold_ms = 5'000;       // how long the writer waits for a transaction's next statement
};

}  // namespace sluice::sql
