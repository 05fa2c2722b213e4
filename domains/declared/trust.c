/* SPDX-License-Identifier: Apache-2.0
 *
 * trust.c: finds which files are code, computes their digests and the content hash, and compares them before each
 * start. */
#include "domains/declared/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "domains/declared/hook.h"
#include "support/sha256.h"

enum {
  CODE_FILES_MAX = 10000,
  DATA_FILES_MAX = 256,
  CODE_BYTES_MAX = 256 << 20,
  LOOK_BYTES = 512,
  PATH_SIZE = 4096,
  FRESH_MS = 50
};

static tp_status refuse_trust_memory(tp_fault *fault) {
  return tp__refuse(fault, TP_ERR_NO_MEMORY, NULL, "no memory for the hooks");
}

/* ---- what a file looks like ---- */

typedef enum look { LOOKS_CODE = 1, LOOKS_DATA = 2, LOOKS_UNCLEAR = 3 } look;

static const char code_endings[] =
    "sh bash zsh ksh dash fish csh py pyw pyc pyo pyz js mjs cjs ts mts cts tsx jsx rb pl pm php lua luac awk gawk sed "
    "jq tcl expect r R jl ps1 psm1 bat cmd exe com so dll dylib jar class war wasm go rs java kt kts groovy scala "
    "swift "
    "exs ex erl escript clj bb nu el scm ml hs nim cr d v dart raku vim bats mk make hook";
static const char data_endings[] =
    "json jsonl ndjson json5 jsonc log txt text csv tsv md markdown rst adoc yaml yml toml ini conf cfg properties env "
    "db db-wal db-shm db-journal sqlite sqlite3 sqlite-wal sqlite-shm sqlite-journal lock pid tmp temp new bak orig "
    "old "
    "rej swp swo out err xml html htm css svg png jpg jpeg gif webp ico pdf gz bz2 xz zst zip tar tgz cache state "
    "count "
    "counter stamp last dat data msgpack bin pem crt key pub sum sha256 lst list diff patch example sample template "
    "gitignore gitkeep gitattributes dockerignore editorconfig";

static const char *ending_of(const char *path) {
  assert(path[0] == '/');
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
  return dot ? dot + 1 : "";
}

/* Files with state that programs keep look like this: empty, numbers, times, JSON, a database. */
static look look_of_bytes(const char *bytes, size_t size) {
  size_t at = 0;
  if (size >= 2 && bytes[0] == '#' && bytes[1] == '!') return LOOKS_CODE;
  if (size >= 4 && memcmp(bytes, "\177ELF", 4) == 0) return LOOKS_CODE;
  while (at < size && strchr(" \t\r\n", bytes[at]) && bytes[at]) at++;
  if (at == size || strchr("0123456789+-{[\"", bytes[at])) return LOOKS_DATA;
  return memchr(bytes, '\0', size) ? LOOKS_DATA : LOOKS_UNCLEAR;
}

/* @param found  of the file. For a file that cannot be read, its name decides. */
static look look_at_file(const char *path, const struct stat *found) {
  char bytes[LOOK_BYTES];
  tp_text ending = tp_text_of(ending_of(path));
  bool is_code = tp__is_one_of(ending, code_endings), is_data = tp__is_one_of(ending, data_endings);
  if (is_code || (found->st_mode & (S_IXUSR | S_IXGRP | S_IXOTH))) return LOOKS_CODE;
  int fd = tp__file_open(AT_FDCWD, path, NULL);
  ssize_t size = fd >= 0 ? pread(fd, bytes, sizeof bytes, 0) : -1;
  if (fd >= 0) close(fd);
  look by_bytes = size >= 0 ? look_of_bytes(bytes, (size_t)size) : LOOKS_UNCLEAR;
  return by_bytes == LOOKS_CODE ? LOOKS_CODE : is_data ? LOOKS_DATA : by_bytes;
}

/* ---- the list ---- */

/* Normalizes paths such as "a//b/./c" and "a/x/../b"; links are not followed. */
static void normalize(const char *path, char ret_path[PATH_SIZE]) {
  size_t used = 0;
  while (*path) {
    size_t size = strcspn(path, "/");
    if (size == 2 && path[0] == '.' && path[1] == '.') {
      while (used > 0 && ret_path[--used] != '/') continue;
    } else if (size > 0 && !(size == 1 && path[0] == '.')) {
      used += (size_t)snprintf(ret_path + used, PATH_SIZE - used, "/%.*s", (int)size, path);
    }
    path += size + (path[size] == '/');
  }
  ret_path[used] = '\0';
  if (used == 0) snprintf(ret_path, PATH_SIZE, "/");
}

