import { readFileSync } from 'node:fs';
import { html } from '@remix-run/html-template';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { type Deed, keptForVisitors } from '../app/acts.ts';
import { canStoreSecrets, type ConfigEditing, type Draft } from '../app/config-edits.ts';
import { eventKinds, readConnector } from '../app/connector-history.ts';
import { overviewOf } from '../app/connector-states.ts';
import { listRuns, readRunDetails } from '../app/find-run.ts';
import { searchActions } from '../app/user-actions.ts';
import { listConnectors } from '../app/listed-connectors.ts';
import { openSearches } from '../app/stored-search.ts';
import { watchSinks } from '../app/watch-sinks.ts';
import type { Clock } from '../core/clock.ts';
import { SyncError, usage } from '../core/errors.ts';
import { copiedFile } from '../core/program-files.ts';
import { isFromHere, isSealed, type PageVerdict } from '../monitor/page-access.ts';
import type { PageServer, ServedPages } from '../monitor/start-monitor.ts';
import { connectorNamed, entityTarget, targetNamed } from '../settings/choices.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { actRoute, actRoutes } from './act-pages.ts';
import { actionsPage, actionsQuery } from './actions-page.ts';
import { addConnectorRoutes, addRoute } from './add-connector-page.ts';
import { connectorPage } from './connector-page.ts';
import { flashOf, flashState, type FlashWorld } from './flash.ts';
import { maySeeValues, page, pageHeaders, type PageWorld, problemPage, sendPage } from './layout.ts';
import { inputField, param } from './page-parts.ts';
import {
  dataListPage,
  dataPage,
  findPage,
  firstEntity,
  readDataQuery,
  refusedPage,
  wholeValue,
} from './data-page.ts';
import { liveRoute } from '../monitor/live-stream.ts';
import { emptyPage, overviewPage, overviewQuery } from './overview-page.ts';
import { runPage, runsPage, runsQuery } from './run-page.ts';
import { targetPage, targetsPage, watchTargets } from './target-page.ts';
import { leastShown, mostShown } from './timeline.ts';

export interface PageOptions {
  readonly settings: LocalSettings;
  readonly program: string;
  readonly clock: Clock;
  /** Acts of visitors that outlive these pages, when the config is read again. */
  readonly deeds?: ReturnType<typeof openFollowedActs> | undefined;
  /** Lets visitors who may act edit the config; absent: they cannot. */
  readonly editing?: ConfigEditing;
}

/** Acts of visitors, which their pages follow, and forms that they checked. They outlive a reload of the config. */
export function openFollowedActs() {
  return { acts: keptForVisitors<Deed>(), drafts: keptForVisitors<Draft>() };
}

const nothingKnown = { version: 0, behind: 0, state: '', flash: '' as const };

/** The files that pages load, and their types. They hold nothing of the config. */
const files = [
  ['style.css', 'text/css; charset=utf-8'],
  ['console.js', 'text/javascript; charset=utf-8'],
  ['icon.svg', 'image/svg+xml'],
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
  const { settings, clock, program, editing = null, deeds: kept = openFollowedActs() } = options;
  const { access } = at;
  const watched = watchSinks([...settings.connectors.values()], clock);
  server.addHook('onClose', async () => await watched[Symbol.asyncDispose]());
  const closing = new AbortController();
  server.addHook('preClose', async () => closing.abort());
  const following = { settings, watched, clock, program, signal: closing.signal };
  const targets = watchTargets(settings, following);
  const beganAt = clock.now().toString(36);
  const known = new WeakMap<FastifyRequest, Awaited<ReturnType<typeof knownAtFirst>>>();
  const liveState = (version: number, ofFlash: string): string => `${beganAt}.${version}.${ofFlash}`;
  const world = (request: FastifyRequest): PageWorld => {
    const asked = new URL(`http://here${request.url}`);
    const { did } = flashQuery.parse(request.query);
    const { flash, state, version, behind } = known.get(request) ?? nothingKnown;
    asked.searchParams.delete('did');
    return {
      nowMs: clock.now(),
      behindTargets: behind,
      config: settings.file,
      program,
      links: at.links,
      visitor: access.visitorOf(request),
      problem: at.problem(),
      here: `${asked.pathname.slice(1) || './'}${asked.search}`,
      canType: editing !== null && isSealed(request) && canStoreSecrets(settings),
      formToken: access.formToken(request),
      flash,
      live: () => new URLSearchParams({ at: liveState(version, state), did }).toString(),
    };
  };
  const deedOf = (request: FastifyRequest) =>
    kept.acts.find(flashQuery.parse(request.query).did, access.formToken(request), clock.now());
  /** Noted before a page reads anything: what changes while it is drawn is a change after it. */
  const knownAtFirst = async (request: FastifyRequest) => {
    const [{ version }, judged] = await Promise.all([watched.overviews(), targets.glance(clock.now())]);
    const deed = deedOf(request);
    const state = deed === null ? '' : await flashState(deed, following);
    const flash = deed === null ? ('' as const) : await flashOf(deed, rootOf(request), following);
    return { version, behind: judged.filter(({ isBehind }) => isBehind).length, state, flash };
  };
  openRoutes(server, { ...at, world });
  server.register(async (pages) => {
    pages.addHook('onRequest', async (request, reply) => {
      reply.headers(pageHeaders);
      const verdict = access.verdict(request);
      return verdict === 'right' ? undefined : refuse(request, reply, verdict, { ...at, world });
    });
    pages.addHook('preHandler', async (request) => {
      const isPage = !/^\/(live|board)\b/.test(request.routeOptions.url ?? '');
      if (isPage) known.set(request, await knownAtFirst(request));
    });
    pageRoutes(pages, { ...following, targets, world });
    liveRoute(pages, {
      clock,
      look: async () => await watched.overviews(),
      stateOf: async (request, { version }) => {
        const deed = deedOf(request);
        return liveState(version, deed === null ? '' : await flashState(deed, following));
      },
      mayRead: (request) => access.verdict(request) === 'right',
    });
    if (at.board !== null) pages.register(at.board, { prefix: '/board' });
    const acting = { ...following, editing, access, world, deeds: kept.acts, log: at.log };
    actRoutes(pages, acting);
    addConnectorRoutes(pages, { ...acting, drafts: kept.drafts });
    // 404 for what does not exist, 503 for a sink or target that cannot be read.
    pages.setErrorHandler(async (error, request, reply) => {
      if (!(error instanceof SyncError)) throw error;
      const [status, title] =
        error.code === 'USAGE' ? [404, 'There is no such page'] : [503, 'This cannot be read now'];
      const text = problemPage(rootOf(request), title, error.message, world(request));
      return await sendPage(reply.code(status), text);
    });
  });
}

