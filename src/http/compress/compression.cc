#include "http/compress/compression.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "http/accept.h"

namespace sluice::http::compress {
namespace {

constexpr std::size_t none = FieldList::max_size;

// Compressed bytes, new or cached, that replace a body. Keeps the body alive, because the response's fields may refer
// to it.
struct Replaced {
  Body original;
  Buffer bytes;
  std::shared_ptr<const Cache::Form> form{};
};

void replace(Body& body, Buffer bytes, std::shared_ptr<const Cache::Form> form) {
  const void* const origin = owner_of(body);
  auto replaced = std::make_shared<Replaced>(std::move(body), std::move(bytes), std::move(form));
  const std::string_view view = replaced->form ? replaced->form->bytes.view() : replaced->bytes.view();
  body = SharedBytes{.owner = std::move(replaced), .bytes = view, .origin = origin};
}

bool is_strong(std::string_view tag) { return tag.size() >= 2 && tag.front() == '"' && tag.back() == '"'; }

std::string with_suffix(std::string_view tag, Coding coding) {
  return std::string(tag.substr(0, tag.size() - 1)) + ";" + std::string(name_of(coding)) + "\"";
}

// Whether If-None-Match contains the tag.
bool knows(const Request& request, std::string_view tag) {
  return std::ranges::any_of(request.fields, [&](const Field& field) {
    return field.name.size() == 13 && same_name(field.name, "if-none-match") && field.value.contains(tag);
  });
}

}  // namespace

// Values of the response's fields.
struct Compression::Findings {
  std::string_view type;
  std::string_view tag;
  std::size_t tag_index = none;
  std::size_t vary_index = none;
  std::size_t accept_ranges_index = none;
  bool varies = false;  // Vary already contains Accept-Encoding
  bool is_part = false;
  bool forbidden = false;

  explicit Findings(const Response& response) {
    is_part = response.status == 206;
    const auto fields = response.fields.items();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto [name, value] = fields[i];
      switch (name.size()) {
        case 4:
          if (same_name(name, "etag")) {
            tag = value;
            tag_index = i;
          } else if (same_name(name, "vary")) {
            if (vary_index == none) vary_index = i;
            varies = varies || lists_token(value, "accept-encoding") || lists_token(value, "*");
          }
          break;
        case 6:
          forbidden = forbidden || same_name(name, "digest");
          break;
        case 10:
          forbidden = forbidden || same_name(name, "set-cookie");
          break;
        case 11:
          forbidden = forbidden || same_name(name, "content-md5") || same_name(name, "repr-digest");
          break;
        case 12:
          if (same_name(name, "content-type")) type = value;
          break;
        case 13:
          if (same_name(name, "cache-control")) forbidden = forbidden || lists_token(value, "no-transform");
          if (same_name(name, "content-range")) is_part = true;
          if (same_name(name, "accept-ranges")) accept_ranges_index = i;
          break;
        case 14:
          forbidden = forbidden || same_name(name, "content-digest");
          break;
        case 16:
          forbidden = forbidden || same_name(name, "content-encoding");
          break;
        default:
          break;
      }
    }
  }

  void add_vary(Response& response) const {
    if (varies) return;
    if (vary_index == none) return response.fields.add_trusted("Vary", "Accept-Encoding");
    const std::string_view before = response.fields.items()[vary_index].value;
    if (before == "Accept") return response.fields.set(vary_index, "Accept, Accept-Encoding");
    response.fields.set_owned(vary_index, std::string(before) + (before.empty() ? "" : ", ") + "Accept-Encoding");
  }
};

Compression::Compression(const Options& options, core::Reactor& reactor, core::Mailbox& mailbox,
                         core::BlockingPool& threads)
    : options_(options),
      types_(options.types),
      encoders_(options),
      turnstile_(reactor),
      cache_(options.cache.bytes),
      surroundings_{turnstile_, cache_, counters_, mailbox, threads} {}

