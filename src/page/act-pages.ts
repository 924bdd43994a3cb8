import { basename } from 'node:path';
import { html, type SafeHtml } from '@remix-run/html-template';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { defaultReason, type PreparedAct } from '../app/acts.ts';
import { slept, systemClock } from '../core/clock.ts';
import { SyncError, usage } from '../core/errors.ts';
import { keyPartsOf } from '../core/records.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import { isFromHere, type PageAccess } from '../monitor/page-access.ts';
import { counted, printable, printableWithin } from '../telemetry/format.ts';
import { type ActQuery, fingerprint, type PageActWorld, prepareAct } from './act-subjects.ts';
import { type Deed, type Deeds, runsBefore } from './flash.ts';
import {
  actNames,
  callout,
  homeOf,
  isPressed,
  mayAct,
  moment,
  page,
  type PageWorld,
  sendPage,
  table,
  textLines,
} from './layout.ts';

export interface ActRoutes extends PageActWorld {
  readonly access: PageAccess;
  readonly world: (request: FastifyRequest) => PageWorld;
  readonly deeds: Deeds;
  readonly log: JobLog;
}

export const actRoute = '/act/:name';

const actName = z.object({ name: z.string().max(200) });

const actForm = z
  .object({ token: z.string().catch(''), seen: z.string().catch(''), reason: z.string().catch('') })
  .catch({ token: '', seen: '', reason: '' });

/** A longer act continues while its page is shown. */
const waitedMs = 1_500;
/** The same where the config is read again for it. */
const reloadMs = 4_000;

/**
 * Acts of a person on a page: GET describes the act, POST does it and leads back to the page that it came from, which
 * follows it to its end. Both need a token that may act. A POST also needs a form of this server: the browser says that
 * it is from here, it carries the form token of the session, and the announced act is still the one that would be done.
 */
export function actRoutes(
  pages: FastifyInstance,
  options: ActRoutes & { readonly parse: (query: unknown) => ActQuery },
): void {
  const { world } = options;
  const answer = async (request: FastifyRequest, reply: FastifyReply, body: unknown) => {
    const now = world(request);
    const query = options.parse(request.query);
    const form = body === null ? null : actForm.parse(body);
    const asked = actName.parse(request.params).name;
    const name = actNames.find((one) => one === asked);
    const back = name === 'remove' ? '' : backOf(query);
    const refused = refusal(request, now, options, form?.token ?? null, back);
    if (refused !== null) return await sendPage(reply.code(403), refused);
    if (name === undefined) throw usage(`There is no act "${asked}".`);
    let act: PreparedAct;
    try {
      act = await prepareAct(name, query, options);
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      if (form !== null) return leadBack(ended(await begin(name, now, options), error.message), back, reply);
      const isRefused = ['USAGE', 'CONNECTOR_BUSY', 'CONFIG_INVALID'].includes(error.code);
      return await sendPage(reply.code(isRefused ? 409 : 503), undonePage(error.message, back, now));
    }
    const seen = fingerprint(act);
    if (form === null || (form.seen !== seen && !isPressed(name, query.connector))) {
      await act.needs?.[Symbol.asyncDispose]();
      const address = `${name}${new URL(`${here}${request.url}`).search}`;
      const shown = { address, seen, back, hasChanged: form !== null };
      return await sendPage(reply.code(form === null ? 200 : 409), confirmPage(act, shown, now));
    }
    return leadBack(await carryOut(act, { name, reason: form.reason }, now, options), back, reply);
  };
  pages.get(actRoute, async (request, reply) => await answer(request, reply, null));
  pages.post(actRoute, async (request, reply) => await answer(request, reply, request.body ?? {}));
}

/**
 * The page for a visitor who may not act; null: this one may. `formToken`: that of a form that was sent, null: none
 * was. `back`: where the page leads, from the root.
 */