static const char *below(const char *path, const char *folder) {
  assert(path && folder[0] == '/');
  size_t size = strlen(folder);
  return strncmp(path, folder, size) == 0 && path[size] == '/' ? path + size + 1 : NULL;
}

/* The path relative to the directory or the root, so that a checkout at another place has the same names. */
static const char *shown_of(tp_hooks *hooks, const char *path) {
  char text[PATH_SIZE + 2];
  const char *inside = below(path, hooks->folder), *in_root = below(path, hooks->root);
  if (!inside && !in_root) return path;
  snprintf(text, sizeof text, "%s%s", inside ? "" : "./", inside ? inside : in_root);
  return tp__hooks_copy(hooks, tp_text_of(text));
}

static bool is_decided(const char *const *patterns, const tp__trust_file *file) {
  for (; patterns && *patterns; patterns++) {
    tp_text pattern = tp_text_of(*patterns);
    const char *name = strncmp(file->shown, "./", 2) == 0 ? file->shown + 2 : file->shown;
    if (tp_pattern_fits(pattern, tp_text_of(file->shown)) || tp_pattern_fits(pattern, tp_text_of(name)) ||
        tp_pattern_fits(pattern, tp_text_of(file->path)))
      return true;
  }
  return false;
}

static bool is_same_name(const char *one, const char *other) {
  return one == other || (one && other && strcmp(one, other) == 0);
}

static tp__trust_file *find_trust_file(const tp_hooks *hooks, const char *path, const tp__trust_name *name) {
  tp__trust_file *file = hooks->files;
  while (file && (strcmp(file->path, path) != 0 || !is_same_name(file->name, name ? name->name : NULL) ||
                  !is_same_name(file->search, name ? name->search : NULL)))
    file = file->next;
  return file;
}

/* The operator's word is the last. */
static void decide(const tp_hooks *hooks, tp__trust_file *file) {
  bool is_data = is_decided(hooks->data_files, file), is_code = is_decided(hooks->code_files, file);
  bool is_fixed = file->use == TP_HOOK_FILE_DECLARATION || file->use == TP_HOOK_FILE_PROGRAM;
  if (is_fixed || (!is_data && !is_code)) return;
  file->is_unclear = false;
  file->is_code = is_code;
  file->use = is_code ? TP_HOOK_FILE_SCRIPT : TP_HOOK_FILE_DATA;
}

static tp__trust_file *add_file(tp_hooks *hooks, const char *path, const tp__trust_name *name, const char *hook) {
  tp__trust_file *file = tp__hooks_alloc(hooks, sizeof *file);
  const char *copy = file ? tp__hooks_copy(hooks, tp_text_of(path)) : NULL;
  if (!copy) return NULL;
  *file = (tp__trust_file){.next = hooks->files, .path = copy, .hook = hook};
  if (name) {
    file->name = name->name;
    file->search = name->search;
  }
  file->shown = shown_of(hooks, copy);
  if (!file->shown) return NULL;
  hooks->files = file;
  return file;
}

/* What is code in one place is code. */
static void raise_use(tp__trust_file *file, tp_hook_file_use use, bool is_code, bool is_unclear) {
  if (file->use != 0 && (file->is_code > is_code || (file->is_code == is_code && !file->is_unclear))) return;
  file->use = use;
  file->is_code = is_code;
  file->is_unclear = is_unclear;
}

static void set_role(tp__trust_file *file, tp__trust_role role) {
  struct stat found;
  bool is_file = stat(file->path, &found) == 0 && S_ISREG(found.st_mode);
  if (role == TP__TRUST_PROGRAM) raise_use(file, TP_HOOK_FILE_PROGRAM, true, false);
  if (role == TP__TRUST_SCRIPT) raise_use(file, TP_HOOK_FILE_SCRIPT, true, false);
  if (role == TP__TRUST_DATA) raise_use(file, TP_HOOK_FILE_DATA, false, false);
  file->is_loaded = role == TP__TRUST_LOADED && (file->use == 0 || file->is_loaded);
  if (role == TP__TRUST_LOADED && !file->is_code) {
    file->use = TP_HOOK_FILE_DATA;
    file->is_unclear = true;
  }
  if (role != TP__TRUST_ARGUMENT) return;
  look seen = is_file ? look_at_file(file->path, &found) : LOOKS_DATA;
  bool is_code = seen == LOOKS_CODE;
  file->is_argument = true;
  raise_use(file, is_code ? TP_HOOK_FILE_SCRIPT : TP_HOOK_FILE_DATA, is_code, seen != LOOKS_DATA);
}

