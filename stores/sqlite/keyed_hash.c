/* SPDX-License-Identifier: Apache-2.0
 *
 * The keyed hash of content that a record must not hold: HMAC-SHA-256. The key lies beside the file, made at random by
 * the first that needs it, so that who has the file alone cannot try what its hashes may be of. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "stores/sqlite/sqlite.h"

/* A key that others may read protects nothing. */
static int read_key_file(const char *path, unsigned char key[TP__KEY_BYTES]) {
  struct stat found;
  int fd = tp__file_open(AT_FDCWD, path, &found);
  if (fd == -EISDIR || fd == -ENOTSUP) return EINVAL;
  if (fd < 0) return -fd;
  bool is_open_to_others = (found.st_mode & 077) != 0;
  ssize_t size = is_open_to_others ? 0 : read(fd, key, TP__KEY_BYTES);
  int error = size == TP__KEY_BYTES ? 0 : size < 0 ? errno : is_open_to_others ? EPERM : EINVAL;
  close(fd);
  return error;
}

static int write_whole(int fd, const unsigned char key[TP__KEY_BYTES]) {
  ssize_t size = write(fd, key, TP__KEY_BYTES);
  if (size < 0) return errno;
  if (size < TP__KEY_BYTES) return ENOSPC;
  return fsync(fd) == 0 ? 0 : errno;
}

/* Under a name of its own first: another process sees a whole key or none, and the first one that is linked stays. */
static int make_key(const char *path) {
  unsigned char key[TP__KEY_BYTES];
  char own[4200];
  if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key) return EIO;
  if ((size_t)snprintf(own, sizeof own, "%s.%ld", path, (long)getpid()) >= sizeof own) return ENAMETOOLONG;
  (void)!unlink(own);
  int fd = open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  int error = write_whole(fd, key);
  close(fd);
  if (!error && link(own, path) != 0 && errno != EEXIST) error = errno;
  (void)!unlink(own);
  return error;
}

static int load_key(const char *path, unsigned char key[TP__KEY_BYTES]) {
  assert(path && *path);
  int error = read_key_file(path, key);
  if (error == ENOENT) error = make_key(path);
  else return error;
  return error ? error : read_key_file(path, key);
}

tp_status tp__sqlite_hash_locked(tp__sqlite_store *s, tp_text content, unsigned char ret_hash[TP__HASH_BYTES],
                                 tp_fault *fault) {
  TP__LOCKED(&s->mutex);
  char path[4160];
  if (!s->has_key) {
    int size = snprintf(path, sizeof path, "%s-key", s->path);
    int error = (size_t)size < sizeof path ? load_key(path, s->key) : ENAMETOOLONG;
    if (error)
      return tp__refuse(fault, error == ENOSPC ? TP_ERR_STORE_FULL : TP_ERR_IO, s->path,
                        "%s-key, the key of its hashes, cannot be %s (error %d)%s", s->path,
                        error == EINVAL || error == EPERM ? "used" : "read or made", error,
                        error == EINVAL  ? ": it is not of 32 bytes; restore it, or remove it"
                        : error == EPERM ? ": others than its owner may use it; chmod 600, or remove it"
                                         : "");
    s->has_key = true;
  }
  static const unsigned char none[1];
  const unsigned char *bytes = content.size ? (const unsigned char *)content.data : none;
  if (HMAC(EVP_sha256(), s->key, TP__KEY_BYTES, bytes, content.size, ret_hash, NULL)) return TP_OK;
  return tp__refuse(fault, TP_ERR_NO_MEMORY, s->path, "%s: no memory for a hash", s->path);
}
