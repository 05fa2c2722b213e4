/* SPDX-License-Identifier: Apache-2.0
 *
 * files.h: the library turnphase-files: tools with which a model lists, reads, searches and writes the files below one
 * directory, and a guard in front of the writes. It uses public headers only.
 *
 * No path leaves the directory: the kernel resolves each one below it (openat2 with RESOLVE_BENEATH; openat2(2)), so
 * "..", absolute paths, and symbolic links that lead out are refused, also when a directory is replaced by a link
 * meanwhile. Devices, sockets and FIFOs are refused.
 * Threads: the one that uses the edit calls tp_files_register(). */
#ifndef TURNPHASE_FILES_H
#define TURNPHASE_FILES_H

#include "turnphase/runtime.h"

TP_BEGIN_DECLS

/** Whether a file may be written. */
typedef enum tp_files_writes {
  TP_FILES_WRITES_ASK = 0,   /* the guard asks a person about each call of files_write; without a channel the call is
                                denied */
  TP_FILES_WRITES_ALLOW = 1, /* each write is allowed, unless another guard denies it */
  TP_FILES_WRITES_NEVER = 2, /* the tool files_write does not exist */
  TP_FILES_WRITES_FORCE_32 = 0x7fffffff
} tp_files_writes;

/** Zero means default. Strings are copied. */
typedef struct tp_files_options {
  size_t struct_size;
  /** Required: an existing directory, opened once: renaming it later changes nothing. */
  const char *root;
  tp_files_writes writes;
  /** Of one answer of files_read; 0: 65,536; up to 1,048,576. */
  uint32_t read_bytes_max;
} tp_files_options;

/** Adds to the edit:
 *    files.tool_bundle    turn.pre_tool_materialization: files_list, files_read, files_search, files_write
 *    files.write_guard    tool.pre, required: asks before files_write (TP_FILES_WRITES_ASK alone)
 *  The directory is closed when the last handler is destroyed. On failure the edit may hold some of them: discard it.
 *
 *  files_list {path}: the entries of a directory, at most 1,000. files_read {path, first_line, lines}: a text file,
 *  or lines of it. files_search {text, path}: lines that hold a text, in files of at most 1 MiB, at most 100 lines.
 *  files_write {path, text}: writes a whole file, of at most 1 MiB, under a temporary name, renamed when it is on the
 *  disk; missing directories are made. What cannot be done is an error that the model reads.
 *  @return TP_OK; what tp_edit_add_…() returns; TP_ERR_IO with the path in the fault; TP_ERR_SYSTEM where the kernel
 *          has no openat2 (before Linux 5.6, or behind a seccomp filter); TP_ERR_USAGE, TP_ERR_VERSION for wrong
 *          options; TP_ERR_NO_MEMORY.
 *  Threads: the one that uses the edit. */
TP_API tp_status tp_files_register(tp_edit *edit, const tp_files_options *options, tp_fault *fault) TP_MUST_USE;

TP_END_DECLS
#endif
