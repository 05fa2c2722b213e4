#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables from which a binding reads and shows public structs: fields.py turnphase.abi.json HEADER, or their
types for TypeScript: fields.py turnphase.abi.json FILE.d.ts.

Every struct of STRUCTS, and each that one of its members points to, becomes a table of its members. So a new option of
the library is one of the binding as soon as ./dev symbols has written it. What a binding sets itself (callbacks, ctx,
inboxes, handles) is in no table.
"""

import json
import re
import sys

STRUCTS = ('tp_runtime_options', 'tp_agent_config', 'tp_session_options', 'tp_session_end', 'tp_turn_request',
           'tp_turn_result', 'tp_hook', 'tp_tool', 'tp_model', 'tp_listener', 'tp_contribution', 'tp_event',
           'tp_model_request', 'tp_model_response', 'tp_tool_answer', 'tp_tool_result', 'tp_decision', 'tp_question',
           'tp_drain_report', 'tp_agent_result', 'tp_added_message', 'tp_log_record', 'tp_memory_options',
           'tp_files_options', 'tp_skills_options', 'tp_openai_options', 'tp_mcp_options', 'tp_hooks_options',
           'tp_sqlite_store_options', 'tp_outcome')
# Members of type tp_text that hold a value (value.h); all others hold text.
VALUES = {
    'tp_contribution': 'value sources', 'tp_tool_answer': 'value', 'tp_tool_call': 'arguments',
    'tp_tool_result': 'value parts', 'tp_message': 'parts value provider_data ending',
    'tp_model_request': 'parameters files answer_schema', 'tp_model_response': 'provider_data',
    'tp_agent_config': 'extra', 'tp_session_end': 'changed_files abilities_used tasks_summary',
    'tp_turn_request': 'files parameters', 'tp_turn_result': 'value', 'tp_openai_options': 'headers body',
    'tp_decision': 'arguments', 'tp_added_message': 'files', 'tp_job': 'payload'}
# Values that are large and rarely read.
LATER = {'tp_tool': 'schema'}
# Members whose content are bytes.
BYTES = {'tp_part': 'bytes'}
# Values that are text where another member says so.
RAW = {('tp_tool_call', 'arguments'): 'malformed'}
# Members that a binding sets itself, or that only the library reads.
OWN = {'struct_size', 'ctx', 'data', 'inbox', 'allocator', 'turn', 'copied', 'id_count', 'ids', 'phases', 'phase_count'}
# Structs with callbacks: the binding makes them.
TAKEN = {'tp_tool', 'tp_model', 'tp_history', 'tp_store', 'tp_memory_embedder', 'tp_memory_store'}


def enum_values(enums, name):
    """The names of an enum's values in small letters, without their common prefix."""
    values = {key: number for key, number in enums[name]['values'].items() if not key.endswith(('_FORCE_32', '_COUNT'))}
    words = [key.split('_') for key in values]
    shared = 0
    while all(len(key) > shared + 1 and key[:shared + 1] == words[0][:shared + 1] for key in words):
        shared += 1
    found = [('_'.join(key.split('_')[shared:]).lower(), number) for key, number in values.items()]
    return [(text.replace('_', '.', 1), number) for text, number in found] if name == 'tp_phase_id' else found


