/* SPDX-License-Identifier: Apache-2.0
 *
 * hooks_trust.c: which content of which directory the user trusts. Only the user can read the file. It is replaced as a
 * whole, and changed under a lock on a file next to it. The content of each hash is in a file of its own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/data.h"
#include "cli/common/exit_status.h"
#include "cli/common/message.h"
#include "cli/common/pool.h"
#include "cli/hooks/hooks.h"
#include "runtime/base/check.h"
#include "support/file.h"

enum { PATH_SIZE = 4096, FILE_BYTES_MAX = 1 << 20 };

static int refuse_trust_file(const char *path, const char *why) {
  cli_error_at(path, 0, 0, "%s", why);
  return CLI_IO;
}

/* A relative XDG_CONFIG_HOME is ignored, as its specification says. */
static int find_folder(char ret_folder[PATH_SIZE]) {
  const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
  int size;
  if (config && config[0] == '/') {
    size = snprintf(ret_folder, PATH_SIZE, "%s/turnphase", config);
  } else if (home && home[0] == '/') {
    size = snprintf(ret_folder, PATH_SIZE, "%s/.config/turnphase", home);
  } else {
    cli_error("no place for what is trusted: set HOME or XDG_CONFIG_HOME to an absolute path");
    return CLI_CONFIG;
  }
  return size < PATH_SIZE ? CLI_OK : refuse_trust_file(ret_folder, strerror(ENAMETOOLONG));
}

bool cli_trust_has_place(void) {
  const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
  return (config && config[0] == '/') || (home && home[0] == '/');
}

static int make_folders(char *folder) {
  for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    bool is_made = mkdir(folder, 0700) == 0 || errno == EEXIST;
    if (!is_made) return refuse_trust_file(folder, strerror(errno));
    *slash = '/';
  }
  return mkdir(folder, 0700) == 0 || errno == EEXIST ? CLI_OK : refuse_trust_file(folder, strerror(errno));
}

/* ---- reading ---- */

static int check_owner(const struct stat *found, const char *path) {
  if (found->st_uid == geteuid() && !(found->st_mode & (S_IWGRP | S_IWOTH))) return CLI_OK;
  cli_error_at(path, 0, 0, "another user may have written it: look at it, then chown it and chmod 600");
  return CLI_CONFIG;
}

static int read_text(int fd, const char *path, char **ret_text) {
  tp__bytes text = {0};
  int error = tp__file_read_open(fd, FILE_BYTES_MAX - 1, &text), status = CLI_OK;
  if (error == -ENOMEM) cli_need(TP_ERR_NO_MEMORY);
  if (error && error != -EFBIG) {
    status = refuse_trust_file(path, strerror(-error));
  } else if (error || strlen(tp__bytes_string(&text)) != text.size) {
    cli_error_at(path, 0, 0, "is no list of trusted directories");
    status = CLI_CONFIG;
  }
  if (status == CLI_OK) *ret_text = text.data;
  else tp__bytes_fini(&text);
  return status;
}

/* Reads the whole file; an empty text when there is none. */
static int read_file(const char *path, char **ret_text) {
  struct stat found;
  int fd = tp__file_open(AT_FDCWD, path, &found);
  if (fd == -ENOENT) {
    *ret_text = cli_alloc(1);
    return CLI_OK;
  }
  if (fd == -ENOTSUP || fd == -EISDIR) return refuse_trust_file(path, "is not a file");
  if (fd < 0) return refuse_trust_file(path, strerror(-fd));
  int status = check_owner(&found, path);
  if (status == CLI_OK) status = read_text(fd, path, ret_text);
  close(fd);
  return status;
}

static bool is_line(const char *line, size_t size) {
  return size > CLI_HASH_SIZE && strspn(line, "0123456789abcdef") == CLI_HASH_SIZE - 1 &&
         line[CLI_HASH_SIZE - 1] == ' ' && line[CLI_HASH_SIZE] == '/';
}

static bool is_line_of(const char *line, size_t size, const char *directory) {
  assert(size > CLI_HASH_SIZE);
  return size - CLI_HASH_SIZE == strlen(directory) &&
         memcmp(line + CLI_HASH_SIZE, directory, size - CLI_HASH_SIZE) == 0;
}

/* Copies all lines except the directory's. @param ret_hash  of the directory, or empty. */
static int sift(const char *path, const char *text, const char *directory, char *ret_rest,
                char ret_hash[CLI_HASH_SIZE]) {
  uint32_t number = 1;
  ret_hash[0] = '\0';
  *ret_rest = '\0';
  for (const char *line = text; *line; number++) {
    size_t size = strcspn(line, "\n");
    if (!is_line(line, size)) {
      cli_error_at(path, number, 1, "a line is a content hash, a blank and the path of a directory");
      return CLI_CONFIG;
    }
    if (is_line_of(line, size, directory)) {
      memcpy(ret_hash, line, CLI_HASH_SIZE - 1);
      ret_hash[CLI_HASH_SIZE - 1] = '\0';
    } else {
      memcpy(ret_rest, line, size);
      ret_rest += size;
      *ret_rest++ = '\n';
      *ret_rest = '\0';
    }
    line += size + (line[size] == '\n');
  }
  return CLI_OK;
}

