import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { definitionId, ordersOf } from './orders.ts';

/*
 * A service whose every call takes as long as configured, and next to no processor time. A separate process:
 * `slow-service.ts <address> <key> <certificate> <pages of a shop> <latency ms>`. It tells its parent its port, and the
 * calls that came when it is asked.
 */

export interface Call {
  /** Since 1970, by a monotonic clock. */
  readonly atMs: number;
  readonly account: string;
  readonly shop: string;
  readonly page: number;
  /** The address of the host that sent it. */
  readonly from: string;
}

const [address = '', key = '', certificate = '', pages = '', latency = ''] = process.argv.slice(2);
const calls: Call[] = [];
const answers = new Map<string, string>();

const server = createServer(
  { key: readFileSync(key), cert: readFileSync(certificate) },
  (request, response) => {
    const chunks: Buffer[] = [];
    const atMs = performance.timeOrigin + performance.now();
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = answerTo(request, Buffer.concat(chunks).toString(), atMs);
      setTimeout(() => send(response, text), Number(latency));
    });
  },
);
server.keepAliveTimeout = 60_000;
server.listen(0, address, () => {
  const at = server.address();
  process.send?.({ port: typeof at === 'object' && at !== null ? at.port : 0 });
});
process.on('message', () => process.send?.({ calls: calls.splice(0) }));
process.on('disconnect', () => process.exit());

function answerTo({ url = '', socket }: IncomingMessage, body: string, atMs: number): string | null {
  if (url.endsWith('/applications/token')) return '{"access_token":"token-of-the-test","expires_in":3600}';
  const [, id, execute] = /\/connectors\/([^/]+)(\/execute)?$/.exec(decodeURIComponent(url)) ?? [];
  if (id === undefined) return null;
  if (execute === undefined) {
    return JSON.stringify({
      id,
      name: id,
      summarized_source_template: { actor_definition_id: definitionId },
    });
  }
  const { params } = JSON.parse(body) as {
    readonly params: { readonly shop: string; readonly cursor?: string };
  };
  const { shop } = params;
  const page = Number(params.cursor ?? 0);
  calls.push({ atMs, account: id, shop, page, from: socket.remoteAddress ?? '' });
  return pageOf(id, shop, page);
}

function pageOf(account: string, shop: string, page: number): string {
  const known = answers.get(`${shop} ${page}`);
  if (known !== undefined) return known;
  const hasMore = page + 1 < Number(pages);
  const text = JSON.stringify({
    status: 'success',
    result: ordersOf(shop, page),
    connector_metadata: { has_next_page: hasMore, end_cursor: hasMore ? String(page + 1) : null },
    execution_metadata: { connector_instance_id: account },
  });
  answers.set(`${shop} ${page}`, text);
  return text;
}

function send(response: ServerResponse, text: string | null): void {
  response.setHeader('content-type', 'application/json');
  if (text === null) response.writeHead(404).end('{}');
  else response.end(text);
}
