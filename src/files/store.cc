#include "files/store.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "files/multipart.h"
#include "files/sniff.h"
#include "http/fields.h"

namespace sluice::files {
namespace {

// The settings for serving a store's folder, which contains only uploaded files under their hashes.
FilesOptions served(const StoreOptions& options) {
  FilesOptions files;
  files.root = options.path;
  files.index.clear();
  files.cache_files = options.cache_files;
  files.cache_memory = options.cache_memory;
  return files;
}

// Whether the text is type "/" subtype, without parameters. The text comes from the database and goes into a header.
bool is_media_type(std::string_view text) {
  const auto slash = text.find('/');
  return slash != text.npos && http::is_token(text.substr(0, slash)) && http::is_token(text.substr(slash + 1));
}

}  // namespace

std::string StoreOptions::check_type(std::string_view text) {
  const std::string_view subtype = text.substr(std::min(text.find('/') + 1, text.size()));
  if (!is_media_type(text) || text.starts_with('*') || (subtype.contains('*') && subtype != "*")) {
    return "must be a media type, such as image/png or image/*";
  }
  const bool is_lower = std::ranges::none_of(text, [](char c) { return c >= 'A' && c <= 'Z'; });
  return is_lower ? "" : "must be in lower case";
}

// Collects bytes until there are enough for a call on another thread. The thread shares the file and the collected
// bytes. It finishes its work even if nobody waits for it any more.
class Store::Writer final : public http::BlobWriter {
 public:
  Writer(Store& store, std::string_view media_type)
      : store_(store), media_type_(media_type), job_(std::make_shared<Job>(store.folder_)) {
    ++store_.writing_;
  }
  Writer(const Writer&) = delete;
  ~Writer() override { --store_.writing_; }

  core::Async<Result<void>> write(std::string_view bytes) override {
    if (bytes.size() > store_.limit() - size_) {
      ++store_.counters_.too_long;
      return Result<void>(fail(Errc::limit));
    }
    if (job_->gathered.size() + bytes.size() > chunk_bytes) return write_on(bytes);
    gather(bytes);
    return Result<void>{};
  }

  core::Task<Result<http::Blob>> finish() override {
    if (!may_go_on()) co_return wrong_type();
    auto work = [job = job_]() -> std::expected<http::Blob, int> {
      if (auto appended = job->file.append(job->gathered); !appended) return std::unexpected(appended.error());
      return job->file.finish();
    };
    auto done = co_await store_.threads_.run(store_.mailbox_, std::move(work));
    if (!done) co_return fail(Errc::closed);
    if (!*done) co_return failed(done->error());
    ++store_.counters_.files;
    store_.counters_.bytes += (*done)->size;
    co_return std::move(**done);
  }

 private:
  struct Job {
    explicit Job(std::shared_ptr<BlobFolder> folder) : file(std::move(folder)) {}
    BlobFolder::Incoming file;
    std::string gathered;
  };

  core::Task<Result<void>> write_on(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t room = chunk_bytes - job_->gathered.size();
      gather(bytes.substr(0, room));
      bytes.remove_prefix(std::min(room, bytes.size()));
      if (job_->gathered.size() < chunk_bytes) break;
      if (!may_go_on()) co_return wrong_type();
      auto work = [job = job_] {
        auto appended = job->file.append(job->gathered);
        job->gathered.clear();
        return appended;
      };
      auto done = co_await store_.threads_.run(store_.mailbox_, std::move(work));
      if (!done) co_return fail(Errc::closed);
      if (!*done) co_return failed(done->error());
    }
    co_return Result<void>{};
  }
  void gather(std::string_view bytes) {
    // Reserves at most the documented chunk size.
    std::string& gathered = job_->gathered;
    const std::size_t wanted = gathered.size() + bytes.size();
    if (wanted > gathered.capacity()) {
      gathered.reserve(std::min(chunk_bytes, std::max(wanted, 2 * gathered.capacity())));
    }
    gathered += bytes;
    size_ += bytes.size();
  }
  // Checks the first bytes as soon as they have arrived.
  bool may_go_on() {
    if (std::exchange(looked_, true) || store_.options_.types.empty()) return true;
    return may_be(media_type_, std::string_view(job_->gathered).substr(0, sniffed_bytes));
  }
  std::unexpected<Error> wrong_type() const {
    ++store_.counters_.wrong_type;
    return fail(Errc::malformed);
  }
  std::unexpected<Error> failed(int error) const {
    ++store_.counters_.failed;
    log_error("store " + store_.name_ + ": a file cannot be written: " + std::generic_category().message(error));
    return fail(Errc::system, error);
  }

