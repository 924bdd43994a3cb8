import { readFileSync } from 'node:fs';
import { html, type SafeHtml } from '@remix-run/html-template';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import type { ConfigEditing } from '../app/config-edits.ts';
import { readRunDetails } from '../app/find-run.ts';
import { openSearches } from '../app/stored-search.ts';
import { type WatchedSinks, watchSinks } from '../app/watch-sinks.ts';
import type { Clock } from '../core/clock.ts';
import { SyncError, usage } from '../core/errors.ts';
import { copiedFile } from '../core/program-files.ts';
import { isFromHere, type PageVerdict } from '../monitor/page-access.ts';
import type { PageServer, ServedPages } from '../monitor/start-monitor.ts';
import { connectorNamed, entityTarget, targetNamed } from '../settings/choices.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { actRoute, actRoutes } from './act-pages.ts';
import { actionsPage, leastActions, mostActions, readActionsPage } from './actions-page.ts';
import { addConnectorRoutes, addRoute } from './add-connector-page.ts';
import { connectorPage, readConnectorPage } from './connector-page.ts';
import { type Deeds, flashOf, flashState, openDeeds } from './flash.ts';
import { maySeeValues, page, pageHeaders, type PageWorld, problemPage, sendPage } from './layout.ts';
import { dataPage, firstEntity, readDataQuery, wholeValue } from './data-page.ts';
import { dataListPage, findPage } from './find-page.ts';
import { liveRoute } from '../monitor/live-stream.ts';
import { emptyPage, overviewPage, overviewSorts, overviewStates, readOverviewPage } from './overview-page.ts';
import { readRunsPage, runGroups, runPage, runsPage } from './run-page.ts';
import { targetPage, targetsPage, watchTargets } from './target-page.ts';
import { leastShown, mostShown, timelineKinds } from './timeline.ts';

export interface PageOptions {
  readonly settings: LocalSettings;
  readonly program: string;
  readonly clock: Clock;
  /** Acts of visitors that outlive these pages, when the config is read again. */
  readonly deeds?: Deeds | undefined;
  /** Lets visitors who may act edit the config; absent: they cannot. */
  readonly editing?: ConfigEditing;
}

/** Acts of visitors, which their pages follow. They stay when the server shows another config. */
export const openFollowedActs = openDeeds;

/** The files that pages load, and their types. They hold nothing of the config. */
const files = [
  ['/style.css', 'style.css', 'text/css; charset=utf-8'],
  ['/console.js', 'console.js', 'text/javascript; charset=utf-8'],
  ['/icon.svg', 'icon.svg', 'image/svg+xml'],
] as const;

/**
 * Shows the content of a config's sinks, as `status`, `runs` and `explain` do. Reads only the ledgers. The scope that
 * holds the routes checks access, not their paths.
 */
export function servedPages(options: PageOptions): ServedPages {
  return {
    formRoutes: new Set(['/login', '/logout', actRoute, addRoute]),
    add: (server, at) => addRoutes(server, options, at),
  };
}

