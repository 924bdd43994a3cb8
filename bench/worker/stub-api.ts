import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

/**
 * A Connector Execution API for load tests: one document library per connector, each with a folder, a document and an
 * attachment. It answers from memory after a fixed latency, so that the benchmark measures the worker. Runs as a
 * process: `node stub-api.js <connectors>`; prints its port.
 */
const connectors = Number(process.argv[2] ?? 1000);
const latencyMs = 20;
const definitionId = '7d0c4f52-9b6e-4c1a-8e37-52f1a60b93d8';
const at = '2026-01-01T00:00:00.000Z';
const times = { created_at: at, updated_at: at };
const recordsByEntity: Readonly<Record<string, readonly object[]>> = {
  folders: [{ id: 'f1', parent_folder_id: null, name: 'Folder', color: 'red', is_shared: false, ...times }],
  documents: [{ id: 'd1', folder_id: 'f1', title: 'Document', status: 'draft', tags: [], ...times }],
  attachments: [{ id: 'a1', document_id: 'd1', file_name: 'a.txt', size: 1, checksum: 'x', ...times }],
};

const connectorText = (id: string): string =>
  JSON.stringify({ id, name: id, summarized_source_template: { actor_definition_id: definitionId } });
const allConnectors = `{"data":[${Array.from({ length: connectors }, (_, index) => connectorText(`id-${index}`)).join()}]}`;
const workspaces = JSON.stringify({ data: [{ id: 'w1', name: 'bench', status: 'active' }] });

const server = createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8').on('data', (text: string) => (body += text));
  request.on('end', () => setTimeout(() => answer(request, response, body), latencyMs));
});
// The worker's sockets may be idle between runs.
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.stdout.write(`${typeof address === 'object' && address !== null ? address.port : 0}\n`);
});

function answer({ url = '' }: IncomingMessage, response: ServerResponse, body: string): void {
  const { pathname } = new URL(url, 'http://stub');
  response.setHeader('content-type', 'application/json');
  const [, id = '', isExecute] = /\/connectors\/([^/]+)(\/execute)?$/.exec(pathname) ?? [];
  if (pathname.endsWith('/applications/token')) response.end('{"access_token":"bench","expires_in":900}');
  else if (isExecute !== undefined) response.end(page(id, body));
  else if (id !== '') response.end(connectorText(id));
  else if (pathname.endsWith('/connectors')) response.end(allConnectors);
  else if (pathname.endsWith('/workspaces')) response.end(workspaces);
  else if (pathname.endsWith('/definitions/sources')) response.end('{"definitions":[]}');
  else response.writeHead(404).end('{}');
}

function page(id: string, body: string): string {
  const asked: unknown = JSON.parse(body);
  const entity = typeof asked === 'object' && asked !== null && 'entity' in asked ? String(asked.entity) : '';
  return JSON.stringify({
    status: 'success',
    result: recordsByEntity[entity] ?? [],
    connector_metadata: { has_next_page: false, end_cursor: null },
    execution_metadata: { connector_instance_id: id },
  });
}
