import { readFileSync } from 'node:fs';
import { html, type SafeHtml } from '@remix-run/html-template';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { defaultReason } from '../app/acts.ts';
import { newestActions, readRunDetails } from '../app/find-run.ts';
import { openSearches } from '../app/stored-search.ts';
import { type WatchedSinks, watchSinks } from '../app/watch-sinks.ts';
import type { Clock } from '../core/clock.ts';
import { SyncError, usage } from '../core/errors.ts';
import { copiedFile } from '../core/program-files.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import { isFromHere, type PageAccess, type PageVerdict } from '../monitor/page-access.ts';
import type { PageServer, ServedPages } from '../monitor/start-monitor.ts';
import { connectorNamed, entityTarget, targetNamed } from '../settings/choices.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { count, printable } from '../telemetry/format.ts';
import { fingerprint, type PageAct, type PageActWorld, prepareAct } from './act-subjects.ts';
import { connectorPage, leastShown, mostShown, readConnectorPage } from './connector-page.ts';
import {
  actNames,
  disclosed,
  mayAct,
  maySeeValues,
  page,
  pageHeaders,
  type PageWorld,
  problemPage,
  sendPage,
  textLines,
} from './layout.ts';
import { dataPage, firstEntity, readDataQuery, wholeValue } from './data-page.ts';
import { dataListPage, findPage } from './find-page.ts';
import { emptyPage, overviewPage, overviewSorts, overviewStates, readOverviewPage } from './overview-page.ts';
import { actionsPage, readRunsPage, runGroups, runPage, runsPage } from './run-page.ts';
import { targetPage } from './target-page.ts';

export interface PageOptions {
  readonly settings: LocalSettings;
  readonly program: string;
  readonly clock: Clock;
}

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
    formRoutes: new Set(['/login', '/logout', actRoute]),
    add: (server, at) => addRoutes(server, options, at),
  };
}

function addRoutes(server: FastifyInstance, options: PageOptions, at: PageServer): void {
  const { settings, clock, program } = options;
  const { access } = at;
  const watched = watchSinks([...settings.connectors.values()], clock);
  server.addHook('onClose', async () => await watched[Symbol.asyncDispose]());
  const world = (request?: FastifyRequest): PageWorld => ({
    nowMs: clock.now(),
    config: settings.file,
    program,
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
      if (connectors.length === 0) return await sendPage(reply, await emptyPage(settings, now));
      const data = await readOverviewPage(connectors, watched, query, now.nowMs);
      return await sendPage(reply, overviewPage(data, now));
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
    pages.get('/actions', async (request, reply) =>
      sendPage(reply, actionsPage(await newestActions(settings, { limit: mostActions }), world(request))),
    );
    dataRoutes(pages, { settings, watched, program, clock, world });
    pages.get('/targets/:name', async (request, reply) => {
      const target = targetNamed(settings, nameParam.parse(request.params).name);
      const signal = AbortSignal.timeout(targetWithinMs);
      return await sendPage(reply, await targetPage(settings, target, { clock, signal }, world(request)));
    });
    pages.get('/*', () => {
      throw usage('An address may be mistyped, or older than this version. The overview leads to all pages.');
    });
    // An open page asks for it every two seconds, and for itself where it has changed.
    pages.get('/live', async (_request, reply) =>
      reply.type('text/plain').send(String((await watched.overviews()).version)),
    );
    if (at.board !== null) pages.register(at.board, { prefix: '/board' });
    actRoutes(pages, { settings, watched, program, clock, access, world, log: at.log });
    answerProblems(pages, world);
  });
}

const mostActions = 200;

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

interface ActRoutes extends Omit<PageActWorld, 'signal'> {
  readonly access: PageAccess;
  readonly world: (request: FastifyRequest) => PageWorld;
  readonly log: JobLog;
}

const actRoute = '/act/:name';

const actForm = z
  .object({ token: z.string().catch(''), seen: z.string().catch(''), reason: z.string().catch('') })
  .catch({ token: '', seen: '', reason: '' });

/**
 * Acts of a person on a page: GET describes the act, POST does it. Both need a token that may act. A POST also needs a
 * form of this server: the browser says that it is from here, it carries the form token of the session, and the
 * announced act is still the one that would be done.
 */
function actRoutes(pages: FastifyInstance, options: ActRoutes): void {
  const { access, log, world } = options;
  const closing = new AbortController();
  pages.addHook('preClose', async () => closing.abort());
  const actWorld: PageActWorld = { ...options, signal: closing.signal };

  const answer = async (request: FastifyRequest, reply: FastifyReply, body: unknown) => {
    const now = world(request);
    const { visitor } = now;
    const refused = (message: string): Promise<FastifyReply> =>
      sendPage(reply.code(403), undonePage(message, [], '', now));
    if (visitor === null) return await refused(readOnly);
    if (!mayAct(visitor)) return await refused(`The token "${visitor.name}" may not act.`);
    const asked = nameParam.parse(request.params).name;
    const name = actNames.find((one) => one === asked);
    if (name === undefined) throw usage(`There is no act "${asked}".`);
    const form = body === null ? null : actForm.parse(body);
    if (form !== null && !(isFromHere(request) && access.isFormOf(request, form.token))) {
      return await refused('The form is of another page or another session. Open it again from here.');
    }
    const done: string[] = [];
    const query = actQuery.parse(request.query);
    const back = query.connector === '' ? '' : `connectors/${query.connector}`;
    try {
      const act = await prepareAct(name, query, actWorld);
      await using _needs = act.needs;
      const seen = fingerprint(act);
      if (form?.seen !== seen) {
        const address = `${name}${new URL(request.url, 'http://here').search}`;
        const shown = { address, formToken: access.formToken(request), seen, hasChanged: form !== null };
        return await sendPage(reply.code(form === null ? 200 : 409), confirmPage(act, shown, now));
      }
      // Lines as the terminal shows them become sentences.
      const tell = (line: string, _document?: object, details: readonly string[] = []): void =>
        void done.push(...[line, ...details].map((one) => one.replace(/\.?$/, '.')));
      await act.do({ who: visitor.name, reason: form.reason, tell });
      log.info({ who: visitor.name, act: name, of: act.of.slice(0, mostLogged) }, 'done from a page');
      const content = html`<section class="callout" role="status">${doneLines(done)}</section>`;
      return await sendPage(reply, endPage(act.title, content, act.back, now));
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      const isRefused = error.code === 'USAGE' || error.code === 'CONNECTOR_BUSY';
      const page = undonePage(error.message, done, back, now);
      return await sendPage(reply.code(isRefused ? 409 : 503), page);
    }
  };
  pages.get(actRoute, async (request, reply) => await answer(request, reply, null));
  pages.post(actRoute, async (request, reply) => await answer(request, reply, request.body ?? {}));
}

