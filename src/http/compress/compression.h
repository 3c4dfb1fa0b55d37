#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "core/blocking_pool.h"
#include "core/mailbox.h"
#include "core/reactor.h"
#include "http/compress/body.h"
#include "http/compress/cache.h"
#include "http/compress/encoder.h"
#include "http/compress/media_types.h"
#include "http/compress/negotiate.h"
#include "http/compress/options.h"
#include "http/compress/turnstile.h"
#include "http/filter.h"
#include "http/request.h"
#include "http/response.h"

namespace sluice::http::compress {

// One core's compression: a filter that compresses the answers that are worth it, with what the client accepts. What
// could have been compressed says `Vary: Accept-Encoding`, compressed or not; a compressed answer's ETag is weak, for
// its bytes are not the ones that the strong one stands for. The answer to HEAD has the fields that GET's would have,
// but for the length, which nobody knows before.
//
// Never compressed are:
//   - answers that are encoded already, or carry a digest of their bytes;
//   - parts (206, Content-Range), for their offsets are those of the bytes as they are;
//   - what says `Cache-Control: no-transform`;
//   - answers that set cookies: a secret beside what an attacker may choose shows in the length (BREACH);
//   - media types that are not listed, and what is shorter than the minimum, where the client takes it as it is.
//
// Bytes in memory, up to `whole_bytes`, are compressed at once and have a length; all else is streamed.
class Compression final : public Filter {
 public:
  static constexpr std::size_t whole_bytes = 64 * 1024;

  // All outlive it, and it outlives its answers.
  Compression(const Options& options, core::Reactor& reactor, core::Mailbox& mailbox, core::BlockingPool& threads);

  void after(Exchange& exchange, Slot&, Response& response) override { apply(exchange.request, response); }

  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  struct Findings;

  void apply(const Request& request, Response& response);
  void name_coding(Response& response, const Findings& found, Coding coding, std::string_view weak_tag) const;
  std::string_view joined(const SharedSpans& spans);
  // False: there is no memory.
  bool compress_whole(Response& response, std::string_view bytes, const Findings& found, Coding coding,
                      const std::optional<Cache::Source>& source);

  const Options options_;
  const MediaTypes types_;
  EncoderPool encoders_;
  Turnstile turnstile_;
  Cache cache_;
  Counters counters_;
  Buffer joined_;  // of an answer in pieces, while it is compressed: up to `whole_bytes`
  const Surroundings surroundings_;
};

}  // namespace sluice::http::compress
