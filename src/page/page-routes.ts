import { readFileSync } from 'node:fs';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { findRun, newestActions } from '../app/find-run.ts';
import { watchSinks } from '../app/watch-sinks.ts';
import type { Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import { copiedFile } from '../core/program-files.ts';
import { usage } from '../core/usage-error.ts';
import { isFromHere, type PageVerdict } from '../monitor/page-access.ts';
import type { PageServer, ServedPages } from '../monitor/start-monitor.ts';
import { connectorNamed, targetNamed } from '../settings/choices.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { actRoute, actRoutes } from './act-routes.ts';
import { actionsPage } from './actions-page.ts';
import { connectorPage } from './connector-page.ts';
import { pageHeaders, problemPage, sendPage, type PageWorld } from './layout.ts';
import { closedPage, loginPage } from './login-page.ts';
import { liveRoute } from './live-route.ts';
import { overviewPage } from './overview-page.ts';
import { connectorQuery, nameParam, overviewQuery, readRecordQuery } from './page-query.ts';
import { openRates } from './progress-section.ts';
import { readConnectorPage } from './read-connector-page.ts';
import { readOverviewPage } from './read-overview-page.ts';
import { recordPage } from './record-page.ts';
import { runPage } from './run-page.ts';
import { targetPage } from './target-page.ts';

export interface PageOptions {
  readonly settings: LocalSettings;
  readonly program: string;
  readonly clock: Clock;
}

const nav = [
  ['', 'Overview'],
  ['actions', 'Actions'],
  ['record', 'Find a record'],
] as const;

/** The files that pages ask for, and what they are. They hold nothing of the config. */
const files = [
  ['/style.css', 'style.css', 'text/css; charset=utf-8'],
  ['/live.js', 'live.js', 'text/javascript; charset=utf-8'],
  ['/icon.svg', 'icon.svg', 'image/svg+xml'],
] as const;

/**
 * Shows what the sinks of a config hold: the same as `status`, `runs` and `explain` say. Reads the ledgers and nothing
 * else. Only to who may see it: the scope that holds the routes asks, not their paths.
 */
export function servedPages(options: PageOptions): ServedPages {
  return {
    formRoutes: new Set(['/login', '/logout', actRoute]),
    add: (server, at) => addRoutes(server, options, at),
  };
}

function addRoutes(server: FastifyInstance, options: PageOptions, at: PageServer): void {
  const { settings, clock, program } = options;
  const { access } = at;
  const rateOf = openRates();
  const watched = watchSinks([...settings.connectors.values()], clock);
  server.addHook('onClose', async () => await watched[Symbol.asyncDispose]());
  const world = (request?: FastifyRequest): PageWorld => ({
    nowMs: clock.now(),
    config: settings.file,
    program,
    nav,
    links: at.links,
    visitor: request === undefined ? null : access.visitorOf(request),
    problem: at.problem(),
  });
  openRoutes(server, { ...at, world });
  server.register(async (pages) => {
    pages.addHook('onRequest', async (request, reply) => {
      reply.headers(pageHeaders);
      const verdict = access.verdict(request);
      return verdict === 'right' ? undefined : refuse(request, reply, verdict, { ...at, world });
    });
    pages.get('/', async (request, reply) => {
      const query = overviewQuery.parse(request.query);
      const now = world(request);
      const connectors = [...settings.connectors.values()];
      const data = await readOverviewPage(connectors, watched, query, now.nowMs);
      const targets = [...settings.publish.values()];
      return await sendPage(reply, overviewPage(data, targets, now));
    });
    pages.get('/connectors/:name', async (request, reply) => {
      const now = world(request);
      const connector = connectorNamed(settings, nameParam.parse(request.params).name);
      const { shown } = connectorQuery.parse(request.query);
      const data = await readConnectorPage(settings, connector, watched, { nowMs: now.nowMs, shown });
      if (data.kind === 'unreadable') {
        const title = `${connector.name}: sink ${connector.sink.name} cannot be read`;
        return await sendPage(reply.code(503), problemPage('../', title, data.problem, now));
      }
      const fetched = data.running?.counts.reduce((sum, one) => sum + one.fetched, 0) ?? 0;
      const perSecond = data.running === null ? null : rateOf(data.running.run, fetched);
      return await sendPage(reply, connectorPage(data, perSecond, now));
    });
    pages.get('/runs/:name', async (request, reply) => {
      const { run, sink } = await findRun(settings, nameParam.parse(request.params).name, program);
      return await sendPage(reply, runPage(run, sink.name, world(request)));
    });
    pages.get('/actions', async (request, reply) =>
      sendPage(reply, actionsPage(await newestActions(settings, { limit: mostActions }), world(request))),
    );
    pages.get('/record', async (request, reply) =>
      sendPage(reply, await recordPage(settings, readRecordQuery(request.query), world(request))),
    );
    pages.get('/targets/:name', async (request, reply) => {
      const target = targetNamed(settings, nameParam.parse(request.params).name);
      const signal = AbortSignal.timeout(targetWithinMs);
      return await sendPage(reply, await targetPage(settings, target, { clock, signal }, world(request)));
    });
    pages.get('/*', () => {
      throw usage('An address may be mistyped, or older than this version. The overview leads to all pages.');
    });
    liveRoute(pages, watched, clock);
    actRoutes(pages, { settings, watched, program, clock, access, world, log: at.log });
    answerProblems(pages, world);
  });
}

const mostActions = 200;

/** A bucket may be far away. */
const targetWithinMs = 10_000;

/** 404 for what does not exist, 503 for a sink or target that cannot be read. The reason needs access to the pages. */
function answerProblems(pages: FastifyInstance, world: (request: FastifyRequest) => PageWorld): void {
  pages.setErrorHandler(async (error, request, reply) => {
    if (!(error instanceof SyncError)) throw error;
    const isUnknown = error.code === 'USAGE';
    const title = isUnknown ? 'There is no such page' : 'This cannot be read now';
    return await sendPage(
      reply.code(isUnknown ? 404 : 503),
      problemPage(rootOf(request), title, error.message, world(request)),
    );
  });
}

interface OpenRoutes extends PageServer {
  readonly world: () => PageWorld;
}

/** What everybody gets: files, the way in and out, and a word to robots. */
function openRoutes(server: FastifyInstance, at: OpenRoutes): void {
  const { access } = at;
  for (const [path, file, type] of files) {
    const text = readFileSync(copiedFile(`page/files/${file}`), 'utf8');
    server.get(path, (_request, reply) => reply.type(type).send(text));
  }
  server.get('/robots.txt', (_request, reply) =>
    reply.type('text/plain; charset=utf-8').send('User-agent: *\nDisallow: /\n'),
  );
  server.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: 4096 },
    (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  );
  server.post('/login', async (request, reply) => {
    reply.headers(pageHeaders);
    if (!isFromHere(request)) return await reply.code(403).send({ message: 'The form is of another page.' });
    const verdict = access.login(request, reply, loginForm.parse(request.body).token);
    // Relative: below the path prefix of a proxy it leads back to where it came from.
    if (verdict === 'right') return await reply.redirect('./', 303);
    return await refuse(request, reply, verdict, at);
  });
  server.post('/logout', async (request, reply) => {
    if (!isFromHere(request)) return await reply.code(403).send({ message: 'The form is of another page.' });
    access.logout(request, reply);
    return await reply.redirect('./', 303);
  });
}