tp_status tp__trust_add(tp_hooks *hooks, tp__hook *hook, const char *path, const tp__trust_name *name,
                        tp__trust_role role, tp_fault *fault) {
  char plain[PATH_SIZE];
  assert(path[0] == '/' && hook->trusted_count <= TP__HOOK_FILES_MAX);
  if (strlen(path) >= PATH_SIZE / 2) return TP_OK; /* no file has such a name */
  normalize(path, plain);
  tp__trust_file *file = find_trust_file(hooks, plain, name);
  if (!file) file = add_file(hooks, plain, name, hook->id);
  if (!file) return refuse_trust_memory(fault);
  set_role(file, role);
  decide(hooks, file);
  for (size_t i = 0; i < hook->trusted_count; i++)
    if (hook->trusted[i] == file) return TP_OK;
  if (hook->trusted_count == TP__HOOK_FILES_MAX)
    return tp__refuse(fault, TP_ERR_TOO_LARGE, hook->file, "its command names more than %d files", TP__HOOK_FILES_MAX);
  hook->trusted[hook->trusted_count++] = file;
  return TP_OK;
}

tp_status tp__trust_add_glob(tp_hooks *hooks, tp__hook *hook, const char *pattern, tp__trust_role role,
                             tp_fault *fault) {
  assert(pattern[0] == '/');
  if (role == TP__TRUST_DATA) return TP_OK;
  tp__trust_glob *made = tp__hooks_alloc(hooks, sizeof *made);
  const char *copy = made ? tp__hooks_copy(hooks, tp_text_of(pattern)) : NULL;
  if (!copy) return refuse_trust_memory(fault);
  *made = (tp__trust_glob){hook->globs, copy, role == TP__TRUST_ARGUMENT};
  hook->globs = made;
  return TP_OK;
}

static void digest_of(tp_text text, char ret_digest[65]) {
  tp__sha256 content;
  tp__sha256_init(&content);
  tp__sha256_add(&content, text.data, text.size);
  tp__sha256_finish(&content, ret_digest);
}

/* The bytes that were read are hashed, even if the file has changed since. */
tp_status tp__trust_add_declaration(tp_hooks *hooks, const char *file, tp_text text, tp_fault *fault) {
  char path[PATH_SIZE];
  const char *slash = strrchr(file, '/');
  snprintf(path, sizeof path, "%s/%s", hooks->folder, slash ? slash + 1 : file);
  tp__trust_file *made = add_file(hooks, path, NULL, NULL);
  if (!made) return refuse_trust_memory(fault);
  made->use = TP_HOOK_FILE_DECLARATION;
  made->is_code = made->is_there = true;
  digest_of(text, made->digest);
  return TP_OK;
}

/* ---- the directory ---- */

static int names_by_bytes(const FTSENT **one, const FTSENT **other) {
  return strcmp((*one)->fts_name, (*other)->fts_name);
}

/* Python stores compiled sources there, but does not read them from there (keep_python_out()). */
static bool is_skipped(const FTSENT *entry) {
  return entry->fts_info == FTS_D && (strcmp(entry->fts_name, "__pycache__") == 0 ||
                                      (strcmp(entry->fts_name, ".git") == 0 && entry->fts_level > 0));
}

/* For a file that no command names and that declares no hook. */
static look look_of(const tp_hooks *hooks, const char *path, const struct stat *found) {
  tp__trust_file file = {.path = path, .shown = below(path, hooks->folder)};
  if (!file.shown) file.shown = path;
  if (is_decided(hooks->code_files, &file)) return LOOKS_CODE;
  return is_decided(hooks->data_files, &file) ? LOOKS_DATA : look_at_file(path, found);
}

/* The times of a file have the resolution of the kernel's tick, 1 to 10 ms. */
static bool is_fresh(const struct stat *found) {
  int64_t changed_ms = (int64_t)found->st_ctim.tv_sec * 1000 + found->st_ctim.tv_nsec / 1000000;
  return tp__wall_ms() - changed_ms < FRESH_MS;
}