void Compression::apply(const Request& request, Response& response) {
  const int status = response.status;
  if (status < 200 || status == 204 || status == 205 || request.method == Method::connect || response.upgrade) return;
  const Findings found(response);
  if (found.forbidden) return;

  if (status == 304) {
    // A 304 must have the fields that the 200 would have (RFC 9110, 15.4.5). Otherwise a cache may apply it to another
    // representation.
    if (!found.type.empty() && !types_.matches(found.type)) return;
    if (is_strong(found.tag)) name_known_form(request, response, found);
    return found.add_vary(response);
  }
  if (found.is_part) {
    if (status == 206 && (types_.matches(found.type) || found.type.starts_with("multipart/"))) found.add_vary(response);
    return;
  }
  if (!types_.matches(found.type)) return;
  const std::optional<std::uint64_t> size = size_of(response.body);
  if (size == 0) return;
  const Acceptance acceptance = parse_accept_encoding(request.fields);
  if (size && *size < options_.minimum.bytes && !acceptance.identity_refused) return;
  found.add_vary(response);
  const std::optional<Coding> coding = choose(acceptance, options_.codings);
  if (!coding) return;

  if (request.method == Method::head) {
    name_coding(response, found, *coding, {});
    response.body = std::make_unique<UnsentBody>(std::move(response.body));
    return;
  }

  std::optional<Cache::Source> source;
  if (options_.cache.bytes != 0 && is_strong(found.tag)) {
    if (const auto* shared = std::get_if<SharedBytes>(&response.body)) {
      if (!shared->once) {
        source = {shared->owner, reinterpret_cast<std::uintptr_t>(shared->bytes.data()), shared->bytes.size(),
                  found.tag};
      }
    } else if (const auto* file = std::get_if<FileRange>(&response.body)) {
      source = {file->owner, file->offset, file->size, found.tag};
    }
    if (source && source->owner == nullptr) source.reset();
  }
  if (source) {
    if (auto form = cache_.find(*source, *coding)) {
      ++counters_.answers;
      ++counters_.cached;
      name_coding(response, found, *coding, form->weak_tag);
      replace(response.body, {}, std::move(form));
      return;
    }
  }

  const bool is_in_memory = !std::holds_alternative<FileRange>(response.body) &&
                            !std::holds_alternative<std::unique_ptr<BodySource>>(response.body);
  if (size && *size <= whole_bytes && is_in_memory) {
    const auto* own = std::get_if<Buffer>(&response.body);
    const auto* spans = std::get_if<SharedSpans>(&response.body);
    const std::string_view bytes = own != nullptr     ? own->view()
                                   : spans != nullptr ? joined(*spans)
                                                      : std::get<SharedBytes>(response.body).bytes;
    if (!compress_whole(response, bytes, found, *coding, source)) ++counters_.no_memory;
    return;
  }
  EncoderPool::Lease encoder = encoders_.lend(*coding, size);
  if (!encoder) {
    ++counters_.no_memory;
    return;
  }
  ++counters_.answers;
  name_coding(response, found, *coding, {});
  response.body = std::make_unique<CompressedBody>(std::move(response.body), std::move(encoder), surroundings_, source);
}

// For a 304: if the client has a compressed form, the tag becomes the one of that form.
void Compression::name_known_form(const Request& request, Response& response, const Findings& found) const {
  const Acceptance acceptance = parse_accept_encoding(request.fields);
  const auto name = [&](std::string tag) {
    if (!knows(request, tag)) return false;
    response.fields.set_owned(found.tag_index, std::move(tag));
    return true;
  };
  if (!response.tag_takes_suffix) {
    if (choose(acceptance, options_.codings)) (void)name("W/" + std::string(found.tag));
    return;
  }
  for (const Coding coding : options_.codings) {
    if (acceptance.codings[static_cast<std::size_t>(coding)] != 0 && name(with_suffix(found.tag, coding))) return;
  }
}

// The result is valid until the next call.
std::string_view Compression::joined(const SharedSpans& spans) {
  const auto size = static_cast<std::size_t>(spans.size());
  joined_.clear();
  char* const room = joined_.reserve(size);
  joined_.commit(SpanReader(spans.pieces()).copy(room, size));
  return joined_.view();
}

// `weak_tag` lives as long as the body. If empty, the weak tag is made here.
void Compression::name_coding(Response& response, const Findings& found, Coding coding,
                              std::string_view weak_tag) const {
  response.fields.add_trusted("Content-Encoding", name_of(coding));
  if (is_strong(found.tag)) {
    if (response.tag_takes_suffix) {
      response.fields.set_owned(found.tag_index, with_suffix(found.tag, coding));
    } else if (weak_tag.empty()) {
      response.fields.set_owned(found.tag_index, "W/" + std::string(found.tag));
    } else {
      response.fields.set(found.tag_index, weak_tag);
    }
  }
  // Ranges would refer to the uncompressed bytes.
  if (found.accept_ranges_index != none) response.fields.remove(found.accept_ranges_index);
}

bool Compression::compress_whole(Response& response, std::string_view bytes, const Findings& found, Coding coding,
                                 const std::optional<Cache::Source>& source) {
  Buffer compressed;
  if (!encoders_.compress(coding, bytes, compressed)) return false;
  turnstile_.count(bytes.size());
  ++counters_.answers;
  counters_.bytes_in += bytes.size();
  counters_.bytes_out += compressed.size();

  if (std::holds_alternative<Buffer>(response.body)) {
    name_coding(response, found, coding, {});
    response.body = std::move(compressed);
    return true;
  }
  if (source) {
    if (auto form = cache_.store(*source, coding, std::move(compressed))) {
      name_coding(response, found, coding, form->weak_tag);
      replace(response.body, {}, std::move(form));
      return true;
    }
  }
  name_coding(response, found, coding, {});
  replace(response.body, std::move(compressed), nullptr);
  return true;
}

}  // namespace sluice::http::compress