const loginForm = z.object({ token: z.string().max(512).catch('') }).catch({ token: '' });

async function refuse(
  request: FastifyRequest,
  reply: FastifyReply,
  verdict: Exclude<PageVerdict, 'right'>,
  { log, retryAfterMs, world }: OpenRoutes,
): Promise<FastifyReply> {
  const root = rootOf(request);
  switch (verdict) {
    case 'closed':
      return await sendPage(reply.code(403), closedPage(root, world()));
    case 'too-many': {
      const seconds = Math.ceil(retryAfterMs / 1000);
      const said = `Too many wrong tokens. Wait ${seconds} seconds, then try again.`;
      return await sendPage(
        reply.code(429).header('retry-after', String(seconds)),
        loginPage(root, said, world()),
      );
    }
    case 'wrong':
      log.warn({ from: request.ip }, 'a page was asked for with a wrong token');
      return await sendPage(reply.code(401), loginPage(root, 'This is not the token.', world()));
    case 'missing':
      return await sendPage(reply.code(401), loginPage(root, null, world()));
  }
}

/** Pages lie at most one folder below the overview. */
function rootOf(request: FastifyRequest): string {
  const path = request.url.split('?', 1)[0] ?? '';
  return '../'.repeat(path.split('/').length - 2) || './';
}