static tp_status take_folder(tp_hooks *hooks, const FTSENT *entry, tp_fault *fault) {
  tp__trust_folder *folder = tp__hooks_alloc(hooks, sizeof *folder);
  const char *path = folder ? tp__hooks_copy(hooks, tp_text_of(entry->fts_path)) : NULL;
  if (!path) return refuse_trust_memory(fault);
  *folder = (tp__trust_folder){hooks->folders, path, *entry->fts_statp, is_fresh(entry->fts_statp)};
  hooks->folders = folder;
  return TP_OK;
}

static tp_status take_file(tp_hooks *hooks, const FTSENT *entry, size_t *code_count, tp_fault *fault) {
  if (find_trust_file(hooks, entry->fts_path, NULL)) return TP_OK;
  look seen = look_of(hooks, entry->fts_path, entry->fts_statp);
  bool is_listed = seen == LOOKS_CODE || ++hooks->data_count <= DATA_FILES_MAX;
  if (!is_listed) return TP_OK;
  if (seen == LOOKS_CODE && ++*code_count > CODE_FILES_MAX)
    return tp__refuse(fault, TP_ERR_TOO_LARGE, hooks->directory,
                      "more than %d files to hash: keep programs in a folder of their own", CODE_FILES_MAX);
  tp__trust_file *file = add_file(hooks, entry->fts_path, NULL, NULL);
  if (!file) return refuse_trust_memory(fault);
  file->use = seen == LOOKS_CODE ? TP_HOOK_FILE_HELPER : TP_HOOK_FILE_DATA;
  file->is_code = seen == LOOKS_CODE;
  file->is_unclear = seen == LOOKS_UNCLEAR;
  return TP_OK;
}

static tp_status take_tree_entry(tp_hooks *hooks, const FTSENT *entry, size_t *code_count, tp_fault *fault) {
  switch (entry->fts_info) {
    case FTS_D:
      return take_folder(hooks, entry, fault);
    case FTS_F:
      return take_file(hooks, entry, code_count, fault);
    case FTS_ERR:
    case FTS_DNR:
    case FTS_NS:
      return tp__refuse_errno(fault, TP_ERR_IO, entry->fts_path, entry->fts_errno, "cannot be read");
    default:
      return TP_OK;
  }
}

static FTS *open_tree(const tp_hooks *hooks) {
  char *paths[] = {(char *)(uintptr_t)hooks->folder, NULL};
  return fts_open(paths, FTS_LOGICAL | FTS_NOCHDIR, names_by_bytes);
}

/* Links are followed, because the files to which they lead are run. */
static tp_status list_directory(tp_hooks *hooks, tp_fault *fault) {
  FTS *tree = open_tree(hooks);
  if (!tree) return tp__refuse_errno(fault, TP_ERR_IO, hooks->directory, errno, "cannot be read");
  tp_status status = TP_OK;
  size_t code_count = 0;
  for (FTSENT *entry = fts_read(tree); entry && status == TP_OK; entry = fts_read(tree)) {
    if (is_skipped(entry)) (void)fts_set(tree, entry, FTS_SKIP);
    else status = take_tree_entry(hooks, entry, &code_count, fault);
  }
  fts_close(tree);
  return status;
}

/* ---- digests ---- */

static tp_status refuse_large(tp_fault *fault, const char *path) {
  return tp__refuse(fault, TP_ERR_TOO_LARGE, path,
                    "has more than %d MiB: keep it outside of the directory of hooks, or trust it as data",
                    CODE_BYTES_MAX >> 20);
}

static tp_status read_digest(int fd, tp__trust_file *file, tp_fault *fault) {
  tp__sha256 content;
  tp__sha256_init(&content);
  char bytes[65536];
  for (int64_t left = CODE_BYTES_MAX + 1;;) {
    ssize_t size = read(fd, bytes, sizeof bytes);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return tp__refuse_errno(fault, TP_ERR_IO, file->path, errno, "cannot be read");
    if (size == 0) break;
    if ((left -= size) <= 0) return refuse_large(fault, file->path); /* it grew */
    tp__sha256_add(&content, bytes, (size_t)size);
  }
  tp__sha256_finish(&content, file->digest);
  return TP_OK;
}

