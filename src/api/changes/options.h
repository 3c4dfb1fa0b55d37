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

  // PostgreSQL truncates longer names, so notifications would name a different channel than the one listened to.
  static std::string check_channel(std::string_view text) {
    if (text.size() > 63) return "must not be longer than 63 bytes";
    return text.find('\0') != text.npos ? "must not hold a NUL" : "";
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("notify", &Options::notify,
            "PostgreSQL: the channel of NOTIFY. Each notification becomes an event; its payload is the event's data. "
            "With SQLite, this key is ignored if `tables` is given too.",
            {.check = check_channel});
    v.field("tables", &Options::tables,
            "SQLite: the tables whose changes are published. Only commits by this process are noticed. The event's "
            "data is `{\"tables\":[\"films\"]}`. With PostgreSQL, this key is ignored if `notify` is given too.");
    v.field("keep", &Options::keep,
            "How many events are kept for clients that reconnect or read slowly. A client that has missed more gets "
            "the event `reset`.",
            {.min = 16, .max = 1'000'000});
    v.field("keep_bytes", &Options::keep_bytes, "How many bytes of events are kept.", {.min = 128_KiB, .max = 1_GiB});
    v.field("clients", &Options::clients,
            "The most streams at the same time on each core. Further ones are answered 503.",
            {.min = 1, .max = 1'000'000});
    v.field("heartbeat", &Options::heartbeat,
            "After this long without an event, a client is sent a comment, so that both sides, and proxies in "
            "between, notice a lost connection.",
            {.min = 10ms, .max = 24h});
    v.field("retry", &Options::retry,
            "How long a client waits before it reconnects. Each client is given this time plus up to half of it, so "
            "that they do not all reconnect at once.",
            {.min = 0ms, .max = 24h});
    v.position(&Options::position);
  }
};

}  // namespace sluice::api::changes
