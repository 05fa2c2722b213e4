/* SPDX-License-Identifier: Apache-2.0 */
#include "domains/skills/skill.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "domains/common/domain.h"
#include "turnphase/value.h"

enum { SUMMARY_BYTES_MAX = 200 };

bool tp__skill_name_valid(tp_text name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
  if (name.size == 0 || name.size > TP__SKILL_NAME_MAX) return false;
  for (size_t i = 0; i < name.size; i++)
    if (!memchr(letters, name.data[i], sizeof letters - 1)) return false;
  return true;
}

/* ---- the text of a file ---- */

/* The next line without its end; *rest goes behind it. */
static tp_text take_line(tp_text *rest) {
  const char *end = rest->size ? memchr(rest->data, '\n', rest->size) : NULL;
  size_t size = end ? (size_t)(end - rest->data) : rest->size;
  tp_text line = {rest->data, size};
  size += end != NULL;
  *rest = (tp_text){rest->data + size, rest->size - size};
  if (line.size && line.data[line.size - 1] == '\r') line.size--;
  return line;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static tp_text trim(tp_text text) {
  while (text.size && is_blank(text.data[0])) text = (tp_text){text.data + 1, text.size - 1};
  while (text.size && is_blank(text.data[text.size - 1])) text.size--;
  return text;
}

static bool line_is(tp_text line, const char *string) {
  return line.size == strlen(string) && memcmp(line.data, string, line.size) == 0;
}

static tp_text description_of(tp_text line) {
  static const char key[] = "description:";
  if (line.size < sizeof key - 1 || memcmp(line.data, key, sizeof key - 1) != 0) return (tp_text){NULL, 0};
  tp_text value = trim((tp_text){line.data + sizeof key - 1, line.size - (sizeof key - 1)});
  bool quoted =
      value.size >= 2 && (value.data[0] == '"' || value.data[0] == '\'') && value.data[value.size - 1] == value.data[0];
  return quoted ? (tp_text){value.data + 1, value.size - 2} : value;
}

static tp_text without_hashes(tp_text line) {
  while (line.size && line.data[0] == '#') line = (tp_text){line.data + 1, line.size - 1};
  return trim(line);
}

static tp_text cut(tp_text text) {
  if (text.size <= SUMMARY_BYTES_MAX) return text;
  text.size = SUMMARY_BYTES_MAX;
  while (text.size && ((unsigned char)text.data[text.size] & 0xC0) == 0x80) text.size--;
  return text;
}

/* A front matter that does not end is none. */
static void read_text(tp_text text, tp__skill *skill) {
  tp_text rest = text, summary = {NULL, 0}, body = text;
  if (line_is(take_line(&rest), "---")) {
    while (rest.size) {
      tp_text line = take_line(&rest), found = description_of(line);
      if (found.size) summary = found;
      if (!line_is(line, "---")) continue;
      body = rest;
      break;
    }
    if (body.data == text.data) summary = (tp_text){NULL, 0};
  }
  skill->body = trim(body);
  tp_text first = skill->body;
  skill->summary = cut(summary.size ? summary : without_hashes(take_line(&first)));
}

/* ---- files ---- */

/* At most one byte more than a skill may have, so that a file that is too long shows. */
static tp_status read_all(int fd, const char *file, char *content, size_t *ret_size, tp_fault *fault) {
  size_t size = 0;
  while (size <= TP__SKILL_BYTES_MAX) {
    ssize_t got = read(fd, content + size, TP__SKILL_BYTES_MAX + 1 - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return tp__domain_fail(fault, TP_ERR_IO, file, "%s: %s", file, strerror(errno));
    if (got == 0) break;
    size += (size_t)got;
  }
  *ret_size = size;
  if (size <= TP__SKILL_BYTES_MAX) return TP_OK;
  return tp__domain_fail(fault, TP_ERR_TOO_LARGE, file, "%s: a skill has at most %d bytes", file, TP__SKILL_BYTES_MAX);
}

static tp_status open_skill(int directory, const char *file, int *ret_fd, tp_fault *fault) {
  struct stat found;
  int fd = openat(directory, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 && errno == ENOENT)
    return tp__domain_fail(fault, TP_ERR_NOT_FOUND, file, "there is no file %s among the skills", file);
  if (fd < 0) return tp__domain_fail(fault, TP_ERR_IO, file, "%s: %s", file, strerror(errno));
  if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
    *ret_fd = fd;
    return TP_OK;
  }
  close(fd);
  return tp__domain_fail(fault, TP_ERR_IO, file, "%s: not a regular file", file);
}

static tp_status check_text(const char *file, tp_text text, const tp__skill *skill, tp_fault *fault) {
  if (!tp_utf8_valid(text, NULL) || (text.size && memchr(text.data, '\0', text.size)))
    return tp__domain_fail(fault, TP_ERR_UTF8, file, "%s: not a text in UTF-8", file);
  if (skill->body.size == 0) return tp__domain_fail(fault, TP_ERR_MALFORMED, file, "%s: the skill has no body", file);
  return TP_OK;
}

tp_status tp__skill_read(int directory, const char *name, tp__skill *ret_skill, tp_fault *fault) {
  char file[TP__SKILL_NAME_MAX + 4];
  int fd = -1;
  size_t size = 0;
  snprintf(file, sizeof file, "%s.md", name);
  tp_status status = open_skill(directory, file, &fd, fault);
  if (status != TP_OK) return status;
  tp__skill skill = {.content = malloc(TP__SKILL_BYTES_MAX + 1)};
  if (skill.content) status = read_all(fd, file, skill.content, &size, fault);
  else status = tp__domain_fail(fault, TP_ERR_NO_MEMORY, file, "no memory for a skill");
  close(fd);
  if (status == TP_OK) {
    read_text((tp_text){skill.content, size}, &skill);
    status = check_text(file, (tp_text){skill.content, size}, &skill, fault);
  }
  if (status == TP_OK) *ret_skill = skill;
  else free(skill.content);
  return status;
}

static tp_status add_name(tp__skill_names *names, const char *file, tp_fault *fault) {
  tp_text name = {file, strlen(file) - 3};
  if (!tp__skill_name_valid(name))
    return tp__domain_fail(fault, TP_ERR_BAD_ID, file,
                           "%s: no skill can have this name: it has 1 to %d lower-case letters, digits, - and _", file,
                           TP__SKILL_NAME_MAX);
  if (names->count == TP__SKILLS_MAX)
    return tp__domain_fail(fault, TP_ERR_FULL, file, "there are more than %d skills", TP__SKILLS_MAX);
  memcpy(names->items[names->count], name.data, name.size);
  names->items[names->count++][name.size] = '\0';
  return TP_OK;
}

static int compare(const void *a, const void *b) { return strcmp(a, b); }

static bool is_skill(const char *file) {
  size_t size = strlen(file);
  return file[0] != '.' && size >= 3 && strcmp(file + size - 3, ".md") == 0;
}

tp_status tp__skill_list(int directory, tp__skill_names *ret_names, tp_fault *fault) {
  int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (!entries) {
    int error = errno;
    if (fd >= 0) close(fd);
    return tp__domain_fail(fault, TP_ERR_IO, NULL, "the directory of the skills: %s", strerror(error));
  }
  tp_status status = TP_OK;
  ret_names->count = 0;
  for (const struct dirent *entry; status == TP_OK && (entry = readdir(entries)) != NULL;)
    if (is_skill(entry->d_name)) status = add_name(ret_names, entry->d_name, fault);
  closedir(entries);
  qsort(ret_names->items, ret_names->count, sizeof *ret_names->items, compare);
  return status;
}
