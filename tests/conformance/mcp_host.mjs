// SPDX-License-Identifier: Apache-2.0
//
// A host with one of the client libraries of npm, for tests/mcp_hosts.py:
//
//     node mcp_host.mjs sdk|client|langchain NODE_MODULES COMMAND…
//
// COMMAND is the gateway, or a URL and a key for it. Prints a line of JSON for what it gets: the tools, a call, a call
// that a hook denies, and one that a person is asked about, which sdk and client answer by a form.
import { pathToFileURL } from 'node:url';
const [library, modules, ...command] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${modules}/${path}`).href);
const say = (key, value) => console.log(JSON.stringify({ [key]: value }));
const accept = async () => ({ action: 'accept', content: { allow: true } });

async function play(client, transport) {
  await client.connect(transport);
  say('tools', (await client.listTools()).tools.map((tool) => tool.name));
  say('call', await client.callTool({ name: 'e__echo', arguments: { message: 'hi' } }));
  say('denied', await client.callTool({ name: 'e__get-env', arguments: {} }));
  say('asked', await client.callTool({ name: 'files_write', arguments: { path: `${library}.txt`, text: 'x' } }));
  await client.close();
}

const [url, key] = command[0].startsWith('http') ? [new URL(command[0]), command[1]] : [];
const headers = { Authorization: `Bearer ${key}` };
const identity = [{ name: 'host', version: '1' }, { capabilities: { elicitation: {} } }];
const server = { command: command[0], args: command.slice(1), stderr: 'inherit' };
if (library === 'sdk') {
  const { Client } = await load('@modelcontextprotocol/sdk/dist/esm/client/index.js');
  const { StdioClientTransport } = await load('@modelcontextprotocol/sdk/dist/esm/client/stdio.js');
  const { ElicitRequestSchema } = await load('@modelcontextprotocol/sdk/dist/esm/types.js');
  const client = new Client(...identity);
  client.setRequestHandler(ElicitRequestSchema, accept);
  const { StreamableHTTPClientTransport } = await load('@modelcontextprotocol/sdk/dist/esm/client/streamableHttp.js');
  await play(client, url ? new StreamableHTTPClientTransport(url, { requestInit: { headers } })
                         : new StdioClientTransport(server));
} else if (library === 'client') {
  const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client/dist/index.mjs');
  const { StdioClientTransport } = await load('@modelcontextprotocol/client/dist/stdio.mjs');
  const client = new Client(...identity);
  client.setRequestHandler('elicitation/create', accept);
  await play(client, url ? new StreamableHTTPClientTransport(url, { requestInit: { headers } })
                         : new StdioClientTransport(server));
} else {
  const { MultiServerMCPClient } = await load('@langchain/mcp-adapters/dist/index.js');
  const client = new MultiServerMCPClient({ mcpServers: {
    g: url ? { transport: 'http', url: url.href, headers } : { transport: 'stdio', ...server } } });
  const tools = await client.getTools();
  const call = async (name, given) => {
    try {
      return await tools.find((tool) => tool.name === name).invoke(given);
    } catch (error) {
      return { isError: true, text: String(error.message) };
    }
  };
  say('tools', tools.map((tool) => tool.name));
  say('call', await call('e__echo', { message: 'hi' }));
  say('denied', await call('e__get-env', {}));
  say('asked', await call('files_write', { path: 'langchain.txt', text: 'x' }));
  await client.close();
}
