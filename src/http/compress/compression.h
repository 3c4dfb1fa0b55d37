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

// A filter that compresses responses with a coding that the client accepts. Belongs to one core. A response that could
// be compressed has `Vary: Accept-Encoding`, whether it is compressed or not. The ETag of a compressed response is
// weak, because the strong ETag identifies the uncompressed bytes (except with Response::tag_takes_suffix). The
// response to HEAD has the same fields as the response to GET, except the length, which is not known in advance.
//
// Never compressed are:
//   - responses that are already encoded or have a digest of their bytes;
//   - partial responses (206, Content-Range), because their offsets refer to the uncompressed bytes;
//   - responses with `Cache-Control: no-transform`;
//   - responses that set cookies: if a body has a secret beside text chosen by an attacker, its compressed length
//   reveals the secret (BREACH);
//   - unlisted media types and bodies shorter than the minimum, if the client accepts them uncompressed.
//
// Bytes in memory, up to `whole_bytes`, are compressed at once and have a length; everything else is streamed.
class Compression final : public FilterOf<Compression> {
 public:
  static constexpr std::size_t whole_bytes = 64 * 1024;

  // All references outlive the filter, and the filter outlives its responses.
  Compression(const Options& options, core::Reactor& reactor, core::Mailbox& mailbox, core::BlockingPool& threads);

  void after(Exchange& exchange, Slot&, Response& response) override { apply(exchange.request, response); }

  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  struct Findings;

  void apply(const Request& request, Response& response);
  void name_coding(Response& response, const Findings& found, Coding coding, std::string_view weak_tag) const;
  void name_known_form(const Request& request, Response& response, const Findings& found) const;
  std::string_view joined(const SharedSpans& spans);
  // Returns false if memory runs out.
  bool compress_whole(Response& response, std::string_view bytes, const Findings& found, Coding coding,
                      const std::optional<Cache::Source>& source);

  const Options options_;
  const MediaTypes types_;
  EncoderPool encoders_;
  Turnstile turnstile_;
  Cache cache_;
  Counters counters_;
  Buffer joined_;  // up to `whole_bytes` of a response in pieces, while it is compressed
  const Surroundings surroundings_;
};

}  // namespace sluice::http::compress
