import { hash } from 'node:crypto';
import { basename } from 'node:path';
import { html, type SafeHtml } from '@remix-run/html-template';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import * as acts from '../app/acts.ts';
import { editActs, type EditWorld } from '../app/config-edits.ts';
import { findRun, type FoundRun } from '../app/find-run.ts';
import { type ListedConnector, listedStates, matchingConnectors } from '../app/listed-connectors.ts';
import type { WatchedSinks } from '../app/watch-sinks.ts';
import { SyncError, usage } from '../core/errors.ts';
import { keyPartsOf } from '../core/records.ts';
import type { JobLog } from '../jobs/worker-context.ts';
import { isFromHere, type PageAccess } from '../monitor/page-access.ts';
import { connectorNamed, targetNamed } from '../settings/choices.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import { count, counted, printable, printableWithin } from '../telemetry/format.ts';
import {
  type ActName,
  homeOf,
  isPressed,
  mayAct,
  maySeeValues,
  page,
  type PageWorld,
  problemPage,
  sendPage,
} from './layout.ts';
import {
  chips,
  type Column,
  inputField,
  moment,
  param,
  searchOf,
  table,
  textLines,
  typedSecret,
} from './page-parts.ts';

export type ActRoutes = Omit<EditWorld, 'canType'> & {
  readonly watched: WatchedSinks;
  readonly access: PageAccess;
  readonly world: (request: FastifyRequest) => PageWorld;
  readonly deeds: ReturnType<typeof acts.keptForVisitors<acts.Deed>>;
  readonly log: JobLog;
};

export const actRoute = '/act/:name';

const actName = z.object({ name: z.string().max(200) });

/** The subject of an act as its address names it; parts that it does not name are empty. */
const actQuery = z.object({
  /** Empty: all that `q` and `state` match, as on the overview. */
  connector: param.text,
  q: param.text,
  state: param.oneOf(listedStates),
  run: param.text,
  target: param.text,
  /** The chosen schedule; empty: none yet. */
  every: param.text,
  /** The page that it is asked on, from the root; empty: that of its subject. */
  back: param.address,
});
type ActQuery = z.output<typeof actQuery>;

/** Fields of a form, by name. */
export const formFields = z
  .record(z.string().max(200), z.string().max(4_096).catch(''))
  .catch({})
  .transform((fields): ReadonlyMap<string, string> => new Map(Object.entries(fields)));

/** Prepares an act of a person on its subject. */
type Prepare = (query: ActQuery, world: ActRoutes & EditWorld) => Promise<acts.PreparedAct>;

const isPaused = ({ overview }: ListedConnector): boolean => (overview?.paused ?? null) !== null;
const isActive = (one: ListedConnector): boolean => !isPaused(one);

const prepareByName: Readonly<Record<ActName, Prepare>> = {
  'run-now': onMany(acts.connectorActs['run-now'], isActive, 'paused', 'Nothing to run, resume first'),
  pause: onMany(acts.connectorActs.pause, isActive, 'paused already', 'Nothing to pause'),
  resume: onMany(acts.connectorActs.resume, isPaused, 'not paused', 'Nothing to resume'),
  check: onConnector(editActs.check),
  'read-all': onConnector(acts.oneConnectorActs['read-all']),
  'allow-deletes': onConnector(acts.oneConnectorActs['allow-deletes']),
  'mark-known': onConnector(acts.oneConnectorActs['mark-known']),
  schedule: onConnector(editActs.schedule),
  'new-key': onConnector(editActs['new-key']),
  remove: onConnector(editActs.remove),
  cancel: onRun(acts.runActs.cancel),
  undo: onRun(acts.runActs.undo),
  'publish-now': async ({ target }, world) =>
    await acts.publishNow(targetNamed(world.settings, target), world),
};

function onConnector(
  act: (
    connector: ConnectorSettings,
    world: EditWorld,
    every: string,
  ) => acts.PreparedAct | Promise<acts.PreparedAct>,
): Prepare {
  return async ({ connector, every }, world) =>
    await act(connectorNamed(world.settings, connector), world, every);
}

function onRun(act: acts.Act<FoundRun>): Prepare {
  return async ({ run }, world) => await act(await findRun(world.settings, run, world.program), world);
}

/**
 * Acts on one connector, or on all that the overview shows, as far as they are such. `others` says what the others are,
 * and `nothing` that there are only others.
 */
