#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <iterator>

#include "io/exif.h"
#include "io/picture.h"

namespace convoy::io {
namespace {

// libpng reports errors through a callback that must not return: it jumps back to where setjmp was called. So that no
// destructor is jumped over, every function that calls setjmp keeps its objects in this struct, owned by its caller.
struct PngJob {
  png_structp png = nullptr;
  png_infop info = nullptr;
  bool reading = true;
  Bytes input;
  std::size_t at = 0;
  std::vector<std::byte> output;
  char message[200] = {};
  Picture picture;
  std::vector<std::uint8_t> rows;  // of the file: 8 or 16 bits a channel

  ~PngJob() {
    if (png == nullptr) return;
    if (reading) {
      png_destroy_read_struct(&png, &info, nullptr);
    } else {
      png_destroy_write_struct(&png, &info);
    }
  }
};

void on_error(png_structp png, png_const_charp message) {
  auto* job = static_cast<PngJob*>(png_get_error_ptr(png));
  std::strncpy(job->message, message, sizeof job->message - 1);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep target, png_size_t size) {
  auto* job = static_cast<PngJob*>(png_get_io_ptr(png));
  if (size > job->input.size() - job->at) png_error(png, "the file ends too early");
  std::memcpy(target, job->input.data() + job->at, size);
  job->at += size;
}

void on_write(png_structp png, png_bytep source, png_size_t size) {
  auto* job = static_cast<PngJob*>(png_get_io_ptr(png));
  const auto* bytes = reinterpret_cast<const std::byte*>(source);
  job->output.insert(job->output.end(), bytes, bytes + size);
}
void on_flush(png_structp) {}

bool start(PngJob& job, bool reading) {
  job.reading = reading;
  job.png = reading ? png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning)
                    : png_create_write_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
  if (job.png == nullptr) return false;
  job.info = png_create_info_struct(job.png);
  return job.info != nullptr;
}

bool read_header(PngJob& job) {
  if (setjmp(png_jmpbuf(job.png)) != 0) return false;
  png_set_read_fn(job.png, &job, on_read);
  png_set_user_limits(job.png, kMaxPictureSide, kMaxPictureSide);
  // Text and profiles are skipped; what remains can't be larger than this.
  png_set_chunk_malloc_max(job.png, 1 << 20);
  png_set_keep_unknown_chunks(job.png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
  png_read_info(job.png, job.info);
  return true;
}

bool read_rows(PngJob& job) {
  if (setjmp(png_jmpbuf(job.png)) != 0) return false;
  png_set_expand(job.png);
  if (job.picture.white > 255) png_set_swap(job.png);  // PNG has the high byte first
  png_set_strip_alpha(job.png);
  png_set_gray_to_rgb(job.png);
  const int passes = png_set_interlace_handling(job.png);
  png_read_update_info(job.png, job.info);
  const std::size_t row_bytes = job.rows.size() / static_cast<std::size_t>(job.picture.height);
  if (png_get_rowbytes(job.png, job.info) != row_bytes) png_error(job.png, "unexpected pixel format");
  for (int pass = 0; pass < passes; ++pass) {
    for (int row = 0; row < job.picture.height; ++row) {
      png_read_row(job.png, job.rows.data() + static_cast<std::size_t>(row) * row_bytes, nullptr);
    }
  }
  png_read_end(job.png, job.info);  // an eXIf chunk may follow the pixels
  png_bytep exif = nullptr;
  png_uint_32 exif_bytes = 0;
  if (png_get_eXIf_1(job.png, job.info, &exif_bytes, &exif) != 0) {
    job.picture.orientation = exif_orientation({reinterpret_cast<const std::byte*>(exif), exif_bytes});
  }
  return true;
}

bool write_all(PngJob& job, const Picture& picture) {
  if (setjmp(png_jmpbuf(job.png)) != 0) return false;
  png_set_write_fn(job.png, &job, on_write, on_flush);
  png_set_user_limits(job.png, kMaxPictureSide, kMaxPictureSide);
  png_set_IHDR(job.png, job.info, static_cast<png_uint_32>(picture.width), static_cast<png_uint_32>(picture.height),
               picture.white > 255 ? 16 : 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(job.png, job.info);
  if (picture.white > 255) png_set_swap(job.png);
  const std::size_t row_bytes = job.rows.size() / static_cast<std::size_t>(picture.height);
  for (int row = 0; row < picture.height; ++row) {
    png_write_row(job.png, job.rows.data() + static_cast<std::size_t>(row) * row_bytes);
  }
  png_write_end(job.png, nullptr);
  return true;
}

Error damaged(const PngJob& job) {
  return {ErrorCode::corrupt, fmt::format("byte {}: damaged PNG: {}", job.at, job.message)};
}

}  // namespace

Result<Picture> decode_png(Bytes file) {
  PngJob job;
  job.input = file;
  if (!start(job, true)) return Error{ErrorCode::out_of_memory, "libpng could not start"};
  if (!read_header(job)) return damaged(job);
  // Deflate turns a byte into at most 1032; a 1-bit grey pixel becomes three bytes.
  const int bits = png_get_bit_depth(job.png, job.info) * png_get_channels(job.png, job.info);
  CONVOY_TRY(job.picture,
             allocate_picture(png_get_image_width(job.png, job.info), png_get_image_height(job.png, job.info),
                              file.size(), 1032 * 24 / (bits > 0 ? bits : 1) + 1));
  const bool deep = png_get_bit_depth(job.png, job.info) == 16;
  if (deep) job.picture.white = 65535;
  job.rows.resize(job.picture.rgb.size() * (deep ? 2 : 1));
  if (!read_rows(job)) return damaged(job);
  if (deep) {
    std::memcpy(job.picture.rgb.data(), job.rows.data(), job.rows.size());
  } else {
    std::copy(job.rows.begin(), job.rows.end(), job.picture.rgb.begin());
  }
  return std::move(job.picture);
}

Result<std::vector<std::byte>> encode_png(const Picture& picture) {
  if (picture.width < 1 || picture.height < 1 ||
      picture.rgb.size() != static_cast<std::size_t>(picture.width) * picture.height * 3) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("a picture of {}x{} with {} values", picture.width, picture.height, picture.rgb.size())};
  }
  PngJob job;
  if (!start(job, false)) return Error{ErrorCode::out_of_memory, "libpng could not start"};
  if (picture.white > 255) {
    job.rows.resize(picture.rgb.size() * 2);
    std::memcpy(job.rows.data(), picture.rgb.data(), job.rows.size());
  } else {
    std::transform(picture.rgb.begin(), picture.rgb.end(), std::back_inserter(job.rows),
                   [](std::uint16_t value) { return static_cast<std::uint8_t>(value); });
  }
  if (!write_all(job, picture)) return Error{ErrorCode::internal, fmt::format("libpng: {}", job.message)};
  return std::move(job.output);
}

}  // namespace convoy::io
