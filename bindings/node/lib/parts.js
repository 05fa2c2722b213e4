// SPDX-License-Identifier: Apache-2.0
/* Libraries over the core, as parts of a runtime, and models of the library. The options of each are the members of a
 * struct, in camelCase; its comment names the struct and its header. */
'use strict';

class Part {
  constructor(kind, options, trusted) {
    Object.assign(this, { kind, options, trusted });
  }
}
class Database {
  constructor(options) {
    this.options = options;
  }
}
class LibraryModel {
  constructor(kind, options, script) {
    Object.assign(this, { kind, options, script });
  }
}
class FunctionModel {
  constructor(run, options) {
    Object.assign(this, { run, options });
  }
}

/* A path: a string, a Buffer or a file: URL. */
function pathOf(path) {
  if (path instanceof URL) return require('node:url').fileURLToPath(path);
  return Buffer.isBuffer(path) ? path.toString() : path;
}

/** History, records and jobs in a SQLite file: tp_sqlite_store_options of turnphase/sqlite.h. */
const sqlite = (path, options = {}) => new Database({ path: pathOf(path), ...options });

/** Long-term memory: tp_memory_options of turnphase/memory.h. Without a path it ends with the runtime. */
const memory = (path, options = {}) => new Part('memory', { path: pathOf(path), ...options });

/** Tools for the files below a directory: tp_files_options of turnphase/files.h. */
const files = (root, options = {}) => new Part('files', { root: pathOf(root), ...options });

/** Instructions in Markdown files: tp_skills_options of turnphase/skills.h. */
const skills = (directory) => new Part('skills', { directory: pathOf(directory) });

/** The hooks of a directory of YAML files: tp_hooks_options of turnphase/declared.h. trusted: the hash of the content
 *  that the operator has reviewed (`turnphase hooks`), or 'any' for any content. With another content the runtime is
 *  not opened, and the error has the hash. */
function declaredHooks(directory, { trusted, ...options } = {}) {
  if (typeof trusted !== 'string') throw new TypeError("declaredHooks: trusted is the hash of the content, or 'any'");
  return new Part('hooks', { directory: pathOf(directory), ...options }, trusted === 'any' ? undefined : trusted);
}

/** A server of the Model Context Protocol: tp_mcp_options of turnphase/mcp.h. arguments: a program and its arguments;
 *  or url of a server that speaks HTTP. */
const mcp = (name, options) => new Part('mcp', { name, ...options });

/** A model behind an endpoint: tp_openai_options of turnphase/openai.h. The key is in an environment variable (keyEnv)
 *  or in a file (keyFile). */
const openai = (model, options = {}) => new LibraryModel('openai', { model, ...options });

/** A model that plays responses, for tests: each a text or an object with text, tool_calls, stop_reason and usage. */
function script(responses, { repeat = false } = {}) {
  const rows = responses.map((row) => (typeof row === 'string' ? { text: row } : row));
  return new LibraryModel('script', {}, JSON.stringify({ responses: rows, ...(repeat && { repeat }) }));
}

/** A function as a model, with further data about it for the library (tp_model of turnphase/model.h). */
const functionModel = (run, options = {}) => new FunctionModel(run, options);

module.exports = {
  Part,
  Database,
  LibraryModel,
  FunctionModel,
  sqlite,
  memory,
  files,
  skills,
  declaredHooks,
  mcp,
  openai,
  script,
  functionModel,
};
