/* SPDX-License-Identifier: Apache-2.0
 *
 * trust_start.c: ensures that the code that is started is the code that was hashed. A script of a shell or of Python is
 * read, compared with its digest, and started from a sealed copy in memory, which later changes of the file cannot
 * reach. A script that needs its own path is started by its path: it is compared before its start and after its end. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "domains/declared/hook.h"
#include "domains/declared/trust.h"
#include "support/sha256.h"

enum { COPY_BYTES_MAX = 1 << 20, PATH_SIZE = 4096 };

/* The copy is started by a path in /proc. A process that hides its memory from others also hides its descriptors. */
static bool can_copy(const tp__hook *hook) {
  return !hook->sandbox.is_on && hook->kind != TP__HOOK_WORKER && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1 &&
         access("/proc/self/fd", X_OK) == 0;
}

static const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool is_python(const char *name) { return strncmp(name, "python", 6) == 0; }

/* The index of the argument that is the script; SIZE_MAX: none, or not known. */
static size_t script_index(const tp__hook *hook) {
  const char *name = base_of(hook->arguments[0]), *second = hook->arguments[1];
  bool is_interpreter = tp__is_one_of(tp_text_of(name), "sh bash dash") || is_python(name);
  if (!is_interpreter) return 0;
  return second && second[0] && second[0] != '-' && second[0] != '+' ? 1 : SIZE_MAX;
}

static bool has_word(tp_text text, const char *word) {
  return memmem(text.data, text.size, word, strlen(word)) != NULL;
}

/* Whether the script would behave differently at another path. */
static bool needs_its_place(const char *path, tp_text text, bool of_python) {
  static const char *const words[] = {"$0",       "${0",      "BASH_SOURCE", "$_",    "__file__", "sys.argv",
                                      "sys.path", "__main__", "importlib",   "runpy", "inspect",  "/proc/"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (has_word(text, words[i])) return true;
  if (!of_python) return false;
  char pattern[PATH_SIZE + 8];
  glob_t found;
  snprintf(pattern, sizeof pattern, "%.*s*", (int)(base_of(path) - path), path);
  bool has_others = glob(pattern, 0, NULL, &found) != 0 || found.gl_pathc > 1; /* it may import one of them */
  if (found.gl_pathv) globfree(&found);
  return has_others;
}

/* Reads "#!/bin/sh" or "#!/usr/bin/env python3". @return false: another interpreter. */
static bool read_interpreter(tp_text text, bool *ret_python) {
  char line[256];
  const char *end = text.size > 2 ? memchr(text.data, '\n', text.size) : NULL;
  if (!end || (size_t)(end - text.data) >= sizeof line || memcmp(text.data, "#!", 2) != 0) return false;
  snprintf(line, sizeof line, "%.*s", (int)(end - text.data - 2), text.data + 2);
  for (char *rest = line, *word; (word = strtok_r(rest, " \t\r", &rest));) {
    const char *name = base_of(word);
    *ret_python = is_python(name);
    if (*ret_python || tp__is_one_of(tp_text_of(name), "sh bash dash")) return true;
    if (strcmp(name, "env") != 0 && name[0] != '-') return false;
  }
  return false;
}

static const tp__trust_file *find_trusted(const tp__hook *hook, const struct stat *found) {
  for (size_t i = 0; i < hook->trusted_count; i++) {
    const tp__trust_file *file = hook->trusted[i];
    if (file->is_there && !file->name && tp__hook_same_file(&file->stat, found)) return file;
  }
  return NULL;
}

/* @return a descriptor to read, or -1. */
static int make_copy(tp_text text) {
  char path[64];
  int fd = memfd_create("hook", MFD_CLOEXEC | MFD_ALLOW_SEALING), reader = -1;
  bool is_whole = fd >= 0 && write(fd, text.data, text.size) == (ssize_t)text.size && fchmod(fd, 0500) == 0 &&
                  fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (is_whole) reader = tp__file_open(AT_FDCWD, path, NULL); /* a file that is open for writing cannot be started */
  if (fd >= 0) close(fd);
  return reader < 0 ? -1 : reader;
}

static bool is_what_was_hashed(const tp__trust_file *file, tp_text text) {
  tp__sha256 hash;
  char digest[65];
  tp__sha256_init(&hash);
  tp__sha256_add(&hash, text.data, text.size);
  tp__sha256_finish(&hash, digest);
  return strcmp(digest, file->digest) == 0;
}

int tp__trust_copy(const tp__hook *hook, tp__trust_start *start) {
  char path[PATH_SIZE];
  struct stat found;
  tp__bytes bytes = {0};
  size_t index = can_copy(hook) ? script_index(hook) : SIZE_MAX;
  start->fd = -1;
  if (index == SIZE_MAX) return 0;
  bool is_relative = hook->arguments[index][0] != '/';
  snprintf(path, sizeof path, "%s%s%s", is_relative ? hook->hooks->root : "", is_relative ? "/" : "",
           hook->arguments[index]);
  int fd = tp__file_open(AT_FDCWD, path, &found), result = 0;
  if (fd < 0) return 0;
  if (found.st_size <= COPY_BYTES_MAX && tp__file_read_open(fd, COPY_BYTES_MAX, &bytes) == 0) {
    const tp__trust_file *file = find_trusted(hook, &found);
    tp_text text = tp__bytes_text(&bytes);
    bool of_python = is_python(base_of(hook->arguments[0]));
    bool is_known = index > 0 || read_interpreter(text, &of_python);
    if (is_known && (!file || !is_what_was_hashed(file, text))) result = -1;
    else if (is_known && !needs_its_place(path, text, of_python)) start->fd = make_copy(text);
  }
  close(fd);
  tp__bytes_fini(&bytes);
  if (start->fd < 0) return result;
  snprintf(start->path, sizeof start->path, "/proc/%d/fd/%d", (int)getpid(), start->fd);
  for (size_t i = 0; i <= hook->argument_count; i++) start->arguments[i] = hook->arguments[i];
  start->arguments[index] = start->path;
  return 0;
}