/* Interpreters are large and many hooks name them, so each is read only once. */
static bool copy_digest(const tp_hooks *hooks, tp__trust_file *file) {
  for (const tp__trust_file *other = hooks->files; other; other = other->next) {
    if (other == file || !other->is_there || !other->digest[0] || !tp__hook_same_file(&other->stat, &file->stat))
      continue;
    memcpy(file->digest, other->digest, sizeof file->digest);
    return true;
  }
  return false;
}

/* For a program that may be started but not read, size and path are hashed. */
static tp_status hash_file(const tp_hooks *hooks, tp__trust_file *file, tp_fault *fault) {
  if (!file->is_code || file->digest[0]) return TP_OK;
  int fd = tp__file_open(AT_FDCWD, file->path, &file->stat);
  if (fd < 0 && (fd == -ENOENT || fd == -ENOTDIR || fd == -EISDIR || fd == -ENOTSUP || fd == -ELOOP)) return TP_OK;
  if (fd == -EACCES && file->use == TP_HOOK_FILE_PROGRAM && stat(file->path, &file->stat) == 0) {
    file->is_there = true;
    snprintf(file->digest, sizeof file->digest, "unread-%lld", (long long)file->stat.st_size);
    return TP_OK;
  }
  if (fd < 0) return tp__file_refuse(fault, file->path, fd, 0, "cannot be read");
  file->is_there = true;
  file->is_fresh = is_fresh(&file->stat);
  tp_status status = TP_OK;
  if (!copy_digest(hooks, file))
    status = file->stat.st_size > CODE_BYTES_MAX ? refuse_large(fault, file->path) : read_digest(fd, file, fault);
  close(fd);
  return status;
}

/* ---- the content hash ---- */

static int by_name(const void *one, const void *other) {
  const tp__trust_file *a = *(tp__trust_file *const *)one, *b = *(tp__trust_file *const *)other;
  int order = strcmp(a->shown, b->shown);
  return order != 0 ? order : strcmp(a->name ? a->name : "", b->name ? b->name : "");
}

/* The list is sorted by name, so that it does not depend on the order of the directory's entries. */
static tp_status sort_files(tp_hooks *hooks, tp_fault *fault) {
  size_t count = 0, at = 0;
  for (tp__trust_file *file = hooks->files; file; file = file->next) count++;
  if (count == 0) return TP_OK;
  tp__trust_file **list = calloc(count, sizeof(tp__trust_file *));
  if (!list) return refuse_trust_memory(fault);
  for (tp__trust_file *file = hooks->files; file; file = file->next) list[at++] = file;
  if (count > 1) qsort(list, count, sizeof(tp__trust_file *), by_name);
  for (at = 0; at < count; at++) list[at]->next = at + 1 < count ? list[at + 1] : NULL;
  hooks->files = list[0];
  free(list);
  return TP_OK;
}

/* The size precedes the name, so that no bytes can move from one name to another. */
static void hash_name(tp__sha256 *hash, const char *word, const char *name) {
  char text[128];
  int size = snprintf(text, sizeof text, "%s %zu:", word, strlen(name));
  assert(size > 0 && (size_t)size < sizeof text);
  tp__sha256_add(hash, text, (size_t)size);
  tp__sha256_add(hash, name, strlen(name));
}

static void add_decisions(tp__sha256 *hash, const char *word, const char *const *patterns) {
  for (; patterns && *patterns; patterns++) hash_name(hash, word, *patterns);
}

static bool has_python(const tp_hooks *hooks) {
  for (const tp__trust_file *file = hooks->files; file; file = file->next)
    if (file->is_code && below(file->path, hooks->folder) && strcmp(ending_of(file->path), "py") == 0) return true;
  return false;
}

static void append_pair(const char **environment, const char *pair) {
  while (*environment) environment++;
  *environment = pair;
}

/* Files in __pycache__ would run instead of the sources that were hashed. */
static tp_status keep_python_out(tp_hooks *hooks, tp_fault *fault) {
  if (!has_python(hooks)) return TP_OK;
  const char *pair = tp__hooks_pair(hooks, "PYTHONPYCACHEPREFIX", "/dev/null");
  if (!pair) return refuse_trust_memory(fault);
  append_pair(hooks->environment, pair);
  for (tp__hook *hook = hooks->first; hook; hook = hook->next) append_pair(hook->environment, pair);
  return TP_OK;
}

