# SPDX-License-Identifier: Apache-2.0
"""The adapter of LangGraph: a graph of a model that is played and its ToolNode."""

import unittest

import turnphase
from cases import cases
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt
from turnphase.adapters.langgraph import guarded


def graph_of(node, calls, read, **options):
    async def model(state):
        results = [message for message in state['messages'] if isinstance(message, ToolMessage)]
        if not results:
            rows = [{'name': name, 'args': given, 'id': 'c%d' % at} for at, (name, given) in enumerate(calls)]
            return {'messages': [AIMessage('', tool_calls=rows)]}
        read.extend(results)
        return {'messages': [AIMessage('done')]}

    graph = StateGraph(MessagesState)
    graph.add_node('model', model)
    graph.add_node('tools', node)
    graph.add_edge(START, 'model')
    graph.add_conditional_edges('model', tools_condition, {'tools': 'tools', END: END})
    graph.add_edge('tools', 'model')
    return graph.compile(**options)


async def run(session, tools, calls, **options):
    read = []
    node = ToolNode([tool(function) for function in tools], **(guarded(session, **options) if session else {}))
    await graph_of(node, calls, read).ainvoke({'messages': [('user', 'go')]})
    assert [message.tool_call_id for message in read] == ['c%d' % at for at in range(len(calls))]
    return [message.content for message in read]


class LangGraph(cases(run)):
    async def test_a_denial_is_an_error_of_its_call(self):
        read = []
        self.runtime.guard(id='keep')(lambda call: turnphase.Deny('kept'))
        node = ToolNode([tool(self.tools.look)], **guarded(self.runtime.session()))
        await graph_of(node, [('look', {'path': 'a'})], read).ainvoke({'messages': [('user', 'go')]})
        self.assertEqual([(message.status, message.name) for message in read], [('error', 'look')])

    async def test_what_the_node_makes_of_an_exception_is_an_error_in_the_records(self):
        read, seen = [], []
        self.runtime.hook('tool.post', id='post')(lambda call: seen.append(call['status']))
        node = ToolNode([tool(self.tools.fail)], handle_tool_errors=True, **guarded(self.runtime.session()))
        await graph_of(node, [('fail', {'path': 'a'})], read).ainvoke({'messages': [('user', 'go')]})
        self.assertEqual((read[0].status, seen), ('error', ['failure']))
        self.assertIn('no such file', read[0].content)

    async def test_an_interrupt_passes(self):
        read = []

        @tool
        async def ask(path: str) -> str:
            """Asks a person."""
            return interrupt('may I?') + path

        node = ToolNode([ask], **guarded(self.runtime.session()))
        graph = graph_of(node, [('ask', {'path': 'a'})], read, checkpointer=InMemorySaver())
        config = {'configurable': {'thread_id': '1'}}
        state = await graph.ainvoke({'messages': [('user', 'go')]}, config)
        self.assertEqual(state['__interrupt__'][0].value, 'may I?')
        await graph.ainvoke(Command(resume='yes '), config)
        self.assertEqual([message.content for message in read], ['yes a'])

    async def test_without_a_loop_nothing_runs(self):
        read = []
        node = ToolNode([tool(self.tools.look)], **guarded(self.runtime.session()))
        message = AIMessage('', tool_calls=[{'name': 'look', 'args': {'path': 'a'}, 'id': 'c'}])
        graph = StateGraph(MessagesState).add_node('tools', node).add_edge(START, 'tools').compile()
        with self.assertRaisesRegex(turnphase.UsageError, 'ainvoke'):
            read.append(graph.invoke({'messages': [message]}))
        self.assertEqual((read, self.tools.ran), ([], []))


if __name__ == '__main__':
    unittest.main()