export function refusal(
  request: FastifyRequest,
  now: PageWorld,
  { access, log }: Pick<ActRoutes, 'access' | 'log'>,
  formToken: string | null,
  back = '',
): string | null {
  const { visitor } = now;
  if (visitor === null) return undonePage(readOnly, back, now);
  if (!mayAct(visitor)) {
    const act = request.url.slice(0, 200);
    log.warn({ who: visitor.name, act }, 'an act was refused: the token may not act');
    return undonePage(`The token "${visitor.name}" may not act.`, back, now);
  }
  if (formToken === null || (isFromHere(request) && access.isFormOf(request, formToken))) return null;
  return undonePage('The form is of another page or another session. Open it again from here.', back, now);
}

/** Does the act in the name of the visitor. Resolves after a moment: the page that the deed is shown on follows it. */
export async function carryOut(
  act: PreparedAct,
  { name, reason }: { readonly name: string; readonly reason: string },
  now: PageWorld,
  options: ActRoutes,
): Promise<Deed> {
  const { log } = options;
  const who = now.visitor?.name ?? '';
  const deed = await begin(act.title, now, options);
  const done = doAct(act, deed, { who, reason }, log).then(() => {
    log.info({ who, act: name, of: act.of.slice(0, mostLogged), end: deed.state }, 'done from a page');
  });
  const over = new AbortController();
  await Promise.race([done, slept(systemClock, act.edit === undefined ? waitedMs : reloadMs, over.signal)]);
  over.abort();
  return deed;
}

async function begin(title: string, { formToken }: PageWorld, { deeds, watched, clock }: ActRoutes) {
  return deeds.begin({
    visitor: formToken,
    title,
    atMs: clock.now(),
    before: await runsBefore(watched),
  });
}

/** Leads to a page of this server, named from its root, which follows the deed. */
export function leadBack({ id }: Deed, back: string, reply: FastifyReply): FastifyReply {
  return reply.redirect(withDeed(back, id), 303);
}

/** Never rejects: the deed has what came of it. */
async function doAct(
  act: PreparedAct,
  deed: Deed,
  how: { readonly who: string; readonly reason: string },
  log: JobLog,
): Promise<void> {
  try {
    await using _needs = act.needs;
    await act.do({
      ...how,
      tell: (line, document, details = []) => void deed.told.push([line, document, details]),
    });
    deed.state = 'done';
  } catch (error) {
    if (!(error instanceof SyncError)) log.error({ err: error }, 'an act failed');
    ended(deed, error instanceof SyncError ? error.message : 'The server failed; its log says why.');
  }
}

function ended(deed: Deed, problem: string): Deed {
  return Object.assign(deed, { state: 'failed', problem } as const);
}

/** The address that the form names, from the root, without a way out of this server; by default that of the subject. */
function backOf({ back, ...query }: ActQuery): string {
  const { q, state } = query;
  const filter = new URLSearchParams({ ...(q === '' ? {} : { q }), ...(state === null ? {} : { state }) });
  const home = homeOf({ connector: query.connector, run: query.run, target: query.target });
  const given = back === '' ? `${home}${String(filter) === '' ? '' : `?${String(filter)}`}` : back;
  if (!URL.canParse(given, here)) return '';
  const { origin, pathname, search } = new URL(given, here);
  return origin === here ? `${pathname.slice(1)}${search}` : '';
}

const here = 'http://here';

function withDeed(back: string, id: string): string {
  return `${root}${back}${back.includes('?') ? '&' : '?'}did=${id}`;
}

const readOnly =
  'These pages only read, because the config has no http.token and no http.tokens. Set one and start this program again; who logs in with it can then act.';

const mostLogged = 20;

interface ConfirmForm {
  /** The address to which the form is sent, as this page links there. */
  readonly address: string;
  /** `fingerprint` of the act that this page shows. */
  readonly seen: string;
  /** The page that it came from, from the root. */
  readonly back: string;
  /** The submitted form describes another act than would be done now. */
  readonly hasChanged: boolean;
}

const root = '../';