tp_status tp__trust_hash(tp_hooks *hooks, tp_fault *fault) {
  tp__sha256 all;
  tp__sha256_init(&all);
  assert(!hooks->hash[0]);
  tp_status status = list_directory(hooks, fault);
  for (tp__trust_file *file = hooks->files; file && status == TP_OK; file = file->next)
    status = hash_file(hooks, file, fault);
  if (status == TP_OK) status = sort_files(hooks, fault);
  if (status == TP_OK) status = keep_python_out(hooks, fault);
  for (tp__trust_file *file = hooks->files; file && status == TP_OK; file = file->next) {
    if (!file->is_code || !file->is_there) continue;
    hash_name(&all, file->digest, file->shown);
    if (file->name) hash_name(&all, "PATH", file->name);
  }
  add_decisions(&all, "data", hooks->data_files);
  add_decisions(&all, "code", hooks->code_files);
  tp__sha256_finish(&all, hooks->hash);
  return status;
}

/* ---- before each start ---- */

static bool say_untrusted(char why[TP__TRUST_WHY_SIZE], const char *shown, const char *what) {
  char name[256];
  tp__show(name, sizeof name, tp_text_of(shown));
  snprintf(why, TP__TRUST_WHY_SIZE, "%s %s: the hooks are not what was trusted; look at it, and trust them again", name,
           what);
  return false;
}

/* The program that was found in PATH must still be the first with its name there. */
static bool is_found_again(const tp__trust_file *file) {
  char path[PATH_SIZE];
  bool is_found = tp__trust_look_up(file->search, file->name, path, sizeof path);
  return is_found ? strcmp(path, file->path) == 0 : !file->is_there;
}

static bool has_digest(const tp__trust_file *file) {
  tp__trust_file again = {.path = file->path};
  int fd = tp__file_open(AT_FDCWD, file->path, NULL);
  bool is_same = fd >= 0 && read_digest(fd, &again, NULL) == TP_OK && strcmp(again.digest, file->digest) == 0;
  if (fd >= 0) close(fd);
  return is_same;
}

static bool file_holds(const tp__hook *hook, const tp__trust_file *file, char why[TP__TRUST_WHY_SIZE]) {
  struct stat now;
  const tp_hooks *hooks = hook->hooks;
  if (file->use == TP_HOOK_FILE_DECLARATION) return true; /* it was read, and nothing reads it again */
  if (file->name && !is_found_again(file)) return say_untrusted(why, file->name, "is another program in PATH");
  bool is_there = stat(file->path, &now) == 0 && S_ISREG(now.st_mode);
  if (file->is_there) {
    if (!is_there) return say_untrusted(why, file->shown, "is gone");
    bool is_same = tp__hook_same_file(&now, &file->stat) && (!file->is_fresh || has_digest(file));
    return is_same || say_untrusted(why, file->shown, "has changed");
  }
  assert(!file->digest[0]);
  if (!is_there) return true;
  if (file->is_code) return say_untrusted(why, file->shown, "was not there");
  /* A file that a command writes is data, whatever it looks like; and so is a file that the operator calls data. */
  bool may_run = file->is_argument && !is_decided(hooks->data_files, file);
  return !may_run || look_at_file(file->path, &now) != LOOKS_CODE || say_untrusted(why, file->shown, "has become code");
}

static bool is_new_match(const tp_hooks *hooks, const tp__trust_glob *pattern, const char *path) {
  char plain[PATH_SIZE];
  struct stat found;
  if (strlen(path) >= PATH_SIZE / 2 || stat(path, &found) != 0 || !S_ISREG(found.st_mode)) return false;
  normalize(path, plain);
  tp__trust_file file = {.path = plain, .shown = below(plain, hooks->folder)};
  if (!file.shown) file.shown = below(plain, hooks->root);
  if (!file.shown) file.shown = plain;
  if (is_decided(hooks->data_files, &file)) return false;
  return !find_trust_file(hooks, plain, NULL) && (!pattern->is_argument || look_at_file(path, &found) == LOOKS_CODE);
}

static bool glob_holds(const tp_hooks *hooks, const tp__trust_glob *pattern, char why[TP__TRUST_WHY_SIZE]) {
  glob_t found;
  bool holds = true;
  if (glob(pattern->pattern, GLOB_BRACE, NULL, &found) != 0) return true;
  for (size_t i = 0; i < found.gl_pathc && holds; i++)
    holds = !is_new_match(hooks, pattern, found.gl_pathv[i]) || say_untrusted(why, found.gl_pathv[i], "was not there");
  globfree(&found);
  return holds;
}