function onMany(
  act: acts.Act<readonly ConnectorSettings[]>,
  isFor: (one: ListedConnector) => boolean,
  others: string,
  nothing: string,
): Prepare {
  return async ({ connector, q, state }, world) => {
    const { settings, watched, clock } = world;
    const isOne = connector !== '';
    const asked = isOne ? [connectorNamed(settings, connector)] : [...settings.connectors.values()];
    const filter = isOne ? { q: '', state: null } : { q, state };
    const { matching, unreadable } = await matchingConnectors(asked, watched, filter, clock.now());
    if (matching.length === 0) {
      throw usage(
        isOne ? `Its sink cannot be read: ${unreadable[0]?.problem ?? ''}` : 'No connector matches.',
      );
    }
    const chosen = matching.filter(isFor).map((one) => one.connector);
    const left = matching.filter((one) => !isFor(one)).map((one) => one.connector);
    const rest =
      left.length === 0 ? [] : [`${acts.listOf(left)} ${left.length === 1 ? 'is' : 'are'} ${others}.`];
    if (chosen.length === 0) throw usage(`${nothing}: ${rest.join(' ')}`);
    const prepared = await act(chosen, world);
    return { ...prepared, says: [...prepared.says, ...rest] };
  };
}

/**
 * Acts of a person on a page: GET describes the act, POST does it and leads back to the page that it came from, which
 * follows it to its end. Both need a token that may act. A POST also needs a form of this server: the browser says that
 * it is from here, it carries the form token of the session, and the announced act is still the one that would be done.
 */
export function actRoutes(pages: FastifyInstance, options: ActRoutes): void {
  const answer = async (request: FastifyRequest, reply: FastifyReply, body: unknown) => {
    const now = options.world(request);
    const query = actQuery.parse(request.query);
    const form = body === null ? null : formFields.parse(body);
    const { name } = actName.parse(request.params);
    const back = name === 'remove' ? '' : backOf(query);
    const refused = refusal(request, now, options, form && (form.get('token') ?? ''), back);
    if (refused !== null) return await sendPage(reply.code(403), refused);
    if (!isActName(name)) throw usage(`There is no act "${name}".`);
    let act: acts.PreparedAct;
    try {
      act = await prepareByName[name](query, { ...options, canType: now.canType });
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      if (form !== null) {
        return leadBack(await acts.refusedDeed(name, error.message, actorOf(now), options), back, reply);
      }
      const isRefused = ['USAGE', 'CONNECTOR_BUSY', 'CONFIG_INVALID'].includes(error.code);
      return await sendPage(reply.code(isRefused ? 409 : 503), undonePage(error.message, back, now));
    }
    // A form that carries another one was made before something changed: it does nothing.
    const seen = hash('sha256', JSON.stringify([act.title, act.of]), 'base64url');
    if (form === null || (form.get('seen') !== seen && !isPressed(name, query.connector))) {
      await act.needs?.[Symbol.asyncDispose]();
      const address = `${name}${new URL(`${here}${request.url}`).search}`;
      const shown = { address, seen, back, hasChanged: form !== null };
      return await sendPage(reply.code(form === null ? 200 : 409), await confirmPage(act, shown, now));
    }
    const deed = await acts.carryOut(
      act,
      { name, reason: form.get('reason') ?? '', typed: form },
      actorOf(now),
      options,
    );
    return leadBack(deed, back, reply);
  };
  pages.get(actRoute, async (request, reply) => await answer(request, reply, null));
  pages.post(actRoute, async (request, reply) => await answer(request, reply, request.body ?? {}));
}

function isActName(name: string): name is ActName {
  return Object.hasOwn(prepareByName, name);
}

/**
 * The page for a visitor who may not act; null: this one may. `formToken`: that of a form that was sent, null: none
 * was. `back`: where the page leads, from the root.
 */
