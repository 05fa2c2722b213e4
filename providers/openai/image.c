/* SPDX-License-Identifier: Apache-2.0 */
#include "providers/openai/image.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/check.h"

enum { SHOWN_SIZE = 96 };

static tp_status refuse_image(tp_fault *fault, tp_status code, tp_text file, int system_error, const char *why) {
  char shown[SHOWN_SIZE];
  tp__show(shown, sizeof shown, file);
  (void)tp__refuse(fault, code, shown, "file \"%s\": %s%s%s", shown, why, system_error ? ": " : "",
                   system_error ? strerror(system_error) : "");
  if (fault) fault->system_error = system_error;
  return code;
}

/* ---- data: URLs ---- */

static bool is_base64(tp_text text) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t size = text.size;
  while (size > 0 && text.size - size < 2 && text.data[size - 1] == '=') size--;
  for (size_t i = 0; i < size; i++)
    if (text.data[i] == '\0' || !strchr(digits, text.data[i])) return false;
  return text.size > 0 && text.size % 4 == 0;
}

/* data:image/png;base64,… */
static tp_status split_data(tp__openai_media *image, tp_text file, tp_fault *fault) {
  const char *url = tp__bytes_string(&image->url), *comma = strchr(url, ',');
  size_t head = comma ? (size_t)(comma - url) : 0;
  if (image->url.failed) return refuse_image(fault, TP_ERR_NO_MEMORY, file, 0, "no memory for it");
  if (head < 7 || memcmp(comma - 7, ";base64", 7) != 0 || strncmp(url, "data:image/", 11) != 0)
    return refuse_image(fault, TP_ERR_USAGE, file, 0, "not of the form data:image/KIND;base64,DATA");
  image->media = (tp_text){url + 5, head - 7 - 5};
  image->base64 = (tp_text){comma + 1, image->url.size - head - 1};
  if (is_base64(image->base64)) return TP_OK;
  return refuse_image(fault, TP_ERR_USAGE, file, 0, "what stands behind the comma is not base64");
}

/* ---- files ---- */

static const char *media_of(tp_text bytes) {
  if (tp__begins(bytes, "\x89PNG\r\n\x1a\n")) return "image/png";
  if (tp__begins(bytes, "\xff\xd8\xff")) return "image/jpeg";
  if (tp__begins(bytes, "GIF8")) return "image/gif";
  if (tp__begins(bytes, "RIFF") && bytes.size > 12 && memcmp(bytes.data + 8, "WEBP", 4) == 0) return "image/webp";
  return NULL;
}

static tp_status read_image_bytes(int fd, tp_text file, tp__bytes *bytes, tp_fault *fault) {
  char part[65536];
  for (;;) {
    ssize_t size = read(fd, part, sizeof part);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return refuse_image(fault, TP_ERR_IO, file, errno, "cannot be read");
    if (size == 0) return TP_OK;
    tp__bytes_put(bytes, part, (size_t)size);
    if (bytes->failed) return refuse_image(fault, TP_ERR_NO_MEMORY, file, 0, "no memory for it");
    if (bytes->size > TP__OPENAI_IMAGE_BYTES_MAX)
      return refuse_image(fault, TP_ERR_TOO_LARGE, file, 0, "an image may have 20 MiB");
  }
}

/* Bytes as JSON are their base64 in quotes. */
static tp_status put_base64(tp__bytes *url, tp_text bytes) {
  tp_writer *writer;
  tp_text value, json;
  tp_status status = tp_writer_new(tp__heap, &writer);
  if (status != TP_OK) return status;
  tp_write_bytes(writer, bytes);
  status = tp_writer_finish(writer, &value);
  if (status == TP_OK) status = tp_json_encode(value, writer, &json, NULL);
  if (status == TP_OK) tp__bytes_put(url, json.data + 1, json.size - 2);
  if (url->failed) status = TP_ERR_NO_MEMORY;
  tp_writer_free(writer);
  return status;
}