static bool is_same_folder(const tp__trust_folder *folder) {
  struct stat now;
  return !folder->is_fresh && stat(folder->path, &now) == 0 && tp__hook_same_file(&now, &folder->stat);
}

static bool is_new_code(const tp_hooks *hooks, const FTSENT *entry) {
  if (entry->fts_info != FTS_F) return false;
  const tp__trust_file *file = find_trust_file(hooks, entry->fts_path, NULL);
  if (file && (file->is_code || file->hook)) return false; /* it was compared */
  const char *name = below(entry->fts_path, hooks->folder), *dot = name ? strrchr(name, '.') : NULL;
  bool declares = name && name[0] != '.' && !strchr(name, '/') && dot && tp__is_one_of(tp_text_of(dot), ".yaml .yml");
  return !declares && look_of(hooks, entry->fts_path, entry->fts_statp) == LOOKS_CODE;
}

/* Something was added to a folder, or removed from it: most often a log. */
static bool has_no_new_code(const tp_hooks *hooks, char why[TP__TRUST_WHY_SIZE]) {
  FTS *tree = open_tree(hooks);
  bool holds = tree != NULL || say_untrusted(why, hooks->directory, "cannot be read");
  for (FTSENT *entry = holds ? fts_read(tree) : NULL; entry && holds; entry = fts_read(tree)) {
    if (is_skipped(entry)) (void)fts_set(tree, entry, FTS_SKIP);
    else if (is_new_code(hooks, entry))
      holds = say_untrusted(why, below(entry->fts_path, hooks->folder), "was not there");
  }
  if (tree) fts_close(tree);
  return holds;
}

bool tp__trust_holds(const tp__hook *hook, char ret_why[TP__TRUST_WHY_SIZE]) {
  const tp_hooks *hooks = hook->hooks;
  bool holds = true, is_same = true;
  for (size_t i = 0; i < hook->trusted_count && holds; i++) holds = file_holds(hook, hook->trusted[i], ret_why);
  for (const tp__trust_glob *pattern = hook->globs; pattern && holds; pattern = pattern->next)
    holds = glob_holds(hooks, pattern, ret_why);
  for (const tp__trust_file *file = hooks->files; file && holds; file = file->next)
    if (file->is_code && below(file->path, hooks->folder)) holds = file_holds(hook, file, ret_why);
  for (const tp__trust_folder *folder = hooks->folders; folder && is_same; folder = folder->next)
    is_same = is_same_folder(folder);
  return holds && (is_same || has_no_new_code(hooks, ret_why));
}

bool tp__trust_look_up(const char *path, const char *name, char *ret_path, size_t size) {
  struct stat found;
  while (*path) {
    size_t length = strcspn(path, ":");
    int used = snprintf(ret_path, size, "%.*s/%s", (int)length, path, name);
    bool is_whole = length > 0 && used > 0 && (size_t)used < size;
    if (is_whole && stat(ret_path, &found) == 0 && S_ISREG(found.st_mode) && access(ret_path, X_OK) == 0) return true;
    path += length + (path[length] == ':');
  }
  return false;
}

/* Both lists are in the order of their names. */
void tp__trust_difference(const tp_hooks *before, const tp_hooks *now, char ret_text[TP__TRUST_WHY_SIZE]) {
  const tp__trust_file *old = before ? before->files : NULL, *new = now->files;
  ret_text[0] = '\0';
  while ((old || new) && !ret_text[0]) {
    int order = !old ? 1 : !new ? -1 : by_name(&old, &new);
    const tp__trust_file *file = order > 0 ? new : old;
    bool was = order <= 0 && old->is_code && old->is_there, is = order >= 0 && new->is_code &&new->is_there;
    const char *what = was && !is   ? access(old->path, F_OK) == 0 ? "is no longer a part of it" : "is gone"
                       : is && !was ? "is new"
                       : is && strcmp(old->digest, new->digest) != 0 ? "has changed"
                                                                     : NULL;
    if (what) snprintf(ret_text, TP__TRUST_WHY_SIZE, "%.400s %s", file->shown, what);
    if (order <= 0) old = old->next;
    if (order >= 0) new = new->next;
  }
}
