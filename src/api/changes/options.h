#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/declare.h"

namespace sluice::api::changes {

// [endpoint.changes]
struct Options {
  Located<std::string> notify;
  std::vector<Located<std::string>> tables;
  std::uint32_t keep = 1024;
  ByteSize keep_bytes = 1_MiB;
  std::uint32_t clients = 1000;
  Duration heartbeat = 15s;
  Duration retry = 2s;
  Position position;

  // PostgreSQL cuts longer names, and would then tell of another channel than the one that is listened for.
  static std::string check_channel(std::string_view text) {
    if (text.size() > 63) return "must not be longer than 63 bytes";
    return text.find('\0') != text.npos ? "must not hold a NUL" : "";
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("notify", &Options::notify,
            "PostgreSQL: the channel of NOTIFY. Each notification is an event, and its payload the data. SQLite does "
            "without it where `tables` is given too.",
            {.check = check_channel});
    v.field(
        "tables", &Options::tables,
        "SQLite: the tables of which commits are told, by this process alone. The data is `{\"tables\":[\"films\"]}`. "
        "PostgreSQL does without it where `notify` is given too.");
    v.field("keep", &Options::keep,
            "How many events are kept for clients that come back, or are slow. Who is further behind gets a `reset`.",
            {.min = 16, .max = 1'000'000});
    v.field("keep_bytes", &Options::keep_bytes, "How many bytes of them.", {.min = 128_KiB, .max = 1_GiB});
    v.field("clients", &Options::clients, "Streams at the same time, of each core: 503 beyond it.",
            {.min = 1, .max = 1'000'000});
    v.field(
        "heartbeat", &Options::heartbeat,
        "After so long a silence a client gets a comment, so that both sides, and proxies between, see who is gone.",
        {.min = 10ms, .max = 24h});
    v.field(
        "retry", &Options::retry,
        "How long a client waits before it comes back; each is told up to half as long more, so that they do not all "
        "come together.",
        {.min = 0ms, .max = 24h});
    v.position(&Options::position);
  }
};

}  // namespace sluice::api::changes
