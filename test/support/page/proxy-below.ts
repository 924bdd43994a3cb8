import { createServer, request as httpRequest } from 'node:http';
import { listen } from '../listen.ts';

/** A reverse proxy that takes a path prefix away, as the one in the guide does. */
export async function proxyBelow(prefix: string, target: string) {
  const { hostname, port } = new URL(target);
  const server = createServer((incoming, outgoing) => {
    const path = (incoming.url ?? '').slice(prefix.length);
    const { method = 'GET' } = incoming;
    const { headers } = incoming;
    if (!incoming.url?.startsWith(`${prefix}/`)) return void outgoing.writeHead(404).end();
    const asked = httpRequest({ hostname, port, path, method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    asked.on('error', () => outgoing.destroy());
    outgoing.on('close', () => asked.destroy());
    incoming.pipe(asked);
  });
  const { origin, close } = await listen(server);
  return { url: origin, [Symbol.asyncDispose]: close };
}