interface PageRoutes extends FlashWorld {
  readonly targets: ReturnType<typeof watchTargets>;
  readonly world: (request: FastifyRequest) => PageWorld;
}

/** A search of a page is ended after so long. */
const searchLimits = { deadlineMs: 8_000, processes: 2, maxWaiting: 16 };
/** A bucket may be far away. */
const targetWithinMs = 10_000;

/** Pages that show something, and change nothing. */
function pageRoutes(
  pages: FastifyInstance,
  { settings, watched, targets, program, clock, world }: PageRoutes,
): void {
  const connectors = [...settings.connectors.values()];
  const searches = openSearches({ clock, ...searchLimits });
  pages.addHook('onClose', async () => await searches[Symbol.asyncDispose]());
  const reading = (reply: FastifyReply) => {
    const gone = new AbortController();
    reply.raw.once('close', () => gone.abort());
    return { searches, program, signal: gone.signal };
  };
  type Draw = (
    request: FastifyRequest,
    now: PageWorld,
    reply: FastifyReply,
  ) => Promise<string | FastifyReply>;
  const show = (path: string, draw: Draw) =>
    pages.get(path, async (request, reply) => {
      const drawn = await draw(request, world(request), reply);
      return typeof drawn === 'string' ? await sendPage(reply, drawn) : drawn;
    });

  show('/', async ({ query }, now) => {
    if (connectors.length === 0) return await emptyPage(settings, now);
    const listed = await listConnectors(connectors, watched, overviewQuery.parse(query), now.nowMs);
    return overviewPage(listed, await targets.glance(now.nowMs), now);
  });
  show('/connectors/:name', async ({ params, query }, now, reply) => {
    const connector = connectorNamed(settings, pathParams.parse(params).name);
    const asked = connectorQuery.parse(query);
    const maySee = maySeeValues(now);
    const data = await readConnector(settings, connector, watched, { ...asked, maySee, nowMs: now.nowMs });
    if (data.kind !== 'unreadable') return connectorPage(data, asked, now);
    reply.code(503);
    const title = `${connector.name}: sink ${connector.sink.name} cannot be read`;
    return problemPage('../', title, data.problem, now);
  });
  show('/runs', async ({ query }, now) =>
    runsPage(await listRuns(settings, watched, runsQuery.parse(query), now.nowMs), now),
  );
  show('/runs/:name', async ({ params, query }, now) => {
    const data = await readRunDetails(settings, pathParams.parse(params).name, program);
    return runPage(data, textQuery.parse(query).log === 'warnings', now);
  });
  show('/actions', async ({ query }, now) => {
    const asked = actionsQuery.parse(query);
    return actionsPage(await searchActions(settings, asked), asked, now);
  });
  show('/targets', async (_request, now) => {
    const asked = await targets.states();
    return targetsPage(asked, (await watched.overviews()).overviews, now);
  });
  show('/targets/:name', async ({ params }, now) => {
    const target = targetNamed(settings, pathParams.parse(params).name);
    const how = { clock, signal: AbortSignal.timeout(targetWithinMs) };
    return await targetPage(settings, target, how, (await watched.overviews()).overviews, now);
  });
  show('/data', async ({ query }, now, reply) => {
    const { connector, rows } = textQuery.parse(query);
    if (rows === 'refused') {
      const some = connector === '' ? connectors : [connectorNamed(settings, connector)];
      return await refusedPage(settings, some, now);
    }
    if (connector === '') return dataListPage(settings, (await watched.overviews()).overviews, now);
    const { name, entity } = await firstEntity(connectorNamed(settings, connector));
    return reply.redirect(`data/${name}/${entity}`, 303);
  });
  show('/data/:name/:entity', async ({ params, query, url }, now, reply) => {
    const { name, entity } = pathParams.parse(params);
    const target = entityTarget(settings, `${name}/${entity}`);
    const { whole } = textQuery.parse(query);
    const asked = readDataQuery(new URL(`http://here${url}`).searchParams);
    const overview = overviewOf((await watched.overviews()).overviews, target.connector);
    const given = { ...reading(reply), settings, target, query: asked, overview };
    if (whole !== '' && maySeeValues(now)) {
      const headers = { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' };
      return reply.headers(headers).send(await wholeValue(given, whole));
    }
    const { status, text } = await dataPage(given, now);
    reply.code(status);
    return text;
  });
  show('/find', async ({ query }, now, reply) => {
    const name = textQuery.parse(query).find.trim();
    if (connectors.some((one) => one.name === name)) return reply.redirect(`connectors/${name}`, 303);
    if (name === '') return reply.redirect('./', 303);
    return await findPage(settings, name, reading(reply), now);
  });
  pages.get('/*', () => {
    throw usage('An address may be mistyped, or older than this version. The overview leads to all pages.');
  });
}

interface OpenRoutes extends PageServer {
  readonly world: (request: FastifyRequest) => PageWorld;
}

/** Public routes: files, login and logout, and the instructions for robots. */
function openRoutes(server: FastifyInstance, at: OpenRoutes): void {
  const { access } = at;
  for (const [file, type] of files) {
    const text = readFileSync(copiedFile(`page/files/${file}`), 'utf8');
    server.get(`/${file}`, (_request, reply) => reply.type(type).send(text));
  }
  server.get('/robots.txt', (_request, reply) =>
    reply.type('text/plain; charset=utf-8').send('User-agent: *\nDisallow: /\n'),
  );
  server.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string', bodyLimit: 4096 },
    (_request, body, done) => done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  );
  const post = (path: string, work: (request: FastifyRequest, reply: FastifyReply) => PageVerdict) =>
    server.post(path, async (request, reply) => {
      reply.headers(pageHeaders);
      if (!isFromHere(request)) return reply.code(403).send({ message: 'The form is of another page.' });
      const verdict = work(request, reply);
      // Relative: below the path prefix of a proxy it leads back to where it came from.
      return verdict === 'right' ? reply.redirect('./', 303) : await refuse(request, reply, verdict, at);
    });
  post('/login', (request, reply) => access.login(request, reply, loginForm.parse(request.body).token));
  post('/logout', (request, reply) => {
    access.logout(request, reply);
    return 'right';
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
  // A visitor who is not logged in learns nothing about the config.
  const outside = { ...world(request), config: null, visitor: null };
  if (verdict === 'closed') return await sendPage(reply.code(403), closedPage(root, outside));
  const seconds = Math.ceil(retryAfterMs / 1000);
  const problem = {
    missing: null,
    wrong: 'This is not the token.',
    'too-many': `Too many wrong tokens. Wait ${seconds} seconds, then try again.`,
  }[verdict];
  if (verdict === 'wrong') log.warn({ from: request.ip }, 'a page was asked for with a wrong token');
  if (verdict === 'too-many') reply.header('retry-after', String(seconds));
  return await sendPage(reply.code(verdict === 'too-many' ? 429 : 401), loginPage(root, problem, outside));
}

/** Pages lie at most one folder below the overview. */
function rootOf(request: FastifyRequest): string {
  const path = request.url.split('?', 1)[0] ?? '';
  return '../'.repeat(path.split('/').length - 2) || './';
}

/** Asks for the token. `problem`: the problem with the previous one. */
function loginPage(root: string, problem: string | null, world: PageWorld): string {
  const password = { type: 'password', autocomplete: 'current-password', required: '', autofocus: '' };
  const main = html`<form class="narrow door step" method="post" action="${root}login">
    <h1>Log in</h1>
    ${problem === null ? '' : html`<p class="callout bad" role="alert">${problem}</p>`}
    ${inputField('token', 'Access token', 'The person who runs this server has it.', password)}
    <button class="primary">Log in</button>
    <details>
      <summary>I run this server. Where is it?</summary>
      <p class="soft">
        In the config, under <code>http.tokens</code>; each person has one there.
        <code>http.token</code> works too.
      </p>
    </details>
  </form>`;
  return page({ title: 'Log in', root, at: null, main, isLive: false }, world);
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
  return page({ title: 'Closed', root, at: null, main, isLive: false }, world);
}

const connectorQuery = z.object({
  shown: param.number(leastShown, mostShown),
  show: param.oneOf(eventKinds),
});
const flashQuery = z.object({ did: param.text });
const textQuery = z.object({
  log: param.text,
  connector: param.text,
  rows: param.text,
  whole: param.text,
  find: param.text,
});
const pathParams = z.object({ name: z.string().max(200), entity: z.string().max(200).default('') });