  Store& store_;
  const std::string media_type_;
  std::shared_ptr<Job> job_;
  std::uint64_t size_ = 0;
  bool looked_ = false;
};

Store::Store(std::string name, const StoreOptions& options, core::Reactor& reactor, core::Mailbox& mailbox,
             core::BlockingPool& threads)
    : name_(std::move(name)),
      options_(options),
      mailbox_(mailbox),
      threads_(threads),
      folder_(BlobFolder::open(options.path.value)),
      files_(served(options_), reactor, mailbox, threads, StaticFiles::Kind::blobs) {}

Readings Store::Counters::readings() const {
  const auto refused = [](std::uint64_t count, std::string_view reason) {
    return counter("sluice_uploads_refused_total", "Files that were not taken.", count, label("reason", reason));
  };
  return {
      counter("sluice_uploads_total", "Files that were received and brought to the disk.", files),
      counter("sluice_upload_bytes_total", "Their bytes.", bytes),
      refused(too_long, "length"),
      refused(wrong_type, "type"),
      refused(too_many, "busy"),
      refused(failed, "disk"),
  };
}

bool Store::takes(std::string_view media_type) const {
  const bool taken = options_.types.empty() || std::ranges::any_of(options_.types, [&](const auto& one) {
                       const std::string_view type = one.value;
                       if (!type.ends_with("/*")) return type == media_type;
                       return media_type.starts_with(type.substr(0, type.size() - 1));
                     });
  if (!taken) ++counters_.wrong_type;
  return taken;
}

std::unique_ptr<http::BlobWriter> Store::begin(std::string_view media_type) {
  if (writing_ == options_.uploads) {
    ++counters_.too_many;
    return nullptr;
  }
  return std::make_unique<Writer>(*this, media_type);
}

core::Task<http::Response> Store::serve(http::Request& request, http::BlobAnswer answer) {
  const std::string path = path_of_blob(answer.hash);
  co_return dress(co_await files_.serve_blob(request, path), answer);
}

// The file comes from a client, so a browser must neither guess its type nor execute it.
http::Response Store::dress(http::Response response, const http::BlobAnswer& answer) const {
  if (response.status == 404) log_error("store " + name_ + ": the file " + answer.hash + " is missing");
  if (response.status >= 400) return response;
  if (!answer.cache_control.empty()) response.fields.add_owned("Cache-Control", answer.cache_control);
  if (response.status == 304) return response;
  if (auto* source = std::get_if<std::unique_ptr<http::BodySource>>(&response.body)) {
    if (auto* parts = dynamic_cast<MultipartRanges*>(source->get());
        parts != nullptr && is_media_type(answer.media_type)) {
      parts->describe_parts_as(answer.media_type);
    }
  } else if (is_media_type(answer.media_type)) {
    const auto items = response.fields.items();
    const auto type = std::ranges::find(items, "Content-Type", &http::Field::name);
    if (type != items.end()) {
      response.fields.set_owned(static_cast<std::size_t>(type - items.begin()), answer.media_type);
    }
  }
  if (!answer.name.empty()) response.fields.add_owned("Content-Disposition", content_disposition(answer.name));
  response.fields.add_trusted("X-Content-Type-Options", "nosniff");
  response.fields.add_trusted("Content-Security-Policy", "default-src 'none'; sandbox");
  return response;
}

std::string content_disposition(std::string_view name) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  constexpr std::size_t longest = 255;
  // Do not cut within a character.
  if (name.size() > longest) {
    std::size_t end = longest;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
    name = name.substr(0, end);
  }
  std::string ascii;
  std::string extended;
  bool differs = false;
  for (const char c : name) {
    const auto code = static_cast<unsigned char>(c);
    const bool plain = code >= 0x20 && code < 0x7f && c != '"' && c != '\\' && c != '/' && c != '%';
    if (plain) {
      ascii += c;
    } else if (code < 0x80 || code >= 0xc0) {
      ascii += '_';  // one per character
    }
    differs |= !plain;
    // A slash or a control character is always removed, because a client may unescape the name.
    if (code < 0x20 || code == 0x7f || c == '/' || c == '\\') {
      extended += '_';
      continue;
    }
    const bool attribute = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           std::string_view("!#$&+-.^_`|~").contains(c);
    if (attribute) {
      extended += c;
    } else {
      extended += '%';
      extended += digits[code >> 4];
      extended += digits[code & 15];
    }
  }
  std::string text = "inline; filename=\"" + ascii + '"';
  if (differs) text += "; filename*=UTF-8''" + extended;
  return text;
}

}  // namespace sluice::files