static tp_status take_file(int fd, tp_text file, tp__openai_media *image, tp_fault *fault) {
  struct stat found;
  tp__bytes bytes = {0};
  if (fstat(fd, &found) != 0) return refuse_image(fault, TP_ERR_IO, file, errno, "cannot be read");
  if (!S_ISREG(found.st_mode)) return refuse_image(fault, TP_ERR_USAGE, file, 0, "not a regular file");
  tp_status status = read_image_bytes(fd, file, &bytes, fault);
  const char *media = media_of(tp__bytes_text(&bytes));
  if (status == TP_OK && !media)
    status = refuse_image(fault, TP_ERR_USAGE, file, 0, "neither PNG, JPEG, GIF nor WebP, which are all that is sent");
  if (status == TP_OK) {
    tp__bytes_put_string(&image->url, "data:");
    tp__bytes_put_string(&image->url, media);
    tp__bytes_put_string(&image->url, ";base64,");
    status = put_base64(&image->url, tp__bytes_text(&bytes));
    if (status != TP_OK) (void)refuse_image(fault, status, file, 0, tp_status_text(status));
    else status = split_data(image, file, fault);
  }
  tp__bytes_fini(&bytes);
  return status;
}

static tp_status read_image_file(tp_text file, int directory, tp__openai_media *image, tp_fault *fault) {
  struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  if (directory < 0)
    return refuse_image(fault, TP_ERR_USAGE, file, 0, "a path is read only beneath files_directory, which is not set");
  char *path = tp__heap_copy(file);
  if (!path) return refuse_image(fault, TP_ERR_NO_MEMORY, file, 0, "no memory for its path");
  bool whole = strlen(path) == file.size;
  int fd = whole ? (int)syscall(SYS_openat2, directory, path, &how, sizeof how) : -1;
  int error = whole ? errno : EINVAL;
  tp__heap_free(path, file.size + 1);
  if (fd < 0)
    return refuse_image(fault, TP_ERR_IO, file, error,
                        error == EXDEV ? "leads out of files_directory" : "cannot be opened beneath files_directory");
  tp_status status = take_file(fd, file, image, fault);
  close(fd);
  return status;
}

tp_status tp__openai_image_read(tp_text file, int directory, tp__openai_media *image, tp_fault *fault) {
  assert(directory >= -1);
  bool is_data = tp__begins(file, "data:");
  if (!is_data && !tp__begins(file, "https://")) return read_image_file(file, directory, image, fault);
  tp__bytes_put_text(&image->url, file);
  if (is_data) return split_data(image, file, fault);
  return image->url.failed ? refuse_image(fault, TP_ERR_NO_MEMORY, file, 0, "no memory for it") : TP_OK;
}

/* data:KIND;base64,… of any kind. */
static bool split_any(tp__openai_media *media) {
  const char *url = tp__bytes_string(&media->url), *comma = media->url.failed ? NULL : strchr(url, ',');
  size_t head = comma ? (size_t)(comma - url) : 0;
  if (head < 13 || memcmp(comma - 7, ";base64", 7) != 0) return false;
  media->media = (tp_text){url + 5, head - 7 - 5};
  media->base64 = (tp_text){comma + 1, media->url.size - head - 1};
  return is_base64(media->base64);
}

tp_status tp__openai_media_read(const tp_part *part, tp__openai_media *media) {
  tp_status status = TP_OK;
  bool is_data = part->bytes.size > 0 || tp__begins(part->uri, "data:");
  *media = (tp__openai_media){.kind = part->kind, .name = part->name};
  if (part->bytes.size > 0) {
    tp__bytes_put_string(&media->url, "data:");
    tp__bytes_put_text(&media->url, part->media_type);
    tp__bytes_put_string(&media->url, ";base64,");
    status = put_base64(&media->url, part->bytes);
  } else if (is_data || tp__begins(part->uri, "https://")) {
    tp__bytes_put_text(&media->url, part->uri);
  } else {
    return TP_ERR_USAGE;
  }
  if (status != TP_OK || media->url.failed) return TP_ERR_NO_MEMORY;
  return !is_data || split_any(media) ? TP_OK : TP_ERR_USAGE;
}

void tp__openai_image_fini(tp__openai_media *image) {
  tp__bytes_fini(&image->url);
  *image = (tp__openai_media){.kind = TP_PART_NONE};
}
