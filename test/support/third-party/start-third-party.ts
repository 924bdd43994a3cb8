import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { countArrivals, listen } from '../listen.ts';

export interface ReceivedRequest {
  readonly method: string;
  /** As it was sent, without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** An object or array is answered as JSON, a text as it is; a function writes the answer itself. */
export type Reply =
  | {
      readonly status?: number;
      readonly headers?: Readonly<Record<string, string | string[]>>;
      readonly body?: unknown;
    }
  | ((response: ServerResponse) => void);

export interface ThirdParty {
  readonly origin: string;
  readonly port: number;
  /** In order of arrival. */
  readonly requests: readonly ReceivedRequest[];
  /** Connections that were ever opened. */
  readonly connections: () => number;
  readonly openSockets: () => number;
  /** Resolves when so many requests have arrived. */
  arrived(count: number): Promise<void>;
}

/** The authority of a service with `https:`, as NODE_EXTRA_CA_CERTS takes it. */
export const certificate = path.resolve('test/fixtures/tls/cert.pem');

/** Any HTTP service, on port 0 of this machine; closed when the test has ended. */
export async function startThirdParty(
  respond: (request: ReceivedRequest, index: number) => Reply | Promise<Reply>,
  scheme: 'http' | 'https' = 'http',
): Promise<ThirdParty> {
  const requests: ReceivedRequest[] = [];
  const { check, arrived } = countArrivals(requests);
  let connections = 0;
  const onRequest: RequestListener = (request, response) => {
    const answer = async (): Promise<void> => {
      const [place = '', query = ''] = (request.url ?? '').split('?');
      const { method = '', headers } = request;
      const received = {
        method,
        path: place,
        query: new URLSearchParams(query),
        headers,
        body: await text(request),
      };
      const index = requests.push(received) - 1;
      check();
      write(response, await respond(received, index));
    };
    answer().catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  };
  const tls = { cert: readFileSync(certificate), key: readFileSync('test/fixtures/tls/key.pem') };
  const server = scheme === 'http' ? createServer(onRequest) : createSecureServer(tls, onRequest);
  server.on('connection', () => (connections += 1));
  const { host, port, openSockets, close } = await listen(server);
  onTestFinished(close);
  return {
    origin: `${scheme}://${host}`,
    port,
    requests,
    connections: () => connections,
    openSockets,
    arrived,
  };
}

function write(response: ServerResponse, reply: Reply): void {
  if (typeof reply === 'function') {
    reply(response);
    return;
  }
  const { status = 200, headers = {}, body = {} } = reply;
  const isRaw = typeof body === 'string' || Buffer.isBuffer(body);
  // By the clock of the test, which may have set it.
  const date = new Date(Date.now()).toUTCString();
  response.writeHead(status, { date, 'content-type': 'application/json', ...headers });
  response.end(isRaw ? body : JSON.stringify(body));
}