export function refusal(
  request: FastifyRequest,
  now: PageWorld,
  { access, log }: ActRoutes,
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

const readOnly =
  'These pages only read, because the config has no http.token and no http.tokens. Set one and start this program again; who logs in with it can then act.';

/** The visitor, as acts know one. */
export function actorOf({ visitor, formToken }: PageWorld) {
  return { who: visitor?.name ?? '', visitor: formToken };
}

/** Leads to a page of this server, named from its root, which follows the deed. */
export function leadBack({ id }: acts.Deed, back: string, reply: FastifyReply): FastifyReply {
  return reply.redirect(`${root}${back}${back.includes('?') ? '&' : '?'}did=${id}`, 303);
}

/** The address that the form names, from the root, without a way out of this server; by default that of the subject. */
function backOf({ back, q, state, ...of }: ActQuery): string {
  const given = back || `${homeOf(of)}${searchOf({ q, state })}`;
  if (!URL.canParse(given, here)) return '';
  const { origin, pathname, search } = new URL(given, here);
  return origin === here ? `${pathname.slice(1)}${search}` : '';
}

const here = 'http://here';
const root = '../';

/**
 * Says what will happen, and asks for it. The script shows the form in a dialog. `address`: to which the form is
 * sent; `seen`: the fingerprint of the act; `back`: the page that it came from, from the root; `hasChanged`: the
 * form that was sent describes another act.
 */
async function confirmPage(
  act: acts.PreparedAct,
  form: Readonly<Record<'address' | 'seen' | 'back', string>> & { readonly hasChanged: boolean },
  world: PageWorld,
): Promise<string> {
  const { title, says, asksReason, asksSecrets = [], choices, edit, button = title } = act;
  const reason = { placeholder: acts.defaultReason, maxlength: '200' };
  const mayDo = choices?.chosen !== '' && (edit?.obstacle ?? null) === null;
  const changed = html`<p class="callout warn" role="alert">
    Nothing was done, because something has changed since you were asked. Now this would happen:
  </p>`;
  const main = html`<form class="narrow confirm" method="post" action="${form.address}">
    <h1>${title}?</h1>
    ${form.hasChanged ? changed : ''}
    <input type="hidden" name="token" value="${world.formToken}" />
    <input type="hidden" name="seen" value="${form.seen}" />
    ${textLines(says)} ${await rowsAtStake(act, world)} ${choicesOf(act, form.address)} ${linesOf(act)}
    ${asksSecrets.map((field) => inputField(`typed.${field}`, html`Type <code>${field}</code>, once`, 'It is never shown.', typedSecret))}
    ${asksReason === true ? inputField('reason', 'Why', '', reason) : ''}
    <div class="acts">
      <a class="btn" href="${root}${form.back}" data-close autofocus>No, go back</a>
      ${mayDo ? html`<button class="primary">${button}</button>` : ''}
    </div>
  </form>`;
  return page({ title, root, at: null, main, isLive: false }, world);
}

/** Links to the same page with another choice. */
function choicesOf({ choices }: acts.PreparedAct, address: string): SafeHtml | '' {
  if (choices === undefined) return '';
  const { param: name, options, chosen } = choices;
  const links = [...options].map(([value, text]) => {
    const { pathname, searchParams } = new URL(address, here);
    searchParams.set(name, value);
    return [`${pathname.slice(1)}?${searchParams.toString()}`, text, value === chosen] as const;
  });
  return chips('Choices', links);
}

/** The lines of the config that the act would change. */
function linesOf({ edit }: acts.PreparedAct): SafeHtml | '' {
  if (edit === undefined) return '';
  const { file, lines, obstacle } = edit;
  const changes = lines.map((line) => {
    const text = printable(line);
    return html`${line.startsWith('+') ? html`<ins>${text}</ins>` : html`<del>${text}</del>`}${'\n'}`;
  });
  return html`<p class="soft">
      ${obstacle === null ? '' : html`<b>${printable(obstacle)}.</b> Change it there by hand: `}In
      <code>${basename(file)}</code>, comments stay:
    </p>
    <pre class="log" tabindex="0">${changes}</pre>`;
}

/** Some of the rows that the act would change, for who may see values: keys and names are values. */
async function rowsAtStake({ rows }: acts.PreparedAct, world: PageWorld): Promise<SafeHtml | ''> {
  if (rows === undefined || !maySeeValues(world)) return '';
  const { connector, kept, read } = rows;
  const { shown, common } = await read();
  const links = kept.map(({ entity, withheld }) => {
    const of = kept.length === 1 ? '' : ` of ${entity}`;
    const address = `${root}data/${connector}/${entity}?rows=missing`;
    return html`<p><a href="${address}">See all ${counted(withheld, 'row')}${of}</a></p>`;
  });
  const alike = common.map(({ entity, rows: number, same }) => {
    const isAll = kept.some((one) => one.entity === entity && one.withheld === number);
    const values = same.map(([column, text]) => `${column} ${text}`).join(', ');
    return `${isAll ? 'All' : 'The first'} ${count(number)} of ${entity}: ${values}`;
  });
  const columns: readonly Column<(typeof shown)[number]>[] = [
    ['Looks deleted', ({ keyText }) => html`<span class="mono">${keyName(keyText)}</span>`],
    ['Name', ({ name }) => printable(name)],
    ['Not found since', ({ missingSince }) => moment(missingSince, world.nowMs), 'o'],
    ['Entity', ({ entity }) => entity, 'o'],
  ];
  const name = (): string => 'cut';
  return html`${textLines(alike)} ${table('Rows that look deleted', columns, shown, { name })} ${links}`;
}

/** A key as people write it: its values, or the text that the sink has of more than some. */
function keyName(keyText: string): string {
  const parts = [1, 2, 3, 4].flatMap((length) => keyPartsOf(keyText, length) ?? []);
  return printableWithin(parts.length === 0 ? keyText : parts.map(String).join(' / '), 80);
}

/** Says why nothing was done. `back`: from the root. */
function undonePage(message: string, back: string, world: PageWorld): string {
  const to = [back, back === '' ? 'All connectors' : 'Go back'] as const;
  return problemPage(root, 'Nothing was done', message, world, to);
}
