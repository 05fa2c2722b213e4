// SPDX-License-Identifier: Apache-2.0
/* The schema of a tool: a JSON Schema, or a schema of a library that supports Standard Schema (zod 4.2 and others). The
 * model reads its JSON Schema, and the library checks and converts the arguments. */
'use strict';

const { ToolError } = require('./errors.js');

const TARGET = 'draft-2020-12';

function jsonOf(schema, standard, name) {
  const given = standard.jsonSchema?.input?.({ target: TARGET }) ?? schema.toJSONSchema?.();
  if (given) return given;
  throw new TypeError(
    `${name}: this schema of ${standard.vendor} has no JSON Schema of its own: give ` +
      'schema: a JSON Schema, and parse the arguments in the function (zod has z.toJSONSchema() from version 4 on)',
  );
}

function issueText({ message, path = [] }) {
  const at = path.map((key) => String(typeof key === 'object' ? key.key : key)).join('.');
  return at ? `${at}: ${message}` : message;
}

/** Returns {schema, check}. check is null, or a function that converts the arguments (perhaps as a promise), and throws
 *  a ToolError that names what is wrong. */
function schemaOf(schema, name) {
  if (schema === undefined || schema === null) return { schema: { type: 'object' }, check: null };
  if (typeof schema !== 'object' && typeof schema !== 'function')
    throw new TypeError(`${name}: schema is a JSON Schema, or a schema of zod or another library of Standard Schema`);
  const standard = schema['~standard'];
  if (!standard) return { schema, check: null };
  const { $schema, ...rest } = jsonOf(schema, standard, name);
  const checked = ({ issues, value }) => {
    if (issues) throw new ToolError(`the arguments are not as the schema says: ${issues.map(issueText).join('; ')}`);
    return value;
  };
  const check = (given) => {
    const result = standard.validate(given);
    return typeof result?.then === 'function' ? Promise.resolve(result).then(checked) : checked(result);
  };
  return { schema: rest, check };
}

module.exports = { schemaOf };