class Tables:
    def __init__(self, abi):
        self.structs, self.enums = abi['structs'], abi['enums']
        self.made, self.headers, self.text = set(), set(), []
        self.types = []  # for TypeScript

    def enum(self, name):
        if name not in self.made:
            self.made.add(name)
            rows = ', '.join('{"%s", %d}' % value for value in enum_values(self.enums, name))
            self.text.append('static void *tpb_%s_names[%d];\nstatic const tpb_enum tpb_%s = '
                             '{"%s", (const tpb_enum_value[]){%s, {NULL, 0}}, tpb_%s_names};' %
                             (name, rows.count('{'), name, name, rows, name))
        return '&tpb_' + name

    def count_of(self, struct, name):
        members = {member['name'] for member in self.structs[struct]['members']}
        for count in (name + '_count', re.sub('s$', '', name) + '_count'):
            if count in members:
                return count
        return None

    def kind_of(self, struct, member):
        """(kind, table, count) of a member, or None when it is in no table."""
        name, kind, target = member['name'], member['kind'], member['type']
        if name in OWN or 'reserved' in name or kind == 'callback' or 'length' in member:
            return None
        if name.endswith('_count') and kind == 'uint' and struct != 'tp_run_record':  # the count of a list that is in
                                                                                      # no table
            return None
        if target == 'tp_text':
            which = [words for words, table in (('VALUE', VALUES), ('LATER', LATER), ('BYTES', BYTES))
                     if name in table.get(struct, '').split()]
            return which[0] if which else 'TEXT', 'NULL', RAW.get((struct, name))
        if kind == 'enum' and target != 'tp_status':
            return 'ENUM', self.enum(target), None
        if kind in ('string', 'bool'):
            return kind.upper(), 'NULL', None
        if kind in ('uint', 'int', 'enum'):
            return 'UINT' if kind == 'uint' else 'INT', 'NULL', None
        if target == 'const char *const *':
            return 'STRINGS', 'NULL', self.count_of(struct, name)
        match = re.fullmatch(r'const (?:struct )?(tp_\w+) \*(const \*)?', target)
        if match and match.group(1) in self.structs and (struct, name) != ('tp_contribution', 'tools') and (
                match.group(1) not in TAKEN or struct == 'tp_model_request'):
            self.struct(match.group(1))
            return 'STRUCTS' if match.group(2) else 'STRUCT', '&tpb_' + match.group(1), \
                self.count_of(struct, name) if match.group(2) else None
        return None

    def struct(self, name):
        if name in self.made:
            return
        self.made.add(name)
        self.headers.add(self.structs[name]['header'])
        kinds = [(member, self.kind_of(name, member)) for member in self.structs[name]['members']]
        self.types.append((name, [(member, *found) for member, found in kinds if found]))
        counts = {found[2] for _, found in kinds if found and found[2] and found[0] != 'VALUE'}
        rows = ['  {"%s", TPB_%s, %d, offsetof(%s, %s), %s, %s},' % (
            member['name'], found[0], member['size'], name, member['name'],
            '(int32_t)offsetof(%s, %s)' % (name, found[2]) if found[2] else '-1', found[1])
            for member, found in kinds if found and member['name'] not in counts]
        self.text.append('static const tpb_field tpb_%s_fields[] = {\n%s\n  {NULL, 0, 0, 0, -1, NULL}\n};\n'
                         'static void *tpb_%s_names[%d];\n'
                         'static const tpb_struct tpb_%s = {"%s", sizeof(%s), tpb_%s_fields, tpb_%s_names};' %
                         (name, '\n'.join(rows), name, len(rows), name, name, name, name, name))


def camel(name, first=False):
    text = ''.join(word[:1].upper() + word[1:] for word in name.split('_'))
    return text if first else name[0] + text[1:]


PLAIN = {'STRING': 'string', 'TEXT': 'string', 'UINT': 'number | bigint', 'INT': 'number | bigint', 'BOOL': 'boolean',
         'BYTES': 'Uint8Array', 'VALUE': 'unknown', 'LATER': 'unknown', 'STRINGS': 'readonly string[]'}


def typescript(tables):
    """The types of the values that may be given for each struct; names of members are in camelCase, and those of
    structs begin with Tp."""
    lines = ['// Written by bindings/fields.py: members of the public structs, as options.']
    for name, rows in sorted(tables.types):
        counts = {row[3] for row in rows if row[3] and row[1] != 'VALUE'}
        lines.append('export interface %s {' % camel(name, True))
        for member, kind, _, _ in rows:
            if member['name'] in counts:
                continue
            target = re.search(r'tp_\w+', member['type'])
            if kind == 'ENUM':
                words = [text for text, _ in enum_values(tables.enums, member['type'])]
                written = ' | '.join("'%s'" % word for word in words) + ' | number'
            elif kind in PLAIN:
                written = PLAIN[kind]
            else:
                written = ('readonly %s[]' if kind == 'STRUCTS' else '%s') % camel(target.group(0), True)
            lines.append('  %s?: %s | null | undefined;' % (camel(member['name']), written))
        lines.append('}')
    return '\n'.join(lines) + '\n'


def main():
    with open(sys.argv[1], encoding='utf-8') as file:
        tables = Tables(json.load(file))
    for name in STRUCTS:
        tables.struct(name)
    with open(sys.argv[2], 'w', encoding='utf-8') as file:
        if sys.argv[2].endswith('.d.ts'):
            file.write(typescript(tables))
            return
        includes = ['#include "turnphase/%s"' % header for header in sorted(tables.headers)]
        file.write('\n'.join(['/* Written by bindings/fields.py. */', *includes, *tables.text, '']))


if __name__ == '__main__':
    main()