function addRoutes(server: FastifyInstance, options: PageOptions, at: PageServer): void {
  const { settings, clock, program, deeds = openDeeds() } = options;
  const { access } = at;
  const watched = watchSinks([...settings.connectors.values()], clock);
  server.addHook('onClose', async () => await watched[Symbol.asyncDispose]());
  const closing = new AbortController();
  server.addHook('preClose', async () => closing.abort());
  const following = { settings, watched, clock, program, signal: closing.signal };
  const beganAt = clock.now().toString(36);
  const flashes = new WeakMap<FastifyRequest, { readonly flash: SafeHtml; readonly state: string }>();
  const liveState = (version: number, ofFlash: string): string => `${beganAt}.${version}.${ofFlash}`;
  const world = (request?: FastifyRequest): PageWorld => {
    const asked = new URL(`http://here${request?.url ?? '/'}`);
    const { did } = flashQuery.parse(request?.query ?? {});
    const { flash = '', state = '' } = (request === undefined ? undefined : flashes.get(request)) ?? {};
    asked.searchParams.delete('did');
    return {
      nowMs: clock.now(),
      config: settings.file,
      program,
      links: at.links,
      visitor: request === undefined ? null : access.visitorOf(request),
      problem: at.problem(),
      here: `${asked.pathname.slice(1) || './'}${asked.search}`,
      formToken: request === undefined ? '' : access.formToken(request),
      flash,
      live: () => new URLSearchParams({ at: liveState(watched.version(), state), did }).toString(),
    };
  };
  const deedOf = (request: FastifyRequest) =>
    deeds.find(flashQuery.parse(request.query).did, access.formToken(request), clock.now());
  openRoutes(server, { ...at, world });
  server.register(async (pages) => {
    pages.addHook('onRequest', async (request, reply) => {
      reply.headers(pageHeaders);
      const verdict = access.verdict(request);
      return verdict === 'right' ? undefined : refuse(request, reply, verdict, { ...at, world });
    });
    pages.addHook('preHandler', async (request) => {
      const deed = request.routeOptions.url === '/live' ? null : deedOf(request);
      if (deed === null) return;
      const state = await flashState(deed, following);
      flashes.set(request, { flash: await flashOf(deed, rootOf(request), following), state });
    });
    pages.get('/', async (request, reply) => {
      const query = overviewQuery.parse(request.query);
      const now = world(request);
      const connectors = [...settings.connectors.values()];
      if (connectors.length === 0) return await sendPage(reply, await emptyPage(settings, now));
      const data = await readOverviewPage(connectors, watched, query, now.nowMs);
      return await sendPage(reply, overviewPage(data, now));
    });
    pages.get('/connectors/:name', async (request, reply) => {
      const now = world(request);
      const connector = connectorNamed(settings, nameParam.parse(request.params).name);
      const maySee = maySeeValues(now);
      const asked = { nowMs: now.nowMs, maySee, ...connectorQuery.parse(request.query) };
      const data = await readConnectorPage(settings, connector, watched, asked);
      if (data.kind === 'unreadable') {
        const title = `${connector.name}: sink ${connector.sink.name} cannot be read`;
        return await sendPage(reply.code(503), problemPage('../', title, data.problem, now));
      }
      return await sendPage(reply, connectorPage(data, now));
    });
    pages.get('/runs', async (request, reply) => {
      const now = world(request);
      const data = await readRunsPage(settings, watched, runsQuery.parse(request.query), now.nowMs);
      return await sendPage(reply, runsPage(data, now));
    });
    pages.get('/runs/:name', async (request, reply) => {
      const data = await readRunDetails(settings, nameParam.parse(request.params).name, program);
      const onlyWarnings = logQuery.parse(request.query).log === 'warnings';
      return await sendPage(reply, runPage(data, onlyWarnings, world(request)));
    });
    pages.get('/actions', async (request, reply) => {
      const data = await readActionsPage(settings, actionsQuery.parse(request.query));
      return await sendPage(reply, actionsPage(data, world(request)));
    });
    const askTargets = watchTargets(settings, { clock, signal: closing.signal });
    pages.get('/targets', async (request, reply) => {
      const asked = await askTargets([...settings.publish.values()]);
      const { overviews } = await watched.overviews();
      return await sendPage(reply, targetsPage(asked, overviews, world(request)));
    });
    dataRoutes(pages, { settings, watched, program, clock, world });
    pages.get('/targets/:name', async (request, reply) => {
      const target = targetNamed(settings, nameParam.parse(request.params).name);
      const signal = AbortSignal.timeout(targetWithinMs);
      return await sendPage(reply, await targetPage(settings, target, { clock, signal }, world(request)));
    });
    pages.get('/*', () => {
      throw usage('An address may be mistyped, or older than this version. The overview leads to all pages.');
    });
    liveRoute(pages, {
      look: async () => await watched.overviews(),
      stateOf: async (request, { version }) => {
        const deed = deedOf(request);
        return liveState(version, deed === null ? '' : await flashState(deed, following));
      },
      mayRead: (request) => access.verdict(request) === 'right',
    });
    if (at.board !== null) pages.register(at.board, { prefix: '/board' });
    const acting = { ...following, editing: options.editing ?? null, access, world, deeds, log: at.log };
    actRoutes(pages, { ...acting, parse: (query) => actQuery.parse(query) });
    addConnectorRoutes(pages, acting);
    answerProblems(pages, world);
  });
}

interface DataRoutes extends Omit<PageOptions, 'clock'> {
  readonly clock: Clock;
  readonly watched: WatchedSinks;
  readonly world: (request: FastifyRequest) => PageWorld;
}

/** A search of a page is ended after so long. */
const searchLimits = { deadlineMs: 8_000, processes: 2, maxWaiting: 16 };

