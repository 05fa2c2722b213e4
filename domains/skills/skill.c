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

#include "runtime/base/check.h"
#include "support/file.h"
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

/* Returns the next line without its end, and moves *rest after it. */
static tp_text take_skill_line(tp_text *rest) {
  const char *end = rest->size ? memchr(rest->data, '\n', rest->size) : NULL;
  size_t size = end ? (size_t)(end - rest->data) : rest->size;
  tp_text line = {rest->data, size};
  size += end != NULL;
  *rest = (tp_text){rest->data + size, rest->size - size};
  if (line.size && line.data[line.size - 1] == '\r') line.size--;
  return line;
}

static bool is_skill_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static tp_text trim(tp_text text) {
  while (text.size && is_skill_blank(text.data[0])) text = (tp_text){text.data + 1, text.size - 1};
  while (text.size && is_skill_blank(text.data[text.size - 1])) text.size--;
  return text;
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

static tp_text cut(tp_text text) { return (tp_text){text.data, (size_t)tp__cut(text, SUMMARY_BYTES_MAX)}; }

/* Reads the front matter. A front matter without an end counts as none. */
static void read_front_matter(tp_text text, tp__skill *skill) {
  tp_text rest = text, summary = {NULL, 0}, body = text;
  if (tp__is_word(take_skill_line(&rest), "---")) {
    while (rest.size) {
      tp_text line = take_skill_line(&rest), found = description_of(line);
      if (found.size) summary = found;
      if (!tp__is_word(line, "---")) continue;
      body = rest;
      break;
    }
    if (body.data == text.data) summary = (tp_text){NULL, 0};
  }
  skill->body = trim(body);
  tp_text first = skill->body;
  skill->summary = cut(summary.size ? summary : without_hashes(take_skill_line(&first)));
}

/* ---- files ---- */

static tp_status check_text(const char *file, tp_text text, const tp__skill *skill, tp_fault *fault) {
  if (!tp_utf8_valid(text, NULL) || (text.size && memchr(text.data, '\0', text.size)))
    return tp__refuse(fault, TP_ERR_UTF8, file, "%s: not a text in UTF-8", file);
  if (skill->body.size == 0) return tp__refuse(fault, TP_ERR_MALFORMED, file, "%s: the skill has no body", file);
  return TP_OK;
}

static tp_status refuse_file(tp_fault *fault, const char *file, int error) {
  assert(error < 0);
  if (error == -ENOENT) return tp__refuse(fault, TP_ERR_NOT_FOUND, file, "there is no file %s among the skills", file);
  if (error == -EFBIG)
    return tp__refuse(fault, TP_ERR_TOO_LARGE, file, "%s: a skill has at most %d bytes", file, TP__SKILL_BYTES_MAX);
  if (error == -ENOMEM) return tp__refuse(fault, TP_ERR_NO_MEMORY, file, "no memory for a skill");
  if (error == -ENOTSUP || error == -EISDIR) return tp__refuse(fault, TP_ERR_IO, file, "%s: not a regular file", file);
  return tp__refuse(fault, TP_ERR_IO, file, "%s: %s", file, strerror(-error));
}

tp_status tp__skill_read(int directory, const char *name, tp__skill *ret_skill, tp_fault *fault) {
  assert(directory >= 0 && tp__skill_name_valid(tp_text_of(name)));
  char file[TP__SKILL_NAME_MAX + 4];
  snprintf(file, sizeof file, "%s.md", name);
  tp__skill skill = {.content = {0}};
  int error = tp__file_read(directory, file, TP__SKILL_BYTES_MAX, &skill.content);
  tp_status status = error ? refuse_file(fault, file, error) : TP_OK;
  if (status == TP_OK) {
    read_front_matter(tp__bytes_text(&skill.content), &skill);
    status = check_text(file, tp__bytes_text(&skill.content), &skill, fault);
  }
  if (status == TP_OK) *ret_skill = skill;
  else tp__skill_fini(&skill);
  return status;
}

void tp__skill_fini(tp__skill *skill) { tp__bytes_fini(&skill->content); }

static tp_status add_skill_file(tp__skill_names *names, const char *file, tp_fault *fault) {
  assert(names->count <= TP__SKILLS_MAX && strlen(file) >= 3);
  tp_text name = {file, strlen(file) - 3};
  if (!tp__skill_name_valid(name))
    return tp__refuse(fault, TP_ERR_BAD_ID, file,
                      "%s: no skill can have this name: it has 1 to %d lower-case letters, digits, - and _", file,
                      TP__SKILL_NAME_MAX);
  if (names->count == TP__SKILLS_MAX)
    return tp__refuse(fault, TP_ERR_FULL, file, "there are more than %d skills", TP__SKILLS_MAX);
  memcpy(names->items[names->count], name.data, name.size);
  assert(names->count < sizeof names->items / sizeof *names->items);
  names->items[names->count++][name.size] = '\0';
  return TP_OK;
}

static int compare(const void *a, const void *b) { return strcmp(a, b); }

static bool is_skill(const char *file) {
  size_t size = strlen(file);
  return file[0] != '.' && size >= 3 && strcmp(file + size - 3, ".md") == 0;
}

tp_status tp__skill_list(int directory, tp__skill_names *ret_names, tp_fault *fault) {
  assert(directory >= 0);
  int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (!entries) {
    int error = errno;
    if (fd >= 0) close(fd);
    return tp__refuse(fault, TP_ERR_IO, NULL, "the directory of the skills: %s", strerror(error));
  }
  tp_status status = TP_OK;
  ret_names->count = 0;
  for (const struct dirent *entry; status == TP_OK && (entry = readdir(entries)) != NULL;)
    if (is_skill(entry->d_name)) status = add_skill_file(ret_names, entry->d_name, fault);
  closedir(entries);
  if (ret_names->count > 1) qsort(ret_names->items, ret_names->count, sizeof *ret_names->items, compare);
  return status;
}
