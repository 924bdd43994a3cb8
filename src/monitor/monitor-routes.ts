import type { FastifyInstance } from 'fastify';
import { boardPath, howToSwitchOn } from './board-routes.ts';
import type { Readiness } from './readiness.ts';

export interface MonitorRoutesOptions {
  readonly readiness: () => Promise<Readiness>;
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly hasBoard: boolean;
}

/** Everything but the board. */
export function monitorRoutes(server: FastifyInstance, options: MonitorRoutesOptions): void {
  server.get('/', (_request, reply) =>
    reply.type('text/html; charset=utf-8').send(indexPage(options.hasBoard)),
  );
  server.get('/healthz', () => ({ status: 'ok' }));
  server.get('/readyz', async (_request, reply) => {
    const { isReady, problems } = await options.readiness();
    return await reply.code(isReady ? 200 : 503).send({ status: isReady ? 'ok' : 'unavailable', problems });
  });
  server.get('/metrics', async (_request, reply) => {
    const { contentType, text } = await options.metrics();
    return await reply.type(contentType).send(text);
  });
}

function indexPage(hasBoard: boolean): string {
  const board = hasBoard
    ? `<a href="${boardPath}">${boardPath}</a> queues and jobs; the password is http.token of the config`
    : `${boardPath} ${howToSwitchOn}`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>connector-sync</title>
<h1>connector-sync worker</h1>
<ul>
<li><a href="/healthz">/healthz</a> 200 while the process runs</li>
<li><a href="/readyz">/readyz</a> 200 while it can take jobs, else 503 and why not</li>
<li><a href="/metrics">/metrics</a> for Prometheus</li>
<li>${board}</li>
</ul>
</html>
`;
}