/** Pages of stored records. Only for a visitor who may see values a record is read. */
function dataRoutes(pages: FastifyInstance, { settings, watched, program, clock, world }: DataRoutes): void {
  const searches = openSearches({ clock, ...searchLimits });
  pages.addHook('onClose', async () => await searches[Symbol.asyncDispose]());
  const reading = (reply: FastifyReply) => {
    const gone = new AbortController();
    reply.raw.once('close', () => gone.abort());
    return { searches, program, signal: gone.signal };
  };
  pages.get('/data', async (request, reply) => {
    const { connector } = dataListQuery.parse(request.query);
    if (connector !== '') {
      const { name, entity } = await firstEntity(connectorNamed(settings, connector));
      return await reply.redirect(`data/${name}/${entity}`, 303);
    }
    const { overviews } = await watched.overviews();
    return await sendPage(reply, dataListPage(settings, overviews, world(request)));
  });
  pages.get('/data/:connector/:entity', async (request, reply) => {
    const { connector, entity } = dataParams.parse(request.params);
    const target = entityTarget(settings, `${connector}/${entity}`);
    const { whole } = wholeQuery.parse(request.query);
    const given = { ...reading(reply), settings, target, query: readDataQuery(request.query) };
    const now = world(request);
    if (whole !== '' && maySeeValues(now)) {
      const headers = { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' };
      return await reply.headers(headers).send(await wholeValue(given, whole));
    }
    const { status, text: shown } = await dataPage(given, now);
    return await sendPage(reply.code(status), shown);
  });
  pages.get('/find', async (request, reply) => {
    const { find } = findQuery.parse(request.query);
    const name = find.trim();
    const isConnector = [...settings.connectors.keys()].some((one) => one === name);
    if (isConnector) return await reply.redirect(`connectors/${name}`, 303);
    if (name === '') return await reply.redirect('./', 303);
    const { overviews } = await watched.overviews();
    return await sendPage(reply, await findPage(settings, overviews, name, reading(reply), world(request)));
  });
}

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

/** Public routes: files, login and logout, and the instructions for robots. */
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

/** Asks for the token. `problem`: the problem with the previous one. */
function loginPage(root: string, problem: string | null, world: PageWorld): string {
  const main = html`<form class="narrow door step" method="post" action="${root}login">
    <h1>Log in</h1>
    ${problem === null ? '' : html`<p class="callout bad" role="alert">${problem}</p>`}
    <p class="field">
      <label for="token">Access token</label>
      <input
        id="token"
        name="token"
        type="password"
        autocomplete="current-password"
        required
        autofocus
        aria-describedby="token-hint"
      />
      <span class="hint" id="token-hint">The person who runs this server has it.</span>
    </p>
    <button class="primary">Log in</button>
    <details>
      <summary>I run this server. Where is it?</summary>
      <p class="soft">
        In the config, under <code>http.tokens</code>; each person has one there.
        <code>http.token</code> works too.
      </p>
    </details>
  </form>`;
  return page({ title: 'Log in', root, at: null, main, isLive: false }, outsideOf(world));
}

/** Says how to open the pages. */
function closedPage(root: string, world: PageWorld): string {
  const main = html`<div class="narrow">
    <h1>The pages are closed</h1>
    <p>
      This server can be reached from other machines, and the config has no <code>http.token</code>. Set one
      (16 characters or more) and start it again, or let it listen on this machine alone:
      <code>--http 127.0.0.1:9400</code>.
    </p>
  </div>`;
  return page({ title: 'Closed', root, at: null, main, isLive: false }, outsideOf(world));
}

/** A visitor who is not logged in learns nothing about the config. */
function outsideOf(world: PageWorld): PageWorld {
  return { ...world, config: null, visitor: null };
}

/** An invalid value in an address counts as absent; of several with one name the first counts. */
const one = (value: unknown): unknown => (Array.isArray(value) ? value[0] : value);
const text = z.preprocess(one, z.string().max(200).catch(''));
const address = z.preprocess(one, z.string().max(2_000).catch(''));

const filter = z.object({
  q: text,
  state: z.preprocess(one, z.enum(overviewStates).nullable().catch(null)),
});

const overviewQuery = filter.extend({
  sort: z.preprocess(one, z.enum(overviewSorts).catch('health')),
  page: z.preprocess(one, z.coerce.number().int().min(1).max(1_000_000).catch(1)),
});

const runsQuery = z.object({
  q: text,
  before: text,
  state: z.preprocess(one, z.enum(runGroups).nullable().catch(null)),
});

const logQuery = z.object({ log: text });

const connectorQuery = z.object({
  shown: z.preprocess(one, z.coerce.number().int().min(leastShown).max(mostShown).catch(leastShown)),
  show: z.preprocess(one, z.enum(timelineKinds).nullable().catch(null)),
});

const actionsQuery = z.object({
  who: text,
  on: text,
  q: text,
  shown: z.preprocess(one, z.coerce.number().int().min(leastActions).max(mostActions).catch(leastActions)),
});

const actQuery = filter.extend({ connector: text, run: text, target: text, every: text, back: address });

const flashQuery = z.object({ did: text });

const nameParam = z.object({ name: z.string().max(200) });

const dataListQuery = z.object({ connector: text });
const dataParams = z.object({ connector: z.string().max(200), entity: z.string().max(200) });
const wholeQuery = z.object({ whole: text });
const findQuery = z.object({ find: text });
