# SPDX-License-Identifier: Apache-2.0
"""Libraries over the core, as options of a Runtime, and models of the library. The keywords of each class are the
members of the struct that its docstring names."""

from __future__ import annotations

import os
from typing import Any, Callable, Sequence

Path = str | os.PathLike[str]


class _Options:
    kind = ''

    def __init__(self, **options: Any) -> None:
        self.options = options


class Sqlite(_Options):
    """History, records and jobs in a SQLite file: tp_sqlite_store_options of turnphase/sqlite.h."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path=os.fspath(path), **options)


class Domain(_Options):
    """A library that registers hooks and tools of its own."""

    trusted: str | None = None


class Memory(Domain):
    """Long-term memory: tp_memory_options of turnphase/memory.h. Without a path it ends with the runtime."""

    kind = 'memory'

    def __init__(self, path: Path | None = None, **options: Any) -> None:
        super().__init__(path=path if path is None else os.fspath(path), **options)


class Files(Domain):
    """Tools for the files below a directory: tp_files_options of turnphase/files.h."""

    kind = 'files'

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root=os.fspath(root), **options)


class Skills(Domain):
    """Instructions in Markdown files: tp_skills_options of turnphase/skills.h."""

    kind = 'skills'

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=os.fspath(directory))


class DeclaredHooks(Domain):
    """The hooks of a directory of YAML files: tp_hooks_options of turnphase/declared.h.

    @param trusted  the hash of the content that the operator has reviewed (`turnphase hooks`), or "any" for any
                    content. With another content the runtime is not made, and the exception has the hash.
    """

    kind = 'hooks'

    def __init__(self, directory: Path, *, trusted: str, **options: Any) -> None:
        super().__init__(directory=os.fspath(directory), **options)
        self.trusted = None if trusted == 'any' else trusted


class Mcp(Domain):
    """A server of the Model Context Protocol: tp_mcp_options of turnphase/mcp.h.

    @param arguments  a program and its arguments; or `url` of a server that speaks HTTP.
    """

    kind = 'mcp'

    def __init__(
        self, name: str, arguments: Sequence[str] | None = None, *, url: str | None = None, **options: Any
    ) -> None:
        super().__init__(name=name, arguments=arguments and list(arguments), url=url, **options)


class Model(_Options):
    """A model for a session or an agent."""

    script: str | None = None


class OpenAI(Model):
    """A model behind an endpoint: tp_openai_options of turnphase/openai.h. The key is in an environment variable
    (`key_env`) or a file (`key_file`)."""

    kind = 'openai'

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model=model, **options)


class Script(Model):
    """A model that plays responses, for tests: each a text or a dict with text, tool_calls, stop_reason and usage."""

    kind = 'script'

    def __init__(self, responses: Sequence[str | dict[str, Any]], *, repeat: bool = False) -> None:
        import json  # most programs have no script

        super().__init__()
        rows = [{'text': row} if isinstance(row, str) else row for row in responses]
        self.script = json.dumps({'responses': rows, **({'repeat': True} if repeat else {})})


class FunctionModel(Model):
    """A function as a model, with further data about it for the library (tp_model of turnphase/model.h)."""

    def __init__(self, function: Callable[..., Any], *, thread: bool | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.function, self.thread = function, thread
