import type { FastifyInstance, FastifyReply } from 'fastify';

const loopbackNames = ['127.0.0.1', 'localhost', '[::1]'];

/** No page of another origin may frame, read or be led to what is served here; no CORS header is ever sent. */
const headers: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

/**
 * Looks at every request first, unknown paths included: GET and HEAD alone (405), and where only this machine can reach
 * the server, only loopback names (421), so that a page in a browser cannot be led here by DNS tricks. Elsewhere the names
 * that lead here are not known.
 */
export function guardMonitor(server: FastifyInstance, host: string | null): void {
  const isLoopback = host !== null && loopbackNames.includes(host.includes(':') ? `[${host}]` : host);
  server.addHook('onRequest', async (request, reply) => {
    reply.headers(headers);
    reply.header('cache-control', 'no-store');
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      reply.header('allow', 'GET, HEAD');
      return await refuse(reply, 405, 'Nothing can be changed here: only GET and HEAD are answered.');
    }
    if (isLoopback && !loopbackNames.includes(nameIn(request.headers.host))) {
      return await refuse(reply, 421, 'This server does not answer for the host that the request names.');
    }
    return undefined;
  });
}

async function refuse(reply: FastifyReply, status: number, message: string): Promise<FastifyReply> {
  return await reply.code(status).send({ message });
}

function nameIn(host: string | undefined): string {
  return (host ?? '').toLowerCase().replace(/:\d+$/, '');
}