/** Says what will happen, and asks for it. The script shows the form in a dialog. */
function confirmPage(act: PreparedAct, form: ConfirmForm, world: PageWorld): string {
  const main = html`<form class="narrow confirm" method="post" action="${form.address}">
    <h1>${act.title}?</h1>
    ${
      form.hasChanged
        ? html`<p class="callout warn" role="alert">
            Nothing was done, because something has changed since you were asked. Now this would happen:
          </p>`
        : ''
    }
    <input type="hidden" name="token" value="${world.formToken}" />
    <input type="hidden" name="seen" value="${form.seen}" />
    ${textLines(act.says)} ${rowsAtStake(act, world)} ${choicesOf(act, form.address)} ${linesOf(act)}
    ${
      act.asksReason === true
        ? html`<p class="field">
            <label for="reason">Why</label>
            <input
              id="reason"
              name="reason"
              placeholder="${defaultReason}"
              maxlength="200"
              autocomplete="off"
            />
          </p>`
        : ''
    }
    <div class="acts">
      <a class="btn" href="${root}${form.back}" data-close autofocus>No, go back</a>
      ${
        act.choices?.chosen === '' || (act.edit?.obstacle ?? null) !== null
          ? ''
          : html`<button class="primary">${act.button ?? act.title}</button>`
      }
    </div>
  </form>`;
  return page({ title: act.title, root, at: null, main, isLive: false }, world);
}

/** Links to the same page with another choice. */
function choicesOf({ choices }: PreparedAct, address: string): SafeHtml | '' {
  if (choices === undefined) return '';
  const { param, options, chosen } = choices;
  const [name = '', search = ''] = address.split('?');
  const link = (value: string): string => {
    const params = new URLSearchParams(search);
    params.set(param, value);
    return `${name}?${params.toString()}`;
  };
  return html`<nav class="chips" aria-label="Choices">
    ${[...options].map(([value, text]) => html`<a class="chip" href="${link(value)}" ${value === chosen ? html`aria-current="true"` : ''}>${text}</a>`)}
  </nav>`;
}

/** The lines of the config that the act would change. */
function linesOf({ edit }: PreparedAct): SafeHtml | '' {
  if (edit === undefined) return '';
  const { file, lines, obstacle } = edit;
  return html`<p class="soft">
      ${obstacle === null ? '' : html`<b>${printable(obstacle)}.</b> Change it there by hand: `}In
      <code>${basename(file)}</code>, comments stay:
    </p>
    <pre class="log" tabindex="0">${lines.map((line) => html`${diffLine(line)}${lineEnd}`)}</pre>`;
}

const lineEnd = '\n';

function diffLine(line: string): SafeHtml {
  return line.startsWith('+') ? html`<ins>${printable(line)}</ins>` : html`<del>${printable(line)}</del>`;
}

/** Some of the rows that the act would change. */
function rowsAtStake({ rows }: PreparedAct, { nowMs }: PageWorld): SafeHtml | '' {
  if (rows === undefined || rows.shown.length === 0) return '';
  const shown = rows.shown.map(({ entity, keyText, missingSince }) => ({
    cells: [html`<span class="mono">${keyName(keyText)}</span>`, moment(missingSince, nowMs), entity],
    nameLook: 'cut',
  }));
  const more = rows.count - rows.shown.length;
  return html`${table('Rows that look deleted', ['Looks deleted', 'Not found since', ['Entity', 'o']], shown)}
  ${more > 0 ? html`<p class="soft">${counted(more, 'more row', 'more rows')}.</p>` : ''}`;
}

/** A key as people write it: its values, or the text that the sink has of more than some. */
function keyName(keyText: string): string {
  const parts = [1, 2, 3, 4].flatMap((length) => keyPartsOf(keyText, length) ?? []);
  return printableWithin(parts.length === 0 ? keyText : parts.map(String).join(' / '), 80);
}

/** Says why nothing was done. */
function undonePage(message: string, back: string, world: PageWorld): string {
  const main = html`<div class="narrow">
    <h1>Nothing was done</h1>
    ${callout('bad', 'Why', html`<p>${printable(message)}</p>`)}
    <p><a href="${root}${back}">${back === '' ? 'All connectors' : 'Go back'}</a></p>
  </div>`;
  return page({ title: 'Nothing was done', root, at: null, main, isLive: false }, world);
}