const readOnly =
  'These pages only read, because the config has no http.token and no http.tokens. Set one and start this program again; who logs in with it can then act.';

const mostLogged = 20;

interface ConfirmForm {
  /** The address to which the form is sent, as this page links there. */
  readonly address: string;
  readonly formToken: string;
  /** `fingerprint` of the act that this page shows. */
  readonly seen: string;
  /** The submitted form describes another act than would be done now. */
  readonly hasChanged: boolean;
}

const root = '../';

/** Says what will happen, and asks for it. */
function confirmPage(act: PageAct, form: ConfirmForm, world: PageWorld): string {
  const main = html`<h1>${act.title}?</h1>
    ${
      form.hasChanged
        ? html`<p class="callout warn" role="alert">
            Nothing was done, because something has changed since you were asked. Now this would happen:
          </p>`
        : ''
    }
    ${textLines(act.says)}
    <form class="act" method="post" action="${form.address}">
      <input type="hidden" name="token" value="${form.formToken}" />
      <input type="hidden" name="seen" value="${form.seen}" />
      ${
        act.asksReason === true
          ? html`<label for="reason">Why</label>
              <input
                id="reason"
                name="reason"
                placeholder="${defaultReason}"
                maxlength="200"
                autocomplete="off"
              />`
          : ''
      }
      <p class="fields"><button>${act.title}</button> <a href="${root}${act.back}">No, go back</a></p>
    </form>`;
  return page({ title: act.title, root, at: null, main, isLive: false }, world);
}

/** Says why nothing was done, or not all; `done`: what was before the failure. */
function undonePage(message: string, done: readonly string[], back: string, world: PageWorld): string {
  const title = done.length === 0 ? 'Nothing was done' : 'Not all of it was done';
  const why = html`<p class="callout bad" role="alert">${printable(message)}</p>`;
  return endPage(title, html`${doneLines(done)} ${why}`, back, world);
}

function endPage(title: string, content: SafeHtml, back: string, world: PageWorld): string {
  const main = html`<h1>${title}</h1>
    ${content}
    <p><a href="${root}${back}">${back === '' ? 'All connectors' : `Back to ${back.split('/')[1]}`}</a></p>`;
  return page({ title, root, at: null, main, isLive: false }, world);
}

const mostLines = 50;

/** All of them; if there are very many, the first and the last are shown, the others on a click. */
function doneLines(done: readonly string[]): SafeHtml {
  const between = done.slice(mostLines, -1);
  if (between.length === 0) return textLines(done);
  return html`${textLines(done.slice(0, mostLines))}
  ${disclosed(`and ${count(between.length)} more`, textLines(between))} ${textLines(done.slice(-1))}`;
}

/** Asks for the token. `problem`: the problem with the previous one. */
function loginPage(root: string, problem: string | null, world: PageWorld): string {
  const main = html`<h1>Log in</h1>
    <form class="login" method="post" action="${root}login">
      ${problem === null ? '' : html`<p class="callout bad" role="alert">${problem}</p>`}
      <label for="token">Token</label>
      <input
        id="token"
        name="token"
        type="password"
        autocomplete="current-password"
        required
        aria-describedby="which"
      />
      <p id="which" class="soft"><code>http.token</code> of the config, or one of <code>http.tokens</code></p>
      <button>Log in</button>
    </form>`;
  return page({ title: 'Log in', root, at: null, main, isLive: false }, outsideOf(world));
}

/** Says how to open the pages. */
function closedPage(root: string, world: PageWorld): string {
  const main = html`<h1>The pages are closed</h1>
    <p>
      This server can be reached from other machines, and the config has no <code>http.token</code>. Set one
      (16 characters or more) and start it again, or let it listen on this machine alone:
      <code>--http 127.0.0.1:9400</code>.
    </p>`;
  return page({ title: 'Closed', root, at: null, main, isLive: false }, outsideOf(world));
}

/** A visitor who is not logged in learns nothing about the config. */
function outsideOf(world: PageWorld): PageWorld {
  return { ...world, config: null, visitor: null };
}

/** An invalid value in an address counts as absent; of several with one name the first counts. */
const one = (value: unknown): unknown => (Array.isArray(value) ? value[0] : value);
const text = z.preprocess(one, z.string().max(200).catch(''));

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
});

const actQuery = filter.extend({ connector: text, run: text, target: text });

const nameParam = z.object({ name: z.string().max(200) });

const dataListQuery = z.object({ connector: text });
const dataParams = z.object({ connector: z.string().max(200), entity: z.string().max(200) });
const wholeQuery = z.object({ whole: text });
const findQuery = z.object({ find: text });