/* ---- writing ---- */

static bool write_all(int fd, const char *text) {
  for (size_t size = strlen(text); size > 0;) {
    ssize_t written = write(fd, text, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text += written;
    size -= (size_t)written;
  }
  return fsync(fd) == 0;
}

static int replace_file(const char *path, const char *text) {
  char name[PATH_SIZE + 64];
  snprintf(name, sizeof name, "%s.XXXXXX", path);
  int fd = mkostemp(name, O_CLOEXEC); /* mode 0600 */
  if (fd < 0) return refuse_trust_file(path, strerror(errno));
  bool is_written = write_all(fd, text);
  int error = errno;
  if (close(fd) != 0 && is_written) {
    is_written = false;
    error = errno;
  }
  if (is_written && rename(name, path) == 0) return CLI_OK;
  if (is_written) error = errno;
  unlink(name);
  return refuse_trust_file(path, strerror(error));
}

static int lock_file(const char *path, int *ret_lock) {
  char name[PATH_SIZE + 64];
  snprintf(name, sizeof name, "%s.lock", path);
  int lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return refuse_trust_file(name, strerror(errno));
  while (flock(lock, LOCK_EX) != 0) {
    if (errno == EINTR) continue;
    int status = refuse_trust_file(name, strerror(errno));
    close(lock);
    return status;
  }
  *ret_lock = lock;
  return CLI_OK;
}

/* ---- what others call ---- */

int cli_trust_path(const char *directory, char **ret_path) {
  int status = cli_data_check_hooks(directory);
  if (status != CLI_OK) return status;
  char *path = realpath(directory, NULL);
  if (!path) return refuse_trust_file(directory, strerror(errno));
  if (!strchr(path, '\n')) {
    *ret_path = path;
    return CLI_OK;
  }
  free(path);
  return refuse_trust_file(directory, "a path with a line end in it cannot be trusted: rename it");
}

static int file_path(char ret_path[PATH_SIZE + 16]) {
  char folder[PATH_SIZE];
  int status = find_folder(folder);
  if (status == CLI_OK) snprintf(ret_path, PATH_SIZE + 16, "%s/trusted", folder);
  return status;
}

/* The content of a hash is in a file with the hash as its name, next to the list. */
static int content_path(const char *hash, char ret_path[PATH_SIZE + 128], bool makes_folder) {
  char folder[PATH_SIZE], whole[PATH_SIZE + 16];
  int status = find_folder(folder);
  if (status != CLI_OK) return status;
  snprintf(whole, sizeof whole, "%s/contents", folder);
  if (makes_folder) status = make_folders(whole);
  snprintf(ret_path, PATH_SIZE + 128, "%s/%s", whole, hash);
  return status;
}

int cli_trust_get(const char *directory, char ret_hash[CLI_HASH_SIZE]) {
  char path[PATH_SIZE + 16], *text;
  int status = file_path(path);
  if (status == CLI_OK) status = read_file(path, &text);
  if (status != CLI_OK) return status;
  char *rest = cli_alloc(strlen(text) + 2);
  status = sift(path, text, directory, rest, ret_hash);
  free(rest);
  free(text);
  return status;
}

static int change(const char *path, const char *directory, const char *hash, bool *ret_was) {
  char *text, old[CLI_HASH_SIZE];
  int status = read_file(path, &text);
  if (status != CLI_OK) return status;
  size_t size = strlen(text) + CLI_HASH_SIZE + strlen(directory) + 4;
  char *rest = cli_alloc(size);
  status = sift(path, text, directory, rest, old);
  if (ret_was) *ret_was = status == CLI_OK && old[0];
  if (status == CLI_OK && hash) {
    size_t used = strlen(rest);
    snprintf(rest + used, size - used, "%s %s\n", hash, directory);
  }
  if (status == CLI_OK && (hash || old[0])) status = replace_file(path, rest);
  free(rest);
  free(text);
  return status;
}

int cli_trust_set(const char *directory, const char *hash, const char *content, bool *ret_was) {
  assert((!hash || strlen(hash) == CLI_HASH_SIZE - 1) && directory[0] == '/' && (!hash || content));
  char folder[PATH_SIZE], path[PATH_SIZE + 16], listed[PATH_SIZE + 128];
  int lock, status = find_folder(folder);
  if (status == CLI_OK) status = make_folders(folder);
  if (status == CLI_OK) status = file_path(path);
  if (status == CLI_OK) status = lock_file(path, &lock);
  if (status != CLI_OK) return status;
  if (hash) status = content_path(hash, listed, true);
  if (status == CLI_OK && hash) status = replace_file(listed, content);
  if (status == CLI_OK) status = change(path, directory, hash, ret_was);
  close(lock);
  return status;
}

int cli_trust_content(const char *hash, char **ret_content) {
  char path[PATH_SIZE + 128];
  int status = content_path(hash, path, false);
  return status == CLI_OK ? read_file(path, ret_content) : status;
}
