import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { limitConnections } from '../../http/connection-limit.ts';
import { orAborted } from '../../http/or-aborted.ts';

export interface AwaitedRedirect extends AsyncDisposable {
  /** What the service is asked to send the browser back to, with the port. */
  readonly redirect: string;
  /**
   * The first code that `codeIn` finds in a request to that address; what it throws, this rejects with. Other requests
   * change nothing.
   */
  code(codeIn: (query: URLSearchParams) => string | null, signal: AbortSignal): Promise<string>;
}

const headers = {
  'content-type': 'text/plain; charset=utf-8',
  'content-security-policy': "default-src 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cache-control': 'no-store',
  connection: 'close',
};
/** All come from this machine. A browser opens a few, and may hold them. */
const limits = { maxConnections: 20, maxConnectionsPerClient: 20 };

/**
 * Listens on 127.0.0.1 alone for the browser that comes back (RFC 8252, section 7.3), on the port of `wanted`, or a
 * free one where it names none. Its answers are fixed texts: nothing of a request is in them, and none leads elsewhere.
 */
export async function awaitRedirect(wanted: URL): Promise<AwaitedRedirect> {
  let settle: (query: URLSearchParams) => boolean = () => false;
  const server = createServer(
    { requestTimeout: 10_000, headersTimeout: 10_000, maxHeaderSize: 16_384 },
    (request, response) => {
      const [status, text] = answerTo(request, host, wanted.pathname, (query) => settle(query));
      respond(response, status, text);
    },
  );
  limitConnections(server, limits);
  const listening = new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(Number(wanted.port || 0), '127.0.0.1', resolve);
  });
  await listening;
  // `as`: a server on a port has such an address.
  const { port } = server.address() as AddressInfo;
  const host = `${wanted.hostname}:${port}`;
  return {
    redirect: `http://${host}${wanted.pathname}`,
    code: async (codeIn, signal) => {
      const found = new Promise<string>((resolve, reject) => {
        settle = (query) => {
          try {
            const code = codeIn(query);
            if (code !== null) resolve(code);
            return code !== null;
          } catch (error) {
            reject(error);
            return true;
          }
        };
      });
      return await orAborted(found, signal).finally(() => (settle = () => false));
    },
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** A page of another site can send a browser here too: it knows no state, and its name for this host is another one. */
function answerTo(
  { method, url = '', headers: { host: asked } }: IncomingMessage,
  host: string,
  path: string,
  settle: (query: URLSearchParams) => boolean,
): readonly [status: number, text: string] {
  const [at = '', query = ''] = url.split('?');
  if (asked !== host || at !== path) return [404, 'Nothing is here.'];
  if (method !== 'GET') return [405, 'Expected GET.'];
  return settle(new URLSearchParams(query))
    ? [200, 'Received. Close this page, and read in the terminal how the sign-in ended.']
    : [400, 'This answer does not belong to the sign-in that waits in the terminal. Start it again there.'];
}

function respond(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, headers).end(`${text}\n`);
}
